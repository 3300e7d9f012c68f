//! The purposes of commands.
use crate::contract::Role;
use serde::{Deserialize, Serialize};

/// The purpose of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Start the first primary of a group that runs nowhere.
    Seed,
    /// Make a member with all data primary after the old primary was lost.
    Failover,
    /// Start a further primary.
    Join,
    /// Start a secondary.
    Place,
    /// Point a secondary at the present primary.
    Follow,
    /// Stop a surplus primary.
    Demote,
    /// Stop the primary so that another member leads.
    #[serde(rename = "hand-over")]
    Switchover,
    /// Stop a member beyond `replicas`.
    Remove,
    /// Stop a failed member.
    Treat,
    /// Start a member that the application lists while no primary serves: without a majority none of them does.
    Rejoin,
    /// Announce a member to the application, before it is started.
    MemberAdd,
    /// Take a member out of the application, before it is stopped.
    MemberRemove,
    /// Give a learner its vote.
    MemberPromote,
    /// Stop a member so that another one can be recovered.
    Halt,
    /// Start a member alone, with what it has, because an administrator gave up the others.
    Recover,
    /// Announce that the pods of some members are replaced (B11).
    BeforeUpdate,
    /// Say that they are back (B11).
    AfterUpdate,
    /// Remove the data of a stopped member that the application does not list any more (D20).
    Wipe,
    /// Convert the data of a stopped member to a later version of the application.
    Convert,
    /// Convert the data of the group to a later version of the application, on a primary that goes on serving.
    Upgrade,
}

impl Verb {
    /// The word that users see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Seed => "seed",
            Verb::Failover => "failover",
            Verb::Join => "join",
            Verb::Place => "place",
            Verb::Follow => "follow",
            Verb::Demote => "demote",
            Verb::Switchover => "switchover",
            Verb::Remove => "remove",
            Verb::Treat => "treat",
            Verb::Rejoin => "rejoin",
            Verb::MemberAdd => "member-add",
            Verb::MemberRemove => "member-remove",
            Verb::MemberPromote => "member-promote",
            Verb::Halt => "halt",
            Verb::Recover => "recover",
            Verb::BeforeUpdate => "before-update",
            Verb::AfterUpdate => "after-update",
            Verb::Wipe => "wipe",
            Verb::Convert => "convert",
            Verb::Upgrade => "upgrade",
        }
    }

    /// The token of a command that begins now. It is never used again: no two operators, and no two rounds of one, have the same nonce.
    #[must_use]
    pub fn token(self, counter: u64, nonce: &str) -> String {
        format!("{}-{counter}-{nonce}", self.as_str())
    }

    /// Whether the command with that token makes a primary.
    #[must_use]
    pub fn token_makes_primary(token: &str) -> bool {
        let all = [Verb::Seed, Verb::Failover, Verb::Join, Verb::Recover, Verb::Convert];
        all.iter().any(|v| v.makes_primary() && v.is_of(token))
    }

    /// Whether the command with that token changes who the members of the application are.
    #[must_use]
    pub fn token_changes_members(token: &str) -> bool {
        [Verb::MemberAdd, Verb::MemberRemove, Verb::MemberPromote].iter().any(|v| v.is_of(token))
    }

    /// Whether the token is one of such a command ([`Self::token`]).
    fn is_of(self, token: &str) -> bool {
        token
            .strip_prefix(self.as_str())
            .and_then(|rest| rest.strip_prefix('-'))
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Whether its success makes a primary, or data with which its member alone can be the next one: at most one such command is open in a group (A10).
    #[must_use]
    pub fn makes_primary(self) -> bool {
        matches!(self, Verb::Seed | Verb::Failover | Verb::Join | Verb::Recover | Verb::Convert)
    }

    /// Whether it stops its member. Another command after which the member is stopped found it so.
    #[must_use]
    pub fn stops(self) -> bool {
        self.intended() == Role::Stopped && !matches!(self, Verb::Convert | Verb::Wipe)
    }

    /// Whether its success says of which version the data is (`spec.version`).
    #[must_use]
    pub fn upgrades(self) -> bool {
        matches!(self, Verb::Convert | Verb::Upgrade)
    }

    /// Whether its member may be primary once it has started: it makes a primary, or members that agree choose themselves who of them leads. Until the member is proven over it is
    /// remembered where it ran.
    #[must_use]
    pub fn may_lead(self) -> bool {
        self.makes_primary() || self == Verb::Rejoin
    }

    /// Whether it opens a new term (docs/rules.md, "Term").
    #[must_use]
    pub fn opens_term(self) -> bool {
        matches!(self, Verb::Seed | Verb::Failover | Verb::Recover | Verb::Convert)
    }

    /// Whether it changes who the members of the application are. It runs in another member than the one that it is about, and changes no role.
    #[must_use]
    pub fn changes_members(self) -> bool {
        matches!(self, Verb::MemberAdd | Verb::MemberRemove | Verb::MemberPromote)
    }

    /// Whether it stands before or after the update of some members (B11). It runs in one member about others, and changes no role.
    #[must_use]
    pub fn is_hook(self) -> bool {
        matches!(self, Verb::BeforeUpdate | Verb::AfterUpdate)
    }

    /// Whether the member that executes it goes on in its role, with its clients.
    #[must_use]
    pub fn changes_no_role(self) -> bool {
        self.changes_members() || self.is_hook() || self == Verb::Upgrade
    }

    /// Whether no list counts any more that was said before it: it changes who the members are.
    #[must_use]
    pub fn ends_lists(self) -> bool {
        self.changes_members() || self == Verb::Recover
    }

    /// Whether `status` shows by that role that it worked. Members that agree choose themselves who of them leads.
    #[must_use]
    pub fn is_shown_by(self, role: Role) -> bool {
        role == self.intended() && !self.changes_no_role() || self == Verb::Rejoin && role == Role::Primary
    }

    /// The role that `status` has to show afterwards; unknown if it changes none.
    #[must_use]
    pub fn intended(self) -> Role {
        match self {
            Verb::Seed | Verb::Failover | Verb::Join | Verb::Recover => Role::Primary,
            Verb::Place | Verb::Follow | Verb::Rejoin => Role::Secondary,
            Verb::Demote | Verb::Switchover | Verb::Remove | Verb::Treat | Verb::Halt => Role::Stopped,
            Verb::Convert | Verb::Wipe => Role::Stopped,
            Verb::MemberAdd | Verb::MemberRemove | Verb::MemberPromote => Role::Unknown,
            Verb::BeforeUpdate | Verb::AfterUpdate | Verb::Upgrade => Role::Unknown,
        }
    }

    /// Whether a member on which it worked runs afterwards.
    #[must_use]
    pub fn leaves_running(self) -> bool {
        matches!(self.intended(), Role::Primary | Role::Secondary)
    }
}
