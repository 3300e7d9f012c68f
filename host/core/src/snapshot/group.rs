//! What the user asks for: the spec, validated.
use super::Commands;
use crate::contract::{MemberName, Position, Timestamp};
use crate::record::{GroupSize, Zone};
use crate::state::Template;
use std::collections::BTreeSet;

/// The spec, validated.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Name of the object.
    pub name: String,
    /// The namespace of the group, its pods and its other objects.
    pub namespace: String,
    /// Its UID: a group that is created anew under the same name has another one.
    pub uid: String,
    /// The `metadata.generation` of the object: the API server raises it at each change of the spec.
    pub generation: i64,
    /// The desired number of members: `spec.replicas`, or while policies do not let that in the number before. 0: the group is stopped.
    pub replicas: u32,
    /// `spec.replicas`, and `spec.primaries` for that many members.
    pub requested: GroupSize,
    /// The desired number of primaries; `All` is resolved to `replicas`. While policies do not let `spec.replicas` in, the number before.
    pub primaries: u32,
    /// The commands to execute in members.
    pub commands: Commands,
    /// Whether the members start and stop by themselves, and exactly one of them is active (docs/rules.md, "Active/passive"): the group has `status`, and no command that starts anything.
    pub active_passive: bool,
    /// Whether `tanist-run` is process 1 of the members, so that it can be asked how a command ended.
    pub runner: bool,
    /// Seconds for which a member may be `starting` before it counts as failed.
    pub start_deadline: u32,
    /// Seconds from a command's deadline until its pod is deleted if its outcome is still unknown.
    pub unknown_grace: u32,
    /// The member that the user wants as primary. Absent: none.
    pub preferred_primary: Option<MemberName>,
    /// The DNS domain of the Kubernetes cluster, for instance `cluster.local`.
    pub domain: String,
    /// What has to be known before a secondary takes over.
    pub failover: Failover,
    /// Seconds for which the application's members may stay other than desired without a change among them (`spec.scaling.deadlineSeconds`).
    pub resize_deadline: u32,
    /// Seconds from the end of one member to that of the next one that leaves (`spec.scaling.waitBetweenRemovalsSeconds`).
    pub removal_rest: u32,
    /// Whether the claims of members that were removed are deleted (`spec.scaling.volumes`).
    pub deletes_volumes: bool,
    /// Whether they are emptied before their members go, and stay.
    pub wipes_volumes: bool,
    /// How a changed template reaches the pods (`spec.update`).
    pub update: Update,
    /// The version of the application that the template has (`spec.version`). Absent: the user names none.
    pub version: Option<String>,
    /// Whether this operator makes the pods itself, and no `StatefulSet`: `spec.members.kind: Pods`, or what it was before while the group is on its way ([`Moving`](super::Moving)).
    pub makes_pods: bool,
    /// The numbers of members that the user wants to go (`spec.members.remove`).
    pub unwanted: BTreeSet<u32>,
    /// After how many commands in a row that failed in a member a new one comes in its place (`spec.members.replaceAfterFailures`). 0: never.
    pub replace_after: u32,
    /// The zones among which the members are divided (`spec.zones`). Empty: none are named.
    pub zones: Vec<Zone>,
    /// The ConfigMap that names the members (`spec.clusterState`). Absent: none is wanted.
    pub cluster_state: Option<Template>,
    /// Whether the group is paused: then only open commands are settled.
    pub paused: bool,
    /// The value of the annotation `tanist.dev/retry`.
    pub retry: Option<String>,
    /// The parsed annotation `tanist.dev/override`.
    pub requested_override: Option<Override>,
    /// Why the annotation `tanist.dev/override` could not be parsed.
    pub override_error: Option<String>,
    /// The parsed annotation `tanist.dev/recover`.
    pub requested_recovery: Option<RecoveryRequest>,
    /// Why the annotation `tanist.dev/recover` could not be parsed.
    pub recovery_error: Option<String>,
    /// Labels that policies see.
    pub labels: Vec<(String, String)>,
}

impl Group {
    /// Whether no member is desired: all stop, the primary last.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.replicas == 0
    }

    /// The desired number of primaries.
    #[must_use]
    pub fn desired_primaries(&self) -> usize {
        usize::try_from(self.primaries).unwrap_or(usize::MAX)
    }
}

/// How a changed template reaches the pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Who deletes the pods.
    pub mode: Mode,
    /// How many at a time, if this operator does.
    pub batch: Batch,
    /// Whether members get a new pod, or new members come in their place (`spec.update.strategy`).
    pub strategy: Strategy,
    /// Where new members come in the place of all at once: when readers are led to them (`spec.update.cutOver`).
    pub cut_over: CutOver,
    /// How many members may leave at a time because new ones come in their place. 0: none (`spec.update.maxConcurrentReplacements`).
    pub replacements: u32,
    /// Seconds for which every other member has been ready before the next healthy one gets a new pod.
    pub wait: u32,
    /// Seconds for which every member, the one that gets a new pod too, has been ready since its last start.
    pub min_uptime: u32,
    /// Seconds without progress after which an update is reported.
    pub timeout: u32,
    /// Seconds for which the first member with a changed template is watched. 0: it is not.
    pub canary: u32,
    /// Where the data is converted to a later version.
    pub upgrade_on: UpgradeOn,
    /// Whether pods go back to the last template that worked when a changed one does not (`spec.update.onFailure`).
    pub rolls_back: bool,
    /// Identifies `spec.template`: another text is another template. Empty: not known.
    pub template: String,
    /// Whether there is a template to go back to.
    pub former: Former,
    /// Why the configuration that belongs to the template is not known (`spec.update.onConfigChange`), as users see it. Absent: it is, or none belongs to it.
    pub config_trouble: Option<String>,
    /// Whether that is because a ConfigMap or Secret is not there without which no pod starts.
    pub config_missing: bool,
    /// When a change of the configuration counts, if nothing changes until then. Absent: nothing changed.
    pub config_settles: Option<Timestamp>,
}

impl Update {
    /// Seconds that a member may take from its new pod until the next one may go: beside the time for progress those for which a healthy one is meant to wait.
    #[must_use]
    pub fn allowed(&self) -> i64 {
        i64::from(self.timeout).saturating_add(i64::from(self.wait.max(self.min_uptime)))
    }
}

/// Whether the last template that worked is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Former {
    /// It was not looked for, or could not be read.
    #[default]
    Unknown,
    /// It is, and pods can be made from it.
    Kept,
    /// It is not, or no pod can be made from it with the present commands.
    Lost,
}

impl Default for Update {
    fn default() -> Self {
        Update {
            mode: Mode::ByOperator,
            batch: Batch::Member,
            strategy: Strategy::Recreate,
            cut_over: CutOver::All,
            replacements: 1,
            wait: 0,
            min_uptime: 0,
            timeout: 600,
            canary: 0,
            upgrade_on: UpgradeOn::StoppedMember,
            rolls_back: false,
            template: String::new(),
            former: Former::Unknown,
            config_trouble: None,
            config_missing: false,
            config_settles: None,
        }
    }
}

/// Who deletes pods of an older template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// This operator deletes them.
    ByOperator,
    /// This operator, once an administrator lets it go on.
    Paused,
    /// Users delete them; this operator does not.
    ByHand,
}

/// How members get a changed template where this operator makes the pods (B8). A change that calls for new members brings them whatever it says ([`Pod::needs_new_member`](super::Pod::needs_new_member)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// By a new pod under the same name, with the same volumes.
    #[default]
    Recreate,
    /// New members come in their place.
    Replace,
    /// The same for primaries; others get a new pod.
    ReplacePrimaries,
    /// New members come in the place of all, and get clients together (E4).
    SideBySide,
}

/// Where the data is converted to a later version of the application (`spec.update.upgradeOn`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpgradeOn {
    /// On one member, while all are stopped.
    #[default]
    StoppedMember,
    /// On a primary that serves, once all members have the present template.
    Primary,
}

/// When readers are led to the new members of a group that has two versions side by side (E4, E6, E7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CutOver {
    /// When as many of them as the group has members are in their role and Ready.
    #[default]
    All,
    /// When one of them is.
    One,
}

/// How many members get a new pod at a time (B27).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Batch {
    /// One member at a time.
    #[default]
    Member,
    /// Those of one zone (fault domain). One whose zone is not known goes alone.
    Zone,
    /// All that the rules allow.
    All,
}

impl Batch {
    /// As policies see it, in the fact `update-batch` (docs/facts.md).
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Batch::Member => "member",
            Batch::Zone => "zone",
            Batch::All => "all",
        }
    }
}

/// When a secondary may take over from a lost primary. These settings follow from what the application guarantees, which only its owner knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failover {
    /// How many known positions among the members of the highest term are enough. Absent: all, except that of a lost primary.
    pub reads: Option<u32>,
    /// Whether a stopped old primary is excluded while secondaries run, because they have all acknowledged writes.
    pub prefer_running: bool,
    /// How far below the most recent known data a running secondary may be and take over all the same, in the units of `sequence`. Absent: not
    /// at all.
    pub max_behind: Option<u64>,
}

/// An administrator's decision against the record: it lifts every check of seed and failover except Over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The member that has to lead.
    pub member: MemberName,
    /// The position that its `sequence` has to print.
    pub position: Position,
    /// The group's term that the administrator saw: the override holds in this term only.
    pub term: u64,
    /// The annotation's value; it is recorded when the override is used, so that it is not used again.
    pub raw: String,
}

/// An administrator's decision that one member of an application that agrees goes on alone with what it has. It is bound to the situation that the administrator saw, so that it has
/// no effect in another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryRequest {
    /// The member that goes on.
    pub member: MemberName,
    /// The UID of the group: one that is created anew under the same name has another one.
    pub group: String,
    /// The UIDs of the member's claims, in the order of their names ([`crate::memory::claim_uids`]).
    pub claim: String,
    /// Whether the administrator named that claim although it is not the one on which the member was started, for instance after a restore.
    pub restored: bool,
    /// The identity of the application's cluster that was remembered. Empty: none was.
    pub cluster: String,
    /// How often the list of members had changed. 0: none was remembered.
    pub list: u64,
    /// The annotation's value; it is recorded when it is done or refused, so that it is never done again.
    pub raw: String,
}
