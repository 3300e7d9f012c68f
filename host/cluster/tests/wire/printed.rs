//! What a program in the container prints: frames of the runner, whole and not, and what commands print without one.
use super::dice::Dice;
use std::time::Duration;
use tanist_protocol::frame::{Frame, NO_TOKEN, STDERR_KEPT, STDOUT_KEPT};
use tanist_protocol::outcome::Outcome;
use tanist_protocol::why::Word;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    Start,
    Settle,
    Status,
    Sequence,
}

/// What was printed, and from how many bytes on it tells what.
#[derive(Debug, Clone, Default)]
pub struct Printed {
    pub bytes: Vec<u8>,
    /// The answer, told by so many bytes. Absent: it tells nothing.
    pub answer: Option<(usize, String)>,
    /// The role afterwards, likewise.
    pub after: Option<(usize, String)>,
    /// Whether the runner says that the command exited.
    pub exited: bool,
    /// What is wrong with it. Empty: nothing.
    pub faults: Vec<&'static str>,
}

/// Nothing is known.
pub const UNKNOWN: &str = "unknown";

/// The role that an exit code means.
pub fn role(code: i32) -> &'static str {
    match code {
        0 => "secondary",
        7 => "stopped",
        8 => "primary",
        9 => "failed",
        10 => "starting",
        _ => UNKNOWN,
    }
}

/// Codes with and without a meaning.
pub fn code(dice: &mut Dice) -> u8 {
    match dice.below(3) {
        0 => 0,
        1 => dice.of(&[1, 7, 8, 9, 10, 126, 127, 137, 255]),
        _ => u8::try_from(dice.below(256)).unwrap(),
    }
}

/// What `sequence` prints, and the position that it is.
pub fn position(dice: &mut Dice) -> (Vec<u8>, String) {
    let number = dice.below(1 << 40);
    let (text, position) = match dice.below(6) {
        0 => ("EMPTY\n".to_owned(), "at EMPTY".to_owned()),
        1 => (format!("h:{number}"), format!("at h:{number}")),
        2 | 3 => (format!(" {number}\r\n"), format!("at {number}")),
        4 => (format!("{number}\n{number}\n"), UNKNOWN.into()),
        _ => (dice.of(&["", "\n", "-1", "12x", ":7", "h:"]).to_owned(), UNKNOWN.into()),
    };
    (text.into_bytes(), position)
}

/// What the runner's client prints as the answer to that question about that token.
pub fn by_runner(dice: &mut Dice, question: Question, token: &str) -> Printed {
    let (frame, tells) = frame(dice, question, token);
    let whole = match question {
        Question::Status => frame.to_bytes_of_status(),
        _ => frame.to_bytes(),
    };
    let exited = matches!(frame.outcome, Outcome::Exited(_));
    let mut printed =
        Printed { answer: Some((whole.len(), tells)), bytes: whole.clone(), exited, ..Printed::default() };
    match dice.below(20) {
        0..=10 => {}
        11 => printed.spoil("a frame that is cut", whole[..dice.below(whole.len())].to_vec()),
        12 => {
            let other = format!("{token}0");
            printed.spoil("a frame about another token", Frame { token: other, ..frame }.to_bytes());
        }
        13 => printed.spoil("something before the frame", [b"warning: \n", &*whole].concat()),
        14 => printed.spoil("nothing", Vec::new()),
        15 => {
            // The last line is about another token.
            let end = whole.len() - 2;
            printed.spoil("a frame whose end is another's", [&whole[..end], b"0\n"].concat());
        }
        16 => printed.append("a frame twice", &whole),
        _ => printed.append(
            "something after the frame",
            dice.of(&[&b"tanist-run/1"[..], b"\n", b"\xff\0junk", b"tanist-end -\n"]),
        ),
    }
    if matches!(question, Question::Start | Question::Sequence) && printed.faults.is_empty() && dice.one_in(2) {
        with_status(dice, &mut printed);
    }
    printed
}

impl Printed {
    fn spoil(&mut self, fault: &'static str, bytes: Vec<u8>) {
        *self = Printed { bytes, faults: vec![fault], ..Printed::default() };
    }

    fn append(&mut self, fault: &'static str, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.faults.push(fault);
    }
}

/// The status that follows a command, whole or cut.
fn with_status(dice: &mut Dice, printed: &mut Printed) {
    let code = code(dice);
    let status = Frame::bare(NO_TOKEN, Outcome::Exited(code), 2).to_bytes_after(Duration::from_millis(41));
    match dice.one_in(3) {
        true => printed.append("a status that is cut", &status[..dice.below(status.len())]),
        false => {
            printed.bytes.extend_from_slice(&status);
            let role = role(code.into());
            printed.after = Some((printed.bytes.len(), role.to_owned())).filter(|_| role != UNKNOWN);
        }
    }
}

/// A frame, and what it tells.
fn frame(dice: &mut Dice, question: Question, token: &str) -> (Frame, String) {
    let token = if question == Question::Status { NO_TOKEN } else { token };
    let why = dice.of(Word::ALL);
    let code = code(dice);
    let outcome = match dice.below(10) {
        0 => Outcome::NotStarted(why.into()),
        1 => Outcome::Unknown(why.into()),
        2 => Outcome::Running,
        3 => Outcome::Interrupted,
        4 => Outcome::Void,
        _ => Outcome::Exited(code),
    };
    let mut frame = Frame { stderr: stderr(dice), ..Frame::bare(token, outcome, 2) };
    let mut read = UNKNOWN.to_owned();
    if question == Question::Sequence {
        (frame.stdout, read) = position(dice);
    } else {
        frame.stdout = stdout(dice, token);
    }
    frame.cut = dice.one_in(8);
    let tells = match (question, &frame.outcome) {
        (Question::Status, Outcome::Exited(code)) => role((*code).into()).to_owned(),
        (Question::Sequence, Outcome::Exited(0)) if !frame.cut => read,
        (Question::Status | Question::Sequence, _) | (_, Outcome::Unknown(_)) => UNKNOWN.into(),
        (_, Outcome::Exited(code)) => format!("exited {code}"),
        (_, Outcome::NotStarted(_) | Outcome::Void) => "not started".into(),
        (_, Outcome::Running) => "running".into(),
        (_, Outcome::Interrupted) => "interrupted".into(),
    };
    (frame, tells)
}

/// What a command may print, a frame of its own included.
fn stdout(dice: &mut Dice, token: &str) -> Vec<u8> {
    let small = dice.below(200);
    match dice.below(40) {
        0 => dice.bytes(STDOUT_KEPT),
        1..=9 => Frame::bare(token, Outcome::Exited(0), 0).to_bytes(),
        10..=19 => format!("\ntanist-end {token}\n").into_bytes(),
        20..=29 => dice.bytes(small),
        _ => Vec::new(),
    }
}

fn stderr(dice: &mut Dice) -> Vec<u8> {
    let small = dice.below(50);
    match dice.below(40) {
        0 => vec![b'!'; STDERR_KEPT],
        1..=9 => dice.bytes(small),
        _ => Vec::new(),
    }
}

/// What the program itself prints where there is no runner, and the position that this is if the program exits 0.
pub fn by_itself(dice: &mut Dice, question: Question) -> (Vec<u8>, String) {
    if question == Question::Sequence {
        return position(dice);
    }
    let length = match dice.below(100) {
        0 => dice.below(400_000),
        1..=30 => dice.below(3_000),
        31..=60 => dice.below(30),
        _ => 0,
    };
    (dice.bytes(length), UNKNOWN.into())
}
