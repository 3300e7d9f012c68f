//! Helper functions for the contract's types.

use std::panic::Location as Caller;

use crate::{
    Answer, Candidate, Delay, Description, Fault, Location, Member, Outcome, Position, Ranking, Remark, Remedy,
    Sequence, Snapshot, Treatment,
};

/// The host refuses longer reasons.
const REASON: usize = 256;

/// Cuts a text to what the host accepts as a reason, at the end of a character.
fn reason(text: impl Into<String>) -> String {
    let mut text = text.into();
    if text.len() > REASON {
        let mut end = REASON - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Snapshot {
    /// The members that may be chosen.
    pub fn eligible(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.barred.is_none())
    }
}

impl Member {
    /// Its sequence, if known.
    pub fn sequence(&self) -> Option<&Sequence> {
        match &self.position {
            Position::Known(sequence) => Some(sequence),
            Position::Empty | Position::Unknown(_) | Position::NotAsked => None,
        }
    }

    /// The number of its sequence, if known.
    pub fn number(&self) -> Option<u64> {
        self.sequence().map(|sequence| sequence.number)
    }
}

impl Answer {
    /// Chooses these members, best first; waits if there are none.
    pub fn rank(candidates: impl IntoIterator<Item = Candidate>) -> Self {
        Self::rank_over(candidates, [])
    }

    /// Chooses these members, best first, with the reasons against the others; waits if there are none to choose.
    pub fn rank_over(
        candidates: impl IntoIterator<Item = Candidate>,
        passed_over: impl IntoIterator<Item = Remark>,
    ) -> Self {
        let candidates: Vec<_> = candidates.into_iter().collect();
        if candidates.is_empty() {
            return Self::wait("no member may be chosen");
        }
        Self::Choose(Ranking { candidates, passed_over: passed_over.into_iter().collect() })
    }

    /// Waits until something changes.
    pub fn wait(why: impl Into<String>) -> Self {
        Self::Wait(Delay { reason: reason(why), until: None })
    }
}

impl Candidate {
    /// A member, and why it is chosen; the text is cut to 256 bytes.
    pub fn new(member: &Member, why: impl Into<String>) -> Self {
        Self { member: member.name.clone(), reason: reason(why), source: None }
    }
}

impl Remark {
    /// A member, and why it is not chosen; the text is cut to 256 bytes.
    pub fn new(member: &Member, why: impl Into<String>) -> Self {
        Self { member: member.name.clone(), reason: reason(why) }
    }
}

impl Treatment {
    /// A member, what is done with it, and why; the text is cut to 256 bytes.
    pub fn new(member: &Member, remedy: Remedy, why: impl Into<String>) -> Self {
        Self { member: member.name.clone(), remedy, reason: reason(why) }
    }
}

impl Description {
    /// A policy without parameters.
    pub fn new(name: &str, version: &str, summary: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            summary: summary.to_owned(),
            parameters: None,
            declares: Vec::new(),
        }
    }

    /// With the JSON Schema of its parameters; which of its words are understood is said in `wit/policy.wit`.
    #[must_use]
    pub fn with_parameters(self, schema: &str) -> Self {
        Self { parameters: Some(schema.to_owned()), ..self }
    }
}

impl Fault {
    /// A fault at the place where it is made.
    #[track_caller]
    pub fn new(message: impl Into<String>) -> Self {
        let caller = Caller::caller();
        let location = Location { file: caller.file().to_owned(), line: caller.line(), column: caller.column() };
        Self { message: message.into(), location: Some(location) }
    }
}

impl From<&str> for Fault {
    #[track_caller]
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<String> for Fault {
    #[track_caller]
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

/// `exit code 3`, `not started`, `outcome unknown`.
impl Outcome {
    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Self::Exited(code) => format!("exit code {code}"),
            Self::NotStarted => "not started".to_owned(),
            Self::Unknown => "outcome unknown".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reasons_are_cut_at_the_end_of_a_character() {
        assert_eq!(reason("short"), "short");
        assert_eq!(reason("x".repeat(256)).len(), 256);
        let cut = reason("é".repeat(200));
        assert!(cut.len() <= 256 && cut.ends_with('…') && cut.starts_with("éé"), "{cut}");
    }

    #[test]
    fn without_a_member_to_choose_it_waits() {
        assert!(matches!(Answer::rank([]), Answer::Wait(_)));
    }

    #[test]
    fn a_fault_says_where_it_was_made() {
        let fault = Fault::new("no");
        assert!(fault.location.is_some_and(|location| location.file.ends_with("help.rs") && location.line > 0));
    }
}
