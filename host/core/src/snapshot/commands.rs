//! The commands of a group, as the spec has them.

/// The commands of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// Reports the role by its exit code.
    pub status: Command,
    /// Prints how recent the data is. This one, `stop` and `primary` are never run in an active/passive group, which has none of them.
    pub sequence: Command,
    /// Stops the application.
    pub stop: Command,
    /// Starts a primary.
    pub primary: Command,
    /// Starts the first primary. Absent: `primary` is used.
    pub seed: Option<Command>,
    /// Starts a secondary. Absent: members beyond `primaries` stay idle.
    pub secondary: Option<Command>,
    /// Makes a running secondary primary. Absent: `primary` is used.
    pub promote: Option<Command>,
    /// Points a secondary at another primary. Absent: `secondary` is used.
    pub follow: Option<Command>,
    /// Tell and change who the members of the application are. Absent: it does not count its members, or needs no agreement of theirs.
    pub membership: Option<MemberCommands>,
    /// Says on the first member with a changed template whether that is well. Absent: its role and its containers say it alone.
    pub check: Option<Command>,
    /// Says on each member in its role whether pods may be deleted for an update. Absent: they may.
    pub prepared: Option<Command>,
    /// Run before and after the pods of some members are replaced for an update.
    pub hooks: Hooks,
    /// Converts data to a later version of the application. Absent: the application does that itself, or no version is named.
    pub upgrade: Option<Command>,
}

/// A command that asks a member something and changes nothing: exit code 0 is a yes, any other one a no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Query {
    /// `check`: is the application well with a changed template?
    Check,
    /// `prepared`: may pods be deleted for an update, as far as this member is concerned (C73)?
    Prepared,
}

impl Query {
    /// The command's name in the spec.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Query::Check => "check",
            Query::Prepared => "prepared",
        }
    }
}

/// The commands between which the pods of a batch of members are replaced (B11).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Run before the first pod of the batch is deleted. Absent: nothing is announced.
    pub before: Option<Command>,
    /// Run once all members of the batch are in their role again. Absent: nothing is said then.
    pub after: Option<Command>,
}

impl Hooks {
    /// Whether batches are announced, or their ends.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.before.is_none() && self.after.is_none()
    }
}

/// The commands of an application whose members have to agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberCommands {
    /// Prints who the members are ([`crate::membership::read_list`]).
    pub list: Command,
    /// Announces a member before it is started.
    pub add: Command,
    /// Takes a member out, before it is stopped.
    pub remove: Command,
    /// Gives a learner its vote. Absent: who is added has one.
    pub promote: Option<Command>,
    /// Starts a member alone, as the only member of its cluster, on the data that it has. Absent: a lost majority has no way out but the application's own.
    pub recover: Option<Command>,
    /// Removes the data of a member that left. Absent: it stays, or goes with the claim.
    pub wipe: Option<Command>,
}

impl Commands {
    /// The command of a query, if the group has it.
    #[must_use]
    pub fn query(&self, query: Query) -> Option<&Command> {
        match query {
            Query::Check => self.check.as_ref(),
            Query::Prepared => self.prepared.as_ref(),
        }
    }

    /// The containers in which something of the application may run.
    pub fn containers(&self) -> impl Iterator<Item = &str> {
        let required = [&self.status, &self.sequence, &self.stop, &self.primary];
        let optional = [&self.seed, &self.secondary, &self.promote, &self.follow, &self.upgrade];
        let recover = self.membership.iter().filter_map(|members| members.recover.as_ref());
        required.into_iter().chain(optional.into_iter().flatten()).chain(recover).map(|c| c.container.as_str())
    }

    /// The containers of `status` and of the starts: a pod that lacks one was made for other commands.
    pub fn at_home(&self) -> impl Iterator<Item = &str> {
        let starts = [Some(&self.status), Some(&self.primary), self.seed.as_ref(), self.secondary.as_ref()];
        starts.into_iter().flatten().map(|c| c.container.as_str())
    }

    /// Whether the runner's count of processes covers the application: every command that starts it runs in the container of `status`. If one runs
    /// in another container, a count of 0 says nothing about the application.
    #[must_use]
    pub fn counts_application(&self) -> bool {
        let recover = self.membership.as_ref().and_then(|members| members.recover.as_ref());
        let starts = [Some(&self.primary), self.seed.as_ref(), self.secondary.as_ref(), recover];
        starts.into_iter().flatten().all(|c| c.container == self.status.container)
    }
}

/// A command of the spec, which is executed in a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// argv; no shell is used.
    pub exec: Vec<String>,
    /// The container that it runs in.
    pub container: String,
    /// How long it may run, in seconds.
    pub timeout: u32,
}
