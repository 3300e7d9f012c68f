//! The frozen input of a decision: the spec, the record, what was observed, the time and a nonce. A decision looks at nothing else.
mod active;
mod commands;
mod group;
mod member;
mod surplus;

pub use commands::{Command, Commands, Hooks, MemberCommands, Query};
pub use group::{
    Batch, CutOver, Failover, Former, Group, Mode, Override, RecoveryRequest, Strategy, Update, UpgradeOn,
};
pub use member::{Amount, Claim, ClaimMark, Container, LeftClaim, Member, Pod, QueryAnswer, Reading, Room, StartNote};

use crate::contract::{MemberName, Phase, Position, Role, Timestamp};
use crate::evidence::Cause;
use crate::limits;
use crate::membership::Heard;
use crate::over;
use crate::record::{Intent, Record, Verb};
use crate::roster::{Roster, Standing};
use crate::state;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The frozen input of one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The time of the round in seconds since 1970.
    pub now: Timestamp,
    /// Since when this process has looked at the group, by the same clock.
    pub began: Timestamp,
    /// A random text that no other round has: it makes tokens unique even after the record was lost.
    pub nonce: String,
    /// The spec of the group, validated, with the parsed annotations.
    pub group: Group,
    /// The memory: the maximum of the status and the claims.
    pub record: Record,
    /// The objects that the group needs, and whether each is there as desired.
    pub objects: Vec<Object>,
    /// The `StatefulSet` as it is. Absent: there is none yet. A group whose pods this operator makes itself always has one: it stands for what the operator does.
    pub set: Option<Set>,
    /// What is left of the change of `spec.members.kind`. Absent: pods are made as the spec says.
    pub moving: Option<Moving>,
    /// Every expected member and every existing one, by ordinal.
    pub members: Vec<Member>,
    /// What is known about the end of each open command, by token.
    pub evidence: BTreeMap<String, Evidence>,
    /// The nodes of members and last primaries, by name. Absent: the operator may not read nodes.
    pub nodes: Option<BTreeMap<String, Node>>,
    /// When the nodes were read, in seconds since 1970: at that time, or later.
    pub nodes_at: Timestamp,
    /// Since when this process has seen that a node of a member or a last primary does not exist, in seconds since 1970.
    pub deleted_nodes: BTreeMap<String, Timestamp>,
    /// Since when this process has seen without a break that the pod of a last primary does not exist, by its UID, in seconds since 1970. Another process may have noted that earlier, by a clock that was wrong.
    pub gone_pods: BTreeMap<String, Timestamp>,
    /// UIDs of pods whose last status, before they vanished, showed that every container ended.
    pub ended: BTreeSet<String>,
    /// What members that run said of who is a member, by name. Absent: not asked. Empty in a group without the command.
    pub lists: BTreeMap<MemberName, Heard>,
    /// What `check` and `prepared` said last, by member, in the container that the member has now.
    pub answers: BTreeMap<(Query, MemberName), QueryAnswer>,
    /// Names of claims with ordinals beyond every expected member.
    pub surplus_claims: Vec<String>,
    /// Claims that members left behind which a scale-down removed.
    pub left_claims: Vec<LeftClaim>,
    /// The ConfigMap of `spec.clusterState`.
    pub cluster_state: state::Stored,
    /// Names of pods to which clients are led as to a primary of this group, and which another object made: a group of the same name that is gone, and whose pods are not deleted yet.
    pub strangers: BTreeSet<String>,
}

/// A Kubernetes object of the group as desired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its kind, for instance `StatefulSet`.
    pub kind: String,
    /// The name of the object, in the group's namespace.
    pub name: String,
    /// The manifest to apply. It is shared by all rounds while the group stays the same.
    pub manifest: Arc<serde_json::Value>,
    /// Whether the object is there as desired.
    pub current: bool,
    /// Its `resourceVersion` as it was seen: a precondition of changing it. Absent: there is no such object yet, and it may only be created.
    pub version: Option<String>,
    /// A pod that the API server has to find valid before this object is applied, which says of what pods are made from then on. It is not created. Absent: none.
    pub trial: Option<Arc<serde_json::Value>>,
}

/// What makes the pods as it is: the `StatefulSet`, or this operator itself ([`Group::makes_pods`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// Its UID: only pods it owns are members. Pods that this operator makes belong to the group.
    pub uid: String,
    /// Its `spec.replicas`: the number of pods that it has to make.
    pub replicas: u32,
    /// Its `resourceVersion` as it was seen: a precondition of shrinking it.
    pub version: String,
    /// Members whose pods it should have created and has not. Empty if that is not known.
    pub missing: BTreeMap<MemberName, Missing>,
    /// When it was last told to try again. Absent: never.
    pub nudged: Option<Timestamp>,
    /// Whether it does not have the present template yet, or was changed and its controller has not seen that: what it says of its pods is from before.
    pub unseen: bool,
    /// What members lack of their pod and claims, where this operator makes them: the claims come before the pod. Empty: something, and others have their turn first.
    pub lacking: BTreeMap<MemberName, Vec<Object>>,
}

/// A group that is on its way from one kind of members to the other (`spec.members.kind`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moving {
    /// Whether this operator is to make the pods. Otherwise a `StatefulSet` is.
    pub to_pods: bool,
    /// The `StatefulSet` that is there. Absent: none is.
    pub set: Option<MovingSet>,
}

/// The `StatefulSet` of a group that is on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MovingSet {
    /// The UID of the `StatefulSet`: a precondition of changing or deleting it.
    pub uid: String,
    /// Its `resourceVersion` as it was seen.
    pub version: String,
    /// Its `spec.replicas`: the number of pods that it has to make.
    pub replicas: u32,
    /// Whether it has the template of the group, and its controller has seen that.
    pub is_current: bool,
    /// Whether it was deleted already and its object is still there.
    pub is_being_deleted: bool,
}

/// A pod that the `StatefulSet` should have created and has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The first time at which it was seen to be missing.
    pub since: Timestamp,
    /// Why Kubernetes refuses to create it, in its words. Absent: there is no such event, or the operator may not read events.
    pub refused: Option<String>,
}

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Whether its kubelet reports.
    pub ready: bool,
    /// Since when it is ready or not, by the API server, or later if the operator saw it come back later.
    pub since: Timestamp,
    /// Since when this process has seen it report without a break. A time that another clock wrote is not enough as a proof.
    pub seen: Timestamp,
    /// Whether an administrator declared by the out-of-service taint that no process runs there any more.
    pub out_of_service: bool,
    /// Whether it is to be drained: it is cordoned, or about to be removed.
    pub cordoned: bool,
    /// Its zone (fault domain). Absent: unknown.
    pub zone: Option<String>,
}

/// What is known about the end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// It is running, or this operator waits for it.
    Running,
    /// It ended with this exit code.
    Exited(i32),
    /// It was not started and never will be under this token, for this reason.
    NotStarted(Cause),
    /// It was started and ended by a restart of its container.
    Interrupted,
    /// It may have run, may be running, or may never have started, for this reason.
    Unknown(Cause),
}

impl Snapshot {
    /// Who the members are.
    #[must_use]
    pub fn roster(&self) -> Roster<'_> {
        Roster::new(&self.group, self.set.as_ref(), &self.record)
    }

    /// The fully qualified name of a member.
    #[must_use]
    pub fn address(&self, member: &MemberName) -> String {
        format!("{member}.{}.{}.svc.{}", self.group.name, self.group.namespace, self.group.domain)
    }

    /// Whether the member is not desired any more: it leaves in an orderly way.
    #[must_use]
    pub fn leaves(&self, member: &Member) -> bool {
        self.roster().standing(member) == Standing::Leaving
    }

    /// The zone (fault domain) that the member's pod runs in. Absent: unknown.
    #[must_use]
    pub fn zone(&self, member: &Member) -> Option<&str> {
        self.nodes.as_ref()?.get(member.pod.as_ref()?.node.as_ref()?)?.zone.as_deref()
    }

    /// From when on a time counts that was stored, and on which a verdict rests that nobody takes back. Another process may have stored it by a clock that was wrong, so only
    /// the time counts in which this process has looked itself (docs/safety.md, S28).
    #[must_use]
    pub fn counts_from(&self, stored: Timestamp) -> Timestamp {
        stored.max(self.began).min(self.now)
    }

    /// The member of that name.
    #[must_use]
    pub fn member(&self, name: &MemberName) -> Option<&Member> {
        self.members.iter().find(|m| &m.name == name)
    }

    /// The pod with that UID, and its member.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<(&Member, &Pod)> {
        self.members.iter().find_map(|m| m.pod.as_ref().filter(|p| p.uid == uid).map(|p| (m, p)))
    }

    /// The role of a member by all evidence (docs/requirements.md, readings 17 and 18), with the reason if it is unknown or failed.
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

    /// The role as the member shows it now, even if a command failed on it before. This role settles commands.
    #[must_use]
    pub fn seen(&self, member: &Member) -> (Role, Option<String>) {
        if self.group.active_passive {
            return active::seen(self, member);
        }
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
            Role::Failed => (Role::Failed, reading.detail.clone().or_else(|| Some("its status says failed".into()))),
            role => (role, reading.detail.clone()),
        }
    }

    /// Whether commands can reach the member: its pod runs and is not being deleted.
    #[must_use]
    pub fn reachable(&self, member: &Member) -> bool {
        member.pod.as_ref().is_some_and(|p| p.phase == Phase::Running)
    }

    /// Whether the member serves: confirmed as primary of the current term, with no open command.
    #[must_use]
    pub fn serves(&self, member: &Member) -> bool {
        self.confirmed(member, Role::Primary)
    }

    /// Whether the member is confirmed in that role in the current term, with no open command. A secondary that may follow a primary that stopped
    /// is not.
    #[must_use]
    pub fn confirmed(&self, member: &Member, role: Role) -> bool {
        if self.group.active_passive {
            return active::confirmed(self, member, role);
        }
        let memory = self.record.member(&member.name);
        self.role(member).0 == role
            && memory.term == Some(self.record.term)
            && memory.started.is_none()
            && !(role == Role::Secondary && memory.follow_again)
            && self.record.intent_of(&member.name).is_none_or(|intent| intent.verb.changes_no_role())
    }

    /// Whether data may change now, so that positions read up to now are not valid for a seed or a failover: a member may be primary, or the group
    /// is paused and an administrator may change anything by hand.
    #[must_use]
    pub fn data_may_move(&self) -> bool {
        self.group.paused || !self.may_be_primary().is_empty()
    }

    /// Whether the member's position was read after the present question arose: since then no member was primary. That a member is stopped is not
    /// enough, because it may have run in between.
    #[must_use]
    pub fn position_is_current(&self, member: &Member) -> bool {
        member.position != Position::NotAsked && !member.position_stale
    }

    /// Whether the end of a command can be expected soon: its pod is on a node that reports, and its outcome is not unknown. Other members do not
    /// wait for a command whose outcome is unknown.
    #[must_use]
    pub fn is_under_way(&self, intent: &Intent) -> bool {
        let reports = self.pod(&intent.pod_uid).is_some_and(|(_, pod)| pod.phase != Phase::Unreachable);
        reports && !matches!(self.evidence.get(&intent.token), Some(Evidence::Unknown(_)))
    }

    /// Whether the member's node is to be drained. False if the operator may not read nodes.
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

    /// The serving primaries that secondaries follow and further primaries join, by ordinal: those that are not surplus.
    #[must_use]
    pub fn leading(&self) -> Vec<&Member> {
        self.serving().into_iter().filter(|m| !self.is_surplus(m)).collect()
    }

    /// The members that may be primary, serving or not, with the reasons (docs/rules.md, "May be primary").
    #[must_use]
    pub fn may_be_primary(&self) -> BTreeMap<MemberName, String> {
        over::may_be_primary(self)
    }

    /// Why this one may be primary, serving or not. `None`: it cannot be.
    #[must_use]
    pub fn why_may_be_primary(&self, name: &MemberName) -> Option<String> {
        over::why_may_be_primary(self, name)
    }

    /// The open command that makes a primary. There is at most one in a group.
    #[must_use]
    pub fn primary_command(&self) -> Option<&Intent> {
        self.record.intents.iter().find(|i| i.verb.makes_primary())
    }

    /// The override, if it is unused and names the current term. One that names another term was meant for another situation and has no effect.
    #[must_use]
    pub fn active_override(&self) -> Option<&Override> {
        self.unused_override().filter(|o| o.term == self.record.term)
    }

    /// The override, if it is unused, whatever term it names.
    #[must_use]
    pub fn unused_override(&self) -> Option<&Override> {
        self.group.requested_override.as_ref().filter(|o| self.record.used_override.as_ref() != Some(&o.raw))
    }

    /// The command that a verb executes on a member: a stopped winner of a failover is seeded, a running one promoted (docs/rules.md, "Which
    /// question arises").
    #[must_use]
    pub fn command(&self, verb: Verb, running: bool) -> (&'static str, &Command) {
        let commands = &self.group.commands;
        let or = |name, command: &'_ Option<Command>| command.is_some().then_some(name);
        let members = commands.membership.as_ref();
        let name = match verb {
            Verb::Seed => or("seed", &commands.seed).unwrap_or("primary"),
            Verb::Failover | Verb::Join if running => or("promote", &commands.promote).unwrap_or("primary"),
            Verb::Failover => or("seed", &commands.seed).unwrap_or("primary"),
            Verb::Join => "primary",
            Verb::Place => "secondary",
            Verb::Follow => or("follow", &commands.follow).unwrap_or("secondary"),
            Verb::Demote | Verb::Switchover | Verb::Remove | Verb::Treat | Verb::Halt => "stop",
            Verb::Rejoin if self.group.primaries < self.group.replicas => {
                or("secondary", &commands.secondary).unwrap_or("primary")
            }
            Verb::Rejoin => "primary",
            Verb::MemberAdd => "memberAdd",
            Verb::MemberRemove => "memberRemove",
            Verb::MemberPromote => "memberPromote",
            Verb::Recover => "recover",
            Verb::BeforeUpdate => "beforeUpdate",
            Verb::AfterUpdate => "afterUpdate",
            Verb::Wipe => "wipe",
            Verb::Convert | Verb::Upgrade => "upgrade",
        };
        let command = match name {
            "seed" => commands.seed.as_ref(),
            "promote" => commands.promote.as_ref(),
            "follow" => commands.follow.as_ref(),
            "secondary" => commands.secondary.as_ref(),
            "stop" => Some(&commands.stop),
            "memberAdd" => members.map(|m| &m.add),
            "memberRemove" => members.map(|m| &m.remove),
            "memberPromote" => members.and_then(|m| m.promote.as_ref()),
            "recover" => members.and_then(|m| m.recover.as_ref()),
            "wipe" => members.and_then(|m| m.wipe.as_ref()),
            "beforeUpdate" => commands.hooks.before.as_ref(),
            "afterUpdate" => commands.hooks.after.as_ref(),
            "upgrade" => commands.upgrade.as_ref(),
            _ => None,
        };
        // A check refuses these without their command; what would run in its place changes nothing.
        let is_refused = verb.changes_no_role() || matches!(verb, Verb::Recover | Verb::Convert | Verb::Wipe);
        let otherwise = if is_refused { &commands.status } else { &commands.primary };
        (name, command.unwrap_or(otherwise))
    }
}
