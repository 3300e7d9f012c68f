//! What authors do without a cluster, with the built policies and the built interpreter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod asking;
mod cases;
mod coverage;
mod formatting;
mod looking;
mod projects;
mod recording;
mod suites;

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use tanist_author::{
    ask::{Ran, Verdict, ask},
    case::Cases,
    tools::{Builtin, Tools},
};
use tanist_engine::{Engine, Interpreter, Layer, Limits, Policy};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(Limits::default().unhurried()).unwrap());

/// As it was compiled with the policies: all tests share it.
static INTERPRETER: LazyLock<Interpreter> = LazyLock::new(|| {
    let compiled = fs::read(built("starlark").with_extension("cwasm")).unwrap();
    Interpreter::from_compiled(Limits::default().unhurried(), &compiled).unwrap()
});

static HOSTILE: LazyLock<Arc<Policy>> = LazyLock::new(|| load("hostile"));
static SEQUENCE: LazyLock<Arc<Policy>> = LazyLock::new(|| load("sequence"));

/// The component of a policy of this repository.
fn built(name: &str) -> PathBuf {
    let target = env::var("CARGO_TARGET_DIR").expect("CARGO_TARGET_DIR is set: . dev/env.sh");
    Path::new(&target).join("policies").join(format!("{name}.wasm"))
}

fn load(name: &str) -> Arc<Policy> {
    Arc::new(tools().load(&built(name)).unwrap())
}

fn tools() -> Tools {
    let builtin = |engine: &Engine, name: &str| {
        (name == "sequence")
            .then(|| Builtin::Component(Policy::load(engine, "builtin/sequence", &fs::read(built(name)).unwrap())))
    };
    Tools::new(ENGINE.clone(), Box::new(|| Ok(INTERPRETER.clone())), Box::new(builtin))
}

fn layer(policy: &Arc<Policy>, parameters: &str) -> Layer {
    Layer { policy: Arc::clone(policy), points: None, parameters: policy.validate(parameters).unwrap() }
}

/// One case, without its list.
fn case(text: &str) -> Cases {
    let indented = text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let text = format!("cases:\n  -\n{indented}");
    Cases::parse("cases.yaml", text.clone()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn ran(text: &str, layers: &[Layer]) -> Ran {
    ask(&case(text).content.cases[0].value, layers).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn not_asked(text: &str) -> String {
    ask(&case(text).content.cases[0].value, &[layer(&SEQUENCE, "{}")]).unwrap_err().to_string()
}

/// Who was chosen, best first.
fn ranking(ran: &Ran) -> Vec<&str> {
    match &ran.verdict {
        Verdict::Choose { ranking, .. } => ranking.iter().map(|each| each.member.as_str()).collect(),
        other => panic!("{other:?}"),
    }
}

/// The result of each member, with its reason where the host bars it.
fn results(ran: &Ran) -> Vec<String> {
    let text = |each: &tanist_author::ask::MemberRan| match each.result.as_str() {
        "barred" => format!("{} barred: {}", each.member, each.reason),
        result => format!("{} {result}", each.member),
    };
    ran.members.iter().map(text).collect()
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}
