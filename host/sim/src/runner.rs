//! Process 1 of a member: it follows the rules of tokens of `tanist-run` ([`tanist_protocol::token`]) with a store in memory, and answers in frames.
use std::collections::BTreeMap;
use tanist_protocol::frame::Frame;
use tanist_protocol::number;
use tanist_protocol::options as o;
use tanist_protocol::outcome::Outcome;
use tanist_protocol::token::{Answer, Now, Settled, Start, Store, Stored, Turn, position_fits, status_fits};

/// The tokens of a pod, which outlive its container's restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens(BTreeMap<String, Stored>);

impl Tokens {
    /// Stores how a command ended.
    pub fn end(&mut self, frame: &Frame) {
        self.0.insert(frame.token.clone(), Stored::Ended(frame.clone()));
    }
}

impl Store for Tokens {
    fn look_up(&self, token: &str) -> Stored {
        self.0.get(token).cloned().unwrap_or(Stored::Nothing)
    }

    fn has_room(&self) -> Option<bool> {
        Some(true)
    }
}

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

    /// The token of the command; empty if the call names none.
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

/// What process 1 does with a request before anything runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It answers at once.
    Answer(Frame),
    /// The command runs already, and the answer is its result.
    Join,
    /// It starts the command; its token is stored.
    Run,
}

/// Settles a token: what is known of it, and if nothing is, it is void from now on.
pub fn settle(tokens: &mut Tokens, busy: Option<&str>, call: &Call, uid: &str) -> Frame {
    let (token, meant) = (call.token(), call.option(o::UID).unwrap_or_default());
    let answer = match (Now { uid, running: busy, ending: false, store: tokens }).settle(token, meant) {
        Settled::Answer(answer) => answer,
        Settled::MakeVoid => {
            tokens.0.insert(token.to_owned(), Stored::Void);
            Answer::Outcome(Outcome::Void)
        }
    };
    answer.into_frame(token, || 1)
}

/// What a start may depend on, as it is now.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Whether the container is ending.
    pub ending: bool,
    /// The exit code of `status`.
    pub status: u8,
    /// What `sequence` prints.
    pub position: &'a str,
}

/// Whether a command may start.
pub fn accept(tokens: &mut Tokens, busy: Option<&str>, call: &Call, uid: &str, seen: Seen<'_>) -> Reply {
    let (token, meant) = (call.token(), call.option(o::UID).unwrap_or_default());
    let start = Start { token, uid: meant, has_program: !call.command().is_empty(), lacks_status: false };
    match (Now { uid, running: busy, ending: seen.ending, store: tokens }).start(&start) {
        Turn::Answer(answer) => return Reply::Answer(answer.into_frame(token, || 1)),
        Turn::Join => return Reply::Join,
        Turn::Run => {}
    }
    let read = |codes: &str| codes.split(',').map(number).collect::<Option<Vec<u8>>>().unwrap_or_default();
    let codes = call.option(o::IF_STATUS).map(read);
    let status = codes.map_or(Ok(()), |codes| status_fits(&Outcome::Exited(seen.status), &codes));
    let position = |expected: &str| position_fits(&Outcome::Exited(0), seen.position.as_bytes(), false, expected);
    if let Err(unfit) = status.and_then(|()| call.option(o::IF_SEQUENCE).map_or(Ok(()), position)) {
        return Reply::Answer(unfit.into_frame(token, 1));
    }
    // Whenever it is asked for and does not run, its container has ended meanwhile.
    tokens.0.insert(token.to_owned(), Stored::Started { here: false });
    Reply::Run
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_protocol::call::{self, Ask, IfSequence};

    fn call(token: &str, if_status: Option<u8>) -> Call {
        let (argv, sequence) = (["primary".to_owned(), "x".to_owned()], ["sequence".to_owned()]);
        let if_sequence = Some(IfSequence { expected: "h:7", deadline: 10, argv: &sequence });
        let exec = call::Exec {
            token,
            deadline: 60,
            expect: None,
            quiet: true,
            if_status,
            if_sequence,
            env: &[],
            argv: &argv,
        };
        let args = call::Call { container: "db", uid: "u", ask: Ask::Exec(exec) }.to_args();
        Call::read(&args).unwrap_or_else(|| panic!("{args:?}"))
    }

    fn said(reply: Reply) -> String {
        match reply {
            Reply::Answer(frame) => frame.outcome.to_string(),
            other => format!("{other:?}"),
        }
    }

    const SEEN: Seen<'_> = Seen { ending: false, status: 7, position: "h:7" };

    #[test]
    fn a_token_starts_once_and_a_settled_one_never() {
        let mut tokens = Tokens::default();
        assert_eq!(call("t", None).command(), ["primary", "x"]);
        assert_eq!(accept(&mut tokens, None, &call("t", None), "u", SEEN), Reply::Run);
        assert_eq!(accept(&mut tokens, Some("t"), &call("t", None), "u", SEEN), Reply::Join);
        assert_eq!(said(accept(&mut tokens, None, &call("t", None), "u", SEEN)), "interrupted");
        tokens.end(&Frame::bare("t", Outcome::Exited(0), 1));
        assert_eq!(said(accept(&mut tokens, None, &call("t", None), "u", SEEN)), "exited:0");
        assert_eq!(settle(&mut tokens, None, &call("late", None), "u").outcome, Outcome::Void);
        assert_eq!(said(accept(&mut tokens, None, &call("late", None), "u", SEEN)), "not-started:void");
    }

    #[test]
    fn what_changed_before_the_start_is_refused_and_the_token_stays_unused() {
        let mut tokens = Tokens::default();
        let mut refused = |seen| said(accept(&mut tokens, None, &call("t", Some(7)), "u", seen));
        assert_eq!(refused(Seen { status: 0, ..SEEN }), "not-started:role");
        assert_eq!(refused(Seen { position: "h:8", ..SEEN }), "not-started:sequence");
        assert_eq!(refused(Seen { ending: true, ..SEEN }), "not-started:shutting-down");
        assert_eq!(said(accept(&mut tokens, None, &call("t", Some(7)), "other", SEEN)), "not-started:wrong-uid");
        assert_eq!(tokens, Tokens::default());
    }
}
