//! The framed result: the only thing a client prints, and what is stored per token.
//!
//! ```text
//! tanist-run/1 TOKEN OUTCOME stdout=N stderr=M cut=0|1 processes=P\n
//! N bytes, M bytes, \n
//! tanist-end TOKEN\n
//! ```
//! Lengths and the end mark show when a stream was cut: only a complete frame counts. The status that follows a command's frame has ` after=MS` at the
//! end of its first line: the milliseconds from the start of the client to the request for the status. Every status that a client prints has
//! ` features=...` there: options that this runner knows and earlier ones did not, separated by commas. Only clients print these words; what PID 1
//! stores and sends has the old form.
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// What this runner can do beyond the first version: `if-sequence` is an option of `exec`.
const FEATURES: &str = "features=if-sequence";

/// What is known of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ended by itself with this code; 128+n if signal n ended it that this process did not send.
    Exited(u8),
    /// This request did not start it.
    NotStarted(Cow<'static, str>),
    /// It may have run, or may still run.
    Unknown(Cow<'static, str>),
    /// It is running.
    Running,
    /// An earlier incarnation started it, and the container restarted before it ended.
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
    /// The token that it is about; `-` if there is none.
    pub token: String,
    /// What is known of the command.
    pub outcome: Outcome,
    /// The beginning of stdout.
    pub stdout: Vec<u8>,
    /// The beginning of stderr.
    pub stderr: Vec<u8>,
    /// Whether there was more output, or stdout was still open when reading ended.
    pub cut: bool,
    /// The number of processes in the container besides PID 1, its clients and the command's own process group.
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

    /// The same with one more word at the end of the first line; readers that do not know the word ignore it.
    fn to_bytes_with(&self, word: &str) -> Vec<u8> {
        let bytes = self.to_bytes();
        let head = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
        let (head, rest) = bytes.split_at(head);
        [head, b" ", word.as_bytes(), rest].concat()
    }

    /// The bytes of a status that a client prints, with this runner's features.
    pub fn to_bytes_of_status(&self) -> Vec<u8> {
        self.to_bytes_with(FEATURES)
    }

    /// The bytes of the status after a command, with the time from the start of the client to the request. From that the operator knows how old
    /// the status is at most, however long the answer takes.
    pub fn to_bytes_after(&self, after: Duration) -> Vec<u8> {
        let bare = Frame { stdout: Vec::new(), stderr: Vec::new(), cut: false, ..self.clone() };
        bare.to_bytes_with(&format!("after={} {FEATURES}", after.as_millis()))
    }

    /// Reads exactly one complete frame; anything else is `None`.
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

/// Parses a number of digits only; `parse` alone would also accept `+7`.
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
