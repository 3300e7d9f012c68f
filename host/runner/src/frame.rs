//! The framed result: the only thing a client prints, and what is stored per token.
//!
//! ```text
//! tanist-run/1 TOKEN OUTCOME stdout=N stderr=M cut=0|1 processes=P\n
//! N bytes, M bytes, \n
//! tanist-end TOKEN\n
//! ```
//! Lengths and the end mark make a cut stream visible: a frame is whole or it is nothing. The status that follows a command's frame has ` after=MS` at the
//! end of its first line: how long after the client began it asked. Every status that a client prints has ` features=...` there: what may be asked of
//! this runner that an earlier one did not know, separated by commas. Clients print these words and PID 1 never does: what it stores and sends stays
//! as it was.
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// What the operator may ask of this runner: `if-sequence` is the option of `exec`.
const FEATURES: &str = "features=if-sequence";

/// What is known of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ended by itself; 128+n when signal n, not sent by us, ended it.
    Exited(u8),
    /// This request started nothing, and nothing was ever started for it.
    NotStarted(Cow<'static, str>),
    /// It may have run, or may still run.
    Unknown(Cow<'static, str>),
    /// It runs.
    Running,
    /// It was started by an earlier incarnation and has no end: the container restarted under it.
    Interrupted,
    /// It was never started and never will be.
    Void,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Exited(code) => write!(f, "exited:{code}"),
            Outcome::NotStarted(reason) => write!(f, "not-started:{reason}"),
            Outcome::Unknown(reason) => write!(f, "unknown:{reason}"),
            Outcome::Running => f.write_str("running"),
            Outcome::Interrupted => f.write_str("interrupted"),
            Outcome::Void => f.write_str("void"),
        }
    }
}

impl Outcome {
    fn parse(text: &str) -> Option<Outcome> {
        let (word, detail) = match text.split_once(':') {
            Some((word, detail)) => (word, Some(detail)),
            None => (text, None),
        };
        let reason = |text: &str| {
            let fine = !text.is_empty() && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
            fine.then(|| Cow::Owned(text.to_owned()))
        };
        Some(match (word, detail) {
            ("exited", Some(code)) => Outcome::Exited(number(code)?),
            ("not-started", Some(text)) => Outcome::NotStarted(reason(text)?),
            ("unknown", Some(text)) => Outcome::Unknown(reason(text)?),
            ("running", None) => Outcome::Running,
            ("interrupted", None) => Outcome::Interrupted,
            ("void", None) => Outcome::Void,
            _ => return None,
        })
    }
}

/// One framed result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The token it answers for, `-` where there is none.
    pub token: String,
    /// What is known.
    pub outcome: Outcome,
    /// What was kept of stdout.
    pub stdout: Vec<u8>,
    /// What was kept of stderr.
    pub stderr: Vec<u8>,
    /// Whether more was written than kept, or stdout was still open when reading ended.
    pub cut: bool,
    /// Processes of the container besides PID 1, our clients and the command's own process group.
    pub processes: u32,
}

impl Frame {
    /// A frame without output.
    pub fn bare(token: &str, outcome: Outcome, processes: u32) -> Frame {
        Frame { token: token.to_owned(), outcome, stdout: Vec::new(), stderr: Vec::new(), cut: false, processes }
    }

    /// The bytes as they are printed and stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!(
            "tanist-run/1 {} {} stdout={} stderr={} cut={} processes={}\n",
            self.token,
            self.outcome,
            self.stdout.len(),
            self.stderr.len(),
            u8::from(self.cut),
            self.processes
        )
        .into_bytes();
        bytes.extend_from_slice(&self.stdout);
        bytes.extend_from_slice(&self.stderr);
        bytes.extend_from_slice(format!("\ntanist-end {}\n", self.token).as_bytes());
        bytes
    }

    /// The same with one more word at the end of the first line, which readers that do not know it pass over.
    fn to_bytes_with(&self, word: &str) -> Vec<u8> {
        let bytes = self.to_bytes();
        let head = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
        let (head, rest) = bytes.split_at(head);
        [head, b" ", word.as_bytes(), rest].concat()
    }

    /// The same of a status, with what this runner can do beyond the first.
    pub fn to_bytes_of_status(&self) -> Vec<u8> {
        self.to_bytes_with(FEATURES)
    }

    /// The same of a status that came of a command, with how long after the client began it was asked for. Who asked the client knows so how
    /// old it is at most, however long the answer was under way.
    pub fn to_bytes_after(&self, after: Duration) -> Vec<u8> {
        let bare = Frame { stdout: Vec::new(), stderr: Vec::new(), cut: false, ..self.clone() };
        bare.to_bytes_with(&format!("after={} {FEATURES}", after.as_millis()))
    }

    /// Reads exactly one whole frame; anything less, more or other is `None`.
    pub fn parse(bytes: &[u8]) -> Option<Frame> {
        let newline = bytes.iter().position(|b| *b == b'\n')?;
        let (header, rest) = bytes.split_at_checked(newline)?;
        let body = rest.get(1..)?;
        let mut words = std::str::from_utf8(header).ok()?.split(' ');
        if words.next()? != "tanist-run/1" {
            return None;
        }
        let token = words.next().filter(|token| !token.is_empty())?.to_owned();
        let outcome = Outcome::parse(words.next()?)?;
        let stdout_len: usize = number(words.next()?.strip_prefix("stdout=")?)?;
        let stderr_len: usize = number(words.next()?.strip_prefix("stderr=")?)?;
        let cut = match words.next()?.strip_prefix("cut=")? {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        let processes = number(words.next()?.strip_prefix("processes=")?)?;
        if words.next().is_some() {
            return None;
        }
        let (stdout, rest) = body.split_at_checked(stdout_len)?;
        let (stderr, end) = rest.split_at_checked(stderr_len)?;
        if end != format!("\ntanist-end {token}\n").as_bytes() {
            return None;
        }
        Some(Frame { token, outcome, stdout: stdout.to_vec(), stderr: stderr.to_vec(), cut, processes })
    }
}

/// Digits only: `parse` alone would also take `+7`.
pub fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(outcome: Outcome) -> Frame {
        Frame {
            token: "g1.seed-7".into(),
            outcome,
            stdout: b"one\ntanist-end g1.seed-7\n\xff\0".to_vec(),
            stderr: b"two".to_vec(),
            cut: true,
            processes: 3,
        }
    }

    #[test]
    fn every_outcome_survives_writing_and_reading() {
        for outcome in [
            Outcome::Exited(0),
            Outcome::Exited(255),
            Outcome::NotStarted("busy".into()),
            Outcome::Unknown("deadline".into()),
            Outcome::Running,
            Outcome::Interrupted,
            Outcome::Void,
        ] {
            let frame = sample(outcome);
            assert_eq!(Frame::parse(&frame.to_bytes()), Some(frame));
        }
        let bare = Frame::bare("-", Outcome::Running, 0);
        assert_eq!(bare.to_bytes(), b"tanist-run/1 - running stdout=0 stderr=0 cut=0 processes=0\n\ntanist-end -\n");
        let after =
            Frame { token: "-".into(), ..sample(Outcome::Exited(8)) }.to_bytes_after(Duration::from_micros(41_900));
        assert_eq!(after, b"tanist-run/1 - exited:8 stdout=0 stderr=0 cut=0 processes=3 after=41 features=if-sequence\n\ntanist-end -\n");
    }

    #[test]
    fn a_frame_cut_anywhere_is_no_frame() {
        let bytes = sample(Outcome::Exited(0)).to_bytes();
        for length in 0..bytes.len() {
            assert_eq!(Frame::parse(&bytes[..length]), None, "cut at {length}");
        }
    }

    #[test]
    fn anything_but_the_exact_form_is_refused() {
        let fine = "tanist-run/1 t exited:0 stdout=0 stderr=0 cut=0 processes=0\n\ntanist-end t\n";
        assert!(Frame::parse(fine.as_bytes()).is_some());
        for (from, to) in [
            ("run/1", "run/2"),
            (":0", ":256"),
            (":0", ":+1"),
            (":0", ""),
            ("exited:0", "unknown:"),
            ("exited:0", "unknown:A"),
            ("cut=0", "cut=2"),
            ("stdout=0", "stdout=1"),
            ("processes=0", "processes=0 more=1"),
            ("end t", "end u"),
            ("end t\n", "end t\nx"),
        ] {
            assert_eq!(Frame::parse(fine.replacen(from, to, 1).as_bytes()), None, "{from} -> {to}");
        }
    }
}
