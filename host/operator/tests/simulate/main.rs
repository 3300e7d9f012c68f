//! `tanist simulate`, as it is called.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A script that waits for ever where a primary could be made.
const WAITS: &str = "def failover(s):
    return wait(\"not now\")
";

/// A script that has no opinion at all.
const ABSTAINS: &str = "def failover(s):
    return None
";

/// The life of few faults, in which the primary's application dies again and again.
const DIES: &str = "--faults app-dies --seeds 4";

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// Exit code, standard output, standard error of the program in that folder, without a cluster.
fn said(folder: &Path, words: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tanist"));
    command.current_dir(folder).env("NO_COLOR", "1").env("KUBECONFIG", "/nowhere");
    let done = command.arg("simulate").args(words.split(' ')).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (done.status.code().unwrap(), text(&done.stdout), text(&done.stderr))
}

/// What it says as JSON, with its exit code.
fn figures(folder: &Path, words: &str) -> (i32, Value) {
    let (code, out, error) = said(folder, &format!("{words} --output json"));
    assert_eq!(error, "", "{words}");
    (code, serde_json::from_str(&out).unwrap())
}

fn number(of: &Value, field: &str) -> f64 {
    of[field].as_f64().unwrap_or_else(|| panic!("{field} is no number in {of}"))
}

// P51: a policy that waits where a secondary could take over leaves the group without a primary, and the built-in one does not.
#[test]
fn a_policy_that_waits_has_outages_that_the_built_in_one_has_not() {
    let folder = folder(&[("waits.star", WAITS)]);
    let (code, all) = figures(folder.path(), &format!("--policy waits.star {DIES}"));
    let (yours, built_in) = (&all["yours"], &all["builtIn"]);
    assert!(number(yours, "longestOutageSeconds") > 100.0, "{yours}");
    assert!(number(built_in, "longestOutageSeconds") < 60.0, "{built_in}");
    assert!(number(yours, "withoutPrimaryShare") > 2.0 * number(built_in, "withoutPrimaryShare"), "{all}");
    assert_eq!((number(yours, "failovers"), number(built_in, "unwell")), (0.0, 0.0), "{all}");
    assert!(number(built_in, "failovers") >= 1.0, "{built_in}");
    assert!(number(yours, "unwell") >= 1.0, "{yours}");
    assert_eq!(code, 1, "more groups than with the built-in policy were not well");
    assert!(all["exam"].as_str().unwrap().contains("failover"), "the operator would not let it decide: {all}");
    // The worst life is named, and can be looked at.
    let worst = &all["worst"][0];
    assert_eq!(worst["seconds"], yours["longestOutageSeconds"]);
    let seed = worst["seed"].as_u64().unwrap();
    let (_, out, _) =
        said(folder.path(), &format!("--policy waits.star --faults app-dies --seed {seed} --seeds 1 --transcript"));
    for part in ["its application dies", "db: no primary serves", &format!("{:.1} s", number(worst, "seconds"))] {
        assert!(out.contains(part), "{part}\n{out}");
    }
}

// P51: who decides as the built-in policy has its figures, with every kind of fault.
#[test]
fn a_policy_that_decides_as_the_built_in_one_has_the_same_figures() {
    let group = "kind: ReplicaGroup\nspec: {replicas: 4, policies: [{builtin: sequence}]}\n";
    let folder = folder(&[("group.yaml", group), ("abstains.star", ABSTAINS)]);
    for words in ["--group group.yaml --seeds 6", "--policy abstains.star --seeds 6"] {
        let (code, mut all) = figures(folder.path(), words);
        let (yours, built_in) = (all["yours"].take(), all["builtIn"].take());
        let without_names = |mut of: Value| {
            of.as_object_mut().unwrap().remove("policies").unwrap();
            of
        };
        let yours = without_names(yours);
        assert!(number(&yours, "wantedSeconds") > 60.0 && number(&yours, "outages") >= 1.0, "{yours}");
        assert_eq!((code, &yours), (0, &without_names(built_in)), "{words}");
    }
}

// P51: the same arguments have the same output, byte by byte, on as many processors as there are.
#[test]
fn the_same_seeds_have_the_same_figures() {
    let folder = folder(&[("waits.star", WAITS)]);
    let words = "--policy waits.star --seed 5 --seeds 6 --output json";
    let first = said(folder.path(), words);
    assert_eq!(first, said(folder.path(), words));
    assert_ne!(first.1, said(folder.path(), "--policy waits.star --seed 6 --seeds 6 --output json").1);
}

// P51: answers that the host drops, and questions that a policy fails to answer, are counted; none of that breaks a promise.
#[test]
fn what_a_policy_does_wrong_is_counted() {
    let folder = folder(&[]);
    let target = std::env::var("CARGO_TARGET_DIR").expect("CARGO_TARGET_DIR is set: . dev/env.sh");
    fs::copy(Path::new(&target).join("policies/hostile.wasm"), folder.path().join("hostile.wasm")).unwrap();
    for (does, field, other) in
        [("bad-member", "refusedAnswers", "failedDecisions"), ("trap", "failedDecisions", "refusedAnswers")]
    {
        let policy = format!("--policy hostile.wasm --parameters {{\"do\":\"{does}\"}}");
        let (_, all) = figures(folder.path(), &format!("{policy} {DIES}"));
        assert!(number(&all["yours"], field) >= 4.0, "{does}: {all}");
        assert_eq!((number(&all["yours"], other), number(&all["builtIn"], field)), (0.0, 0.0), "{does}: {all}");
        assert_eq!((&all["yours"]["broken"], &all["builtIn"]["broken"]), (&json!([]), &json!([])), "{does}");
    }
}

// P51, P42: the fields that docs/policies.md lists, and no others.
#[test]
fn the_figures_have_the_documented_fields() {
    const DOCUMENT: &str = include_str!("../../../../docs/policies.md");
    let section = DOCUMENT.split("## Simulate").nth(1).expect("the section is there");
    let section = section.split("\n## ").next().unwrap();
    let documented = |field: &str| section.contains(&format!("| `{field}` |"));
    let group = "kind: ReplicaGroup\nmetadata: {name: web}\nspec: {replicas: 2}\n";
    let folder = folder(&[("group.yaml", group)]);
    let (_, all) = figures(folder.path(), "--group group.yaml --faults pod-deleted,app-dies --seeds 1 --transcript");
    assert_eq!(all["group"], json!({"name": "web", "replicas": 2, "primaries": 1}));
    assert_eq!(all["faults"], json!(["app-dies", "pod-deleted"]));
    assert!(all["transcript"].as_array().unwrap().len() > 5, "{all}");
    let fields = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let found: Vec<_> = fields(&all).into_iter().chain(fields(&all["yours"])).collect();
    let unknown: Vec<_> = found.iter().filter(|field| !documented(field)).collect();
    assert!(unknown.is_empty(), "not documented: {unknown:?}");
    // `exam` is there only for a policy that the operator would refuse.
    let rows = section.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, found.len() + 1);
}

// P51, P42: what cannot be used is said in a sentence that says what to do, with exit code 2 and nothing on standard output.
#[test]
fn wrong_input_is_said() {
    let typo = "def failover(s):\n    return chose(s.eligible())\n";
    let none = "kind: ReplicaGroup\nspec: {replicas: 0}\n";
    let map = "kind: ReplicaGroup\nspec:\n  policies:\n    - {configMap: {name: rules, key: mine.star}}\n";
    let folder = folder(&[
        ("typo.star", typo),
        ("none.yaml", none),
        ("map.yaml", map),
        ("good.star", ABSTAINS),
        ("text.yaml", "a: ["),
    ]);
    for (words, parts) in [
        ("--policy typo.star", ["typo.star:2:12", "chose"]),
        ("--policy good.star --faults app-dis", ["app-dis", "'app-dies'"]),
        ("--policy good.star --faults all", ["request-lost", "node-gone"]),
        ("--policy other.star", ["failed to read other.star", "No such file"]),
        ("--policy good.star --seeds 0", ["--seeds", "0"]),
        ("--policy good.star --transcript", ["--seeds 1", "--seed"]),
        ("--policy good.star --parameters {\"a\":1}", ["--parameters", "do not fit"]),
        ("--group none.yaml", ["none.yaml: spec.replicas is 0", "1 to 8"]),
        ("--group map.yaml", ["map.yaml:4:", "kubectl get configmap rules"]),
        ("--group text.yaml", ["text.yaml:", "error: "]),
        ("--seeds 5", ["--policy", "required"]),
        ("--parameters {} --group none.yaml", ["--policy", "required"]),
    ] {
        let (code, out, error) = said(folder.path(), words);
        assert_eq!((code, out.as_str()), (2, ""), "{words}\n{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{words}: {error}");
    }
}

// P51: a policy of one's own takes the place of the group's entry with its name, and gets its parameters.
#[test]
fn a_policy_is_put_where_the_group_has_it() {
    let script = "parameters = {\"type\": \"object\", \"required\": [\"a\"], \"properties\": {\"a\": {\"type\": \"integer\"}}}\n\n\ndef failover(s):\n    return None\n";
    let group = "kind: ReplicaGroup\nspec:\n  policies:\n    - {builtin: quorum}\n    - {configMap: {name: rules, key: mine.star}, points: [failover], parameters: {a: 1}}\n";
    let folder = folder(&[("mine.star", script), ("group.yaml", group)]);
    let (_, all) = figures(folder.path(), "--policy mine.star --group group.yaml --seeds 1 --faults app-dies");
    let names: Vec<_> =
        all["yours"]["policies"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names[0].contains("(builtin/quorum)"), "{names:?}");
    assert!(names[1].contains("(file/mine.star), asked at failover"), "{names:?}");
    assert!(names[2].contains("(builtin/sequence)"), "{names:?}");
    let (code, _, error) = said(folder.path(), "--policy mine.star --seeds 1");
    assert!(code == 2 && error.contains("--parameters: the parameters do not fit"), "{error}");
}
