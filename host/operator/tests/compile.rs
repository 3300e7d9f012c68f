//! H19, H21: compiling in a process of its own. Whatever a component does to the compiler, the one who asked gets a value, in bounded time, and
//! keeps its memory. The files in `tests/compile` stand for a compiler that misbehaves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "tests may panic; the child's half is used by the executable"
)]

#[path = "../src/policies/compile.rs"]
mod compile;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use compile::{ChildLimits, CompileError, VERB, by};
use tanist_engine::{Engine, Limits, Policy, Stage};
use tokio::sync::Mutex;

const LIMITS: ChildLimits =
    ChildLimits { memory: 160 << 20, cpu: Duration::from_secs(10), wall: Duration::from_secs(60), output: 16 << 20 };

/// One test at a time: they look at the memory and at the children of this process.
static ALONE: Mutex<()> = Mutex::const_new(());

fn tanist() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_tanist"))
}

fn standing_in(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile").join(name)
}

fn sequence() -> Vec<u8> {
    fs::read(env!("TANIST_POLICY_SEQUENCE")).unwrap()
}

async fn ask(program: &Path, bytes: Vec<u8>, limits: ChildLimits) -> Result<Vec<u8>, CompileError> {
    by(program, bytes.into(), limits).await
}

/// The built-in policy with another core module of so many functions, each with so many empty loops.
fn with_loops(functions: usize, loops: usize) -> Vec<u8> {
    let body = [vec![0], [0x03, 0x40, 0x0b].repeat(loops), vec![0x0b]].concat();
    let code = (0..functions).flat_map(|_| [leb(body.len()), body.clone()].concat()).collect::<Vec<u8>>();
    let section = |id: u8, bytes: Vec<u8>| [vec![id], leb(bytes.len()), bytes].concat();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, vec![1, 0x60, 0, 0]),
        section(3, [leb(functions), vec![0; functions]].concat()),
        section(10, [leb(functions), code].concat()),
    ]
    .concat();
    [sequence(), section(1, module)].concat()
}

/// A number as WebAssembly writes it.
fn leb(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number > 127 {
        out.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn a_policy_is_compiled_elsewhere_and_used_here() {
    let _alone = ALONE.lock().await;
    let bytes = sequence();
    let compiled = ask(tanist(), bytes.clone(), LIMITS).await.unwrap();
    let engine = Engine::new(Limits::default().unhurried()).unwrap();
    let policy = Policy::from_compiled(&engine, "builtin/sequence", &bytes, &compiled).unwrap();
    assert_eq!((policy.name().name.as_str(), engine.compilations()), ("sequence", 0));
}

// P3: the gate that refused is named, with its limit.
#[tokio::test]
async fn h19_what_is_refused_says_by_which_gate() {
    let _alone = ALONE.lock().await;
    for (bytes, stage, kind, part) in [
        (vec![0; 64], Stage::Size, "not-webassembly", "it is not a WebAssembly component"),
        (vec![0; (1 << 20) + 1], Stage::Size, "size", "1048576 are allowed"),
        (with_loops(1, 20_000), Stage::Structure, "structure", "4000 are allowed; split the function"),
        (with_loops(60, 500), Stage::Structure, "structure", "2000000 are allowed"),
    ] {
        let _ = fs::write("/proc/self/clear_refs", "5");
        let before = memory("VmRSS:");
        match ask(tanist(), bytes, LIMITS).await.unwrap_err() {
            CompileError::Refused { stage: said, kind: word, message } => {
                assert_eq!((said, word.as_str()), (stage, kind));
                assert!(message.contains(part), "{message}");
            }
            other => panic!("{other}"),
        }
        assert!(memory("VmHWM:").saturating_sub(before) <= 8 << 20);
    }
}

#[tokio::test]
async fn h19_the_largest_component_fits_into_the_limits_and_costs_this_process_nothing() {
    let _alone = ALONE.lock().await;
    let bytes = with_loops(35, 500);
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = memory("VmRSS:");
    // What it may take is processor time and memory; how long that is beside other processes shows nothing.
    let compiled = ask(tanist(), bytes, ChildLimits { wall: Duration::from_secs(900), ..LIMITS }).await.unwrap();
    assert!(memory("VmHWM:").saturating_sub(before) <= (8 << 20) + compiled.len() as u64);
}

#[tokio::test]
async fn h19_each_limit_has_its_words() {
    let _alone = ALONE.lock().await;
    // What takes 60 MiB to compile.
    let little = ChildLimits { memory: 40 << 20, ..LIMITS };
    let lacks = ask(tanist(), with_loops(9_000, 0), little).await.map(|out| out.len());
    assert_eq!(lacks, Err(CompileError::Memory(40 << 20)));
    let short = ChildLimits { cpu: Duration::ZERO, ..LIMITS };
    let slow = ask(tanist(), with_loops(35, 500), short).await.map(|out| out.len());
    assert_eq!(slow, Err(CompileError::Cpu(Duration::ZERO)));
    let narrow = ChildLimits { output: 1_000, ..LIMITS };
    let long = ask(tanist(), sequence(), narrow).await.map(|out| out.len());
    assert_eq!(long, Err(CompileError::Output(1_000)));
    let hasty = ChildLimits { wall: Duration::from_millis(200), ..LIMITS };
    let begun = Instant::now();
    let hangs = ask(&standing_in("hangs"), sequence(), hasty).await.unwrap_err();
    assert_eq!(hangs, CompileError::Wall(hasty.wall));
    assert!(begun.elapsed() < Duration::from_secs(300));
    assert!(!hangs.is_the_components(), "a busy machine is not the component's fault");
    let left = [CompileError::Memory(LIMITS.memory), CompileError::Memory(LIMITS.memory - 1)];
    assert_eq!(left.map(|error| error.is_the_components()), [true, false]);
}

#[tokio::test]
async fn h21_a_compiler_that_crashes_is_an_error() {
    let _alone = ALONE.lock().await;
    let crashed = ask(&standing_in("crashes"), sequence(), LIMITS).await.unwrap_err();
    assert_eq!(crashed, CompileError::Crashed("signal 11: thread main has overflowed its stack".to_owned()));
    assert!(crashed.is_the_components());
    assert_eq!(ask(&standing_in("lacks-memory"), sequence(), LIMITS).await, Err(CompileError::Memory(LIMITS.memory)));
    assert_eq!(ask(&standing_in("floods"), sequence(), LIMITS).await, Err(CompileError::Output(LIMITS.output)));
    for name in ["says-nothing", "forges"] {
        let failed = ask(&standing_in(name), sequence(), LIMITS).await.unwrap_err();
        assert!(matches!(&failed, CompileError::Crashed(why) if !why.contains('\u{1b}')), "{name}: {failed}");
    }
    let refused = ask(&standing_in("scribbles"), sequence(), LIMITS).await.unwrap_err();
    let printed = CompileError::Refused { stage: Stage::Size, kind: "a[2Jb".into(), message: "c[2Jd".into() };
    assert_eq!(refused, printed);
    let absent = ask(Path::new("/nowhere"), sequence(), LIMITS).await.unwrap_err();
    assert!(matches!(absent, CompileError::Run(_)), "{absent}");
}

#[tokio::test]
async fn h21_the_process_gets_no_environment() {
    let _alone = ALONE.lock().await;
    let seen = ask(&standing_in("shows-what-it-gets"), sequence(), LIMITS).await.unwrap();
    let seen = String::from_utf8(seen).unwrap();
    // The shell sets PWD and the like itself.
    let known = ["MIMALLOC_ARENA_RESERVE=", "PWD=", "OLDPWD=", "SHLVL=", "_=", "/"];
    for line in seen.lines() {
        assert!(known.iter().any(|each| line.starts_with(each)), "{line}");
    }
    assert!(std::env::var_os("CARGO_TARGET_DIR").is_some() && !seen.contains("CARGO"), "{seen}");
}

/// What the kernel says of the process that waits for its component.
#[test]
fn h21_the_process_limits_itself_before_it_reads() {
    let _alone = ALONE.blocking_lock();
    let mut child = Command::new(tanist())
        .args([VERB, &(64 << 20).to_string(), "7"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap_or_default();
    // The last limit that it sets.
    wait_until(|| of("limits").lines().any(|line| squeezed(line).starts_with("Max open files 3 3")));
    let limits = of("limits").lines().map(squeezed).collect::<Vec<_>>().join("\n");
    for line in ["Max cpu time 7 8", "Max file size 0 0", "Max core file size 0 0"] {
        assert!(limits.contains(line), "{line}: {limits}");
    }
    let space = limits.lines().find_map(|line| line.strip_prefix("Max address space ")).unwrap();
    let space: u64 = space.split(' ').next().unwrap().parse().unwrap();
    assert!((32 << 20..2 << 30).contains(&space), "{space}");
    let status = of("status");
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Threads:\t1"), "{status}");
    child.stdin.take().unwrap().write_all(b"no component").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn it_does_not_run_without_limits() {
    let out = Command::new(tanist()).arg(VERB).stdin(Stdio::null()).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&out.stderr).trim(), "this command is for the operator itself");
}

#[tokio::test]
async fn who_no_longer_waits_ends_the_process() {
    let _alone = ALONE.lock().await;
    let asked = tokio::spawn(async { ask(&standing_in("hangs"), sequence(), LIMITS).await });
    while children().is_empty() {
        tokio::task::yield_now().await;
    }
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    wait_until(|| children().is_empty());
}

/// P7: the limit of memory is what the operator leaves of four fifths of its container, for all compilations together.
#[test]
fn the_children_and_the_operator_stay_below_four_fifths() {
    let mib = |bytes: u64| bytes >> 20;
    assert_eq!(mib(ChildLimits::within(512 << 20, 60 << 20, 2).memory), 160);
    assert_eq!(mib(ChildLimits::within(256 << 20, 60 << 20, 1).memory), 144);
    assert_eq!(mib(ChildLimits::within(256 << 20, 60 << 20, 2).memory), 72);
    assert_eq!(ChildLimits::within(64 << 20, 60 << 20, 2).memory, 0);
}

/// The processes that this one started and that run.
fn children() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let listed = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let all = listed.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>());
    let runs = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
    };
    all.filter(runs).collect()
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(300), "it does not happen");
        std::thread::yield_now();
    }
}
