//! Reads the frames that `tanist-run` prints. Lengths and an end mark show when output was cut (docs/safety.md, S12).
use std::fmt;
use std::time::Duration;
use tanist_core::snapshot::Evidence;

/// A complete frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// How the command ended, as the runner knows it.
    pub outcome: Outcome,
    /// The standard output of the command.
    pub stdout: Vec<u8>,
    /// Whether the command printed more than the runner stored.
    pub cut: bool,
    /// The number of processes of the application. Absent: the runner did not count them.
    pub processes: Option<u32>,
    /// How long after the start of the runner's client this `status` was begun. Present only in a status that follows a command; older runners
    /// leave it out.
    pub after: Option<Duration>,
    /// Whether `exec` of this runner knows `--if-sequence`. Only a status says so; older runners do not.
    pub looks: bool,
}

/// How a command ended, as the runner reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It exited with this code.
    Exited(i32),
    /// It was not started; the text says why.
    NotStarted(String),
    /// Its end is not known; the text says why.
    Unknown(String),
    /// It is still running.
    Running,
    /// A restart of the container cut it off.
    Interrupted,
    /// It never ran and never will.
    Void,
}

/// A clause for messages, for instance "it exited 1".
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Exited(code) => write!(f, "it exited {code}"),
            Outcome::NotStarted(why) => write!(f, "it was not started: {why}"),
            Outcome::Unknown(why) => write!(f, "its end is not known: {why}"),
            Outcome::Running => f.write_str("it is running"),
            Outcome::Interrupted => f.write_str("a restart of the container interrupted it"),
            Outcome::Void => f.write_str("it never ran"),
        }
    }
}

/// The word among a runner's features that [`Frame::looks`] is about.
const IF_SEQUENCE: &str = "if-sequence";

/// Reads a frame about a token. `None`: it is incomplete, or about another token.
#[must_use]
pub fn read(bytes: &[u8], token: &str) -> Option<Frame> {
    first(bytes, token).map(|(frame, _)| frame)
}

/// Reads a frame about a token, and the status frame that may follow it, if that is complete.
#[must_use]
pub fn read_with_status(bytes: &[u8], token: &str) -> Option<(Frame, Option<Frame>)> {
    let (frame, rest) = first(bytes, token)?;
    Some((frame, read(rest, "-")))
}

fn first<'b>(bytes: &'b [u8], token: &str) -> Option<(Frame, &'b [u8])> {
    let end = bytes.iter().position(|b| *b == b'\n')?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut words = head.split(' ');
    if words.next()? != "tanist-run/1" || words.next()? != token {
        return None;
    }
    let outcome = outcome(words.next()?)?;
    let (mut out, mut err, mut cut, mut processes, mut after) = (0_usize, 0_usize, false, None, None);
    let mut looks = false;
    for word in words {
        let (key, value) = word.split_once('=')?;
        match key {
            "stdout" => out = value.parse().ok()?,
            "stderr" => err = value.parse().ok()?,
            "cut" => cut = value != "0",
            "processes" => processes = value.parse().ok(),
            "after" => after = value.parse().ok().map(Duration::from_millis),
            "features" => looks = value.split(',').any(|feature| feature == IF_SEQUENCE),
            // A field of a newer runner.
            _ => {}
        }
    }
    let body = end.checked_add(1)?;
    let stdout_end = body.checked_add(out)?;
    let stdout = bytes.get(body..stdout_end)?.to_vec();
    let rest = bytes.get(stdout_end.checked_add(err)?..)?;
    let mark = format!("\ntanist-end {token}\n");
    let rest = rest.strip_prefix(mark.as_bytes())?;
    Some((Frame { outcome, stdout, cut, processes, after, looks }, rest))
}

fn outcome(word: &str) -> Option<Outcome> {
    let (kind, rest) = word.split_once(':').unwrap_or((word, ""));
    Some(match kind {
        "exited" => Outcome::Exited(rest.parse().ok()?),
        "not-started" => Outcome::NotStarted(rest.to_owned()),
        "unknown" => Outcome::Unknown(rest.to_owned()),
        "running" => Outcome::Running,
        "interrupted" => Outcome::Interrupted,
        "void" => Outcome::Void,
        _ => return None,
    })
}

impl From<&Outcome> for Evidence {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Exited(code) => Evidence::Exited(*code),
            Outcome::NotStarted(why) => Evidence::NotStarted(why.clone()),
            Outcome::Void => Evidence::NotStarted("void".into()),
            Outcome::Unknown(why) => Evidence::Unknown(why.clone()),
            Outcome::Running => Evidence::Running,
            Outcome::Interrupted => Evidence::Interrupted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[u8] = b"tanist-run/1 t1 exited:0 stdout=8 stderr=2 cut=0 processes=3\n1234567\nno\ntanist-end t1\n";

    #[test]
    fn a_whole_frame_is_read() {
        let frame = read(WHOLE, "t1").unwrap();
        assert_eq!(
            (frame.outcome, frame.stdout.as_slice(), frame.processes),
            (Outcome::Exited(0), b"1234567\n".as_slice(), Some(3))
        );
    }

    // S4: the status after a command comes in the same answer. An incomplete one does not spoil the command's result.
    #[test]
    fn a_status_may_follow() {
        let status: &[u8] = b"tanist-run/1 - exited:8 stdout=0 stderr=0 cut=0 processes=2 after=41\n\ntanist-end -\n";
        let both = [WHOLE, status].concat();
        let (frame, after) = read_with_status(&both, "t1").unwrap();
        let after = after.unwrap();
        assert_eq!((frame.outcome, frame.after), (Outcome::Exited(0), None));
        assert_eq!((after.outcome, after.after), (Outcome::Exited(8), Some(Duration::from_millis(41))));
        for length in WHOLE.len()..both.len() {
            assert_eq!(read_with_status(&both[..length], "t1").unwrap().1, None, "cut at {length}");
        }
    }

    // Decision 0013: older and newer runners are understood: unknown features and fields are skipped.
    #[test]
    fn features_are_read_and_unknown_words_passed_over() {
        let looks = |words: &str| {
            let bytes = format!("tanist-run/1 - exited:8 stdout=0 stderr=0 cut=0 processes=2{words}\n\ntanist-end -\n");
            read(bytes.as_bytes(), "-").map(|frame| (frame.outcome, frame.looks))
        };
        for (words, known) in [
            ("", false),
            (" features=if-sequence", true),
            (" features=a,if-sequence,b new=1", true),
            (" features=if-sequences", false),
        ] {
            assert_eq!(looks(words), Some((Outcome::Exited(8), known)), "{words}");
        }
    }

    // S3, S12: a frame that is cut at any byte is not read, so it never gives a shorter number.
    #[test]
    fn a_frame_cut_at_any_byte_is_none() {
        for length in 0..WHOLE.len() {
            assert_eq!(read(&WHOLE[..length], "t1"), None, "cut at {length}");
        }
        assert_eq!(read(WHOLE, "t2"), None);
    }
}
