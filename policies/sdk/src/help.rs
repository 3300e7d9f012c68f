//! Helper functions for the contract's types.

use std::panic::Location as Caller;

use crate::{
    Answer, Candidate, Care, Delay, Description, Fault, Group, Location, Member, Outcome, Position, Ranking, Remark,
    Remedy, Schema, Sequence, Snapshot, Timestamp, Treatment,
};

/// The host refuses longer reasons.
const REASON: usize = 256;

/// The value of a key in a list of the contract, whose keys are unique.
fn value<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
}

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

impl Group {
    /// A label that the user gave it for policies: without the prefix `policy.tanist.dev/`, or as `spec.labels` names it. `None`: it has none.
    pub fn label(&self, key: &str) -> Option<&str> {
        value(&self.labels, key)
    }

    /// A fact, by a word of `docs/facts.md`. `None`: unknown, which is neither zero nor false.
    pub fn fact(&self, word: &str) -> Option<&str> {
        value(&self.facts, word)
    }
}

impl Member {
    /// A label or annotation that the user gave its pod for policies: without the prefix `policy.tanist.dev/`, or as `spec.labels` names it. `None`: it has
    /// none.
    pub fn label(&self, key: &str) -> Option<&str> {
        value(&self.labels, key)
    }

    /// A fact, by a word of `docs/facts.md`. `None`: unknown, which is neither zero nor false.
    pub fn fact(&self, word: &str) -> Option<&str> {
        value(&self.facts, word)
    }

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

    /// Waits until something changes; the text is cut to 256 bytes.
    pub fn wait(why: impl Into<String>) -> Self {
        Self::Wait(Delay { reason: reason(why), until: None })
    }

    /// Waits until something changes, and at most until that time, which has to be later than the snapshot's `now`; the text is cut to 256 bytes.
    pub fn wait_until(time: Timestamp, why: impl Into<String>) -> Self {
        Self::Wait(Delay { reason: reason(why), until: Some(time) })
    }

    /// Does nothing until an administrator changes something; the text says what, and is cut to 256 bytes.
    pub fn refuse(why: impl Into<String>) -> Self {
        Self::Refuse(reason(why))
    }
}

/// As those of [`Answer`].
impl Care {
    /// Waits until something changes.
    pub fn wait(why: impl Into<String>) -> Self {
        Self::Wait(Delay { reason: reason(why), until: None })
    }

    /// Waits until something changes, and at most until that time.
    pub fn wait_until(time: Timestamp, why: impl Into<String>) -> Self {
        Self::Wait(Delay { reason: reason(why), until: Some(time) })
    }

    /// Does nothing until an administrator changes something.
    pub fn refuse(why: impl Into<String>) -> Self {
        Self::Refuse(reason(why))
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

    /// With the schema of its parameters; see [`crate::schema`].
    #[must_use]
    pub fn with_schema(self, schema: &Schema) -> Self {
        Self { parameters: Some(schema.to_string()), ..self }
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
    /// The outcome in words for users, for instance `exit code 3`.
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

    // P49: `wait`, `wait_until` and `refuse`, with texts that the host accepts.
    #[test]
    fn every_text_for_users_is_cut() {
        let long = || "x".repeat(300);
        for answer in [Answer::wait(long()), Answer::wait_until(9, long()), Answer::refuse(long())] {
            match answer {
                Answer::Wait(Delay { reason, until }) => assert!(reason.len() == 256 && until.is_none_or(|at| at == 9)),
                Answer::Refuse(reason) => assert_eq!(reason.len(), 256),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(Answer::wait_until(9, "soon"), Answer::Wait(Delay { reason: "soon".to_owned(), until: Some(9) }));
        assert_eq!(Care::wait_until(9, "soon"), Care::Wait(Delay { reason: "soon".to_owned(), until: Some(9) }));
        assert_eq!(Care::wait("soon"), Care::Wait(Delay { reason: "soon".to_owned(), until: None }));
        assert_eq!(
            (Answer::refuse("no"), Care::refuse("no")),
            (Answer::Refuse("no".into()), Care::Refuse("no".into()))
        );
    }

    #[test]
    fn a_value_is_found_by_its_whole_key() {
        let pairs = [("zone", "a"), ("zone-of", "b"), ("", "c")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(value(&pairs, "zone-of"), Some("b"));
        assert_eq!((value(&pairs, ""), value(&pairs, "zon")), (Some("c"), None));
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
