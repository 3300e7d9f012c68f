//! Executes commands in a member's container, with or without the runner as PID 1.
use crate::context::Context;
use crate::exec::{Ended, exec};
use crate::outcome::{clause, evidence};
use crate::slots::{self, Slot};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use std::time::Duration;
use tanist_core::contract::{Position, Role};
use tanist_core::data::read_sequence;
use tanist_core::freshness::StatusAnswer;
use tanist_core::record::Intent;
use tanist_core::snapshot::{Command, Evidence};
use tanist_protocol::call::{Ask, Call, Exec, Expect, IfSequence};
use tanist_protocol::feature::Feature;
use tanist_protocol::frame::NO_TOKEN;
use tanist_protocol::outcome::Outcome;
use tanist_protocol::printed::Printed;

/// Seconds that API server and kubelet may need in addition to the command itself.
const WAY: u64 = 15;

/// A member's pod, identified by UID, as the target of commands.
#[derive(Debug, Clone)]
pub struct Target {
    /// The namespace.
    pub namespace: String,
    /// The UID of the group, whose slots the executions take.
    pub group: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// Whether the runner is PID 1.
    pub runner: bool,
}

/// What the runner checks once more, just before it starts a command and with no other command in between.
#[derive(Debug, Clone, Default)]
pub struct Looks<'s> {
    /// The role that the member must have.
    pub role: Option<Role>,
    /// The sequence command and what it must print.
    pub position: Option<(&'s Command, String)>,
}

/// The position on which a command that opens a term rests, if the runner that starts the command (`wrapped`) can read it in its own container.
#[must_use]
pub fn rests_on<'s>(
    wrapped: bool,
    sequence: &'s Command,
    position: &Position,
    intent: &Intent,
) -> Option<(&'s Command, String)> {
    if !wrapped || !intent.verb.opens_term() || intent.container != sequence.container {
        return None;
    }
    match position {
        Position::Known(known) => Some((sequence, known.to_string())),
        Position::Empty => Some((sequence, "EMPTY".into())),
        // There is no known position that the runner could compare with.
        Position::Unknown(_) | Position::NotAsked => None,
    }
}

impl Target {
    /// Waits at most [`slots::WAIT`] for a slot of short executions, then executes. Without a slot nothing is executed, and the outcome says so.
    async fn exec(&self, ctx: &Context, container: &str, argv: &[String], seconds: u64) -> Ended {
        match ctx.questions.take(&self.group, slots::WAIT).await {
            Ok(slot) => self.exec_in(slot, ctx, container, argv, seconds).await,
            Err(why) => {
                ctx.metrics.no_slot("question");
                Ended::Unknown(why)
            }
        }
    }

    /// Executes in a slot, which is freed afterwards.
    async fn exec_in(&self, _slot: Slot, ctx: &Context, container: &str, argv: &[String], seconds: u64) -> Ended {
        let pods: Api<Pod> = Api::namespaced(ctx.exec_client.clone(), &self.namespace);
        exec(&pods, &self.pod, container, argv, Duration::from_secs(seconds)).await
    }

    /// The argv of the runner's client in a container.
    fn call(&self, container: &str, ask: Ask<'_>) -> Vec<String> {
        Call { container, uid: &self.uid, ask }.to_args()
    }

    /// Runs `status` anew (row A28, docs/requirements.md, reading 17), in a slot that was taken before.
    pub async fn status(&self, slot: Slot, ctx: &Context, command: &Command) -> StatusAnswer {
        let seconds = u64::from(command.timeout);
        if !self.runner {
            let ended = self.exec_in(slot, ctx, &command.container, &command.exec, seconds.saturating_add(1)).await;
            return match ended {
                Ended::Exited(code, _) => status_answer(code, None),
                Ended::NotStarted(why) | Ended::Unknown(why) => unknown(&why, None),
            };
        }
        // The runner's own poll may be under way and has to end first, so this takes up to two timeouts.
        let argv = self.call(&command.container, Ask::Status);
        let deadline = seconds.saturating_mul(2).saturating_add(WAY);
        let ended = self.exec_in(slot, ctx, &command.container, &argv, deadline).await;
        match whole(ended, NO_TOKEN) {
            Ok((said, _)) => match &said.outcome {
                Outcome::Exited(code) => {
                    StatusAnswer { looks: looks(&said), ..status_answer((*code).into(), said.processes) }
                }
                other => StatusAnswer { looks: looks(&said), ..unknown(&clause(other), said.processes) },
            },
            Err(ended) => unknown(&reason(&ended), None),
        }
    }

    /// Runs `sequence` (row A5). The runner adds the member's role right afterwards, if it can.
    pub async fn sequence(&self, ctx: &Context, command: &Command, token: &str) -> (Position, Option<StatusAnswer>) {
        let (argv, seconds) = self.sequence_call(command, token);
        let ended = self.exec(ctx, &command.container, &argv, seconds).await;
        self.sequence_answer(ended, token)
    }

    /// The same for an administrator's command line, outside of the operator: it takes no slot and counts in no metric. The runner refuses it
    /// while another command runs in the member.
    pub async fn sequence_by_hand(&self, pods: &Api<Pod>, command: &Command, token: &str) -> Position {
        let (argv, seconds) = self.sequence_call(command, token);
        let ended = exec(pods, &self.pod, &command.container, &argv, Duration::from_secs(seconds)).await;
        self.sequence_answer(ended, token).0
    }

    /// The argv that reads the sequence, and how many seconds that may take.
    fn sequence_call(&self, command: &Command, token: &str) -> (Vec<String>, u64) {
        let seconds = u64::from(command.timeout);
        if !self.runner {
            return (command.exec.clone(), seconds.saturating_add(1));
        }
        let exec = Exec {
            token,
            deadline: command.timeout,
            expect: None,
            quiet: true,
            if_status: None,
            if_sequence: None,
            argv: &command.exec,
        };
        (self.call(&command.container, Ask::Exec(exec)), seconds.saturating_add(WAY))
    }

    fn sequence_answer(&self, ended: Ended, token: &str) -> (Position, Option<StatusAnswer>) {
        if !self.runner {
            return match ended {
                Ended::Exited(code, output) => (position(code, &output.stdout, output.cut), None),
                other => (Position::Unknown(reason(&other)), None),
            };
        }
        match whole(ended, token) {
            Ok((said, after)) => match &said.outcome {
                Outcome::Exited(code) => (position((*code).into(), &said.stdout, said.cut), after.and_then(role_after)),
                other => (Position::Unknown(format!("sequence did not run to its end: {}", clause(other))), None),
            },
            Err(ended) => (Position::Unknown(reason(&ended)), None),
        }
    }

    /// Runs a command whose intent is durable. The runner, if there is one, reads role and position once more in the container and starts nothing
    /// if they are not as `looks` says; the role after the command comes back with the result. Only runners that have said that they can check a
    /// position are asked to, because others would not understand it.
    /// The slot was taken before the last checks, so that no command starts on outdated checks.
    pub async fn run(
        &self,
        slot: Slot,
        ctx: &Context,
        intent: &Intent,
        looks: &Looks<'_>,
        argv: &[String],
    ) -> (Evidence, Option<StatusAnswer>) {
        let seconds = u64::from(intent.timeout);
        if !self.runner {
            let evidence = match self.exec_in(slot, ctx, &intent.container, argv, seconds).await {
                Ended::Exited(code, _) => Evidence::Exited(code),
                Ended::NotStarted(why) => Evidence::NotStarted(why),
                Ended::Unknown(why) => Evidence::Unknown(why),
            };
            return (evidence, None);
        }
        let argv = start(self, intent, looks, argv);
        let ended = self.exec_in(slot, ctx, &intent.container, &argv, seconds.saturating_add(WAY)).await;
        match whole(ended, &intent.token) {
            Ok((said, after)) => (evidence(&said.outcome), after.and_then(role_after)),
            // A refused start counts as not started only when the runner has voided its token: then a late request starts nothing either.
            Err(Ended::NotStarted(why)) => {
                (refused(why, self.settle(ctx, &intent.container, &intent.token).await), None)
            }
            Err(other) => (Evidence::Unknown(reason(&other)), None),
        }
    }

    /// Asks the runner how a command ended. A token that the runner does not know is void from then on: it refuses to start it later.
    ///
    /// Only a complete answer of the runner about that token counts. A question that was refused, or could not be asked, says nothing about the
    /// command.
    pub async fn settle(&self, ctx: &Context, container: &str, token: &str) -> Evidence {
        if !self.runner {
            return Evidence::Unknown("without the runner a command cannot be asked about again".into());
        }
        let argv = self.call(container, Ask::Settle(token));
        settled(self.exec(ctx, container, &argv, WAY).await, token)
    }
}

/// What is known of a command whose start was refused, from the runner's answer to `settle` afterwards.
fn refused(why: String, settled: Evidence) -> Evidence {
    match settled {
        Evidence::NotStarted(_) => Evidence::NotStarted(why),
        Evidence::Unknown(unsettled) => Evidence::Unknown(format!("{why}; {unsettled}")),
        known => known,
    }
}

/// What the outcome of a `settle` execution says about the command.
fn settled(ended: Ended, token: &str) -> Evidence {
    match whole(ended, token) {
        Ok((said, _)) => evidence(&said.outcome),
        Err(ended) => Evidence::Unknown(format!("its runner could not be asked: {}", reason(&ended))),
    }
}

/// The argv of the runner's client that starts a command.
fn start(target: &Target, intent: &Intent, looks: &Looks<'_>, argv: &[String]) -> Vec<String> {
    let is_stop = intent.verb.intended() == Role::Stopped;
    let if_sequence = looks.position.as_ref().map(|(sequence, position)| IfSequence {
        expected: position,
        deadline: sequence.timeout,
        argv: &sequence.exec,
    });
    let exec = Exec {
        token: &intent.token,
        deadline: intent.timeout,
        expect: Some(if is_stop { Expect::Stopped } else { Expect::Running }),
        quiet: false,
        if_status: looks.role.and_then(code),
        if_sequence,
        argv,
    };
    target.call(&intent.container, Ask::Exec(exec))
}

/// The role right after a command. `None`: `status` gave none, or its age is unknown, so `status` is run again.
fn role_after(said: Printed) -> Option<StatusAnswer> {
    let Outcome::Exited(code) = said.outcome else { return None };
    let answer = StatusAnswer { after: said.after?, looks: looks(&said), ..status_answer(code.into(), said.processes) };
    (answer.role != Role::Unknown).then_some(answer)
}

/// Whether the runner that said this can check a position just before it starts a command.
fn looks(said: &Printed) -> bool {
    said.features.has(Feature::IfSequence)
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

fn whole(ended: Ended, token: &str) -> Result<(Printed, Option<Printed>), Ended> {
    match ended {
        Ended::Exited(_, output) => Printed::read_with_status(&output.stdout, token)
            .ok_or_else(|| Ended::Unknown("the runner's answer was not whole".into())),
        other => Err(other),
    }
}

fn reason(ended: &Ended) -> String {
    match ended {
        Ended::Exited(code, _) => format!("it exited {code}"),
        Ended::NotStarted(why) | Ended::Unknown(why) => why.clone(),
    }
}

fn unknown(why: &str, processes: Option<u32>) -> StatusAnswer {
    StatusAnswer { processes, ..StatusAnswer::unread(why) }
}

/// The exit code of `status` that means a role. `None`: a failed member is treated, whatever its role is at the start.
fn code(role: Role) -> Option<u8> {
    match role {
        Role::Secondary => Some(0),
        Role::Stopped => Some(7),
        Role::Primary => Some(8),
        // A failed member is treated whatever it says by then.
        Role::Failed | Role::Starting | Role::Unknown => None,
    }
}

fn status_answer(code: i32, processes: Option<u32>) -> StatusAnswer {
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
mod tests {
    use super::*;
    use tanist_core::record::Verb;

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

    // A settle that was refused, cut off or about another token says nothing about the command.
    #[test]
    fn only_a_whole_frame_of_the_runner_settles_a_command() {
        let printed =
            |text: &str| Ended::Exited(0, crate::exec::Output { stdout: text.as_bytes().to_vec(), cut: false });
        let frame = |token: &str, what: &str| {
            printed(&format!("tanist-run/1 {token} {what} stdout=0 stderr=0 cut=0\n\ntanist-end {token}\n"))
        };
        for (what, evidence) in [
            ("void", Evidence::NotStarted("void".into())),
            ("not-started:busy", Evidence::NotStarted("busy".into())),
            ("exited:3", Evidence::Exited(3)),
            ("running", Evidence::Running),
            ("interrupted", Evidence::Interrupted),
            ("unknown:storage", Evidence::Unknown("storage".into())),
        ] {
            assert_eq!(settled(frame("t1", what), "t1"), evidence);
            assert!(matches!(settled(frame("t2", what), "t1"), Evidence::Unknown(_)), "another token: {what}");
        }
        for ended in [
            Ended::NotStarted("the API server answered forbidden (403): no".into()),
            Ended::NotStarted("the program could not be executed in the container".into()),
            Ended::Unknown("no answer within 15 s".into()),
            Ended::Exited(1, crate::exec::Output::default()),
            printed("tanist-run/1 t1 void stdout=0"),
        ] {
            assert!(matches!(settled(ended.clone(), "t1"), Evidence::Unknown(_)), "{ended:?}");
        }
    }

    // A refused start counts as not started only when its token is void.
    #[test]
    fn a_refused_start_waits_for_its_runner() {
        let after = |settled| refused("403".into(), settled);
        assert_eq!(after(Evidence::NotStarted("void".into())), Evidence::NotStarted("403".into()));
        assert_eq!(after(Evidence::Unknown("no".into())), Evidence::Unknown("403; no".into()));
        for known in [Evidence::Running, Evidence::Exited(0), Evidence::Interrupted] {
            assert_eq!(after(known.clone()), known);
        }
    }

    fn target() -> Target {
        Target { namespace: "shop".into(), group: "group".into(), pod: "db-0".into(), uid: "u".into(), runner: true }
    }

    fn intent() -> Intent {
        Intent {
            token: "seed-1-n".into(),
            verb: Verb::Seed,
            command: "seed".into(),
            member: "db-0".into(),
            pod_uid: "u".into(),
            container: "db".into(),
            container_id: "c".into(),
            generation: 1,
            started: 0,
            timeout: 60,
            term: 1,
            again: false,
            exited: None,
            had_role: false,
        }
    }

    // Before argv, the runner gets the sequence command and what it must print, each word unchanged.
    #[test]
    fn the_position_is_looked_at_in_the_moment_of_the_start() {
        let sequence = Command { exec: vec!["/db/sequence".into(), "--".into()], container: "db".into(), timeout: 10 };
        let argv = ["/db/start".to_owned(), "primary".to_owned()];
        let role = Some(Role::Stopped);
        let call = |position| start(&target(), &intent(), &Looks { role, position }, &argv).join(" ");
        let head = "/tanist/tanist-run exec --state /tanist/db --uid u --token seed-1-n --deadline 60 --expect running --if-status 7";
        assert_eq!(call(None), format!("{head} -- /db/start primary"));
        let look = "--if-sequence h:7 --sequence-deadline 10 --sequence-args 2";
        assert_eq!(
            call(Some((&sequence, "h:7".into()))),
            format!("{head} {look} -- /db/sequence -- /db/start primary")
        );
    }

    #[test]
    fn a_term_rests_on_what_its_own_container_can_read() {
        let sequence = Command { exec: vec!["/db/sequence".into()], container: "db".into(), timeout: 10 };
        let known = read_sequence(b"h:7").unwrap();
        let text = |wrapped, position: &Position, intent: &Intent| {
            rests_on(wrapped, &sequence, position, intent).map(|(_, text)| text)
        };
        assert_eq!(text(true, &known, &intent()), Some("h:7".into()));
        assert_eq!(text(true, &Position::Empty, &intent()), Some("EMPTY".into()));
        assert_eq!(text(true, &Position::Unknown(String::new()), &intent()), None);
        assert_eq!(text(false, &known, &intent()), None, "there is no runner to check it");
        assert_eq!(text(true, &known, &Intent { container: "web".into(), ..intent() }), None);
        assert_eq!(text(true, &known, &Intent { verb: Verb::Join, ..intent() }), None, "a joiner synchronises");
    }

    // A process that still holds stdout may be writing the rest of the number.
    #[test]
    fn a_sequence_that_is_cut_is_unknown() {
        assert!(matches!(position(0, b"12", false), Position::Known(_)));
        assert!(matches!(position(0, b"12", true), Position::Unknown(_)));
    }

    // A28, docs/requirements.md, reading 17: five codes have a meaning, all others are unknown and not failed.
    #[test]
    fn each_code_of_status_is_a_role() {
        let role = |code| status_answer(code, None).role;
        assert_eq!(
            [0, 7, 8, 9, 10].map(role),
            [Role::Secondary, Role::Stopped, Role::Primary, Role::Failed, Role::Starting]
        );
        for code in [1, 2, 126, 127, 137, 255] {
            assert_eq!(role(code), Role::Unknown);
        }
    }
}
