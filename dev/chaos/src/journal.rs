//! The clients' journal: what each client learned, one line for each operation.
//!
//! ```text
//! BEGIN END CLIENT OPERATION KEY VALUE OUTCOME MEMBER TIMELINE      moments in microseconds; what does not apply is -
//! ```
//!
//! - `insert KEY VALUE`: a row of its own, never touched again: CLIENT VALUE
//! - `write`, `read`: the register KEY; `append`, `list`: the list KEY. Keys are shared by all clients
//! - `meet PORT primary`: a connection reached a primary, or a `standby`, who knows it by that port; `none`: nobody answered, and no port
//! - `look POSITION STATE`: what the server of a node is: `writable`, `readonly`, `recovery`, `silent`, or `none`, no server runs
//! - `prefer - one`: from now on a primary waits for one standby, or for `none`
//!
//! A write has a line before it is sent, too, with the outcome `begun`: a client may die with its node. dev/history reads the same lines.
use anyhow::{Context, Result};
use std::fmt;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::str::FromStr;

/// What a client did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A row of its own.
    Insert,
    /// A register gets a value.
    Write,
    /// A list gets one more.
    Append,
    /// A register is read.
    Read,
    /// A list is read.
    List,
    /// A connection was made.
    Meet,
    /// The server of a node was asked what it is.
    Look,
    /// Whether a primary waits for a standby was changed.
    Prefer,
}

const OPERATIONS: [(Operation, &str); 8] = [
    (Operation::Insert, "insert"),
    (Operation::Write, "write"),
    (Operation::Append, "append"),
    (Operation::Read, "read"),
    (Operation::List, "list"),
    (Operation::Meet, "meet"),
    (Operation::Look, "look"),
    (Operation::Prefer, "prefer"),
];

/// What a client knows of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A write is about to be sent.
    Begun,
    /// It had its effect.
    Ok,
    /// It had no effect and never will.
    Fail,
    /// It may have had its effect, or have it later.
    Unknown,
}

const OUTCOMES: [(Outcome, &str); 4] =
    [(Outcome::Begun, "begun"), (Outcome::Ok, "ok"), (Outcome::Fail, "fail"), (Outcome::Unknown, "unknown")];

/// One line of the journal: an operation of a client, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it began, in microseconds since 1970.
    pub begin: u64,
    /// When its end was known.
    pub end: u64,
    /// Who did it.
    pub client: String,
    /// What it was.
    pub operation: Operation,
    /// Of what: a client, a register, a list, a port, a position.
    pub key: String,
    /// What was written or read, whom a connection met, what a server is.
    pub value: String,
    /// What the client knows of it.
    pub outcome: Outcome,
    /// The name of the member that answered. Absent: no member did.
    pub member: Option<String>,
    /// Of which timeline.
    pub timeline: Option<u64>,
}

impl Entry {
    /// The client was told that its write is committed.
    pub fn acknowledged(&self) -> bool {
        self.outcome == Outcome::Ok && self.writes()
    }

    /// It is a write.
    pub fn writes(&self) -> bool {
        matches!(self.operation, Operation::Insert | Operation::Write | Operation::Append)
    }

    /// A server was found in that state.
    pub fn found(&self, state: &str) -> bool {
        self.operation == Operation::Look && self.value == state
    }

    /// Who answered; `-` when nobody did.
    pub fn who(&self) -> &str {
        self.member.as_deref().unwrap_or("-")
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = OPERATIONS.iter().find(|(o, _)| *o == self.operation).map_or("-", |(_, word)| word);
        let outcome = OUTCOMES.iter().find(|(o, _)| *o == self.outcome).map_or("-", |(_, word)| word);
        let Entry { begin, end, client, key, value, .. } = self;
        write!(f, "{begin} {end} {client} {operation} {key} {value} {outcome} {} ", self.who())?;
        match self.timeline {
            Some(timeline) => write!(f, "{timeline}"),
            None => f.write_str("-"),
        }
    }
}

impl FromStr for Entry {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [begin, end, client, operation, key, value, outcome, member, timeline] = fields[..] else {
            anyhow::bail!("{} fields, not 9: {line:?}", fields.len());
        };
        let operation = OPERATIONS.iter().find(|(_, word)| *word == operation).context("no such operation")?.0;
        let outcome = OUTCOMES.iter().find(|(_, word)| *word == outcome).context("no such outcome")?.0;
        let some = |word: &str| Some(word.to_owned()).filter(|word| word != "-");
        Ok(Entry {
            begin: begin.parse()?,
            end: end.parse()?,
            client: client.into(),
            operation,
            key: key.into(),
            value: value.into(),
            outcome,
            member: some(member),
            timeline: some(timeline).map(|word| word.parse()).transpose()?,
        })
    }
}

/// All whole lines of a text. One that a client was about to write, or that its death cut, says nothing.
pub fn entries(text: &str) -> Vec<Entry> {
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The journal as far as it has come.
pub fn read(file: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
    // The last line may be under way.
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Ok(entries(&String::from_utf8_lossy(text.get(..whole).unwrap_or_default())))
}

/// The last lines of it, more than clients write in ten seconds.
pub fn tail(file: &Path) -> Result<Vec<Entry>> {
    const BYTES: u64 = 256 * 1024;
    let mut open = std::fs::File::open(file).with_context(|| format!("failed to read {}", file.display()))?;
    let length = open.metadata()?.len();
    open.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
    let mut text = Vec::new();
    open.read_to_end(&mut text)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Ok(entries(&String::from_utf8_lossy(text.get(..whole).unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for line in
            ["1 2 rw insert rw 7 ok a 1", "1 1 rw write r5 rw.1 begun - -", "1 2 look-1 look 50 writable ok a 3"]
        {
            assert_eq!(line.parse::<Entry>().unwrap().to_string(), line);
        }
    }

    #[test]
    fn a_line_that_was_cut_says_nothing() {
        assert_eq!(entries("1 2 rw insert rw 7 ok a 1\n1 2 rw insert rw 8 o").len(), 1);
        let file = tempfile::NamedTempFile::new().unwrap();
        // Its last number may go on.
        std::fs::write(file.path(), "1 2 rw insert rw 7 ok a 1\n3 4 rw insert rw 8 ok a 1").unwrap();
        assert_eq!(read(file.path()).unwrap().len(), 1);
    }
}
