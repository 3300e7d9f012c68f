//! What a script costs beside a component, a native call and a webhook; how long each shipped policy takes to load; and what many policies keep in memory.

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use tanist_core::policy::{Point, Policies as _, Question};
use tanist_engine::{Engine, Interpreter, Layer, Limits, Policy, Stack};
use tanist_policy::Policy as _;
use tanist_policy_sequence::Sequence;

use crate::{
    cases::{self, Recorded},
    decisions::Turns,
    figures::{Figures, cell},
    goals::Goal,
    machine::Busy,
    record::{About, Conditions, Record, Shown},
    webhook::Webhook,
};

/// What is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder with the built policies, compiled ones included.
    #[arg(long)]
    policies: PathBuf,
    /// The script (.star) of the policy that is measured.
    #[arg(long)]
    script: PathBuf,
    /// The program of the webhook.
    #[arg(long)]
    webhook: PathBuf,
    /// The recorded request.
    #[arg(long)]
    payload: PathBuf,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    conditions: Conditions,
}

const SAMPLES: usize = 10_000;
const WARM_UP: usize = 1_000;
const TURN: usize = 20;
const LOADS: usize = 20;
const MEMBERS: u32 = 5;
/// How many different policies are kept at the same time.
const MANY: [usize; 3] = [1, 10, 100];

/// Everything that was measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Scripts {
    /// Lines of the script.
    lines: usize,
    /// What a question to the script used of its budget.
    fuel: u64,
    /// Ways to one decision, in turns. Microseconds.
    ways: Vec<Way>,
    /// How long it takes to load each kind of policy, in milliseconds.
    loads: Vec<Way>,
    /// What so many different policies keep. MiB.
    kept: Vec<Kept>,
}

/// Something that took time.
#[derive(Debug, Serialize, Deserialize)]
struct Way {
    what: String,
    took: Figures,
}

/// The memory that different policies of a kind keep.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    what: String,
    policies: usize,
    mib: f64,
}

struct Files {
    sequence: Vec<u8>,
    sequence_compiled: Vec<u8>,
    prefer: Vec<u8>,
    interpreter: Vec<u8>,
    script: String,
}

impl Files {
    fn read(policies: &Path, script: &Path) -> anyhow::Result<Self> {
        let read = |path: &Path| fs::read(path).with_context(|| format!("failed to read {}", path.display()));
        let built = |name: &str| read(&policies.join(name));
        Ok(Self {
            sequence: built("sequence.wasm")?,
            sequence_compiled: built("sequence.cwasm")?,
            prefer: built("prefer.wasm")?,
            interpreter: built("starlark.cwasm")?,
            script: String::from_utf8(read(script)?).context("the script is no text")?,
        })
    }
}

/// # Errors
/// A file cannot be read, a policy cannot be loaded, or somebody does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let files = Files::read(&args.policies, &args.script)?;
    let part = if args.conditions.quick { 10 } else { 1 };
    let mut webhook = Webhook::start(&args.webhook)?;
    let children = [webhook.process()];
    let before = Busy::now(&children);
    let kept = keep(args)?;
    let loads = load(&files)?;
    let interpreter = Interpreter::from_compiled(Limits::default(), &files.interpreter)?;
    let (ways, fuel) = decide(&files, &interpreter, &mut webhook, &Recorded::read(&args.payload)?, part)?;
    let load = before.until(Busy::now(&children));
    let goals = goals(&ways)?;
    let scripts = Scripts { lines: files.script.lines().count(), fuel, ways, loads, kept };
    Record::new(About::now(&args.conditions), load, scripts, goals, vec![]).finish(args.json.as_deref())
}

/// The built-in policies that are scripts.
const SHIPPED: [(&str, &str); 4] = [
    ("patroni", include_str!("../../../policies/patroni/patroni.star")),
    ("quorum", include_str!("../../../policies/quorum/quorum.star")),
    ("sentinel", include_str!("../../../policies/sentinel/sentinel.star")),
    ("zones", include_str!("../../../policies/zones/zones.star")),
];

/// As in the operator, which prepares an instance when a decision is made and nobody waits.
const DECIDES: &str = "the script decides, prepared after the question before";

fn goals(ways: &[Way]) -> anyhow::Result<Vec<Goal>> {
    let script = ways.iter().find(|way| way.what == DECIDES).context("the script was not measured")?;
    let mut goals = vec![Goal::at_most("a decision by a script, p50", 150.0, script.took.p50, "us")];
    if let Some(p99) = script.took.p99 {
        goals.push(Goal::at_most("a decision by a script, p99", 400.0, p99, "us"));
    }
    Ok(goals)
}

fn stack(policy: Policy) -> anyhow::Result<Stack> {
    let parameters = policy.validate("{}")?;
    Ok(Stack::new(vec![Layer { policy: Arc::new(policy), points: None, parameters }]))
}

/// The same script, but for its answer: it returns at once, so what is left is the instance and the text's loading.
fn returning(script: &str) -> String {
    script.replace("def failover(s):\n", "def failover(s):\n    if s: return wait('measured')\n")
}

fn decide(
    files: &Files,
    interpreter: &Interpreter,
    webhook: &mut Webhook,
    recorded: &Recorded,
    part: usize,
) -> anyhow::Result<(Vec<Way>, u64)> {
    let script = |text: &str| stack(Policy::script(interpreter, "bench/script", text)?);
    let asked = Question { point: Point::Failover, ..cases::full(MEMBERS) };
    let seed = cases::full(MEMBERS);
    let (native, body) = (cases::native(&seed), recorded.request(&seed)?);
    let (lean, pods) = (webhook.request("/lean", &cases::short(&seed).to_string()), webhook.request("/pods", &body));
    let stacks = [
        ("the script decides, not prepared", script(&files.script)?, &asked),
        ("the script is loaded and returns at once", script(&returning(&files.script))?, &asked),
        ("a script of one line returns at once", script("def failover(s): return wait('measured')\n")?, &asked),
        (
            "the component `sequence` decides",
            stack(Policy::load(&Engine::new(Limits::default())?, "bench/sequence", &files.sequence)?)?,
            &seed,
        ),
    ];
    let all = SAMPLES / part;
    let mut of_stacks: Vec<_> = stacks.iter().map(|_| Turns::new(all, None)).collect();
    let [mut prepared, mut library, mut of_lean, mut of_pods] = [(); 4].map(|()| Turns::new(all, None));
    let decides = script(&files.script)?;
    for (_, stack, question) in &stacks {
        for _ in 0..WARM_UP / part {
            black_box(stack.ask(question)?);
        }
    }
    while !of_stacks.iter().all(Turns::done) {
        let ask = || decides.ask(black_box(&asked)).map(|said| _ = black_box(said)).map_err(Into::into);
        prepared.take_after(TURN, || decides.prepare(), ask)?;
        for ((_, stack, question), turns) in stacks.iter().zip(&mut of_stacks) {
            turns.take(TURN, || stack.ask(black_box(question)).map(|said| _ = black_box(said)).map_err(Into::into))?;
        }
        library.take(TURN, || {
            _ = black_box(Sequence::seed(black_box(&native)));
            Ok(())
        })?;
        of_lean.take(TURN, || webhook.ask(&lean).map(|said| _ = black_box(said.len())))?;
        of_pods.take(TURN, || webhook.ask(&pods).map(|said| _ = black_box(said.len())))?;
    }
    let [(_, first, _), ..] = &stacks;
    let fuel = first.ask(&asked)?.fuel;
    let mut ways = vec![Way { what: DECIDES.to_owned(), took: prepared.samples.figures()? }];
    for ((what, ..), turns) in stacks.iter().zip(of_stacks) {
        ways.push(Way { what: (*what).to_owned(), took: turns.samples.figures()? });
    }
    for (what, turns) in
        [("native call of `sequence`", library), ("webhook, lean", of_lean), ("webhook, pods", of_pods)]
    {
        ways.push(Way { what: what.to_owned(), took: turns.samples.figures()? });
    }
    Ok((ways, fuel))
}

/// From the bytes to a policy that can be asked.
fn load(files: &Files) -> anyhow::Result<Vec<Way>> {
    let limits = Limits::default;
    let mut loads = Vec::new();
    let mut measure = |what: &str, times: usize, load: &mut dyn FnMut() -> anyhow::Result<()>| {
        let mut millis = Vec::new();
        for _ in 0..times {
            let started = Instant::now();
            load()?;
            millis.push(started.elapsed().as_secs_f64() * 1000.0);
        }
        loads.push(Way { what: what.to_owned(), took: Figures::of(millis)? });
        anyhow::Ok(())
    };
    measure("built-in `sequence`, compiled when the operator was built", LOADS, &mut || {
        let engine = Engine::new(limits())?;
        black_box(Policy::from_compiled(&engine, "bench", &files.sequence, &files.sequence_compiled)?);
        Ok(())
    })?;
    for (what, bytes) in [("`sequence`, compiled here", &files.sequence), ("`prefer`, compiled here", &files.prefer)] {
        measure(what, LOADS / 4, &mut || {
            black_box(Policy::load(&Engine::new(limits())?, "bench", bytes)?);
            Ok(())
        })?;
    }
    measure("the interpreter of scripts, compiled when the operator was built", LOADS, &mut || {
        black_box(Interpreter::from_compiled(limits(), &files.interpreter)?);
        Ok(())
    })?;
    let interpreter = Interpreter::from_compiled(limits(), &files.interpreter)?;
    for (name, text) in SHIPPED.into_iter().chain([("forty", files.script.as_str())]) {
        measure(&format!("the script `{name}`, with the interpreter there"), LOADS * 10, &mut || {
            black_box(Policy::script(&interpreter, "bench", text)?);
            Ok(())
        })?;
    }
    Ok(loads)
}

/// One figure of memory: in a program of its own, because memory that one load freed is used again by the next.
#[derive(Debug, clap::Args)]
pub struct KeptArgs {
    /// The folder with the built policies, compiled ones included.
    #[arg(long)]
    policies: PathBuf,
    /// The script (.star) that is loaded many times.
    #[arg(long)]
    script: PathBuf,
    /// What is held in memory.
    #[arg(long)]
    kind: Kind,
    /// How many different ones.
    #[arg(long)]
    count: usize,
}

/// A kind of policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Policies that are WebAssembly components.
    Components,
    /// Scripts, with the interpreter that they share.
    Scripts,
}

/// Prints how many MiB so many different policies keep.
///
/// # Errors
/// A file cannot be read, or a policy cannot be loaded or asked.
pub fn kept(args: &KeptArgs) -> anyhow::Result<()> {
    let files = Files::read(&args.policies, &args.script)?;
    let mib = match args.kind {
        Kind::Components => components(&files, args.count)?,
        Kind::Scripts => scripts(&files, args.count)?,
    };
    println!("{mib}");
    Ok(())
}

/// What many policies of each kind keep, each figure by another process.
fn keep(args: &Args) -> anyhow::Result<Vec<Kept>> {
    let program = std::env::current_exe().context("this program does not know its file")?;
    let mut found = Vec::new();
    for (kind, name, what) in [
        (Kind::Components, "components", "components"),
        (Kind::Scripts, "scripts", "scripts, the interpreter included"),
    ] {
        for policies in MANY {
            let mut command = Command::new(&program);
            command.args(["kept", "--kind", name, "--count", &policies.to_string()]);
            command.arg("--policies").arg(&args.policies).arg("--script").arg(&args.script);
            let done = command.output().with_context(|| format!("failed to measure {policies} {kind:?}"))?;
            ensure!(done.status.success(), "{policies} {what}: {}", String::from_utf8_lossy(&done.stderr));
            let mib = String::from_utf8(done.stdout)?.trim().parse().context("no figure")?;
            found.push(Kept { what: what.to_owned(), policies, mib });
        }
    }
    Ok(found)
}

/// What is resident beside what one program needs without them.
fn components(files: &Files, count: usize) -> anyhow::Result<f64> {
    let engine = Engine::new(Limits::default())?;
    let before = resident()?;
    let load = |n| {
        let bytes = with_name(&files.sequence, n);
        // As the operator takes over what its child compiled.
        Policy::from_compiled(&engine, "bench", &bytes, &files.sequence_compiled).map_err(anyhow::Error::from)
    };
    let kept = (0..count).map(load).collect::<anyhow::Result<Vec<_>>>()?;
    let after = resident()?;
    drop(kept);
    Ok(after - before)
}

fn scripts(files: &Files, count: usize) -> anyhow::Result<f64> {
    let before = resident()?;
    let interpreter = Interpreter::from_compiled(Limits::default(), &files.interpreter)?;
    let load = |n| {
        let text = format!("{}\n# {n}\n", files.script);
        stack(Policy::script(&interpreter, "bench", &text)?)
    };
    let kept = (0..count).map(load).collect::<anyhow::Result<Vec<_>>>()?;
    let asked = Question { point: Point::Failover, ..cases::full(MEMBERS) };
    for each in &kept {
        black_box(each.ask(&asked)?);
    }
    Ok(resident()? - before)
}

/// The component with one more custom section: another digest, the same policy.
fn with_name(component: &[u8], number: usize) -> Vec<u8> {
    let content = format!("\u{5}bench{number}");
    let length = u8::try_from(content.len()).unwrap_or(u8::MAX);
    [component, &[0, length], content.as_bytes()].concat()
}

/// MiB of this program that are resident, without the pages of its own file, which the kernel can drop.
fn resident() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("the kernel does not say RssAnon")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

impl Shown for Scripts {
    const NAME: &'static str = "scripts";

    fn tables(&self) -> String {
        let table = |head: &str, digits: usize, ways: &[Way]| {
            let row = |way: &Way| {
                let Figures { p50, p99, samples, .. } = way.took;
                format!("| {} | {p50:.digits$} | {} | {samples} |\n", way.what, cell(p99, digits))
            };
            format!(
                "| {head} | p50 | p99 | samples |\n| --- | --- | --- | --- |\n{}",
                ways.iter().map(row).collect::<String>()
            )
        };
        let kept: String =
            self.kept.iter().map(|kept| format!("| {} {} | {:.1} |\n", kept.policies, kept.what, kept.mib)).collect();
        format!(
            "One decision about {MEMBERS} full members by a script of {} lines, which uses {} units of fuel:\n\n{}\nLoading:\n\n{}\nKept in memory:\n\n\
             | different policies | MiB |\n| --- | --- |\n{kept}",
            self.lines,
            self.fuel,
            table("microseconds", 1, &self.ways),
            table("milliseconds", 2, &self.loads),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(what: &str, times: usize, took: f64) -> Way {
        Way { what: what.to_owned(), took: Figures::of(std::iter::repeat_n(took, times)).unwrap() }
    }

    #[test]
    fn the_goals_are_those_of_a_decision() {
        let ways = [way("a component", 1_000, 10.0), way(DECIDES, 1_000, 200.0)];
        let met: Vec<_> = goals(&ways).unwrap().iter().map(|goal| (goal.limit, goal.measured, goal.met)).collect();
        assert_eq!(met, [(150.0, 200.0, false), (400.0, 200.0, true)]);
        assert!(goals(&ways[..1]).is_err());
    }

    // P35: ways of a decision, loads and memory are in one table each.
    #[test]
    fn tables_show_ways_loads_and_memory() {
        let kept = vec![Kept { what: "components".to_owned(), policies: 10, mib: 12.34 }];
        let (ways, loads) = (vec![way(DECIDES, 1_000, 200.0)], vec![way("a load", 5, 1.5)]);
        let text = Scripts { lines: 40, fuel: 7, ways, loads, kept }.tables();
        for row in [
            &format!("| {DECIDES} | 200.0 | 200.0 | 1000 |"),
            "| a load | 1.50 | - | 5 |",
            "| 10 components | 12.3 |",
            "40 lines, which uses 7 units",
        ] {
            assert!(text.contains(row), "{text}");
        }
    }

    #[test]
    fn a_script_that_returns_at_once_keeps_its_text() {
        let text = "x = 1\ndef failover(s):\n    return choose(s.eligible())\n";
        let returns = returning(text);
        assert!(returns.starts_with("x = 1\n") && returns.ends_with("    return choose(s.eligible())\n"));
        assert!(returns.contains("return wait("));
    }
}
