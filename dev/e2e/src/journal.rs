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
    /// The arguments that the command was given.
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

/// A stretch of time in which every answer of a member's `status` was "primary". Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead {
    /// The member's ordinal.
    pub ordinal: u32,
    /// When the first of these answers was asked for.
    pub from: u64,
    /// When the last of them was asked for.
    pub to: u64,
}

/// Who was primary and when, by executions of `status`. One that was killed gave no answer, and says nothing.
#[must_use]
pub fn leads(polls: &[Execution]) -> Vec<Lead> {
    const PRIMARY: i32 = 8;
    let mut polls: Vec<_> = polls.iter().filter(|p| p.command == "status" && p.code.is_some()).collect();
    polls.sort_by_key(|p| (p.ordinal, p.began));
    let mut found: Vec<Lead> = Vec::new();
    let mut open = None;
    for poll in polls {
        if poll.code != Some(PRIMARY) {
            open = None;
            continue;
        }
        match found.last_mut().filter(|lead| open == Some(lead.ordinal) && lead.ordinal == poll.ordinal) {
            Some(lead) => lead.to = poll.began,
            None => found.push(Lead { ordinal: poll.ordinal, from: poll.began, to: poll.began }),
        }
        open = Some(poll.ordinal);
    }
    found
}

/// Two members that were primary at the same time.
#[must_use]
pub fn two_at_once(leads: &[Lead]) -> Option<(Lead, Lead)> {
    let pairs = leads
        .iter()
        .enumerate()
        .flat_map(|(at, one)| leads.iter().skip(at.saturating_add(1)).map(move |other| (*one, *other)));
    pairs.into_iter().find(|(one, other)| one.ordinal != other.ordinal && one.from <= other.to && other.from <= one.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(ordinal: u32, began: u64, code: Option<i32>) -> Execution {
        Execution {
            ordinal,
            command: "status".into(),
            arguments: Vec::new(),
            began,
            ended: code.map(|_| began + 1),
            code,
        }
    }

    #[test]
    fn a_lead_ends_with_another_answer_and_not_with_none() {
        let polls = [(0, 1, Some(8)), (0, 3, None), (0, 5, Some(8)), (0, 7, Some(7)), (0, 9, Some(8)), (1, 6, Some(0))];
        let polls: Vec<_> = polls.into_iter().map(|(ordinal, began, code)| poll(ordinal, began, code)).collect();
        assert_eq!(leads(&polls), [Lead { ordinal: 0, from: 1, to: 5 }, Lead { ordinal: 0, from: 9, to: 9 }]);
    }

    #[test]
    fn two_primaries_at_once_are_found() {
        let polls =
            |second: u64| [poll(0, 1, Some(8)), poll(0, 5, Some(8)), poll(0, 6, Some(7)), poll(1, second, Some(8))];
        assert_eq!(two_at_once(&leads(&polls(7))), None);
        let both = two_at_once(&leads(&polls(4)));
        assert_eq!(both.map(|(one, other)| (one.ordinal, other.ordinal)), Some((0, 1)));
    }
}
