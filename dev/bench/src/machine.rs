//! What was measured on, and how busy it was with other things.

use std::{fs, thread};

use serde::{Deserialize, Serialize};

/// The machine, and how this program was built.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// The model of the processor.
    pub cpu: String,
    /// The number of processors that this program may use, hyper-threads counted; 0: not known.
    pub cores: usize,
    /// All of its memory.
    pub memory_mib: u64,
    /// The version of Linux.
    pub kernel: String,
    /// How this program was built: only a release build can be cited.
    pub build: String,
    /// The C library of this program.
    pub target: String,
    /// The allocator of this program.
    pub allocator: String,
}

impl Machine {
    /// Reads the properties of the machine on which this program runs.
    pub fn here() -> Self {
        let field = |file: &str, key: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let memory = field("/proc/meminfo", "MemTotal");
        let kib: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Self {
            cpu: field("/proc/cpuinfo", "model name"),
            cores: thread::available_parallelism().map_or(0, usize::from),
            memory_mib: kib / 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            build: if cfg!(debug_assertions) { "development build" } else { "release build" }.to_owned(),
            target: if cfg!(target_env = "musl") { "musl" } else { "glibc" }.to_owned(),
            allocator: if cfg!(feature = "mimalloc") { "mimalloc" } else { "that of the C library" }.to_owned(),
        }
    }
}

/// Processor time of all that ran on the machine, in hundredths of a second.
#[derive(Debug, Clone, Copy)]
pub struct Busy {
    ours: u64,
    all: u64,
    stolen: u64,
    total: u64,
}

/// How busy the machine was meanwhile, in processors.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Load {
    /// Used by this program and its children.
    pub ours: f64,
    /// Used by everybody else.
    pub others: f64,
    /// Taken by the host below a virtual machine.
    pub stolen: f64,
}

impl Busy {
    /// Since the machine started; `children` are processes that count as ours.
    pub fn now(children: &[u32]) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        let parts: Vec<u64> = line.split_whitespace().skip(1).filter_map(|part| part.parse().ok()).collect();
        let part = |index: usize| parts.get(index).copied().unwrap_or(0);
        let (idle, stolen) = (part(3) + part(4), part(7));
        let total: u64 = parts.iter().take(8).sum();
        let ours = children.iter().copied().chain([std::process::id()]).map(used).sum();
        Self { ours, all: total - idle - stolen, stolen, total }
    }

    /// The load between then and `later`.
    pub fn until(self, later: Self) -> Load {
        let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
        let span = (later.total - self.total).max(1) as f64;
        let part = |ticks: u64| (ticks as f64 / span * cores * 100.0).round() / 100.0;
        let ours = later.ours.saturating_sub(self.ours);
        Load {
            ours: part(ours),
            others: part((later.all - self.all).saturating_sub(ours)),
            stolen: part(later.stolen - self.stolen),
        }
    }
}

fn used(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may have spaces; the numbers follow its bracket.
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let numbers: Vec<u64> = rest.split_whitespace().skip(11).take(2).filter_map(|part| part.parse().ok()).collect();
    numbers.iter().sum()
}
