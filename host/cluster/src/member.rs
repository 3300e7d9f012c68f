//! Executes commands in a member's container, with or without the runner as PID 1.
use crate::cluster::{self, Cluster};
use crate::context::Context;
use crate::count::Execution;
use crate::slots::{self, Slot};
use std::time::Duration;
use tanist_core::contract::{Position, Role};
use tanist_core::evidence::{self, Ended, Started, Told, status_code};
use tanist_core::freshness::StatusAnswer;
use tanist_core::membership::List;
use tanist_core::record::Intent;
use tanist_core::snapshot::{Command, Evidence};
use tanist_protocol::call::{Ask, Call, Exec, Expect, IfSequence};
use tanist_protocol::frame::NO_TOKEN;

/// How often a question by hand is repeated while another command runs in the member, and the pause before.
const BUSY: usize = 10;
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Seconds that API server and kubelet may need in addition to the command itself.
const WAY: u64 = 15;

/// A member's pod, identified by UID, as the target of commands.
#[derive(Debug, Clone)]
pub struct Target {
    /// The namespace of the group and its pods.
    pub namespace: String,
    /// The UID of the group, whose slots the executions take.
    pub group: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// Whether the runner is PID 1.
    pub runner: bool,
    /// Whether `status` only says if the member is well: it is one of an active/passive group.
    pub probed: bool,
    /// Environment variables of commands, `KEY=VALUE`. Empty unless the runner has said that it can set them: an older one would not understand the option.
    pub env: Vec<String>,
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
    /// The same, with environment variables for its commands, if its runner has said that it can set them.
    #[must_use]
    pub fn with_env(self, ctx: &Context, env: Vec<String>) -> Self {
        let takes = self.runner && ctx.hints.with_group(&self.group, |h| h.readings.takes_env(&self.uid));
        Target { env: if takes { env } else { Vec::new() }, ..self }
    }

    /// Waits at most [`slots::WAIT`] for a slot of short executions, then executes. Without a slot nothing is executed, and the outcome says so.
    async fn exec(&self, ctx: &Context, container: &str, argv: &[String], seconds: u64) -> Ended {
        match ctx.questions.take(&self.group, slots::WAIT).await {
            Ok(slot) => self.exec_in(slot, ctx, container, argv, seconds).await,
            Err(why) => {
                ctx.count.no_slot(Execution::Question);
                Ended::Unknown(why)
            }
        }
    }

    /// Executes in a slot, which is freed at the end, or when it has taken long.
    async fn exec_in(&self, slot: Slot, ctx: &Context, container: &str, argv: &[String], seconds: u64) -> Ended {
        slot.hold(ctx.cluster.exec(self.execution(container, argv, seconds))).await
    }

    fn execution(&self, container: &str, argv: &[String], seconds: u64) -> cluster::Exec {
        cluster::Exec {
            namespace: self.namespace.clone(),
            pod: self.pod.clone(),
            container: container.to_owned(),
            argv: argv.to_vec(),
            deadline: Duration::from_secs(seconds),
        }
    }

    /// The argv of the runner's client in a container.
    fn call(&self, container: &str, ask: Ask<'_>) -> Vec<String> {
        Call { container, uid: &self.uid, ask }.to_args()
    }

    /// Who tells how an execution about that token ended.
    fn told<'t>(&self, token: &'t str) -> Told<'t> {
        if self.runner { Told::ByRunner(token) } else { Told::ByItself }
    }

    /// Runs `status` anew (row A28, docs/requirements.md, reading 17), in a slot that was taken before.
    pub async fn status(&self, slot: Slot, ctx: &Context, command: &Command) -> StatusAnswer {
        let seconds = u64::from(command.timeout);
        let (argv, deadline) = match self.runner {
            // The runner's own poll may be under way and has to end first, so this takes up to two timeouts.
            true => (self.call(&command.container, Ask::Status), seconds.saturating_mul(2).saturating_add(WAY)),
            false => (command.exec.clone(), seconds.saturating_add(1)),
        };
        let ended = self.exec_in(slot, ctx, &command.container, &argv, deadline).await;
        if self.probed { evidence::probed(ended) } else { evidence::status(ended, self.told(NO_TOKEN)) }
    }

    /// Runs `sequence` (row A5). The runner adds the member's role right afterwards, if it can.
    pub async fn sequence(&self, ctx: &Context, command: &Command, token: &str) -> (Position, Option<StatusAnswer>) {
        let (argv, seconds) = self.question(command, token, true);
        let ended = self.exec(ctx, &command.container, &argv, seconds).await;
        evidence::sequence(ended, self.told(token))
    }

    /// Runs `memberList`: asks the member which members the application lists.
    ///
    /// # Errors
    /// Why there is no list, in words.
    pub async fn list(&self, ctx: &Context, command: &Command, token: &str) -> Result<List, String> {
        let (argv, seconds) = self.question(command, token, false);
        let ended = self.exec(ctx, &command.container, &argv, seconds).await;
        evidence::list(ended, self.told(token))
    }

    /// Runs `check` or `prepared`, beside which `status` goes on. Its exit code.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub async fn query(&self, ctx: &Context, command: &Command, token: &str) -> Result<i32, String> {
        let (argv, seconds) = self.question(command, token, false);
        let ended = self.exec(ctx, &command.container, &argv, seconds).await;
        evidence::query(ended, self.told(token))
    }

    /// The same for an administrator's command line, outside of the operator: it takes no slot and counts in no metric. The runner refuses it
    /// while another command runs in the member, for instance the `sequence` of the operator; then it is asked again for a while.
    pub async fn sequence_by_hand(&self, cluster: &dyn Cluster, command: &Command, token: &str) -> Position {
        let (argv, seconds) = self.question(command, token, true);
        let mut tries = 0;
        loop {
            let ended = cluster.exec(self.execution(&command.container, &argv, seconds)).await;
            if tries == BUSY || !evidence::was_busy(&ended, self.told(token)) {
                return evidence::sequence(ended, self.told(token)).0;
            }
            tries += 1;
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    /// The argv that runs a command which changes nothing, and how many seconds that may take. `quiet`: whether no status poll may run beside it.
    fn question(&self, command: &Command, token: &str, quiet: bool) -> (Vec<String>, u64) {
        let seconds = u64::from(command.timeout);
        if !self.runner {
            return (command.exec.clone(), seconds.saturating_add(1));
        }
        let exec = Exec {
            token,
            deadline: command.timeout,
            expect: None,
            quiet,
            if_status: None,
            if_sequence: None,
            env: &self.env,
            argv: &command.exec,
        };
        (self.call(&command.container, Ask::Exec(exec)), seconds.saturating_add(WAY))
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
        let (argv, deadline) = match self.runner {
            true => (start(self, intent, looks, argv), seconds.saturating_add(WAY)),
            false => (argv.to_vec(), seconds),
        };
        let ended = self.exec_in(slot, ctx, &intent.container, &argv, deadline).await;
        match evidence::started(ended, self.told(&intent.token)) {
            Started::Known(evidence, said) => (evidence, said),
            Started::Refused(why) => {
                let settled = self.settle(ctx, &intent.container, &intent.token).await;
                (evidence::refused(why, settled), None)
            }
        }
    }

    /// Asks the runner how a command ended. A token that the runner does not know is void from then on: it refuses to start it later.
    pub async fn settle(&self, ctx: &Context, container: &str, token: &str) -> Evidence {
        if !self.runner {
            return Evidence::Unknown("without the runner a command cannot be asked about again".into());
        }
        let argv = self.call(container, Ask::Settle(token));
        evidence::settled(self.exec(ctx, container, &argv, WAY).await, token)
    }
}

/// The argv of the runner's client that starts a command.
fn start(target: &Target, intent: &Intent, looks: &Looks<'_>, argv: &[String]) -> Vec<String> {
    // A command about other members leaves the one that executes it as it is.
    let expect = match intent.verb.intended() {
        _ if intent.verb.changes_no_role() => None,
        Role::Stopped => Some(Expect::Stopped),
        _ => Some(Expect::Running),
    };
    let if_sequence = looks.position.as_ref().map(|(sequence, position)| IfSequence {
        expected: position,
        deadline: sequence.timeout,
        argv: &sequence.exec,
    });
    let exec = Exec {
        token: &intent.token,
        deadline: intent.timeout,
        expect,
        quiet: false,
        if_status: looks.role.and_then(status_code),
        if_sequence,
        env: &target.env,
        argv,
    };
    target.call(&intent.container, Ask::Exec(exec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::BoxFuture;
    use std::sync::atomic::Ordering;
    use tanist_core::data::read_sequence;
    use tanist_core::evidence::Output;
    use tanist_core::record::Verb;

    fn target() -> Target {
        let (namespace, group) = ("shop".into(), "group".into());
        Target { namespace, group, pod: "db-0".into(), uid: "u".into(), runner: true, probed: false, env: Vec::new() }
    }

    fn intent() -> Intent {
        Intent {
            token: "seed-1-n".into(),
            verb: Verb::Seed,
            command: "seed".into(),
            member: "db-0".into(),
            target: None,
            pod_uid: "u".into(),
            container: "db".into(),
            container_id: "c".into(),
            generation: 1,
            started: 0,
            timeout: 60,
            term: 1,
            again: false,
            exited: None,
            version: None,
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

    // D6: every command has the cluster state as environment; without the runner there is no way to give it one.
    #[test]
    fn commands_and_questions_get_the_environment() {
        let command = Command { exec: vec!["/db/list".into()], container: "db".into(), timeout: 10 };
        let target = Target { env: vec!["A=x y".into(), "B=1".into()], ..target() };
        let given = ["--env", "A=x y", "--env", "B=1", "--", "/db/list"].map(str::to_owned);
        let started = start(&target, &intent(), &Looks::default(), &command.exec);
        assert!(started.ends_with(&given), "{started:?}");
        let asked = target.question(&command, "t", false).0;
        assert!(asked.ends_with(&given), "{asked:?}");
        assert!(
            !target.call("db", Ask::Status).contains(&"--env".to_owned()),
            "a poll has the environment of the runner"
        );
        let bare = Target { runner: false, ..target };
        assert_eq!(bare.question(&command, "t", false).0, command.exec);
    }

    // D2: while a member is asked for its list, its role may be polled; while its data is read, it may not.
    #[test]
    fn a_list_is_asked_beside_status_polls() {
        let command = Command { exec: vec!["/db/list".into()], container: "db".into(), timeout: 10 };
        let head = "/tanist/tanist-run exec --state /tanist/db --uid u --token t --deadline 10";
        let asked = |quiet| target().question(&command, "t", quiet).0.join(" ");
        assert_eq!(asked(false), format!("{head} -- /db/list"));
        assert_eq!(asked(true), format!("{head} --quiet-status -- /db/list"));
        let bare = Target { runner: false, ..target() };
        assert_eq!(bare.question(&command, "t", false), (vec!["/db/list".to_owned()], 11));
    }

    /// A member in which another command runs for the first executions.
    struct Busy(std::sync::atomic::AtomicUsize);

    impl Cluster for Busy {
        fn read(&self, _: cluster::Read) -> BoxFuture<'_, Result<cluster::Found, cluster::Error>> {
            unreachable!("a question reads no objects")
        }

        fn write(&self, _: cluster::Write) -> BoxFuture<'_, Result<Option<cluster::Object>, cluster::Error>> {
            unreachable!("a question writes no objects")
        }

        fn exec(&self, _: cluster::Exec) -> BoxFuture<'_, Ended> {
            let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            let frame = match left {
                Ok(_) => "tanist-run/1 t not-started:busy stdout=0 stderr=0 cut=0\n\ntanist-end t\n",
                Err(_) => "tanist-run/1 t exited:0 stdout=2 stderr=0 cut=0\n7\n\ntanist-end t\n",
            };
            let output = Output { stdout: frame.as_bytes().to_vec(), cut: false };
            Box::pin(async { Ended::Exited(0, output) })
        }
    }

    // Another command runs in the member for a moment, for instance the `sequence` of the operator: an administrator's question is asked again, and not for ever.
    #[tokio::test(start_paused = true)]
    async fn a_busy_member_is_asked_again_by_hand() {
        let command = Command { exec: vec!["/db/sequence".into()], container: "db".into(), timeout: 10 };
        let (target, command) = (&target(), &command);
        let asked = async |busy: usize| target.sequence_by_hand(&Busy(busy.into()), command, "t").await;
        assert_eq!(asked(BUSY).await, read_sequence(b"7").unwrap());
        assert!(matches!(asked(BUSY + 1).await, Position::Unknown(why) if why.contains("busy")));
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
}
