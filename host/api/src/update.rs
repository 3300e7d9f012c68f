//! How a changed template reaches the pods: the part `update` of a group's spec.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a changed template reaches the pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// How many members get a new pod at a time. `Member`: one after the other. Members whose pods cannot start, or whose last command failed, come first; then those that are
    /// no primaries, the highest ordinal first, each only while every other member is in its role; the primary is last, after a switchover to a member that has the new template.
    /// `Zone`: those of one zone (the label of the node that `spec.zones.nodeLabel` names) together, while all in other zones are in their role; one whose zone is not known goes alone. `All`: all together.
    /// With both, at least one primary serves all the time, a single one is the last, where members agree (`memberList`) a majority stays, and members without `volumeClaimTemplates` go one after the other. `None`: Tanist deletes no pod for an update; the condition `UpdatePending` names the pods that wait for you.
    #[serde(default)]
    pub batch: Batch,
    /// Whether a member gets a new pod under its name and on its volumes, or a new member comes in its place, with `members.kind: Pods`. `Recreate`: a new pod, unless the change calls for a new member (`replaceWhen`).
    /// `Replace`: a new member, whatever changed. `ReplacePrimaries`: a new member in the place of a primary, and a new pod for the others. A new member has a new number and volumes of its own; it joins
    /// first, and then the former one leaves. `SideBySide`: new members come in the place of all at once, and no reader reaches them before the cut-over (`cutOver`); then readers are led to them alone, the lead moves to one of them, and the former ones leave.
    /// What becomes of a former member's claims: `scaling.volumes`. A group without `commands.secondary` (and `memberList`) gets new pods: nobody could copy the data first.
    #[serde(default)]
    pub strategy: Strategy,
    /// With `strategy: SideBySide`: when readers are led to the new members. `All`: when as many members with the present template as the group has are in their role and Ready. `One`: when one is; the former ones leave only when all are. Before the cut-over a change of `template` back to what it was
    /// cancels the update, and with `paused` the cut-over waits.
    #[serde(default)]
    pub cut_over: CutOver,
    /// Changes of `template` that call for a new member, with `members.kind: Pods`: its volumes may bind a member to its node, and the new template may need another node. `NodeSelector`: `nodeSelector` has a label
    /// that it did not have, or with another value. `ResourceRequests`: the containers together request more processors or memory than before.
    #[serde(default = "replace_when")]
    #[schemars(length(max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub replace_when: Vec<ReplaceWhen>,
    /// How many members may be replaced by new members at a time: the group has that many more members meanwhile. With `strategy: SideBySide` all are. 0: none, so that no member is replaced; those that a change calls for
    /// wait, and get no new pod either.
    #[serde(default = "replacements")]
    #[schemars(range(max = 64))]
    pub max_concurrent_replacements: u32,
    /// While true, an update stops where it is.
    #[serde(default)]
    pub paused: bool,
    /// For how many seconds every other member has to have been ready before the next healthy member gets a new pod.
    #[serde(default)]
    #[schemars(range(max = 86_400))]
    pub wait_seconds: u32,
    /// For how many seconds every member, the one that gets a new pod too, has to have been ready since its last start, before a healthy member gets a new pod. So ten changes in a row restart no member
    /// more often than that.
    #[serde(default)]
    #[schemars(range(max = 86_400))]
    pub min_uptime_seconds: u32,
    /// Seconds without progress after which an update that is not done is reported: the condition `Degraded` is True with the reason `UpdateStuck` and says what is waited for.
    #[serde(default = "timeout")]
    #[schemars(range(min = 1, max = 604_800))]
    pub timeout_seconds: u32,
    /// For how many seconds the first member with a changed template is watched before others get it: it has to be in its role and Ready for that long without a break. When its container is restarted, its `status` says
    /// failed, or it takes `timeoutSeconds` longer, the template has failed (`CanaryFailed`): nobody else gets it until it changes, pods that are lost get the former one (docs/rules.md names exceptions), and with `onFailure: RollBack` pods go back. When the operator is replaced the watch begins anew. 0: the first member is one like the others.
    #[serde(default)]
    #[schemars(range(max = 604_800))]
    pub canary_seconds: u32,
    /// What becomes of a changed template that does not work: for `timeoutSeconds` one member that has it did not get into its role. `Wait`: it is reported, and the update goes on when what it waits for is
    /// over, or with the next template. `RollBack`: pods go back to the last template with which every member was in its role; `spec.template` stays as it is, and the group is not Ready, with the
    /// reason `RolledBack`, until you change it. With `Wait` in its place it is tried again. Data that the new template's program changed stays changed.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Where `commands.upgrade` converts the data when `spec.version` is later than the version of the data. `StoppedMember`: all members are stopped; secondaries first, and the primary when their pods of the present template run. Then the command
    /// runs once, on the member with the latest data, which leads afterwards; the others get their data anew by `commands.secondary`. `Primary`: once on a primary that serves, when all members have the present template.
    #[serde(default)]
    pub upgrade_on: UpgradeOn,
    /// Whether the data of the ConfigMaps that `template` names (volumes, projected ones too, `env` and `envFrom`, of init containers too) counts as a part of the template: when it changes, the members get new pods one
    /// after the other, as with a changed template. Changes of several within 10 s are one. Setting this gives the members new pods once, because nobody knows which data they started with.
    #[serde(default)]
    pub on_config_change: bool,
    /// The same for Secrets. The operator has no right to read Secrets unless you give it (`deploy/rbac/secrets`, in the chart `secrets.enabled`); it stores only a hash, and notices a change within
    /// `resyncIntervalSeconds`.
    #[serde(default)]
    pub on_secret_change: bool,
    /// How many former templates are stored, beside those that pods still run or would go back to, for `tanist history`, `tanist diff` and `tanist rollback`.
    #[serde(default = "history")]
    #[schemars(range(max = 100))]
    pub revision_history_limit: u32,
}

impl Default for Update {
    fn default() -> Self {
        Update {
            batch: Batch::default(),
            strategy: Strategy::Recreate,
            cut_over: CutOver::All,
            replace_when: replace_when(),
            max_concurrent_replacements: replacements(),
            paused: false,
            wait_seconds: 0,
            min_uptime_seconds: 0,
            timeout_seconds: timeout(),
            canary_seconds: 0,
            on_failure: OnFailure::Wait,
            upgrade_on: UpgradeOn::StoppedMember,
            on_config_change: false,
            on_secret_change: false,
            revision_history_limit: history(),
        }
    }
}

/// A member copies what it missed, which takes minutes where there is much.
fn timeout() -> u32 {
    600
}

/// Volumes are often bound to nodes.
fn replace_when() -> Vec<ReplaceWhen> {
    vec![ReplaceWhen::NodeSelector]
}

/// One: more need more room.
fn replacements() -> u32 {
    1
}

/// As many as a StatefulSet keeps.
fn history() -> u32 {
    10
}

/// What becomes of a changed template that does not work (docs/requirements.md, E35).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// It is reported.
    #[default]
    Wait,
    /// Pods go back to the last template that worked.
    RollBack,
}

/// Where the data is converted to a later version of the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeOn {
    /// On one member, while all are stopped.
    #[default]
    StoppedMember,
    /// On a primary that serves.
    Primary,
}

/// How members get a changed template (docs/requirements.md, B8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// By a new pod.
    #[default]
    Recreate,
    /// By a new member.
    Replace,
    /// Primaries by a new member, others by a new pod.
    ReplacePrimaries,
    /// By new members for all, which get clients together.
    SideBySide,
}

/// When readers are led to the new members of a group that has two versions side by side (docs/requirements.md, E4, E6, E7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CutOver {
    /// When all of them work.
    #[default]
    All,
    /// When one of them works.
    One,
}

/// A change of the template that calls for a new member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReplaceWhen {
    /// `nodeSelector` asks for something else.
    NodeSelector,
    /// The containers request more.
    ResourceRequests,
}

/// How many members get a new pod at a time (docs/requirements.md, B27).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Batch {
    /// One member after the other.
    #[default]
    Member,
    /// Those of one zone.
    Zone,
    /// All members at once.
    All,
    /// None: users delete the pods.
    None,
}
