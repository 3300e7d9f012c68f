//! Compiles a policy in a process of its own, so that whatever a component does to the compiler, the operator and its other groups go on
//! (docs/safety.md, H19 and H21).
//!
//! The process is this executable with the hidden word [`VERB`]. It gets the component on its standard input and writes what came out to its
//! standard output. It has no environment, opens no file, reaches no network, and sets its own limits before it reads the first byte. Whatever it
//! does, it is over after [`ChildLimits::wall`].

use rustix::process::{Resource, Rlimit, Signal, nice, set_parent_process_death_signal, setrlimit};
use rustix::thread::set_no_new_privs;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tanist_engine::{LoadError, Stage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// The hidden word that makes this executable compile. Users do not type it.
pub const VERB: &str = "compile";

/// This executable, also when its file was replaced or removed meanwhile.
#[cfg(not(test))]
const PROGRAM: &str = "/proc/self/exe";

/// That of the tests would run tests. There is none, so what does not ask for a process is noticed.
#[cfg(test)]
const PROGRAM: &str = "/proc/self/exe/none";

/// The child's exit code when it refuses the component. Its standard output then has a line with the gate and the kind, and the reason.
const REFUSED: u8 = 3;

/// Bytes of its messages that are read.
const MESSAGE: u64 = 4 << 10;

/// The memory of a container of this operator unless the kernel says otherwise: that of deploy/.
const CONTAINER: u64 = 512 << 20;

/// Where the kernel says that, for versions 2 and 1 of its control groups.
const LIMIT: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// Bytes of address space that a compilation gets where the container has them. What the caps of components allow takes 99 MiB.
const MEMORY: u64 = 160 << 20;

/// Bytes by which the allocator takes address space, by default 1 GiB, which would be more than the limit. It takes the first piece before the process
/// can limit itself.
const ARENA: u64 = 32 << 20;

/// What a compilation may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildLimits {
    /// Bytes of address space beyond those of the executable. Less than the allocator's first piece counts as that piece.
    pub memory: u64,
    /// Time of the processor.
    pub cpu: Duration,
    /// Time in all, with what it waits for the processor.
    pub wall: Duration,
    /// Bytes of what comes out. The operator keeps it as long as a group uses the policy.
    pub output: u64,
}

impl ChildLimits {
    /// The limits on this machine, now, of each of so many compilations at the same time: the operator and they together stay below four fifths of
    /// the container's memory. Above its limit the kernel would end all of them, because it ends whole containers.
    #[must_use]
    pub fn here(at_once: usize) -> Self {
        let container = LIMIT.iter().find_map(|file| read_number(file)).unwrap_or(CONTAINER);
        Self::within(container, resident().unwrap_or(0), at_once)
    }

    /// The limits for a container of so many bytes in which the operator has so many, of each of so many compilations at the same time. What the caps of components allow takes
    /// 2.0 s of a processor, 99 MiB, and gives 2.4 MB (docs/safety.md, H19).
    #[must_use]
    pub fn within(container: u64, operator: u64, at_once: usize) -> Self {
        let free = (container / 5 * 4).saturating_sub(operator);
        let share = free / at_once.max(1) as u64;
        Self { memory: share.min(MEMORY), cpu: Duration::from_secs(10), wall: Duration::from_secs(30), output: 8 << 20 }
    }
}

/// Why a policy was not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is no policy that can be compiled: the component is at fault, and stays so.
    #[error("{message}")]
    Refused {
        /// The gate that it did not pass.
        stage: Stage,
        /// One word for machines.
        kind: String,
        /// Why the component was refused, as users see it.
        message: String,
    },
    /// The compiler needed more memory.
    #[error("compiling it takes more than {} MiB of memory; make it smaller, or split its largest functions", .0 >> 20)]
    Memory(u64),
    /// The compiler needed more time of the processor.
    #[error("compiling it takes more than {} s; make it smaller, or split its largest functions", .0.as_secs())]
    Cpu(Duration),
    /// It did not end in time, mostly because the machine is busy.
    #[error("compiling it did not end within {} s, because the machine is busy or the component is large; it is tried again later", .0.as_secs())]
    Wall(Duration),
    /// More came out than is accepted.
    #[error("it becomes more than {} MiB of native code; make it smaller", .0 >> 20)]
    Output(u64),
    /// The compiler crashed.
    #[error(
        "the compiler crashed ({0}); the operator was not affected. Build the policy with other options or another version of its toolchain"
    )]
    Crashed(String),
    /// The process could not be started or talked to.
    #[error("the process that compiles could not be run: {0}")]
    Run(String),
}

impl CompileError {
    /// Whether the component is the cause, so that the same bytes fail again. Otherwise it is the machine.
    #[must_use]
    pub const fn is_the_components(&self) -> bool {
        match self {
            Self::Wall(_) | Self::Run(_) => false,
            // Less than that is what the container had left.
            Self::Memory(limit) => *limit >= MEMORY,
            Self::Refused { .. } | Self::Cpu(_) | Self::Output(_) | Self::Crashed(_) => true,
        }
    }
}

/// Compiles a component in a process of its own. The process ends when this future is dropped.
///
/// It has to be called from a task of the runtime, not from a blocking one: the kernel ends the process together with the thread that started it.
///
/// # Errors
/// The reason, and which limit was hit.
pub async fn in_child(bytes: Arc<[u8]>, limits: ChildLimits) -> Result<Vec<u8>, CompileError> {
    by(Path::new(PROGRAM), bytes, limits).await
}

/// The same with another executable of this program.
pub(crate) async fn by(program: &Path, bytes: Arc<[u8]>, limits: ChildLimits) -> Result<Vec<u8>, CompileError> {
    let mut child = start(program, limits).map_err(|error| CompileError::Run(error.to_string()))?;
    let ended = match tokio::time::timeout(limits.wall, converse(&mut child, &bytes, limits)).await {
        Ok(ended) => ended,
        Err(_) => Err(CompileError::Wall(limits.wall)),
    };
    // After a success it is gone already. Waiting for it leaves no zombie behind.
    let _ = child.kill().await;
    ended
}

fn start(program: &Path, limits: ChildLimits) -> io::Result<Child> {
    Command::new(program)
        .arg(VERB)
        .arg(limits.memory.to_string())
        .arg(limits.cpu.as_secs().to_string())
        .env_clear()
        .env("MIMALLOC_ARENA_RESERVE", (ARENA >> 10).to_string())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// Hands over the component, reads what comes out up to the limits, and explains how the process ended.
async fn converse(child: &mut Child, bytes: &[u8], limits: ChildLimits) -> Result<Vec<u8>, CompileError> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(CompileError::Run("it has no pipes".to_owned()));
    };
    let failed = |error: io::Error| CompileError::Run(error.to_string());
    let hand_over = async move {
        // A process that ends early says why by its end.
        let _ = stdin.write_all(bytes).await;
        Ok(())
    };
    // Each block ends with its pipe: a process that goes on writing must not wait for a reader.
    let read_out = async move {
        let mut out = Vec::new();
        stdout.take(limits.output.saturating_add(1)).read_to_end(&mut out).await.map_err(failed)?;
        if out.len() as u64 > limits.output {
            return Err(CompileError::Output(limits.output));
        }
        Ok(out)
    };
    let read_said = async move {
        let mut said = Vec::new();
        stderr.take(MESSAGE).read_to_end(&mut said).await.map_err(failed)?;
        Ok(said)
    };
    let ((), out, said) = tokio::try_join!(hand_over, read_out, read_said)?;
    // Its pipes are closed, so it ends, or has closed them on purpose: then the wall limit ends it.
    let status = child.wait().await.map_err(failed)?;
    explain(status, out, &String::from_utf8_lossy(&said), limits)
}

/// The meaning of the end of the process.
fn explain(status: ExitStatus, out: Vec<u8>, said: &str, limits: ChildLimits) -> Result<Vec<u8>, CompileError> {
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
    match (status.code(), status.signal().and_then(Signal::from_named_raw)) {
        (Some(0), _) if !out.is_empty() => Ok(out),
        (Some(code), _) if code == i32::from(REFUSED) => Err(refusal(&String::from_utf8_lossy(&out))),
        (_, Some(Signal::XCPU)) => Err(CompileError::Cpu(limits.cpu)),
        // What the allocators of Rust and wasmtime say when there is no more; the first ends the process by SIGABRT.
        _ if ran_out_of_memory(said) => Err(CompileError::Memory(limits.memory)),
        // The hard limit of the processor's time comes a second after the soft one, and nobody else kills it, except the kernel for want of memory.
        (_, Some(Signal::KILL)) => Err(CompileError::Crashed("it was killed from outside".to_owned())),
        (Some(code), _) => Err(CompileError::Crashed(format!("exit code {code}: {}", printable(last)))),
        (None, signal) => {
            let number = signal.map_or(0, Signal::as_raw);
            Err(CompileError::Crashed(format!("signal {number}: {}", printable(last))))
        }
    }
}

fn ran_out_of_memory(said: &str) -> bool {
    ["memory allocation of", "Cannot allocate memory", "Out of memory", "out of memory"]
        .iter()
        .any(|words| said.contains(words))
}

/// What the child wrote when it refused the component.
fn refusal(out: &str) -> CompileError {
    let (head, message) = out.split_once('\n').unwrap_or((out, ""));
    match head.split_once(' ').and_then(|(stage, kind)| Some((stage.parse().ok()?, kind))) {
        Some((stage, kind)) => CompileError::Refused { stage, kind: printable(kind), message: printable(message) },
        None => CompileError::Crashed("it refused the component without a reason".to_owned()),
    }
}

/// What a process wrote that may have been taken over, as a text for a status.
fn printable(text: &str) -> String {
    text.chars().filter(|character| !tanist_engine::is_unfit(*character)).take(1_024).collect()
}

/// The memory of this process that is resident, in bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn read_number(file: &str) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// What the process does that compiles: called by `main` before anything else is set up, with the words after [`VERB`].
#[must_use]
pub fn child(words: &[String]) -> ExitCode {
    match confine(words).and_then(|()| read_component()) {
        Ok(bytes) => match tanist_engine::compile(&bytes) {
            Ok(compiled) => answer(&compiled, ExitCode::SUCCESS),
            Err(error) => answer(refused(&error).as_bytes(), ExitCode::from(REFUSED)),
        },
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Sets the limits of this process. What cannot be set ends it: there is no compilation without them.
fn confine(words: &[String]) -> io::Result<()> {
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(memory), Some(cpu)) = (number(0), number(1)) else {
        return Err(io::Error::other("this command is for the operator itself"));
    };
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_no_new_privs(true)?;
    // Rounds of groups go first.
    nice(10)?;
    // What is mapped already is mostly the executable, which the operator has in memory anyway.
    let mapped = read_number_of_pages().ok_or_else(|| io::Error::other("the size of this process cannot be read"))?;
    let both = |value: u64| Rlimit { current: Some(value), maximum: Some(value) };
    setrlimit(Resource::As, both(mapped.saturating_add(memory.saturating_sub(ARENA))))?;
    setrlimit(Resource::Cpu, Rlimit { current: Some(cpu), maximum: Some(cpu + 1) })?;
    setrlimit(Resource::Core, both(0))?;
    setrlimit(Resource::Fsize, both(0))?;
    // The three that it has: nothing else can be opened, not even a socket.
    setrlimit(Resource::Nofile, both(3))?;
    Ok(())
}

/// Bytes of address space of this process.
fn read_number_of_pages() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages = pages.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

fn read_component() -> io::Result<Vec<u8>> {
    // One byte more than a component may have, so that a longer one is refused by its size.
    let limit = tanist_engine::Limits::default().component_bytes as u64 + 1;
    let mut bytes = Vec::new();
    io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn refused(error: &LoadError) -> String {
    let cause = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{} {}\n{error}{cause}", error.stage(), error.kind())
}

fn answer(bytes: &[u8], code: ExitCode) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => code,
        // Nobody reads any more.
        Err(_) => ExitCode::FAILURE,
    }
}
