//! Frames as clients print them, and as the operator reads them.
//!
//! The status that follows a command's frame has ` after=MS` at the end of its first line: the milliseconds from the start of the client to the
//! request for the status. Every status that a client prints has ` features=...` there: what its runner can do and earlier ones could not,
//! separated by commas. Only clients print these words; what process 1 stores and sends has the form of [`crate::frame`] alone. If a command runs, a status has
//! its token as ` running=TOKEN` before them.
use crate::feature::Features;
use crate::frame::{Frame, NO_TOKEN};
use crate::outcome::Outcome;
use crate::parts;
use std::time::Duration;

impl Frame {
    /// The bytes of a status that a client prints, with this version's features.
    #[must_use]
    pub fn to_bytes_of_status(&self) -> Vec<u8> {
        self.to_bytes_with(&format!(" features={}", Features::of_this_version()))
    }

    /// The bytes of the status after a command, without output and with the time from the start of the client to the request, in whole
    /// milliseconds. From that the operator knows how old the status is at most, however long the answer takes.
    #[must_use]
    pub fn to_bytes_after(&self, after: Duration) -> Vec<u8> {
        let bare = Frame::bare(&self.token, self.outcome.clone(), self.processes);
        let bare = Frame { running: self.running.clone(), ..bare };
        bare.to_bytes_with(&format!(" after={} features={}", after.as_millis(), Features::of_this_version()))
    }
}

/// A complete frame of a client of any version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// What is known of the command.
    pub outcome: Outcome,
    /// The beginning of its stdout.
    pub stdout: Vec<u8>,
    /// Whether it printed more than the runner stored, or left its stdout open.
    pub cut: bool,
    /// The number of processes of the application. Absent: the runner did not count them.
    pub processes: Option<u32>,
    /// How long after the start of the client this `status` was begun. Present only in a status that follows a command; older runners leave it out.
    pub after: Option<Duration>,
    /// The token of the command that ran in that container when the status was asked for. Absent: none ran, or the runner is an older one.
    pub running: Option<String>,
    /// What the runner can do. Only a status says so; older runners say nothing.
    pub features: Features,
}

impl Printed {
    /// Reads a frame about a token. `None`: it is incomplete, or about another token.
    #[must_use]
    pub fn read(bytes: &[u8], token: &str) -> Option<Printed> {
        Printed::first(bytes, token).map(|(printed, _)| printed)
    }

    /// Reads a frame about a token, and the status that may follow it, if that is complete. `None`: the first one is incomplete, or about another
    /// token.
    #[must_use]
    pub fn read_with_status(bytes: &[u8], token: &str) -> Option<(Printed, Option<Printed>)> {
        let (printed, rest) = Printed::first(bytes, token)?;
        Some((printed, Printed::read(rest, NO_TOKEN)))
    }

    fn first<'b>(bytes: &'b [u8], token: &str) -> Option<(Printed, &'b [u8])> {
        let (parts, rest) = parts::first(bytes).filter(|(parts, _)| parts.token == token)?;
        let printed = Printed {
            outcome: parts.outcome,
            stdout: parts.stdout.to_vec(),
            cut: parts.cut,
            processes: parts.processes,
            after: parts.after,
            running: parts.running.map(str::to_owned),
            features: parts.features,
        };
        Some((printed, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feature::Feature;

    const WHOLE: &[u8] = b"tanist-run/1 t1 exited:0 stdout=8 stderr=2 cut=0 processes=3\n1234567\nno\ntanist-end t1\n";

    #[test]
    fn a_whole_frame_is_read() {
        let read = Printed::read(WHOLE, "t1").unwrap();
        assert_eq!(
            (read.outcome, read.stdout.as_slice(), read.processes),
            (Outcome::Exited(0), b"1234567\n".as_slice(), Some(3))
        );
    }

    // Operators of the released version read these bytes.
    #[test]
    fn a_status_says_its_age_and_what_its_runner_can_do() {
        let status = Frame {
            token: NO_TOKEN.into(),
            outcome: Outcome::Exited(8),
            stdout: b"one\n".to_vec(),
            stderr: b"two".to_vec(),
            cut: true,
            processes: 3,
            running: None,
        };
        assert_eq!(
            status.to_bytes_of_status(),
            b"tanist-run/1 - exited:8 stdout=4 stderr=3 cut=1 processes=3 features=if-sequence,env\none\ntwo\ntanist-end -\n"
        );
        assert_eq!(
            status.to_bytes_after(Duration::from_micros(41_900)),
            b"tanist-run/1 - exited:8 stdout=0 stderr=0 cut=0 processes=3 after=41 features=if-sequence,env\n\ntanist-end -\n"
        );
        let busy = Frame { running: Some("seed-1-n".into()), ..status };
        let line = "stdout=4 stderr=3 cut=1 processes=3 running=seed-1-n features=if-sequence,env";
        assert_eq!(
            busy.to_bytes_of_status(),
            format!("tanist-run/1 - exited:8 {line}\none\ntwo\ntanist-end -\n").as_bytes()
        );
        assert!(busy.to_bytes_after(Duration::ZERO).starts_with(
            b"tanist-run/1 - exited:8 stdout=0 stderr=0 cut=0 processes=3 running=seed-1-n after=0 features=if-sequence,env\n"
        ));
        assert_eq!(Frame::parse(&busy.to_bytes()).as_ref(), Some(&busy), "process 1 sends it to its client");
        assert_eq!(Printed::read(&busy.to_bytes_of_status(), NO_TOKEN).unwrap().running.as_deref(), Some("seed-1-n"));
    }

    // S4: the status after a command comes in the same answer. An incomplete one does not spoil the command's result.
    #[test]
    fn a_status_may_follow() {
        let status: &[u8] = b"tanist-run/1 - exited:8 stdout=0 stderr=0 cut=0 processes=2 after=41\n\ntanist-end -\n";
        let both = [WHOLE, status].concat();
        let (answer, after) = Printed::read_with_status(&both, "t1").unwrap();
        let after = after.unwrap();
        assert_eq!((answer.outcome, answer.after), (Outcome::Exited(0), None));
        assert_eq!((after.outcome, after.after), (Outcome::Exited(8), Some(Duration::from_millis(41))));
        for length in WHOLE.len()..both.len() {
            assert_eq!(Printed::read_with_status(&both[..length], "t1").unwrap().1, None, "cut at {length}");
        }
    }

    // Decision 0013: older and newer runners are understood: unknown features and fields are passed over.
    #[test]
    fn features_are_read_and_unknown_words_passed_over() {
        let looks = |words: &str| {
            let bytes = format!("tanist-run/1 - exited:8 stdout=0 stderr=0 cut=0 processes=2{words}\n\ntanist-end -\n");
            Printed::read(bytes.as_bytes(), NO_TOKEN).map(|read| (read.outcome, read.features.has(Feature::IfSequence)))
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

    // Decision 0013: so that a later runner may say less, or in another order.
    #[test]
    fn fields_may_be_missing() {
        let bytes = b"tanist-run/1 t stdout=1 exited:0\n\ntanist-end t\n";
        assert_eq!(Printed::read(bytes, "t"), None, "the outcome has its place");
        let read = Printed::read(b"tanist-run/1 t exited:0 stdout=1\n7\ntanist-end t\n", "t").unwrap();
        assert_eq!((read.stdout.as_slice(), read.cut, read.processes), (b"7".as_slice(), false, None));
        let read = Printed::read(b"tanist-run/1 t exited:0 processes=? after=? cut=1\n\ntanist-end t\n", "t").unwrap();
        assert_eq!((read.cut, read.processes, read.after), (true, None, None));
    }

    // S3, S12: a frame that is cut at any byte is not read, so it never gives a shorter number.
    #[test]
    fn a_frame_cut_at_any_byte_is_none() {
        for length in 0..WHOLE.len() {
            assert_eq!(Printed::read(&WHOLE[..length], "t1"), None, "cut at {length}");
        }
    }

    #[test]
    fn the_first_and_the_last_line_are_about_the_same_token() {
        assert_eq!(Printed::read(WHOLE, "t2"), None);
        let other = String::from_utf8_lossy(WHOLE).replace("end t1", "end t2");
        for token in ["t1", "t2"] {
            assert_eq!(Printed::read(other.as_bytes(), token), None, "{token}");
        }
    }
}
