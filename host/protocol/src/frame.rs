//! The framed result: the only thing that a client prints, and what is stored per token.
//!
//! ```text
//! tanist-run/1 TOKEN OUTCOME stdout=N stderr=M cut=0|1 processes=P\n
//! N bytes, M bytes, \n
//! tanist-end TOKEN\n
//! ```
//! Lengths and the end mark show when a stream was cut: only a complete frame counts.
use crate::outcome::Outcome;
use crate::parts::{self, Parts};
use crate::why::Why;

/// The first word of a frame.
pub(crate) const VERSION: &str = "tanist-run/1";

/// The first word of the last line of a frame.
pub(crate) const END: &str = "tanist-end";

/// In place of a token in a frame that is about none, for instance a status. No token has this form.
pub const NO_TOKEN: &str = "-";

/// Bytes of a command's stdout in its frame; the rest is read and dropped. Normal answers are one line; the room is for error messages.
pub const STDOUT_KEPT: usize = 64 * 1024;

/// Bytes of a command's stderr in its frame.
pub const STDERR_KEPT: usize = 16 * 1024;

/// One framed result, in the form that process 1 stores and sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The token that it is about, one word; [`NO_TOKEN`] if there is none.
    pub token: String,
    /// What is known of the command.
    pub outcome: Outcome,
    /// The beginning of stdout, at most [`STDOUT_KEPT`] bytes.
    pub stdout: Vec<u8>,
    /// The beginning of stderr, at most [`STDERR_KEPT`] bytes.
    pub stderr: Vec<u8>,
    /// Whether there was more output, or stdout was still open when reading ended.
    pub cut: bool,
    /// The number of processes in the container besides PID 1, its clients and the command's own process group.
    pub processes: u32,
    /// The token of the command that ran when this status was asked for. Only a status says so, and only if one ran.
    pub running: Option<String>,
}

impl Frame {
    /// A frame without output.
    #[must_use]
    pub fn bare(token: &str, outcome: Outcome, processes: u32) -> Frame {
        Frame {
            token: token.to_owned(),
            outcome,
            stdout: Vec::new(),
            stderr: Vec::new(),
            cut: false,
            processes,
            running: None,
        }
    }

    /// The bytes as they are stored and sent, and printed unless they are a status.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_with("")
    }

    /// The same with more words at the end of the first line, each with a space before it. Readers pass over words that they do not know.
    pub(crate) fn to_bytes_with(&self, more: &str) -> Vec<u8> {
        let running = self.running.iter().map(|token| format!(" running={token}")).collect::<String>();
        let mut bytes = format!(
            "{VERSION} {} {} stdout={} stderr={} cut={} processes={}{running}{more}\n",
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
        bytes.extend_from_slice(format!("\n{END} {}\n", self.token).as_bytes());
        bytes
    }

    /// Reads exactly one complete frame in the very form in which it is written; anything else is `None`. This is for the runner, which reads only
    /// what it wrote itself; the operator reads [`crate::printed::Printed`].
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Frame> {
        let (Parts { token, outcome, stdout, stderr, cut, processes, running, .. }, _) = parts::first(bytes)?;
        if token.is_empty() || !outcome.why().is_none_or(Why::is_plain) {
            return None;
        }
        let (token, running) = (token.to_owned(), running.map(str::to_owned));
        let (stdout, stderr) = (stdout.to_vec(), stderr.to_vec());
        let frame = Frame { token, outcome, stdout, stderr, cut, processes: processes?, running };
        (frame.to_bytes() == bytes).then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::Word;

    fn sample(outcome: Outcome) -> Frame {
        Frame {
            token: "g1.seed-7".into(),
            outcome,
            stdout: b"one\ntanist-end g1.seed-7\n\xff\0".to_vec(),
            stderr: b"two".to_vec(),
            cut: true,
            processes: 3,
            running: None,
        }
    }

    #[test]
    fn every_outcome_survives_writing_and_reading() {
        for outcome in [
            Outcome::Exited(0),
            Outcome::Exited(255),
            Outcome::NotStarted(Word::Busy.into()),
            Outcome::Unknown(Word::Deadline.into()),
            Outcome::Running,
            Outcome::Interrupted,
            Outcome::Void,
        ] {
            let frame = sample(outcome);
            assert_eq!(Frame::parse(&frame.to_bytes()), Some(frame));
        }
    }

    // Runners of the released version write and read these bytes.
    #[test]
    fn the_bytes_are_those_of_the_released_version() {
        let bare = Frame::bare(NO_TOKEN, Outcome::Running, 0);
        assert_eq!(bare.to_bytes(), b"tanist-run/1 - running stdout=0 stderr=0 cut=0 processes=0\n\ntanist-end -\n");
        assert_eq!(
            sample(Outcome::NotStarted(Word::Role.into())).to_bytes(),
            b"tanist-run/1 g1.seed-7 not-started:role stdout=27 stderr=3 cut=1 processes=3\none\ntanist-end g1.seed-7\n\xff\0two\ntanist-end g1.seed-7\n"
        );
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
            ("exited:0", "running:0"),
            ("cut=0", "cut=2"),
            ("stdout=0", "stdout=1"),
            ("stdout=0 stderr=0", "stderr=0 stdout=0"),
            ("stderr=0 ", ""),
            (" processes=0", ""),
            ("processes=0", "processes=00"),
            ("processes=0", "processes=0 more=1"),
            ("processes=0", "processes=0 after=1"),
            ("end t", "end u"),
            ("end t\n", "end t\nx"),
        ] {
            assert_eq!(Frame::parse(fine.replacen(from, to, 1).as_bytes()), None, "{from} -> {to}");
        }
        assert_eq!(Frame::parse(fine.replace(" t ", "  ").replace("end t", "end ").as_bytes()), None, "no token");
    }
}
