//! All that a decision may look at, frozen: the spec, the memory, and what was observed. Time and nonce are fields like any other.
use crate::contract::{MemberName, Phase, Position, Role, Timestamp};
use crate::limits;
use crate::over;
use crate::record::{Intent, LastPrimary, Record, Verb};
use std::collections::{BTreeMap, BTreeSet};

/// The frozen input of one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Seconds since 1970, read once.
    pub now: Timestamp,
    /// Unguessable text that no other round has: makes tokens unique even when memory was lost.
    pub nonce: String,
    /// The spec.
    pub group: Group,
    /// The memory: the maximum of status and claims.
    pub record: Record,
    /// The objects the group needs, and whether they are there as wished.
    pub objects: Vec<Object>,
    /// The `StatefulSet` as it is. Absent: there is none yet.
    pub set: Option<Set>,
    /// Every expected member and every existing one, by ordinal.
    pub members: Vec<Member>,
    /// What is known about the end of each unsettled command, by token.
    pub evidence: BTreeMap<String, Evidence>,
    /// Absent: nodes may not be read, nothing is known of them.
    pub nodes: Option<BTreeMap<String, Node>>,
    /// UIDs of pods whose last status, before they vanished, showed every container ended.
    pub ended: BTreeSet<String>,
    /// Claims of ordinals beyond every expected member.
    pub surplus_claims: Vec<String>,
}

/// The spec, validated.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Name of the object.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID: a group of the same name is another group.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Members wanted; 0: stopped.
    pub replicas: u32,
    /// Primaries wanted, resolved: `All` is `replicas`.
    pub primaries: u32,
    /// What to execute.
    pub commands: Commands,
    /// Whether `tanist-run` is PID 1, so that commands can be asked about again.
    pub runner: bool,
    /// Seconds a member may be `starting`.
    pub start_deadline: u32,
    /// Seconds after a deadline until a pod with a command of unknown outcome is deleted.
    pub unknown_grace: u32,
    /// The member that the user wants as primary.
    pub preferred_primary: Option<MemberName>,
    /// The DNS domain of the Kubernetes cluster, for instance `cluster.local`.
    pub domain: String,
    /// What has to be known before a secondary takes over.
    pub failover: Failover,
    /// Nothing is done while set.
    pub paused: bool,
    /// The value of `tanist.dev/retry`.
    pub retry: Option<String>,
    /// The parsed `tanist.dev/override`.
    pub overrule: Option<Overrule>,
    /// Why `tanist.dev/override` could not be read.
    pub overrule_error: Option<String>,
    /// Labels for policies.
    pub labels: Vec<(String, String)>,
}

impl Group {
    /// Whether the member is beyond `replicas`: it leaves, in an orderly way.
    #[must_use]
    pub fn is_surplus(&self, member: &Member) -> bool {
        member.ordinal >= self.replicas
    }

    /// Primaries wanted, as a count of members.
    #[must_use]
    pub fn wanted_primaries(&self) -> usize {
        usize::try_from(self.primaries).unwrap_or(usize::MAX)
    }
}

/// When a secondary may take over from a lost primary: what the application guarantees, which nobody but its owner knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failover {
    /// So many known positions among the members of the highest term are enough. Absent: all but a lost primary's.
    pub reads: Option<u32>,
    /// A stopped old primary is left out while secondaries run: they have everything it acknowledged.
    pub prefer_running: bool,
}

/// A person's decision against the memory: it lifts every check of seed and failover but Over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overrule {
    /// Who shall lead.
    pub member: MemberName,
    /// What its `sequence` has to say.
    pub position: Position,
    /// The group's term as the person saw it.
    pub term: u64,
    /// The annotation's value, remembered when used.
    pub raw: String,
}

/// The commands of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// Says the role by its exit code.
    pub status: Command,
    /// Says how recent the data is.
    pub sequence: Command,
    /// Stops the application.
    pub stop: Command,
    /// Starts a primary.
    pub primary: Command,
    /// Starts the first primary. Absent: `primary` does.
    pub seed: Option<Command>,
    /// Starts a secondary. Absent: surplus members stay idle.
    pub secondary: Option<Command>,
    /// Makes a running secondary primary. Absent: `primary` does.
    pub promote: Option<Command>,
    /// Points a secondary at another primary. Absent: `secondary` does.
    pub follow: Option<Command>,
}

impl Commands {
    /// The containers in which something of the application may run.
    pub fn containers(&self) -> impl Iterator<Item = &str> {
        let required = [&self.status, &self.sequence, &self.stop, &self.primary];
        let optional = [&self.seed, &self.secondary, &self.promote, &self.follow];
        required.into_iter().chain(optional.into_iter().flatten()).map(|c| c.container.as_str())
    }

    /// Whether the processes that are counted beside `status` are those of the application: every command that starts it runs in the container of
    /// `status`. Where one runs elsewhere, a count of 0 says nothing about the application.
    #[must_use]
    pub fn counts_application(&self) -> bool {
        let starts = [Some(&self.primary), self.seed.as_ref(), self.secondary.as_ref()];
        starts.into_iter().flatten().all(|c| c.container == self.status.container)
    }
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// argv, never a shell string.
    pub exec: Vec<String>,
    /// The container it runs in.
    pub container: String,
    /// Seconds it may take.
    pub timeout: u32,
}

/// An object of the group, as wished.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// For instance `StatefulSet`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What is applied.
    pub manifest: serde_json::Value,
    /// Whether it is there as wished.
    pub current: bool,
    /// Its `resourceVersion` as it was seen: a precondition of changing it. Absent: there is no such object yet, and creating it is all that
    /// may be done.
    pub version: Option<String>,
}

/// The `StatefulSet` as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// Its UID: only pods it owns are members.
    pub uid: String,
    /// Its `spec.replicas`.
    pub replicas: u32,
    /// Its `resourceVersion` as it was seen: a precondition of shrinking it.
    pub version: String,
    /// Members that it should have made a pod for, and has not. Empty where that is not known.
    pub missing: BTreeMap<MemberName, Missing>,
    /// When it was last told to try again. Absent: never.
    pub nudged: Option<Timestamp>,
}

/// A pod that the `StatefulSet` should have made, and has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Since when it is missing, at least.
    pub since: Timestamp,
    /// Why Kubernetes refuses it, in its words. Absent: it did not say, or the operator may not read it.
    pub refused: Option<String>,
}

/// A node, as far as it proves something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Whether its kubelet reports.
    pub ready: bool,
    /// Since when, as the API has it, or later where the operator saw it come back.
    pub since: Timestamp,
    /// Since when this operator's process has seen it report without a break: what is stored or written by another clock proves nothing alone.
    pub seen: Timestamp,
    /// Whether a person declared that nothing runs there any more.
    pub out_of_service: bool,
    /// Whether it is to be emptied: cordoned, or about to be removed.
    pub cordoned: bool,
    /// Its fault domain.
    pub zone: Option<String>,
}

/// A member as it was observed.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: MemberName,
    /// The number in its name.
    pub ordinal: u32,
    /// Absent: there is no pod that the group owns.
    pub pod: Option<Pod>,
    /// Its claims, by name.
    pub claims: Vec<Claim>,
    /// What `status` said.
    pub reading: Reading,
    /// What `sequence` said, in this life of the container.
    pub position: Position,
    /// When.
    pub position_at: Timestamp,
    /// Whether data may have moved when it was asked for, or since: somebody may have been primary, or the group was paused.
    pub position_led: bool,
    /// Whether `sequence` runs on it now: a command like any other, so nothing else may start.
    pub asked: bool,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The very pod.
    pub uid: String,
    /// Its `resourceVersion` as it was seen: a precondition of deleting it and of leading clients to it.
    pub version: String,
    /// What Kubernetes says about it.
    pub phase: Phase,
    /// Since when.
    pub phase_since: Timestamp,
    /// Kubernetes' readiness.
    pub ready: bool,
    /// Where it runs.
    pub node: Option<String>,
    /// Its termination grace in seconds.
    pub grace: u32,
    /// Its containers, by name.
    pub containers: BTreeMap<String, Container>,
    /// The value of its label `tanist.dev/role`.
    pub routed: Option<String>,
    /// Whether it was made from an older template: the fields of the new one reach it when it is replaced (row A50).
    pub outdated: bool,
    /// The state of its readiness gate. Absent: never written.
    pub gate: Option<bool>,
    /// Labels for policies.
    pub labels: Vec<(String, String)>,
    /// Why Kubernetes cannot start it, in its words. Absent: it runs, or is on its way.
    pub trouble: Option<String>,
    /// What it lacks to be found by the Services and managed by the `StatefulSet`, and what helps, in one sentence. Such a pod is a member all
    /// the same: its application lives. Absent: it lacks nothing.
    pub stray: Option<String>,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The very container. Absent: none was started yet.
    pub id: Option<String>,
    /// Whether it runs.
    pub running: bool,
    /// Whether its readiness probe holds: with the runner's, `status` said primary or secondary after a command that starts, stopped after one
    /// that stops.
    pub ready: bool,
}

/// A claim of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// The very claim: another UID is other data.
    pub uid: String,
    /// Its `resourceVersion` as it was seen: a precondition of writing the memory on it.
    pub version: String,
    /// What is written on it.
    pub mark: Option<ClaimMark>,
}

/// The memory on a claim: it outlives the group's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimMark {
    /// The group it was written for.
    pub group: String,
    /// The term in which the member was last confirmed.
    pub term: u64,
    /// Its last known sequence.
    pub sequence: Option<crate::contract::Sequence>,
    /// The primaries of that term, sorted.
    pub primaries: Vec<MemberName>,
    /// Where members ran that may be primary, as far as nothing proved them over when this was written; at most [`limits::MARKED_PRIMARIES`], its
    /// own member's first. Empty also where an operator wrote it that only knew the names.
    pub ran: Vec<LastPrimary>,
}

/// What `status` said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The role.
    pub role: Role,
    /// Why it is unknown or failed.
    pub detail: Option<String>,
    /// Since when the role is this.
    pub since: Timestamp,
    /// How often in a row it could not be read.
    pub unknown_streak: u32,
    /// Processes that the runner sees in the container of `status`; see [`Commands::counts_application`]. Absent: it was not asked.
    pub processes: Option<u32>,
}

impl Default for Reading {
    fn default() -> Self {
        Reading { role: Role::Unknown, detail: None, since: 0, unknown_streak: 0, processes: None }
    }
}

/// What is known about the end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// It runs, or this operator waits for it.
    Running,
    /// It ended with this code.
    Exited(i32),
    /// It was never started and never will be under this token; the text says why.
    NotStarted(String),
    /// It was started and cut off by a restart of its container.
    Interrupted,
    /// It may have run, may be running, or may never have started; the text says why.
    Unknown(String),
}

impl Snapshot {
    /// The member of that name.
    #[must_use]
    pub fn member(&self, name: &MemberName) -> Option<&Member> {
        self.members.iter().find(|m| &m.name == name)
    }

    /// The pod with that UID, and whose it is.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<(&Member, &Pod)> {
        self.members.iter().find_map(|m| m.pod.as_ref().filter(|p| p.uid == uid).map(|p| (m, p)))
    }

    /// The role of a member, all evidence weighed (docs/requirements.md, readings 17 and 18), and why where it is not plain.
    #[must_use]
    pub fn role(&self, member: &Member) -> (Role, Option<String>) {
        let Some(pod) = &member.pod else { return (Role::Unknown, Some("there is no pod".into())) };
        if let Some(broken) = &self.record.member(&member.name).broken {
            let id = pod.containers.get(&self.group.commands.status.container).and_then(|c| c.id.as_deref());
            if broken.pod_uid == pod.uid && id == Some(broken.container_id.as_str()) {
                return (Role::Failed, Some(broken.reason.clone()));
            }
        }
        self.seen(member)
    }

    /// The role as the member shows it now, whatever failed on it before: what settles a command.
    #[must_use]
    pub fn seen(&self, member: &Member) -> (Role, Option<String>) {
        let reading = &member.reading;
        let none_left = reading.processes == Some(0) && self.group.commands.counts_application();
        let gone = none_left && reading.unknown_streak >= limits::UNKNOWN_STREAK;
        let overdue = reading.since.saturating_add(i64::from(self.group.start_deadline)) < self.now;
        match reading.role {
            Role::Unknown if gone => {
                (Role::Failed, Some("status fails and no process of the application is left".into()))
            }
            Role::Starting if overdue => {
                (Role::Failed, Some(format!("starting for more than {} s", self.group.start_deadline)))
            }
            Role::Failed => (Role::Failed, reading.detail.clone().or_else(|| Some("its status says so".into()))),
            role => (role, reading.detail.clone()),
        }
    }

    /// Whether commands can reach the member: its pod runs and is not being deleted.
    #[must_use]
    pub fn reachable(&self, member: &Member) -> bool {
        member.pod.as_ref().is_some_and(|p| p.phase == Phase::Running)
    }

    /// Whether the member serves: primary of the current term, confirmed, with no command under way.
    #[must_use]
    pub fn serves(&self, member: &Member) -> bool {
        self.confirmed(member, Role::Primary)
    }

    /// Whether `status` says that role in the current term, and no command is under way.
    #[must_use]
    pub fn confirmed(&self, member: &Member, role: Role) -> bool {
        let memory = self.record.member(&member.name);
        self.role(member).0 == role
            && memory.term == Some(self.record.term)
            && memory.started.is_none()
            && self.record.intent_of(&member.name).is_none()
    }

    /// Whether data may move now, so that a position asked for up to now is no ground for a seed or a failover: somebody may be primary, or
    /// the group is paused and an administrator may do anything by hand.
    #[must_use]
    pub fn data_may_move(&self) -> bool {
        self.group.paused || !self.may_be_primary().is_empty()
    }

    /// Whether the member's position was asked for after the present question arose: since then nobody led. That a member is stopped proves
    /// nothing: it may have run in between.
    #[must_use]
    pub fn position_stands(&self, member: &Member) -> bool {
        member.position != Position::NotAsked && !member.position_led
    }

    /// Whether the end of a command can be expected: its pod is on a node that reports, and its outcome is not lost. A lost one is settled
    /// in its own time; others do not wait for it.
    #[must_use]
    pub fn is_under_way(&self, intent: &Intent) -> bool {
        let reports = self.pod(&intent.pod_uid).is_some_and(|(_, pod)| pod.phase != Phase::Unreachable);
        reports && !matches!(self.evidence.get(&intent.token), Some(Evidence::Unknown(_)))
    }

    /// Whether the member's node is to be emptied. Nodes that may not be read are not.
    #[must_use]
    pub fn is_cordoned(&self, member: &Member) -> bool {
        let name = member.pod.as_ref().and_then(|pod| pod.node.as_ref());
        let node = name.and_then(|name| self.nodes.as_ref()?.get(name));
        node.is_some_and(|node| node.cordoned)
    }

    /// The serving primaries, by ordinal.
    #[must_use]
    pub fn serving(&self) -> Vec<&Member> {
        self.members.iter().filter(|m| self.serves(m)).collect()
    }

    /// Who may be primary, serving or not, and why (docs/rules.md, "May be primary").
    #[must_use]
    pub fn may_be_primary(&self) -> BTreeMap<MemberName, String> {
        over::may_be_primary(self)
    }

    /// The unsettled command that makes a primary. At most one runs in a group.
    #[must_use]
    pub fn primary_command(&self) -> Option<&Intent> {
        self.record.intents.iter().find(|i| i.verb.makes_primary())
    }

    /// The override, while it is neither used nor stale. One that names another term was meant for another situation: it lifts nothing.
    #[must_use]
    pub fn overrule(&self) -> Option<&Overrule> {
        self.unused_overrule().filter(|o| o.term == self.record.term)
    }

    /// The override, stale or not, while it is not used.
    #[must_use]
    pub fn unused_overrule(&self) -> Option<&Overrule> {
        self.group.overrule.as_ref().filter(|o| self.record.used_override.as_ref() != Some(&o.raw))
    }

    /// The command that a verb executes on a member: a stopped winner of failover is seeded, a running one promoted (docs/rules.md, "Which question arises").
    #[must_use]
    pub fn command(&self, verb: Verb, running: bool) -> (&'static str, &Command) {
        let commands = &self.group.commands;
        let or = |name, command: &'_ Option<Command>| command.is_some().then_some(name);
        let name = match verb {
            Verb::Seed => or("seed", &commands.seed).unwrap_or("primary"),
            Verb::Failover | Verb::Join if running => or("promote", &commands.promote).unwrap_or("primary"),
            Verb::Failover => or("seed", &commands.seed).unwrap_or("primary"),
            Verb::Join => "primary",
            Verb::Place => "secondary",
            Verb::Follow => or("follow", &commands.follow).unwrap_or("secondary"),
            Verb::Demote | Verb::HandOver | Verb::Remove | Verb::Treat => "stop",
        };
        let command = match name {
            "seed" => commands.seed.as_ref(),
            "promote" => commands.promote.as_ref(),
            "follow" => commands.follow.as_ref(),
            "secondary" => commands.secondary.as_ref(),
            "stop" => Some(&commands.stop),
            _ => None,
        };
        (name, command.unwrap_or(&commands.primary))
    }
}
