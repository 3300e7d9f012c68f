//! What the end of an execution proves. Only a whole answer is an answer: everything else is unknown, and unknown blocks (docs/rules.md, "Execution through the
//! API server"; docs/safety.md, S5, S10, S12).
use crate::contract::{Position, Role};
use crate::data::read_sequence;
use crate::freshness::StatusAnswer;
use crate::membership::{List, read_list};
use crate::snapshot::Evidence;
use tanist_protocol::feature::Feature;
use tanist_protocol::frame::NO_TOKEN;
use tanist_protocol::outcome::Outcome;
use tanist_protocol::printed::Printed;
use tanist_protocol::why::{Why, Word};

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The process exited with this code, and printed this.
    Exited(i32, Output),
    /// This request has not started it and never will: no layer below repeats a request.
    NotStarted(String),
    /// It may have run, may be running, or may never have started.
    Unknown(String),
}

/// The output of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// Whether more was printed than was stored.
    pub cut: bool,
}

/// Who tells how a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told<'t> {
    /// The runner's client, in a frame about this token.
    ByRunner(&'t str),
    /// The process itself, by its exit code: there is no runner.
    ByItself,
}

/// What the end of the execution that started a command says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// How the command ended, and the role right afterwards if the runner told it.
    Known(Evidence, Option<StatusAnswer>),
    /// The request was refused, for this reason. That proves nothing until the runner has voided the token: see [`refused`].
    Refused(String),
}

impl Ended {
    fn reason(&self) -> String {
        match self {
            Ended::Exited(code, _) => format!("it exited {code}"),
            Ended::NotStarted(why) | Ended::Unknown(why) => why.clone(),
        }
    }

    /// The frame about that token, and the status that may follow it.
    fn frame(self, token: &str) -> Result<(Printed, Option<Printed>), Ended> {
        match self {
            Ended::Exited(_, output) => Printed::read_with_status(&output.stdout, token)
                .ok_or_else(|| Ended::Unknown("the runner's answer was not whole".into())),
            other => Err(other),
        }
    }
}

/// The answer of a `status` (row A28). `told`: with a runner, the token is not used.
#[must_use]
pub fn status(ended: Ended, told: Told<'_>) -> StatusAnswer {
    match (told, ended) {
        (Told::ByItself, Ended::Exited(code, _)) => answer(code, None),
        (Told::ByItself, other) => unread(&other.reason(), None),
        (Told::ByRunner(_), ended) => match ended.frame(NO_TOKEN) {
            Ok((said, _)) => match &said.outcome {
                Outcome::Exited(code) => by_runner(answer((*code).into(), said.processes), &said),
                other => by_runner(unread(&clause(other), said.processes), &said),
            },
            Err(ended) => unread(&ended.reason(), None),
        },
    }
}

/// The answer of a `status` that only says whether the member is well: 0, and any other code if it is not (E23). There is no runner.
#[must_use]
pub fn probed(ended: Ended) -> StatusAnswer {
    match ended {
        Ended::Exited(0, _) => StatusAnswer::of(Role::Secondary),
        Ended::Exited(code, _) => {
            StatusAnswer { detail: Some(format!("status exited {code}")), ..StatusAnswer::of(Role::Failed) }
        }
        other => unread(&other.reason(), None),
    }
}

/// Whether the runner refused the question because another command runs. Its token is not used up.
#[must_use]
pub fn was_busy(ended: &Ended, told: Told<'_>) -> bool {
    let Told::ByRunner(token) = told else { return false };
    let frame = ended.clone().frame(token);
    frame.is_ok_and(|(said, _)| matches!(&said.outcome, Outcome::NotStarted(why) if *why == Why::from(Word::Busy)))
}

/// The position that a `sequence` told (row A5), and the role right afterwards if the runner told it.
#[must_use]
pub fn sequence(ended: Ended, told: Told<'_>) -> (Position, Option<StatusAnswer>) {
    match (told, ended) {
        (Told::ByItself, Ended::Exited(code, output)) => (position(code, &output.stdout, output.cut), None),
        (Told::ByItself, other) => (Position::Unknown(other.reason()), None),
        (Told::ByRunner(token), ended) => match ended.frame(token) {
            Ok((said, after)) => match &said.outcome {
                Outcome::Exited(code) => (position((*code).into(), &said.stdout, said.cut), after.and_then(role_after)),
                other => (Position::Unknown(format!("sequence did not run to its end: {}", clause(other))), None),
            },
            Err(ended) => (Position::Unknown(ended.reason()), None),
        },
    }
}

/// The list that a `memberList` told.
///
/// # Errors
/// Why there is none, in words.
pub fn list(ended: Ended, told: Told<'_>) -> Result<List, String> {
    match (told, ended) {
        (Told::ByItself, Ended::Exited(code, output)) => list_of(code, &output.stdout, output.cut),
        (Told::ByItself, other) => Err(other.reason()),
        (Told::ByRunner(token), ended) => match ended.frame(token) {
            Ok((said, _)) => match &said.outcome {
                Outcome::Exited(code) => list_of((*code).into(), &said.stdout, said.cut),
                other => Err(format!("memberList did not run to its end: {}", clause(other))),
            },
            Err(ended) => Err(ended.reason()),
        },
    }
}

/// What `check` or `prepared` said: its exit code.
///
/// # Errors
/// Why it said nothing, in words.
pub fn query(ended: Ended, told: Told<'_>) -> Result<i32, String> {
    match (told, ended) {
        (Told::ByItself, Ended::Exited(code, _)) => Ok(code),
        (Told::ByItself, other) => Err(other.reason()),
        (Told::ByRunner(token), ended) => match ended.frame(token) {
            Ok((said, _)) => match &said.outcome {
                Outcome::Exited(code) => Ok((*code).into()),
                other => Err(format!("it did not run to its end: {}", clause(other))),
            },
            Err(ended) => Err(ended.reason()),
        },
    }
}

/// The list that the exit code and the output of `memberList` mean.
fn list_of(code: i32, stdout: &[u8], cut: bool) -> Result<List, String> {
    match (code, cut) {
        (0, false) => read_list(stdout),
        (0, true) => Err("memberList printed too much, or left a process that holds its stdout open".into()),
        (code, _) => Err(format!("memberList exited {code}")),
    }
}

/// What the execution says that started a command.
#[must_use]
pub fn started(ended: Ended, told: Told<'_>) -> Started {
    match (told, ended) {
        (Told::ByItself, Ended::Exited(code, _)) => Started::Known(Evidence::Exited(code), None),
        // Without a runner there is nothing to ask afterwards: what the API server refused by itself was not started.
        (Told::ByItself, Ended::NotStarted(why)) => Started::Known(Evidence::NotStarted(why.into()), None),
        (Told::ByItself, Ended::Unknown(why)) => Started::Known(Evidence::Unknown(why.into()), None),
        (Told::ByRunner(token), ended) => match ended.frame(token) {
            Ok((said, after)) => Started::Known(evidence(&said.outcome), after.and_then(role_after)),
            Err(Ended::NotStarted(why)) => Started::Refused(why),
            Err(other) => Started::Known(Evidence::Unknown(other.reason().into()), None),
        },
    }
}

/// What is known of a command whose start was refused, from the runner's answer to `settle` afterwards: it counts as not started only when its token is void,
/// because then a late request starts nothing either.
#[must_use]
pub fn refused(why: String, settled: Evidence) -> Evidence {
    match settled {
        Evidence::NotStarted(_) => Evidence::NotStarted(why.into()),
        Evidence::Unknown(unsettled) => Evidence::Unknown(format!("{why}; {unsettled}").into()),
        known => known,
    }
}

/// What the outcome of a `settle` execution says about the command. Only a complete answer of the runner about that token counts: a question that was refused, or
/// could not be asked, says nothing about the command.
#[must_use]
pub fn settled(ended: Ended, token: &str) -> Evidence {
    match ended.frame(token) {
        Ok((said, _)) => evidence(&said.outcome),
        Err(ended) => Evidence::Unknown(format!("its runner could not be asked: {}", ended.reason()).into()),
    }
}

/// The outcome as evidence of how a command ended.
fn evidence(outcome: &Outcome) -> Evidence {
    match outcome {
        Outcome::Exited(code) => Evidence::Exited((*code).into()),
        Outcome::NotStarted(why) => Evidence::NotStarted(why.into()),
        Outcome::Void => Evidence::NotStarted(Word::Void.into()),
        Outcome::Unknown(why) => Evidence::Unknown(why.into()),
        Outcome::Running => Evidence::Running,
        Outcome::Interrupted => Evidence::Interrupted,
    }
}

/// A clause for messages, for instance "it exited 1".
fn clause(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited(code) => format!("it exited {code}"),
        Outcome::NotStarted(why) => format!("it was not started: {why}"),
        Outcome::Unknown(why) => format!("its end is not known: {why}"),
        Outcome::Running => "it is running".into(),
        Outcome::Interrupted => "a restart of the container interrupted it".into(),
        Outcome::Void => "it never ran".into(),
    }
}

/// The role right after a command. `None`: `status` gave none, or its age is unknown, so `status` is run again.
fn role_after(said: Printed) -> Option<StatusAnswer> {
    let Outcome::Exited(code) = said.outcome else { return None };
    let told = StatusAnswer { after: said.after?, ..by_runner(answer(code.into(), said.processes), &said) };
    (told.role != Role::Unknown).then_some(told)
}

/// The answer, with what only a runner says: which command runs, whether it can check a position just before it starts one, and whether it can give one an environment.
fn by_runner(answer: StatusAnswer, said: &Printed) -> StatusAnswer {
    let (looks, takes_env) = (said.features.has(Feature::IfSequence), said.features.has(Feature::Env));
    StatusAnswer { running: said.running.clone(), looks, takes_env, ..answer }
}

/// The position that the exit code and the output of `sequence` mean.
fn position(code: i32, stdout: &[u8], cut: bool) -> Position {
    match (code, cut) {
        (0, false) => read_sequence(stdout).unwrap_or_else(Position::Unknown),
        (0, true) => Position::Unknown(
            "sequence printed more than one line of a few bytes, or left a process that holds its stdout open".into(),
        ),
        (code, _) => Position::Unknown(format!("sequence exited {code}")),
    }
}

fn unread(why: &str, processes: Option<u32>) -> StatusAnswer {
    StatusAnswer { processes, ..StatusAnswer::unread(why) }
}

/// The exit code of `status` that means a role. `None`: no start depends on that role, for a failed member is treated whatever it says by then.
#[must_use]
pub fn status_code(role: Role) -> Option<u8> {
    match role {
        Role::Secondary => Some(0),
        Role::Stopped => Some(7),
        Role::Primary => Some(8),
        Role::Failed | Role::Starting | Role::Unknown => None,
    }
}

/// The role that an exit code of `status` means.
fn answer(code: i32, processes: Option<u32>) -> StatusAnswer {
    let (role, detail) = match code {
        0 => (Role::Secondary, None),
        7 => (Role::Stopped, None),
        8 => (Role::Primary, None),
        9 => (Role::Failed, Some("status exited 9".to_owned())),
        10 => (Role::Starting, None),
        code => (Role::Unknown, Some(format!("status exited {code}; 0, 7, 8, 9 and 10 have a meaning"))),
    };
    StatusAnswer { detail, processes, ..StatusAnswer::of(role) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use std::time::Duration;

    // Decision 0008: an older runner does not say when it ran `status`, so its answer may be of any age, and `status` is run again.
    #[test]
    fn what_came_of_a_command_counts_only_with_its_age() {
        let answer = |line: &str| {
            let bytes = format!("tanist-run/1 - {line}\n\ntanist-end -\n");
            Printed::read(bytes.as_bytes(), NO_TOKEN).and_then(role_after).map(|said| (said.role, said.after))
        };
        let at = Duration::from_millis(41);
        assert_eq!(answer("exited:8 stdout=0 stderr=0 cut=0 processes=2 after=41"), Some((Role::Primary, at)));
        assert_eq!(answer("exited:8 stdout=0 stderr=0 cut=0 processes=2"), None);
        assert_eq!(answer("exited:1 stdout=0 stderr=0 cut=0 processes=2 after=41"), None, "no role");
    }

    // Only the runner's own word, about this token, is a reason to ask once more.
    #[test]
    fn a_busy_runner_can_be_asked_again() {
        let busy = |token: &str, what: &str| {
            let text = format!("tanist-run/1 {token} {what} stdout=0 stderr=0 cut=0\n\ntanist-end {token}\n");
            was_busy(&Ended::Exited(0, Output { stdout: text.into_bytes(), cut: false }), Told::ByRunner("t1"))
        };
        assert!(busy("t1", "not-started:busy"));
        assert!(!busy("t2", "not-started:busy") && !busy("t1", "not-started:void") && !busy("t1", "unknown:busy"));
        assert!(!was_busy(&Ended::NotStarted("busy".into()), Told::ByRunner("t1")));
    }

    // A settle that was refused, cut off or about another token says nothing about the command.
    #[test]
    fn only_a_whole_frame_of_the_runner_settles_a_command() {
        let printed = |text: &str| Ended::Exited(0, Output { stdout: text.as_bytes().to_vec(), cut: false });
        let frame = |token: &str, what: &str| {
            printed(&format!("tanist-run/1 {token} {what} stdout=0 stderr=0 cut=0\n\ntanist-end {token}\n"))
        };
        for (what, evidence) in [
            ("void", Evidence::NotStarted(Word::Void.into())),
            ("not-started:busy", Evidence::NotStarted(Word::Busy.into())),
            ("exited:3", Evidence::Exited(3)),
            ("running", Evidence::Running),
            ("interrupted", Evidence::Interrupted),
            ("unknown:storage", Evidence::Unknown(Word::Storage.into())),
        ] {
            assert_eq!(settled(frame("t1", what), "t1"), evidence);
            assert!(matches!(settled(frame("t2", what), "t1"), Evidence::Unknown(_)), "another token: {what}");
        }
        for ended in [
            Ended::NotStarted("the API server answered forbidden (403): no".into()),
            Ended::NotStarted("the program could not be executed in the container".into()),
            Ended::Unknown("no answer within 15 s".into()),
            Ended::Exited(1, Output::default()),
            printed("tanist-run/1 t1 void stdout=0"),
        ] {
            assert!(matches!(settled(ended.clone(), "t1"), Evidence::Unknown(_)), "{ended:?}");
        }
    }

    // A refused start counts as not started only when its token is void.
    #[test]
    fn a_refused_start_waits_for_its_runner() {
        let after = |settled| refused("403".into(), settled);
        assert_eq!(after(Evidence::NotStarted(Word::Void.into())), Evidence::NotStarted("403".into()));
        assert_eq!(after(Evidence::Unknown("no".into())), Evidence::Unknown("403; no".into()));
        for known in [Evidence::Running, Evidence::Exited(0), Evidence::Interrupted] {
            assert_eq!(after(known.clone()), known);
        }
    }

    // A process that still holds stdout may be writing the rest of the number.
    #[test]
    fn a_sequence_that_is_cut_is_unknown() {
        assert!(matches!(position(0, b"12", false), Position::Known(_)));
        assert!(matches!(position(0, b"12", true), Position::Unknown(_)));
    }

    // D8: only what memberList printed whole and with exit code 0 is a list.
    #[test]
    fn a_list_that_is_cut_is_none() {
        let text = b"cluster c\ndb-0 a voter healthy http://db-0.db\n";
        assert_eq!(list_of(0, text, false).map(|list| list.entries.len()), Ok(1));
        assert!(list_of(0, text, true).is_err() && list_of(1, text, false).is_err());
        let printed = |stdout: &[u8], cut| Ended::Exited(0, Output { stdout: stdout.to_vec(), cut });
        assert!(list(printed(text, false), Told::ByItself).is_ok());
        assert!(list(printed(text, false), Told::ByRunner("t")).is_err(), "no frame of the runner");
        let said = std::str::from_utf8(text).unwrap();
        let frame = |length| format!("tanist-run/1 t exited:0 stdout={length} stderr=0 cut=0\n{said}\ntanist-end t\n");
        assert!(list(printed(frame(said.len() + 1).as_bytes(), false), Told::ByRunner("t")).is_err(), "cut");
        assert!(list(printed(frame(said.len()).as_bytes(), false), Told::ByRunner("t")).is_ok());
        assert!(list(Ended::Unknown("the stream broke".into()), Told::ByItself).is_err());
    }

    // E34: only an exit code says how the application is.
    #[test]
    fn what_did_not_end_by_itself_checked_nothing() {
        let by_runner = |outcome: &str| {
            let frame = format!("tanist-run/1 t {outcome} stdout=0 stderr=0 cut=0\n\ntanist-end t\n");
            let ended = Ended::Exited(0, Output { stdout: frame.into_bytes(), cut: false });
            query(ended, Told::ByRunner("t"))
        };
        assert_eq!((by_runner("exited:0"), by_runner("exited:3")), (Ok(0), Ok(3)));
        let reads = "it did not run to its end: it was not started: busy";
        assert_eq!(by_runner("not-started:busy"), Err(reads.to_owned()));
        assert!(by_runner("unknown:deadline").is_err());
        let bare = |code| query(Ended::Exited(code, Output::default()), Told::ByItself);
        assert_eq!((bare(0), bare(3)), (Ok(0), Ok(3)));
        assert!(query(Ended::Exited(0, Output::default()), Told::ByRunner("t")).is_err(), "no frame of the runner");
        assert!(query(Ended::Unknown("the stream broke".into()), Told::ByItself).is_err());
    }

    // A28, docs/requirements.md, reading 17: five codes have a meaning, all others are unknown and not failed.
    #[test]
    fn each_code_of_status_is_a_role() {
        let role = |code| answer(code, None).role;
        assert_eq!(
            [0, 7, 8, 9, 10].map(role),
            [Role::Secondary, Role::Stopped, Role::Primary, Role::Failed, Role::Starting]
        );
        for code in [1, 2, 126, 127, 137, 255] {
            assert_eq!(role(code), Role::Unknown);
        }
    }

    // Users read these clauses in the status of a group.
    #[test]
    fn each_outcome_is_evidence_and_a_clause() {
        for (said, is, reads) in [
            ("exited:3", Evidence::Exited(3), "it exited 3"),
            ("not-started:busy", Evidence::NotStarted(Word::Busy.into()), "it was not started: busy"),
            ("not-started:too-hot", Evidence::NotStarted("too-hot".into()), "it was not started: too-hot"),
            ("unknown:storage", Evidence::Unknown(Word::Storage.into()), "its end is not known: storage"),
            ("running", Evidence::Running, "it is running"),
            ("interrupted", Evidence::Interrupted, "a restart of the container interrupted it"),
            ("void", Evidence::NotStarted(Word::Void.into()), "it never ran"),
        ] {
            let outcome = Outcome::read(said).unwrap();
            assert_eq!((evidence(&outcome), clause(&outcome).as_str()), (is, reads));
        }
    }
}
