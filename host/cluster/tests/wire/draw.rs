//! What is drawn from a seed: what is asked, what happens in the container, and how the server tells it.
use super::answers::{self, Told, piece};
use super::dice::Dice;
use super::frames;
use super::printed::{self, Printed, Question};
use super::talk::{Effect, End, Piece, Said, Talk};

/// One question to a member and what the server does with it.
#[derive(Debug, Clone)]
pub struct Case {
    pub seed: u64,
    pub question: Question,
    /// Whether the runner is in the member.
    pub runner: bool,
    pub token: String,
    /// The first execution.
    pub first: Execution,
    /// The settle that follows where a start was refused.
    pub second: Option<Execution>,
}

/// One execution.
#[derive(Debug, Clone)]
pub struct Execution {
    pub talk: Talk,
    pub printed: Printed,
}

impl Case {
    /// The case of a seed.
    pub fn drawn(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let question =
            dice.of(&[Question::Start, Question::Start, Question::Settle, Question::Status, Question::Sequence]);
        let runner = question == Question::Settle || !dice.one_in(3);
        let token = format!("seed-{seed}-n");
        let first = execution(&mut dice, question, runner, &token);
        let second =
            (runner && question == Question::Start).then(|| execution(&mut dice, Question::Settle, true, &token));
        Case { seed, question, runner, token, first, second }
    }

    /// How many faults the executions have, the second one only if it happens.
    pub fn faults(&self) -> Vec<&'static str> {
        [&self.first.talk.faults[..], &self.first.printed.faults].concat()
    }
}

fn execution(dice: &mut Dice, question: Question, runner: bool, token: &str) -> Execution {
    let printed = match runner {
        true => printed::by_runner(dice, question, token),
        false => {
            let (bytes, position) = printed::by_itself(dice, question);
            Printed { answer: Some((bytes.len(), position)), bytes, ..Printed::default() }
        }
    };
    let mut talk = match dice.below(40) {
        0 => Talk { refused: true, faults: vec!["connection refused"], ..Talk::new(Vec::new()) },
        1 => silent(),
        2..=7 => instead(dice),
        8 | 9 => {
            let mut talk = upgraded(dice, runner, &printed);
            let (head, what) = answers::bad_upgrade(dice);
            talk.pieces[0] = head;
            Talk { faults: vec![what], ..Talk::new(talk.pieces) }
        }
        _ => upgraded(dice, runner, &printed),
    };
    end(dice, &mut talk);
    Execution { talk, printed }
}

/// The server ends the connection without a word.
fn silent() -> Talk {
    Talk { faults: vec!["no answer"], ..Talk::new(Vec::new()) }
}

fn instead(dice: &mut Dice) -> Talk {
    let (pieces, what, by_end) = answers::instead(dice);
    let mut faults = vec![what];
    faults.extend(by_end.then_some("no length"));
    Talk { faults, ..Talk::new(pieces) }
}

/// An execution that was upgraded: output, status, and what may be between and after them.
fn upgraded(dice: &mut Dice, runner: bool, printed: &Printed) -> Talk {
    let code = i32::from(printed::code(dice));
    let told = answers::status(dice, code);
    let mut faults = Vec::new();
    let mut said = output(dice, &printed.bytes);
    let status = said_on_status(&told, &mut faults);
    match dice.below(16) {
        0 => faults.push("no status"),
        // Without a runner nothing shows that output is missing (docs/rules.md, "Runner").
        1 if runner && !said.is_empty() => {
            faults.push("status before the end of the output");
            said.insert(dice.below(said.len()), status);
        }
        2 => {
            faults.push("status twice");
            said.extend([status.clone(), status]);
        }
        _ => said.push(status),
    }
    if dice.one_in(6) {
        faults.push("output after the status");
        said.push(stdout(dice, b"late"));
    }
    if dice.one_in(3) {
        faults.push("something between");
        for _ in 0..=dice.below(4) {
            let (what, bytes) = frames::idle(dice);
            said.insert(dice.below(said.len() + 1), piece(what, bytes, Effect::Nothing));
        }
    }
    let broken = match dice.below(12) {
        0 => Some(("close before the end", frames::close(dice))),
        1 => Some(frames::violation(dice)),
        _ => None,
    };
    if let Some((what, bytes)) = broken {
        faults.push(what);
        said.insert(dice.below(said.len() + 1), piece(what, bytes, Effect::Breaks));
    }
    if dice.one_in(2) {
        said.push(piece("close", frames::close(dice), Effect::Breaks));
    }
    let protocol = dice.of(&["v4.channel.k8s.io", "v5.channel.k8s.io"]);
    said.insert(0, answers::upgrade(protocol));
    Talk { faults, ..Talk::new(said) }
}

fn said_on_status(told: &Told, faults: &mut Vec<&'static str>) -> Piece {
    faults.extend(told.is_fault.then_some(told.what));
    piece(told.what, frames::binary(3, &told.bytes), Effect::Ended(told.said))
}

fn stdout(dice: &mut Dice, bytes: &[u8]) -> Piece {
    let effect = if bytes.is_empty() { Effect::Nothing } else { Effect::Stdout(bytes.to_vec()) };
    match dice.one_in(4) {
        true => piece("stdout in fragments", frames::in_fragments(dice, 1, bytes), effect),
        false => piece("stdout", frames::binary(1, bytes), effect),
    }
}

/// The output in messages of any size, with stderr between them.
fn output(dice: &mut Dice, mut bytes: &[u8]) -> Vec<Piece> {
    let mut said = Vec::new();
    let largest = dice.of(&[1 + bytes.len() / 8, 1 + bytes.len() / 2, usize::MAX]);
    while !bytes.is_empty() {
        let (now, later) = bytes.split_at((1 + dice.below(largest.min(bytes.len()))).min(bytes.len()));
        said.push(stdout(dice, now));
        bytes = later;
    }
    if dice.one_in(3) {
        for _ in 0..=dice.below(3) {
            let length = 1 + dice.below(2_000);
            let bytes = frames::binary(2, &vec![b'!'; length]);
            said.insert(dice.below(said.len() + 1), piece("stderr", bytes, Effect::Stderr));
        }
    }
    said
}

/// Where the connection ends, and how.
fn end(dice: &mut Dice, talk: &mut Talk) {
    let all = talk.sent;
    // Without a length only the end of the connection ends a body.
    let needs_close = talk.faults.contains(&"no length");
    talk.step = dice.of(&[usize::MAX, usize::MAX, 1_400, 100, 1 + all / 20]);
    talk.end = match dice.below(8) {
        0 | 1 => End::Reset,
        2 | 3 if !needs_close => End::Silence,
        _ => End::Close,
    };
    if dice.one_in(4) && all > 0 {
        talk.sent = dice.below(all);
        talk.faults.push(match talk.end {
            End::Reset => "reset before the end",
            End::Silence if dice.one_in(5) => {
                talk.end = End::Trickle;
                "a trickle"
            }
            End::Silence => "a stall",
            _ => "end before the end",
        });
    } else if talk.end == End::Reset {
        talk.faults.push("reset at the end");
    }
}

/// A conversation of parts, for tests that tell one.
pub fn told(said: Vec<Piece>) -> Talk {
    Talk::new([vec![answers::upgrade("v5.channel.k8s.io")], said].concat())
}

/// The status of an execution as a piece.
pub fn status(told: &Told) -> Piece {
    said_on_status(told, &mut Vec::new())
}

/// Standard output as a piece.
pub fn out(bytes: &[u8]) -> Piece {
    piece("stdout", frames::binary(1, bytes), Effect::Stdout(bytes.to_vec()))
}

/// What proves nothing.
pub fn unclear(what: &str, status: &str) -> Piece {
    piece(what, frames::binary(3, status.as_bytes()), Effect::Ended(Said::Unclear))
}
