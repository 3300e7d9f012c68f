//! The commands of an application.
use super::spec::default;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The commands that are executed in a member's container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Commands {
    /// Tells the role of the member by its exit code: 0 running as secondary, 7 stopped, 8 running as primary, 9 failed, 10 starting. After
    /// any other code, a timeout or a broken stream the role is unknown. It runs often and at any time: it has to be cheap and to change
    /// nothing. In an active/passive group, which has no `primary`, it only says whether the member is well: 0, and any other code if it is not.
    #[serde(deserialize_with = "default::status")]
    pub status: Command,
    /// Prints how recent the member's data is, on one line: `EMPTY`, or a number of 64 bits, or `HISTORY:NUMBER` where numbers of different
    /// histories cannot be compared. It has to exit with 0. It runs only when a decision needs it, in running and in stopped members.
    /// Together with `stop` and `primary`: without all three the group is active/passive. Its members start and stop by themselves, and exactly one of those that are well is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Command>,
    /// Stops the member's application and returns when it has ended. It has to succeed when the application is already stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Command>,
    /// Starts the member as a primary that joins the primaries whose names it is given. It returns when that is done or has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<Command>,
    /// Starts the first primary of a group of which no member runs. Default: `primary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Command>,
    /// Starts the member as a secondary of the primaries whose names it is given. Default: members beyond `primaries` stay stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary: Option<Command>,
    /// Makes a running secondary primary. Default: `primary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promote: Option<Command>,
    /// Makes a running secondary follow the primaries whose names it is given. Default: `secondary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<Command>,
    /// Prints who the members of the application are. For applications whose members agree by a majority and count themselves, such as etcd. The first line is
    /// `cluster ID`, then each member has a line `NAME|- ID voter|learner healthy|unhealthy ADDRESS`: `-` for one that was added and never started, whose
    /// address begins with its name then (`http://db-3.db.shop:2380`). It runs in every member that serves, often, and has to change nothing and to be answered
    /// by a majority. Together with `memberAdd`, `memberRemove` and `seed`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "default::list")]
    pub member_list: Option<Command>,
    /// Announces a member to the others, before it is started. It runs in a member that serves. Its arguments `$(NAME)` and `$(ADDRESS)` are replaced by the name
    /// of the new member and its fully qualified name; without them both are appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_add: Option<Command>,
    /// Takes a member out, before it is stopped. It runs in another member that serves. Its arguments `$(NAME)`, `$(ADDRESS)` and `$(ID)` are replaced by name, fully
    /// qualified name and identity of the one that leaves; without them all three are appended. If that member leads the others, the command moves the lead first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_remove: Option<Command>,
    /// Gives a member its vote, once it serves. With it `memberAdd` has to add members without one (learners). It runs in another member that serves; arguments as for
    /// `memberRemove`. Default: whoever is added has a vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_promote: Option<Command>,
    /// Starts a stopped member alone, as the only member of its cluster, on the data that it has. Only `tanist recover GROUP --from MEMBER` runs it, when a majority is lost for good:
    /// nothing else of the group runs then, and the other members are given up. It returns when the member serves alone or has failed, and may be run again. Only together with
    /// `memberList`. Default: a lost majority is left to administrators and to the means of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recover: Option<Command>,
    /// Removes all data of the member, so that `sequence` prints `EMPTY`, and the member could be added as a new one. It runs only with `spec.scaling.volumes: Wipe`, in a stopped member that leaves, after a majority of the others
    /// said that it is no member any more, and never on the way to 0 members. Other members have everything that was acknowledged. It has to fail while the application runs, and `sequence` has to print `EMPTY` only when all is gone. After 5 failures the member leaves with its data. It may run again after a failure or an unknown end: then it has to succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wipe: Option<Command>,
    /// Says whether the application is well with a changed template: exit code 0, any other code means that the template failed. It runs on the first member that got the template, 10 s after the last answer while that
    /// is watched, and a last time when `spec.update.canarySeconds` are over; without these it never runs. It has to change nothing. After a timeout or a broken stream it runs again. No other command starts in the member meanwhile,
    /// also no takeover by it: keep its timeout short.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "default::list")]
    pub check: Option<Command>,
    /// Says whether this member is prepared for pods of the group to be deleted for a changed template: exit code 0, any other code means not yet. It runs on every member that is in its role, just before the pods of some members go and after
    /// `beforeUpdate`; while one of them says no, no pod is deleted, the only primary does not give up the lead for it, and it is asked again every 10 s. So members can be restarted together, with `spec.update.batch: All`, once all of them are ready for it. It has to change nothing. Program and container have to be
    /// there in all members, also in those of the former template. No other command starts in a member meanwhile, and a takeover waits for all of them: keep its timeout short. Members that leave, those in whose pods nothing runs, and those in whose place new members come go without it, and so do pods on the way back from a template that failed.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "default::list")]
    pub prepared: Option<Command>,
    /// Runs before the first pod of some members is deleted for a changed template, and these pods are deleted after it has succeeded: a monitor can be silenced, or a member taken out of a load balancer. It gets the names of the members in place
    /// of its argument `$(MEMBERS)`, without it at the end. It runs in one member that goes on in its role, a primary if possible, and may run again after a failure, on another member. Meanwhile no other command starts in that member: keep its timeout short, because a takeover by it, or from it while its data has to be read, waits. It runs in a container that runs in all members, also in those of the former template. With `spec.update.batch: Member` it runs for each member, and for the
    /// only primary before that gives up the lead. Not for members in whose pods nothing runs, nor where new members come in place of others.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "default::list")]
    pub before_update: Option<Command>,
    /// Runs when all those members are in their role again, and before the next ones go. Everything else as for `beforeUpdate`. While it fails no other member is updated.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "default::list")]
    pub after_update: Option<Command>,
    /// Converts the data of a member from the version `$(FROM)` to the version `$(TO)` of the application; without these arguments both are appended. It runs when `spec.version` is later than the version of the data (`status.version`), on a stopped member or on a
    /// primary that serves (`spec.update.upgradeOn`), in a pod of the present template, which needs the programs of both versions if the application does. It may run again after a failure or an unknown end, also on data that it has converted already: then it has to succeed. Allow plenty of time. Default: the application
    /// converts its data by itself when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Command>,
    /// Not supported yet, and refused. Before another member takes over, Tanist proves that the old primary's application has ended. A command
    /// that makes sure of it is planned for a later version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Command>,
}

impl Commands {
    /// The commands that the group has, by name, in the order of the fields.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, &Command)> {
        let all = [
            ("status", Some(&self.status)),
            ("sequence", self.sequence.as_ref()),
            ("stop", self.stop.as_ref()),
            ("primary", self.primary.as_ref()),
            ("seed", self.seed.as_ref()),
            ("secondary", self.secondary.as_ref()),
            ("promote", self.promote.as_ref()),
            ("follow", self.follow.as_ref()),
            ("memberList", self.member_list.as_ref()),
            ("memberAdd", self.member_add.as_ref()),
            ("memberRemove", self.member_remove.as_ref()),
            ("memberPromote", self.member_promote.as_ref()),
            ("recover", self.recover.as_ref()),
            ("wipe", self.wipe.as_ref()),
            ("check", self.check.as_ref()),
            ("prepared", self.prepared.as_ref()),
            ("beforeUpdate", self.before_update.as_ref()),
            ("afterUpdate", self.after_update.as_ref()),
            ("upgrade", self.upgrade.as_ref()),
            ("fence", self.fence.as_ref()),
        ];
        all.into_iter().filter_map(|(name, command)| Some((name, command?)))
    }

    /// Whether no command starts or stops members: they run by themselves, and exactly one of them is active (docs/rules.md, "Active/passive").
    #[must_use]
    pub fn is_active_passive(&self) -> bool {
        self.primary.is_none()
    }
}

/// One command of the application, as it is executed in a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// The program and its arguments. No shell is used unless you name one.
    #[schemars(length(min = 1, max = 128), inner(length(max = 65_536)))]
    pub exec: Vec<String>,
    /// The container of the template in which it runs. Default: `spec.container`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,
    /// How many seconds it may take: 1 to 86400. Default: 600, for `status` 5, for `memberList`, `check`, `prepared`, `beforeUpdate` and `afterUpdate` 10. The outcome of a command that takes longer is unknown, so allow
    /// plenty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u32>,
}

impl Command {
    /// How many seconds it may take.
    #[must_use]
    pub fn timeout(&self) -> u32 {
        self.timeout_seconds.unwrap_or(default::TIMEOUT)
    }
}
