//! Process 1 of a member: it starts each token at most once and answers in frames, as `tanist-run` does.
use std::collections::BTreeMap;
use tanist_protocol::frame::Frame;
use tanist_protocol::options as o;
use tanist_protocol::outcome::Outcome;
use tanist_protocol::why::Word;

/// What is stored of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// It was started, and no end is known.
    Started,
    /// It ended so.
    Ended(Frame),
    /// It must never start.
    Void,
}

/// The tokens of a pod, which outlive its container's restarts.
pub type Tokens = BTreeMap<String, Record>;

/// A question to the runner, read from argv.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    verb: String,
    options: BTreeMap<String, String>,
    argv: Vec<String>,
}

impl Call {
    /// Reads the argv of the runner's client. `None`: it is another program's.
    #[must_use]
    pub fn read(argv: &[String]) -> Option<Call> {
        let mut words = argv.iter().skip(1);
        let verb = words.next()?.clone();
        let mut call = Call { verb, options: BTreeMap::new(), argv: Vec::new() };
        while let Some(word) = words.next() {
            match word.as_str() {
                o::QUIET_STATUS => {}
                o::ARGV => call.argv = words.by_ref().cloned().collect(),
                option => drop(call.options.insert(option.to_owned(), words.next()?.clone())),
            }
        }
        Some(call)
    }

    /// The value of an option.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// The token.
    #[must_use]
    pub fn token(&self) -> &str {
        self.option(o::TOKEN).unwrap_or_default()
    }

    /// Whether it asks for a status.
    #[must_use]
    pub fn is_status(&self) -> bool {
        self.verb == o::STATUS
    }

    /// Whether it asks what became of a token.
    #[must_use]
    pub fn is_settle(&self) -> bool {
        self.verb == o::SETTLE
    }

    /// The command itself, without the `sequence` that goes before it.
    #[must_use]
    pub fn command(&self) -> &[String] {
        let before = self.option(o::SEQUENCE_ARGS).and_then(|n| n.parse().ok()).unwrap_or(0);
        self.argv.get(before..).unwrap_or_default()
    }
}

/// What a runner does with a request, before anything runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It answers at once.
    Answer(Frame),
    /// It starts the command; its token is stored.
    Start,
}

/// Settles a token: what is known of it, and if nothing is, it is void from now on.
pub fn settle(tokens: &mut Tokens, busy: Option<&str>, token: &str) -> Frame {
    if busy == Some(token) {
        return Frame::bare(token, Outcome::Running, 1);
    }
    match tokens.get(token) {
        Some(Record::Ended(frame)) => frame.clone(),
        Some(Record::Started) => Frame::bare(token, Outcome::Interrupted, 1),
        Some(Record::Void) => Frame::bare(token, Outcome::Void, 1),
        None => {
            tokens.insert(token.to_owned(), Record::Void);
            Frame::bare(token, Outcome::Void, 1)
        }
    }
}

/// Whether a command may start. `status`: what the application says now; `position`: what `sequence` prints now.
pub fn accept(tokens: &mut Tokens, busy: Option<&str>, call: &Call, uid: &str, status: u8, position: &str) -> Turn {
    let token = call.token();
    let refuse = |why: Word| Turn::Answer(Frame::bare(token, Outcome::NotStarted(why.into()), 1));
    if call.option(o::UID) != Some(uid) {
        return refuse(Word::WrongUid);
    }
    if tokens.get(token) == Some(&Record::Void) {
        return refuse(Word::Void);
    }
    if busy == Some(token) || tokens.contains_key(token) {
        return Turn::Answer(settle(tokens, busy, token));
    }
    if busy.is_some() {
        return refuse(Word::Busy);
    }
    if call.option(o::IF_STATUS).is_some_and(|code| code != status.to_string()) {
        return refuse(Word::Role);
    }
    if call.option(o::IF_SEQUENCE).is_some_and(|expected| expected != position) {
        return refuse(Word::Sequence);
    }
    tokens.insert(token.to_owned(), Record::Started);
    Turn::Start
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_protocol::call::{self, Ask, IfSequence};

    fn call(token: &str, if_status: Option<u8>) -> Call {
        let (argv, sequence) = (["primary".to_owned(), "x".to_owned()], ["sequence".to_owned()]);
        let if_sequence = Some(IfSequence { expected: "h:7", deadline: 10, argv: &sequence });
        let exec = call::Exec { token, deadline: 60, expect: None, quiet: true, if_status, if_sequence, argv: &argv };
        let args = call::Call { container: "db", uid: "u", ask: Ask::Exec(exec) }.to_args();
        Call::read(&args).unwrap_or_else(|| panic!("{args:?}"))
    }

    fn outcome(turn: Turn) -> Option<String> {
        if let Turn::Answer(frame) = turn { Some(frame.outcome.to_string()) } else { None }
    }

    #[test]
    fn a_token_starts_once_and_a_settled_one_never() {
        let mut tokens = Tokens::new();
        assert_eq!(call("t", None).command(), ["primary", "x"]);
        assert_eq!(accept(&mut tokens, None, &call("t", None), "u", 7, "h:7"), Turn::Start);
        assert_eq!(outcome(accept(&mut tokens, Some("t"), &call("t", None), "u", 7, "h:7")), Some("running".into()));
        assert_eq!(outcome(accept(&mut tokens, None, &call("t", None), "u", 7, "h:7")), Some("interrupted".into()));
        assert_eq!(settle(&mut tokens, None, "late").outcome, Outcome::Void);
        assert_eq!(
            outcome(accept(&mut tokens, None, &call("late", None), "u", 7, "h:7")),
            Some("not-started:void".into())
        );
    }

    #[test]
    fn what_changed_before_the_start_is_refused_and_the_token_stays_unused() {
        let mut tokens = Tokens::new();
        let said = |turn| outcome(turn).unwrap_or_default();
        assert_eq!(said(accept(&mut tokens, None, &call("t", Some(7)), "u", 0, "h:7")), "not-started:role");
        assert_eq!(said(accept(&mut tokens, None, &call("t", Some(7)), "u", 7, "h:8")), "not-started:sequence");
        assert_eq!(said(accept(&mut tokens, None, &call("t", Some(7)), "other", 7, "h:7")), "not-started:wrong-uid");
        assert_eq!(said(accept(&mut tokens, Some("b"), &call("t", Some(7)), "u", 7, "h:7")), "not-started:busy");
        assert!(tokens.is_empty());
    }
}
