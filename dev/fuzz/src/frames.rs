//! What operator and runner say to each other, in both directions.
use crate::sentence;
use arbitrary::{Result, Unstructured};
use tanist_core::contract::Position;
use tanist_core::evidence::{self, Ended, Output, Told};
use tanist_core::freshness::StatusAnswer;
use tanist_protocol::call::{Ask, Call, Exec, Expect, IfSequence};
use tanist_protocol::frame::{Frame, NO_TOKEN};
use tanist_protocol::outcome::Outcome;
use tanist_protocol::printed::Printed;
use tanist_protocol::why::Why;
use tanist_protocol::{options, token};

/// Bytes of what a frame's reason may add to a text: it is cut where it is shown.
const SAID: usize = 1 << 10;

/// The bytes as what a client printed, and as values of which a frame and a call are made.
pub fn run(bytes: &[u8]) {
    printed(bytes);
    let mut values = Unstructured::new(bytes);
    if let Ok(frame) = frame(&mut values) {
        written(&frame);
    }
    if let Ok(words) = values.arbitrary::<Vec<String>>() {
        listed(&words);
        called(&words);
    }
}

/// The first word of a frame names its token: read as a frame about that one, and as one about none.
fn printed(bytes: &[u8]) {
    let named =
        bytes.split(|byte| matches!(byte, b' ' | b'\n')).nth(1).and_then(|token| std::str::from_utf8(token).ok());
    for token in [named.unwrap_or("t"), NO_TOKEN] {
        if let Some((first, status)) = Printed::read_with_status(bytes, token) {
            assert!(first.stdout.len() <= bytes.len());
            assert!(status.is_none_or(|status| status.stdout.len() <= bytes.len()));
        }
        proven(bytes, token);
    }
    if let Some(frame) = Frame::parse(bytes) {
        assert_eq!(frame.to_bytes(), bytes, "what is read is not what is written");
        let printed = Printed::read(bytes, &frame.token);
        let seen = printed.map(|p| (p.outcome, p.stdout, p.cut, p.processes, p.running));
        let own = (frame.outcome, frame.stdout, frame.cut, Some(frame.processes), frame.running);
        assert_eq!(seen, Some(own), "runner and operator read different things");
    }
}

/// What the core concludes of the bytes is short, whatever they say.
fn proven(bytes: &[u8], token: &str) {
    let ended = || Ended::Exited(0, Output { stdout: bytes.to_vec(), cut: false });
    let told = Told::ByRunner(token);
    let answer = |answer: &StatusAnswer| answer.detail.iter().for_each(|detail| sentence::check(detail, SAID, bytes));
    answer(&evidence::status(ended(), told));
    let (position, after) = evidence::sequence(ended(), told);
    if let Position::Unknown(why) = &position {
        sentence::check(why, SAID, bytes);
    }
    after.iter().for_each(answer);
    drop(evidence::started(ended(), told));
    drop(evidence::settled(ended(), token));
}

/// A frame that is written is read back, and no part of it is taken for all of it.
fn written(frame: &Frame) {
    let bytes = frame.to_bytes();
    assert_eq!(Frame::parse(&bytes).as_ref(), Some(frame), "it is not read back");
    for end in (0..bytes.len()).step_by(1 + bytes.len() / 64) {
        let part = bytes.get(..end).unwrap_or_default();
        assert!(Printed::read(part, &frame.token).is_none(), "{end} of {} bytes count as all", bytes.len());
    }
    let status = Frame { token: NO_TOKEN.to_owned(), ..frame.clone() }.to_bytes_of_status();
    let both = [bytes, status].concat();
    let read =
        Printed::read_with_status(&both, &frame.token).and_then(|(first, status)| Some((first.stdout, status?.stdout)));
    assert_eq!(read, Some((frame.stdout.clone(), frame.stdout.clone())), "the status that follows is not read");
}

/// Words are read back, but for what their form cannot hold: a carriage return at the end of a word, and an empty word at the end of all.
fn listed(words: &[String]) {
    if words.iter().any(|word| word.ends_with('\r')) || words.last().is_some_and(String::is_empty) {
        return;
    }
    let lines = options::lines(words.iter().map(String::as_str));
    assert_eq!(options::words(&lines).collect::<Vec<_>>(), words);
}

/// The command stands at the end of the call, after everything else, as it is.
fn called(words: &[String]) {
    let (before, argv) = words.split_at(words.len() / 2);
    let expected = words.first().map_or("EMPTY", String::as_str);
    let if_sequence = (!before.is_empty()).then_some(IfSequence { expected, deadline: 10, argv: before });
    let exec = Exec {
        token: "t",
        deadline: 60,
        expect: Some(Expect::Running),
        quiet: false,
        if_status: Some(7),
        if_sequence,
        env: before,
        argv,
    };
    let args = Call { container: "db", uid: "u", ask: Ask::Exec(exec) }.to_args();
    assert!(args.ends_with(argv));
    let asked =
        args.iter().position(|word| word == options::ARGV).and_then(|at| args.get(at + 1..)).map(<[String]>::len);
    let is_early = expected == options::ARGV || before.iter().any(|word| word == options::ARGV);
    assert!(is_early || asked == Some(before.len() + argv.len()), "{args:?}");
}

/// A frame as process 1 writes it.
fn frame(values: &mut Unstructured<'_>) -> Result<Frame> {
    let word = |values: &mut Unstructured<'_>| Ok::<_, arbitrary::Error>(format!("t{}", values.arbitrary::<u16>()?));
    let why = Why::said(if values.arbitrary()? { "busy" } else { "no-such-word-1" });
    let outcome = match values.int_in_range(0..=5)? {
        0 => Outcome::Exited(values.arbitrary()?),
        1 => Outcome::NotStarted(why),
        2 => Outcome::Unknown(why),
        3 => Outcome::Running,
        4 => Outcome::Interrupted,
        _ => Outcome::Void,
    };
    let frame = Frame {
        token: word(values)?,
        outcome,
        stdout: values.arbitrary()?,
        stderr: values.arbitrary()?,
        cut: values.arbitrary()?,
        processes: values.arbitrary()?,
        running: if values.arbitrary()? { Some(word(values)?) } else { None },
    };
    assert!(token::is_valid(&frame.token));
    Ok(frame)
}
