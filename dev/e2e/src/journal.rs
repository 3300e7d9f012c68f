//! What was executed in the members, as the register itself wrote it down.
use anyhow::{Context, Result};

/// A line of `/data/log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The member's ordinal.
    pub ordinal: u32,
    /// Milliseconds since 1970.
    pub at: u64,
    /// `begin`, `end` or `late`.
    pub edge: String,
    /// The pid, in its container.
    pub pid: String,
    /// The command's name.
    pub command: String,
    /// Its arguments, or `code=N`.
    pub rest: Vec<String>,
}

impl Entry {
    /// Reads a line.
    ///
    /// # Errors
    /// When it has another form.
    pub fn read(ordinal: u32, line: &str) -> Result<Self> {
        let mut words = line.split_whitespace().map(str::to_owned);
        let mut next = || words.next().with_context(|| format!("not a line of the log: {line:?}"));
        let (at, edge, pid, command) = (next()?, next()?, next()?, next()?);
        Ok(Entry { ordinal, at: at.parse()?, edge, pid, command, rest: words.collect() })
    }
}

/// One execution of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The member's ordinal.
    pub ordinal: u32,
    /// The command's name.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// When it ended; absent when it was killed or still runs.
    pub ended: Option<u64>,
    /// Its exit code; absent as above.
    pub code: Option<i32>,
}

/// The executions of these lines, ordered by when they began.
#[must_use]
pub fn executions(journal: &[Entry]) -> Vec<Execution> {
    let begins = journal.iter().enumerate().filter(|(_, e)| e.edge == "begin");
    begins
        .map(|(at, begin)| {
            // A process id returns after a restart of the container; the next end of it counts, unless it begins anew before.
            let mut later =
                journal.iter().skip(at.saturating_add(1)).filter(|e| e.ordinal == begin.ordinal && e.pid == begin.pid);
            let end = later.next().filter(|e| e.edge == "end");
            let code = end.and_then(|e| e.rest.first()?.strip_prefix("code=")?.parse().ok());
            Execution {
                ordinal: begin.ordinal,
                command: begin.command.clone(),
                arguments: begin.rest.clone(),
                began: begin.at,
                ended: end.map(|e| e.at),
                code,
            }
        })
        .collect()
}

/// The executions that started a member, in order, for instance `["seed 0", "primary 1"]`.
#[must_use]
pub fn starts(executions: &[Execution]) -> Vec<String> {
    let starts = executions.iter().filter(|e| !matches!(e.command.as_str(), "sequence" | "stop" | "status"));
    starts.map(|e| format!("{} {}", e.command, e.ordinal)).collect()
}
