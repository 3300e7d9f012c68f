//! The rules of tokens: what process 1 does with a request about one. Each token starts at most once, and one that was settled never starts.
//!
//! Pure: what is stored, what runs, and whether process 1 is ending are inputs. The runner asks with its store on a disk, and the simulator with one in memory,
//! so both follow the same rules.
use crate::frame::{Frame, NO_TOKEN};
use crate::outcome::Outcome;
use crate::why::Word;

/// The longest token in bytes.
pub const TOKEN_BYTES: usize = 128;

/// Whether a text may be a token. `.` and `..` cannot be file names, and [`NO_TOKEN`] means "no token" in a frame.
#[must_use]
pub fn is_valid(token: &str) -> bool {
    !matches!(token, "." | ".." | NO_TOKEN)
        && (1..=TOKEN_BYTES).contains(&token.len())
        && token.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// What is stored of a token that does not run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing: it was never used.
    Nothing,
    /// It ended with this result.
    Ended(Frame),
    /// It must never start.
    Void,
    /// It was started, and no end of it is known. `here`: by this incarnation of process 1, and not by one before a restart of the container.
    Started {
        /// Whether this incarnation started it.
        here: bool,
    },
    /// It was used, but its result is lost.
    Used,
    /// The store cannot be read.
    Unreadable,
}

/// Where process 1 remembers tokens. It outlives restarts of the container.
pub trait Store {
    /// What is stored of a token.
    fn look_up(&self, token: &str) -> Stored;

    /// Whether one more token can be stored. `None`: the store cannot be read, which must not count as "yes".
    fn has_room(&self) -> Option<bool>;
}

/// What holds in process 1 at the moment of a request.
#[derive(Clone, Copy, Debug)]
pub struct Now<'a, S> {
    /// The UID of its pod.
    pub uid: &'a str,
    /// The token of the command that runs. Absent: none runs.
    pub running: Option<&'a str>,
    /// Whether it is ending: then nothing new starts.
    pub ending: bool,
    /// The store in which process 1 remembers tokens.
    pub store: &'a S,
}

/// A request to start a command.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The token of this execution; it starts at most once.
    pub token: &'a str,
    /// The UID of the pod that it is meant for.
    pub uid: &'a str,
    /// Whether there is a program to start.
    pub has_program: bool,
    /// Whether it depends on a status that this container cannot give.
    pub lacks_status: bool,
}

/// What process 1 does with a request to start a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It answers at once, and starts nothing.
    Answer(Answer),
    /// The command of this token runs already: the answer is its result.
    Join,
    /// It looks at what the start depends on, stores the token, and starts the command.
    Run,
}

/// What process 1 does with a request to settle a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It answers at once.
    Answer(Answer),
    /// It stores that the token must never start, and then answers [`Outcome::Void`].
    MakeVoid,
}

/// An answer that starts nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A stored result.
    Ended(Frame),
    /// An outcome without output.
    Outcome(Outcome),
    /// Another command runs, of this token. The token that was asked for stays unused.
    Busy(String),
    /// The request named something that is no token.
    NoToken(Outcome),
}

impl Answer {
    /// The frame of the answer. `processes`: counts them, see [`Frame::processes`]; a stored result has its own count.
    #[must_use]
    pub fn into_frame(self, token: &str, processes: impl FnOnce() -> u32) -> Frame {
        match self {
            Answer::Ended(frame) => frame,
            Answer::Outcome(outcome) => Frame::bare(token, outcome, processes()),
            Answer::NoToken(outcome) => Frame::bare(NO_TOKEN, outcome, processes()),
            Answer::Busy(current) => Frame {
                stderr: format!("busy: {current}\n").into_bytes(),
                ..Frame::bare(token, not_started(Word::Busy), processes())
            },
        }
    }
}

impl<S: Store> Now<'_, S> {
    /// What is done with a request to start a command.
    #[must_use]
    pub fn start(&self, asked: &Start<'_>) -> Turn {
        let refuse = |why| Turn::Answer(Answer::Outcome(not_started(why)));
        if !is_valid(asked.token) {
            return Turn::Answer(Answer::NoToken(not_started(Word::BadToken)));
        }
        if asked.uid != self.uid {
            return refuse(Word::WrongUid);
        }
        // A known token comes first, so that a repeated request gets the same answer whatever else happens.
        if self.running == Some(asked.token) {
            return Turn::Join;
        }
        match self.remembered(asked.token) {
            Some(Answer::Outcome(Outcome::Void)) => return refuse(Word::Void),
            Some(answer) => return Turn::Answer(answer),
            None => {}
        }
        if self.ending {
            return refuse(Word::ShuttingDown);
        }
        match self.store.has_room() {
            Some(true) => {}
            Some(false) => return refuse(Word::TokensFull),
            None => return refuse(Word::Storage),
        }
        if let Some(current) = self.running {
            return Turn::Answer(Answer::Busy(current.to_owned()));
        }
        if !asked.has_program {
            return refuse(Word::EmptyArgv);
        }
        if asked.lacks_status {
            return refuse(Word::NoStatusCommand);
        }
        Turn::Run
    }

    /// What is done with a request to settle a token that was meant for the pod of that UID.
    #[must_use]
    pub fn settle(&self, token: &str, uid: &str) -> Settled {
        let unknown = |why: Word| Outcome::Unknown(why.into());
        if !is_valid(token) {
            return Settled::Answer(Answer::NoToken(unknown(Word::BadToken)));
        }
        // Not `not-started`, because it may have run in the pod that it was meant for.
        if uid != self.uid {
            return Settled::Answer(Answer::Outcome(unknown(Word::WrongUid)));
        }
        if self.running == Some(token) {
            return Settled::Answer(Answer::Outcome(Outcome::Running));
        }
        if let Some(answer) = self.remembered(token) {
            return Settled::Answer(answer);
        }
        // If the store is full, no unknown token can start, so this one is void without being written.
        match self.store.has_room() {
            Some(false) => Settled::Answer(Answer::Outcome(Outcome::Void)),
            Some(true) | None => Settled::MakeVoid,
        }
    }

    /// What is known of a token that does not run now. `None`: it was never used.
    fn remembered(&self, token: &str) -> Option<Answer> {
        let outcome = match self.store.look_up(token) {
            Stored::Nothing => return None,
            Stored::Ended(frame) => return Some(Answer::Ended(frame)),
            Stored::Void => Outcome::Void,
            Stored::Started { here: false } => Outcome::Interrupted,
            // Stored by this incarnation, but not running: storing failed, so the program did not start, but the store does not show that.
            Stored::Started { here: true } | Stored::Unreadable => Outcome::Unknown(Word::Storage.into()),
            Stored::Used => Outcome::Unknown(Word::Forgotten.into()),
        };
        Some(Answer::Outcome(outcome))
    }
}

/// Why something that a start depends on does not hold. The token stays unused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Which condition does not hold, as one word.
    pub why: Word,
    /// What was seen instead, as one line.
    pub seen: String,
}

impl Unfit {
    /// The frame of the refusal.
    #[must_use]
    pub fn into_frame(self, token: &str, processes: u32) -> Frame {
        Frame { stderr: self.seen.into_bytes(), ..Frame::bare(token, not_started(self.why), processes) }
    }
}

/// Whether a status of this moment exits with one of the codes.
///
/// # Errors
/// It does not.
pub fn status_fits(said: &Outcome, codes: &[u8]) -> Result<(), Unfit> {
    let seen = match said {
        Outcome::Exited(code) if codes.contains(code) => return Ok(()),
        Outcome::Exited(code) => format!("status exited {code}\n"),
        Outcome::NotStarted(reason) | Outcome::Unknown(reason) => format!("status unknown: {reason}\n"),
        other => format!("status unknown: {other}\n"),
    };
    Err(Unfit { why: Word::Role, seen })
}

/// Whether a sequence command that ran in this moment printed the position. `cut`: there was more output.
///
/// # Errors
/// It did not.
pub fn position_fits(said: &Outcome, stdout: &[u8], cut: bool, expected: &str) -> Result<(), Unfit> {
    let seen = match said {
        Outcome::Exited(0) if cut => "sequence was cut\n".to_owned(),
        Outcome::Exited(0) if is_position(stdout, expected) => return Ok(()),
        Outcome::Exited(0) => "sequence printed another position\n".to_owned(),
        Outcome::Exited(code) => format!("sequence exited {code}\n"),
        Outcome::NotStarted(reason) | Outcome::Unknown(reason) => format!("sequence unknown: {reason}\n"),
        other => format!("sequence unknown: {other}\n"),
    };
    Err(Unfit { why: Word::Sequence, seen })
}

/// Whether a sequence command printed this position. White space around it and leading zeros do not matter, because positions are numbers.
fn is_position(stdout: &[u8], expected: &str) -> bool {
    fn parts(text: &str) -> (Option<&str>, &str) {
        let (history, number) = text.rsplit_once(':').map_or((None, text), |(history, number)| (Some(history), number));
        // What is no number has no leading zeros: `0EMPTY` is another word than `EMPTY`.
        let bare = if number.bytes().all(|b| b.is_ascii_digit()) { number.trim_start_matches('0') } else { number };
        (history, if bare.is_empty() && !number.is_empty() { "0" } else { bare })
    }
    let found = std::str::from_utf8(stdout).map(|text| text.trim_matches([' ', '\t', '\r', '\n']));
    found.is_ok_and(|found| !found.is_empty() && parts(found) == parts(expected))
}

fn not_started(why: Word) -> Outcome {
    Outcome::NotStarted(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    struct Shelf {
        stored: BTreeMap<&'static str, Stored>,
        room: Option<bool>,
    }

    impl Store for Shelf {
        fn look_up(&self, token: &str) -> Stored {
            self.stored.get(token).cloned().unwrap_or(Stored::Nothing)
        }

        fn has_room(&self) -> Option<bool> {
            self.room
        }
    }

    fn shelf() -> Shelf {
        let ended = Stored::Ended(Frame::bare("ended", Outcome::Exited(3), 1));
        let stored = [
            ("ended", ended),
            ("void", Stored::Void),
            ("before", Stored::Started { here: false }),
            ("here", Stored::Started { here: true }),
            ("old", Stored::Used),
            ("torn", Stored::Unreadable),
        ];
        Shelf { stored: stored.into(), room: Some(true) }
    }

    fn now(store: &Shelf) -> Now<'_, Shelf> {
        Now { uid: "u", running: None, ending: false, store }
    }

    fn asked(token: &str) -> Start<'_> {
        Start { token, uid: "u", has_program: true, lacks_status: false }
    }

    fn said(turn: Turn) -> String {
        match turn {
            Turn::Answer(answer) => answer.into_frame("t", || 1).outcome.to_string(),
            Turn::Join => "join".into(),
            Turn::Run => "run".into(),
        }
    }

    fn settled(now: &Now<'_, Shelf>, token: &str, uid: &str) -> String {
        match now.settle(token, uid) {
            Settled::Answer(answer) => answer.into_frame(token, || 1).outcome.to_string(),
            Settled::MakeVoid => "make void".into(),
        }
    }

    // S1: whatever is stored of a token, a second request starts nothing.
    #[test]
    fn a_token_starts_once() {
        let shelf = shelf();
        let now = now(&shelf);
        assert_eq!(said(now.start(&asked("new"))), "run");
        assert_eq!(said(Now { running: Some("new"), ..now }.start(&asked("new"))), "join");
        for (token, answer) in [
            ("ended", "exited:3"),
            ("void", "not-started:void"),
            ("before", "interrupted"),
            ("here", "unknown:storage"),
            ("old", "unknown:forgotten"),
            ("torn", "unknown:storage"),
        ] {
            assert_eq!(said(now.start(&asked(token))), answer, "{token}");
        }
    }

    // A repeated request gets the same answer whatever else happens; a new one is refused, and its token stays unused.
    #[test]
    fn what_is_known_comes_first_and_what_is_new_waits() {
        let shelf = shelf();
        let busy = Now { running: Some("other"), ..now(&shelf) };
        assert_eq!(said(busy.start(&asked("ended"))), "exited:3");
        assert_eq!(said(busy.start(&asked("new"))), "not-started:busy");
        let ending = Now { ending: true, ..now(&shelf) };
        assert_eq!(said(ending.start(&asked("ended"))), "exited:3");
        assert_eq!(said(ending.start(&asked("new"))), "not-started:shutting-down");
        for (room, answer) in [(Some(false), "not-started:tokens-full"), (None, "not-started:storage")] {
            let full = Shelf { room, ..self::shelf() };
            assert_eq!(said(now(&full).start(&asked("ended"))), "exited:3");
            assert_eq!(said(now(&full).start(&asked("new"))), answer);
        }
    }

    #[test]
    fn a_request_that_cannot_be_carried_out_is_refused() {
        let shelf = shelf();
        let now = now(&shelf);
        assert_eq!(said(now.start(&Start { uid: "another", ..asked("new") })), "not-started:wrong-uid");
        assert_eq!(said(now.start(&Start { uid: "another", ..asked("ended") })), "not-started:wrong-uid");
        assert_eq!(said(now.start(&Start { has_program: false, ..asked("new") })), "not-started:empty-argv");
        assert_eq!(said(now.start(&Start { lacks_status: true, ..asked("new") })), "not-started:no-status-command");
        let long = "t".repeat(TOKEN_BYTES + 1);
        for token in ["", ".", "..", "-", "a/b", "a b", "ä", "a\n", &long] {
            assert_eq!(said(now.start(&asked(token))), "not-started:bad-token", "{token:?}");
            assert_eq!(settled(&now, token, "u"), "unknown:bad-token", "{token:?}");
        }
        for fine in ["a", "A.b_c-9", "-rf", "...", &"t".repeat(TOKEN_BYTES)] {
            assert!(is_valid(fine), "{fine}");
        }
    }

    // S1: what was never started is void from then on; what may have run in another pod is unknown.
    #[test]
    fn to_settle_forbids_what_was_never_started() {
        let shelf = shelf();
        let now = now(&shelf);
        assert_eq!(settled(&now, "new", "u"), "make void");
        assert_eq!(settled(&now, "new", "another"), "unknown:wrong-uid");
        assert_eq!(settled(&now, "ended", "u"), "exited:3");
        assert_eq!(settled(&now, "before", "u"), "interrupted");
        assert_eq!(settled(&now, "torn", "u"), "unknown:storage");
        assert_eq!(settled(&Now { running: Some("new"), ..now }, "new", "u"), "running");
        let full = Shelf { room: Some(false), ..self::shelf() };
        assert_eq!(settled(&self::now(&full), "new", "u"), "void", "none that is not stored can start");
        let unread = Shelf { room: None, ..self::shelf() };
        assert_eq!(settled(&self::now(&unread), "new", "u"), "make void", "storing it shows whether it can be");
    }

    // S12, S13: what a start depends on is looked at in its moment; anything else than a yes is a no.
    #[test]
    fn a_start_depends_on_status_and_position() {
        let said = |outcome, codes: &[u8]| status_fits(&outcome, codes).map_err(|unfit| unfit.seen);
        assert_eq!(said(Outcome::Exited(7), &[0, 7]), Ok(()));
        assert_eq!(said(Outcome::Exited(8), &[0, 7]), Err("status exited 8\n".into()));
        assert_eq!(said(Outcome::Unknown(Word::Deadline.into()), &[7]), Err("status unknown: deadline\n".into()));
        assert_eq!(said(Outcome::Void, &[7]), Err("status unknown: void\n".into()));
        let fits = |code, text: &str, cut, expected| {
            position_fits(&Outcome::Exited(code), text.as_bytes(), cut, expected).map_err(|unfit| unfit.seen)
        };
        for (text, expected) in [
            ("h:7\n", "h:7"),
            (" 007 \r\n", "7"),
            ("000", "0"),
            ("h:0", "h:000"),
            ("EMPTY\n", "EMPTY"),
            ("a:b:07", "a:b:7"),
        ] {
            assert_eq!(fits(0, text, false, expected), Ok(()), "{text:?}");
        }
        for (text, expected) in [
            ("h:7", "g:7"),
            ("h:7", "7"),
            ("7", "h:7"),
            ("70", "7"),
            ("", "0"),
            ("\n", "EMPTY"),
            ("EMPTY", "0"),
            ("0EMPTY", "EMPTY"),
            ("h:", "h:0"),
            ("7 7", "7"),
        ] {
            assert_eq!(fits(0, text, false, expected), Err("sequence printed another position\n".into()), "{text:?}");
        }
        assert_eq!(fits(0, "7", true, "7"), Err("sequence was cut\n".into()));
        assert_eq!(fits(1, "7", false, "7"), Err("sequence exited 1\n".into()));
        let unknown = Outcome::Unknown(Word::Deadline.into());
        let seen = position_fits(&unknown, b"7", false, "7").map_err(|unfit| (unfit.why, unfit.seen));
        assert_eq!(seen, Err((Word::Sequence, "sequence unknown: deadline\n".into())));
    }

    #[test]
    fn who_is_refused_learns_what_runs() {
        let frame = Answer::Busy("other".into()).into_frame("t", || 4);
        assert_eq!((frame.token.as_str(), frame.processes), ("t", 4));
        assert_eq!(frame.stderr, b"busy: other\n");
        let frame = Unfit { why: Word::Role, seen: "status exited 8\n".into() }.into_frame("t", 4);
        assert_eq!(
            (frame.outcome, frame.stderr),
            (Outcome::NotStarted(Word::Role.into()), b"status exited 8\n".to_vec())
        );
    }
}
