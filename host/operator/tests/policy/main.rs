//! `tanist policy`, as it is called: stories with the built program, and every command of docs/policies.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod closed;
mod rust;

use serde_json::Value;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const DOCUMENT: &str = include_str!("../../../../docs/policies.md");

/// The story that runs the commands that need a cluster.
const IN_CLUSTER: &str = include_str!("../../../../dev/e2e/tests/author.rs");

/// The component of a policy of this repository.
fn built(name: &str) -> PathBuf {
    let target = env::var("CARGO_TARGET_DIR").expect("CARGO_TARGET_DIR is set: . dev/env.sh");
    Path::new(&target).join("policies").join(format!("{name}.wasm"))
}

/// A folder with these files, and the built policies `prefer` and `hostile`.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for policy in ["prefer", "hostile"] {
        fs::copy(built(policy), folder.path().join(format!("{policy}.wasm"))).unwrap();
    }
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The program in that folder, without a cluster.
fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("NO_COLOR", "1");
    command.env("KUBECONFIG", "/nowhere").env_remove("KUBERNETES_SERVICE_HOST");
    command
}

fn policy(folder: &Path, words: &str) -> Output {
    command(env!("CARGO_BIN_EXE_tanist"), folder).arg("policy").args(words.split(' ')).output().unwrap()
}

/// Exit code, standard output, standard error.
fn said(folder: &Path, words: &str) -> (i32, String, String) {
    let done = policy(folder, words);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (done.status.code().unwrap(), text(&done.stdout), text(&done.stderr))
}

const CASES: &str = "policy: prefer.wasm
parameters: {member: db-1}
cases:
  - {name: preferred, point: seed, members: {db-0: 9, db-1: 9}, expect: {choose: db-1}}
  - {name: behind, point: seed, members: {db-0: 9, db-1: 8}, expect: abstain}
";

/// It chooses the last member, which the exam refuses at `seed`.
const LAST: &str = "def seed(s):
    return choose(reversed(s.eligible()))

def treat(s):
    return None
";

// P26, P27: each built-in script decides as the system whose rules it has: its folder has a case for each row of its table.
#[test]
fn built_in_scripts_answer_their_cases() {
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    for (name, least) in [("patroni", 8), ("quorum", 5), ("sentinel", 8), ("zones", 8)] {
        let (code, out, error) = said(&policies, &format!("test {name}"));
        assert_eq!((code, error.as_str()), (0, ""), "{name}\n{out}");
        let passed: usize = out.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(passed >= least, "{name}\n{out}");
    }
    // As a group names them, without a file of their own.
    let group = "kind: ReplicaGroup\nspec: {policies: [{builtin: quorum}, {builtin: patroni}]}\n";
    let asked = "group: group.yaml\ncases:\n  - {point: failover, members: {db-0: {role: secondary, data: 9}, db-1: {role: secondary, data: 9, \
                 labels: {failover-priority: '2'}}}, expect: {choose: [db-1, db-0]}}\n";
    let folder = folder(&[("group.yaml", group), ("a.cases.yaml", asked)]);
    let (code, out, _) = said(folder.path(), "test a.cases.yaml");
    assert_eq!(code, 0, "{out}");
    fs::write(folder.path().join("group.yaml"), group.replace("quorum", "raft")).unwrap();
    let (code, _, error) = said(folder.path(), "test a.cases.yaml");
    assert!(code == 2 && error.contains("there is no built-in policy raft"), "{error}");
}

// P42: 0, 1 and 2 of each command.
#[test]
fn exit_codes_tell_failures_from_what_cannot_be_used() {
    let other = CASES.replace("choose: db-1", "choose: db-0");
    let traps = "policy: hostile.wasm\nparameters: {do: trap}\ncases: [{point: seed, expect: fail}]\n";
    let folder = folder(&[
        ("good.cases.yaml", CASES),
        ("wrong.cases.yaml", &other),
        ("bad.cases.yaml", "cases: [{pont: seed}]\n"),
        ("traps.cases.yaml", traps),
        ("text.wasm", "hello"),
        ("last.star", LAST),
        ("last.cases.yaml", "policy: last.star\ncases: [{point: seed, expect: {choose: db-2}}]\n"),
        ("wild.star", "def seed( s ):\r\n\treturn None\r\n"),
    ]);
    let mut wrong = Vec::new();
    for (code, words) in [
        (0, "test good.cases.yaml"),
        (1, "test wrong.cases.yaml"),
        (2, "test bad.cases.yaml"),
        (2, "test none.cases.yaml"),
        (2, "test ."),
        (0, "test traps.cases.yaml"),
        (1, "run hostile.wasm --snapshot traps.cases.yaml"),
        (0, "run prefer.wasm --snapshot good.cases.yaml"),
        (2, "run prefer.wasm --snapshot good.cases.yaml --case other"),
        (2, "run prefer.wasm"),
        (2, "run none.wasm --snapshot good.cases.yaml"),
        (1, "run text.wasm --snapshot good.cases.yaml"),
        (0, "check prefer.wasm"),
        (1, "check text.wasm"),
        (2, "check none.wasm"),
        (0, "inspect prefer.wasm"),
        (1, "inspect text.wasm"),
        (2, "bench prefer.wasm --parameters {}"),
        (2, "bench prefer.wasm --parameters 5"),
        (0, "check last.star --points treat"),
        (1, "check last.star --points treat,seed"),
        (2, "check last.star --points sede"),
        (0, "fmt --check last.star"),
        (1, "fmt --check wild.star"),
        // It wrote nothing.
        (1, "fmt --check wild.star"),
        (2, "fmt none.star"),
        (2, "fmt last.star prefer.wasm"),
        (0, "fmt wild.star last.star"),
        (0, "fmt --check wild.star"),
        (0, "test last.cases.yaml --coverage --threshold 75"),
        (1, "test last.cases.yaml --coverage --threshold 76"),
        (2, "test last.cases.yaml --threshold 76"),
        (2, "test last.cases.yaml --coverage --threshold 101"),
        (2, "test good.cases.yaml --coverage"),
        (2, "tset"),
        (2, "new Not-A-Name"),
        (2, "new --lang rust mine"),
        (2, "snapshot db"),
        (2, "try db prefer.wasm"),
        (2, "try db prefer.wasm --question sede"),
        (2, "put rules prefer.wasm"),
        (2, "put rules none.wasm"),
        (2, "put rules prefer.wasm --key mine.star"),
        (2, "put rules prefer.wasm --timeout soon"),
        (2, "dev none"),
        (2, "dev . db"),
        (0, "--help"),
    ] {
        let (found, out, error) = said(folder.path(), words);
        if found != code {
            wrong.push(format!("{words}: {found} and not {code}"));
            continue;
        }
        match code {
            0 => assert_eq!(error, "", "{words}"),
            1 => assert!(out.is_empty() != error.is_empty(), "{words}\n{out}\n{error}"),
            _ => assert!(out.is_empty() && !error.is_empty(), "{words}\n{out}\n{error}"),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Other commands have kubectl's exit codes.
    let mistyped = command(env!("CARGO_BIN_EXE_tanist"), folder.path()).arg("explian").output().unwrap();
    assert_eq!(mistyped.status.code(), Some(1));
}

// P42: an error has its place and what to do.
#[test]
fn errors_say_where_and_what_to_do() {
    let folder = folder(&[("bad.cases.yaml", "cases:\n  - pont: seed\n"), ("x.star", "\nx = = 1\n")]);
    for (words, parts) in [
        ("test bad.cases.yaml", ["error: bad.cases.yaml:2:", "pont"]),
        ("fmt x.star", ["x.star:2:5", "error"]),
        ("fmt bad.cases.yaml", ["bad.cases.yaml is no script", "ends with .star"]),
        ("new --lang rust mine", ["needs the SDK", "--sdk"]),
        ("test none", ["failed to read none", "No such file"]),
        ("run --snapshot bad.cases.yaml", ["required", "FILE"]),
    ] {
        let (_, _, error) = said(folder.path(), words);
        assert!(parts.iter().all(|part| error.contains(part)), "{words}: {error}");
    }
}

// P42: JSON, YAML and JUnit.
#[test]
fn results_are_there_for_programs() {
    let wrong = CASES.replace("choose: db-1", "choose: db-0");
    let folder = folder(&[("wrong.cases.yaml", &wrong)]);
    let json = |words: &str| -> Value { serde_json::from_str(&said(folder.path(), words).1).unwrap() };
    let tested = json("test wrong.cases.yaml -o json --junit report.xml");
    let case = &tested["files"][0]["cases"][0];
    assert_eq!((&case["passed"], &case["line"]), (&Value::from(false), &Value::from(4)));
    assert_eq!(case["difference"], serde_json::json!(["- choose: db-0", "+ choose: db-1"]));
    assert!(fs::read_to_string(folder.path().join("report.xml")).unwrap().contains("failures=\"1\""));
    let ran = json("run prefer.wasm --snapshot wrong.cases.yaml --case 1 --output json");
    assert_eq!(ran[0]["verdict"]["answer"], "choose");
    assert_eq!(ran[0]["layers"][0]["policy"]["source"], "file/prefer.wasm");
    assert!(ran[0]["layers"][0]["cost"]["fuel"].as_u64().unwrap() > 0);
    assert_eq!(json("check prefer.wasm -o json")["stages"][4]["result"], "passed");
    assert_eq!(json("inspect prefer.wasm -o json")["name"], "prefer");
    let (_, yaml, _) = said(folder.path(), "inspect prefer.wasm -o yaml");
    assert!(yaml.contains("\nname: prefer\n"), "{yaml}");
}

// P41: the lines that no case reached are named, for people and for programs; what was asked for and not reached is said.
#[test]
fn lines_that_no_case_reached_are_shown() {
    let cases = "policy: last.star\ncases: [{point: seed, expect: {choose: db-2}}]\n";
    let folder = folder(&[("last.star", LAST), ("last.cases.yaml", cases)]);
    let (code, out, _) = said(folder.path(), "test last.cases.yaml --coverage --threshold 80");
    assert_eq!(code, 1);
    for line in [
        "1 of 1 passed",
        "SCRIPT      LINES   RAN   PERCENT   NOT REACHED",
        "last.star   4       3     75 %      5",
        "last.star: 75 % of its lines ran, 80 % are asked for",
    ] {
        assert!(out.lines().any(|each| each == line), "{line}\n{out}");
    }
    let (_, json, _) = said(folder.path(), "test last.cases.yaml --coverage -o json");
    let json: Value = serde_json::from_str(&json).unwrap();
    let covered = serde_json::json!([{"source": "file/last.star", "lines": 4, "ran": 3, "percent": 75, "missed": [5]}]);
    assert_eq!(json["coverage"], covered);
    let (_, json, _) = said(folder.path(), "test last.cases.yaml -o json");
    assert!(!json.contains("coverage"), "{json}");
}

// P40: the whole stack of a manifest, with everyone's reason.
#[test]
fn a_run_shows_every_layer_and_every_member() {
    let group = "kind: ReplicaGroup\nspec:\n  policies:\n    - {file: prefer.wasm, parameters: {member: db-2}}\n";
    let cases = "cases:\n  - {point: seed, members: {db-0: 4, db-1: 9, db-2: 9}}\n  - {point: join}\n";
    let folder = folder(&[("group.yaml", group), ("case.yaml", cases)]);
    let (code, out, error) = said(folder.path(), "run --group group.yaml --snapshot case.yaml");
    assert_eq!((code, error.as_str()), (0, ""));
    for line in [
        "seed: choose db-2",
        "db-0     stopped   4 of term 1   barred        its data (4) is behind the highest known (9)",
        "db-2     stopped   9 of term 1   chosen        preferred, and none is more recent",
        "join: choose db-1, then db-2",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    assert!(
        out.contains("prefer 0.1.0 (file/prefer.wasm)") && out.contains("sequence 0.1.0 (builtin/sequence)"),
        "{out}"
    );
    assert!(out.contains("not asked; it would answer: choose db-1"), "{out}");
}

/// `tanist policy dev` that is running. It ends with the test.
struct Dev {
    process: Child,
    lines: Receiver<String>,
}

/// No round takes that long, whatever runs beside the test; whoever waits longer waits for one that does not begin.
const LONGEST_ROUND: Duration = Duration::from_secs(900);

impl Dev {
    fn begin(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // The receiver is gone when the test is over.
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).ok();
        });
        Dev { process, lines }
    }

    /// What it prints until it waits for the next save.
    fn round(&mut self) -> String {
        let mut said = String::new();
        while !said.ends_with("Ctrl-C ends this\n") {
            let line = self.lines.recv_timeout(LONGEST_ROUND);
            said += &line.unwrap_or_else(|why| panic!("no round ended ({why}): {said}"));
            said.push('\n');
        }
        said
    }

    /// The first round in which it says that; a save in several steps may have more rounds than one.
    fn until(&mut self, words: &str) -> String {
        loop {
            let said = self.round();
            if said.contains(words) {
                return said;
            }
        }
    }

    /// Ends it as Ctrl-C does, and returns its exit code.
    fn interrupt(mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        self.process.wait().unwrap().code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.process.kill();
    }
}

// P46: each save is looked at: one with a typo, one that replaces the file as editors do, one that is half written. Nothing of that ends it; Ctrl-C does, with 0.
#[test]
fn a_project_is_looked_at_after_each_save() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(said(folder.path(), "new mine").0, 0);
    let script = folder.path().join("mine/policy.star");
    let good = fs::read_to_string(&script).unwrap();
    let mut command = command(env!("CARGO_BIN_EXE_tanist"), folder.path());
    command.args(["policy", "dev", "mine"]);
    let mut dev = Dev::begin(command);
    let first = dev.round();
    assert!(first.contains("ok  mine/policy.star: its exam passed") && first.contains("3 of 3 passed"), "{first}");
    assert!(first.contains("Z, looked at in ") && first.contains(" ms\n"), "{first}");
    fs::write(&script, good.replace("choose(", "chose(")).unwrap();
    let typo = dev.until("REFUSED");
    assert!(typo.contains("policy.star:") && typo.contains("chose"), "{typo}");
    // As an editor does: another file is written and renamed.
    let aside = folder.path().join("mine/.policy.star.swp");
    fs::write(&aside, &good).unwrap();
    fs::rename(&aside, &script).unwrap();
    dev.until("3 of 3 passed");
    fs::write(&script, good.get(..good.len() / 2).unwrap()).unwrap();
    fs::write(&script, &good).unwrap();
    fs::remove_file(&script).unwrap();
    dev.until("has no policy");
    fs::write(&script, &good).unwrap();
    dev.until("3 of 3 passed");
    // A folder with further cases that is made later is watched, too.
    let cases = folder.path().join("mine/cases");
    fs::create_dir(&cases).unwrap();
    fs::write(
        cases.join("more.yaml"),
        "policy: ../policy.star\nparameters: {zone: a}\ncases: [{point: seed, expect: refuse}]\n",
    )
    .unwrap();
    dev.until("3 of 4 passed");
    fs::write(cases.join("more.yaml"), "cases: [{pont: seed}]\n").unwrap();
    dev.until("pont");
    assert_eq!(dev.interrupt(), Some(0));
}

// A script whose exam fails at one point is well where it is asked at another one alone.
#[test]
fn a_project_is_looked_at_for_the_points_of_its_group() {
    let folder = folder(&[("last.star", LAST)]);
    for (more, word) in [(&[][..], "REFUSED  ./last.star"), (&["--points", "treat"], "ok  ./last.star")] {
        let mut command = command(env!("CARGO_BIN_EXE_tanist"), folder.path());
        command.args(["policy", "dev", "."]).args(more);
        let mut dev = Dev::begin(command);
        let first = dev.round();
        assert!(first.contains(word), "{first}");
        assert_eq!(dev.interrupt(), Some(0));
    }
}

/// One block of the document: what its fence says, its text, and its line.
struct Block {
    fence: String,
    text: String,
    line: usize,
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = false;
    for (number, line) in DOCUMENT.lines().enumerate() {
        match (line.strip_prefix("```"), inside) {
            (Some(fence), false) => {
                blocks.push(Block { fence: fence.to_owned(), text: String::new(), line: number + 1 });
                inside = true;
            }
            (Some(_), true) => inside = false,
            (None, true) => blocks.last_mut().unwrap().text.push_str(&format!("{line}\n")),
            (None, false) => {}
        }
    }
    blocks
}

/// Figures and the width of columns differ from run to run.
fn alike(line: &str) -> String {
    let digits = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let mut text: String = line.chars().map(digits).collect();
    while text.contains("00") {
        text = text.replace("00", "0");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An empty folder in which the commands of the document are typed, with `tanist` on the path.
struct Desk {
    folder: tempfile::TempDir,
    /// What the last command wrote to its standard output.
    last: String,
    /// The number of commands that were run and begin with `tanist` or `cargo`.
    ran: usize,
    /// How long they took.
    took: Duration,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["bin", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tanist"), folder.path().join("bin/tanist")).unwrap();
        Desk { folder, last: String::new(), ran: 0, took: Duration::ZERO }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A shell in which these lines are run until one of them fails.
    fn shell(&self, lines: &str) -> Command {
        let path = format!("{}:{}", self.folder.path().join("bin").display(), env::var("PATH").unwrap());
        let mut shell = command("bash", &self.work());
        shell.env("PATH", path).args(["-c", &format!("set -e\n{lines}")]);
        shell
    }

    /// Runs the lines of a block and expects its exit code.
    fn run(&mut self, mut shell: Command, Block { text, line, .. }: &Block, code: i32) {
        let began = Instant::now();
        let done = shell.output().unwrap();
        self.took += began.elapsed();
        self.last = String::from_utf8(done.stdout).unwrap();
        let error = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(code), "line {line}:\n{text}\n{}\n{error}", self.last);
        self.ran += text.lines().filter(|line| line.starts_with("tanist ") || line.starts_with("cargo ")).count();
    }

    /// Whether the block is among what the last one wrote.
    fn compare(&self, Block { text, line, .. }: &Block) {
        let shown: Vec<_> = self.last.lines().map(alike).collect();
        for expected in text.lines().map(alike) {
            assert!(shown.contains(&expected), "line {line}: no `{expected}` in\n{}", self.last);
        }
    }
}

// P47: docs/policies.md is typed as it stands, with its outputs and its three minutes.
#[test]
fn every_command_of_the_document_works() {
    let mut desk = Desk::new();
    let first_policy = DOCUMENT.lines().position(|line| line == "## Look closely").expect("the heading is there");
    let mut first = Duration::ZERO;
    for block in blocks() {
        if block.line < first_policy {
            first = desk.took;
        }
        match block.fence.as_str() {
            "text" => desk.compare(&block),
            "sh" => desk.run(desk.shell(&block.text), &block, 0),
            "sh fails" => desk.run(desk.shell(&block.text), &block, 1),
            "sh waits" => {
                let words = block.text.trim().strip_prefix("tanist ").expect("one command").split(' ');
                let mut command = command(env!("CARGO_BIN_EXE_tanist"), &desk.work());
                command.args(words);
                let mut dev = Dev::begin(command);
                desk.last = dev.round();
                assert_eq!(dev.interrupt(), Some(0), "line {}", block.line);
            }
            "sh cluster" => {
                for verb in block.text.lines().map(|line| line.split(' ').nth(2).unwrap()) {
                    let run = format!("\"policy\", \"{verb}\"");
                    assert!(IN_CLUSTER.contains(&run), "line {}: no test runs {verb} in a cluster", block.line);
                }
            }
            "sh rust" | "text rust" | "yaml" => {}
            other => panic!(
                "line {}: what is a block of {other}? Use sh, `sh fails`, `sh waits`, `sh cluster`, `sh rust`, yaml or text",
                block.line
            ),
        }
    }
    assert!(desk.ran >= 9, "only {} commands were found", desk.ran);
    // What the heading promises, without the time that an author takes to type.
    assert!(first > Duration::ZERO && first < Duration::from_secs(180), "a policy in three minutes took {first:?}");
}
