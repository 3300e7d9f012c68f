//! The rules that no policy can break: one named variant and one function each.
//!
//! They run on every answer, and [`start`] runs again on live reads just before each command. One broken rule drops the whole answer.
mod active;
mod answers;
mod beside;
mod claims;
mod elect;
mod failing;
mod failover;
mod hooks;
mod lead;
mod leave;
mod members;
mod membership;
mod moves;
mod prepared;
mod rebalance;
mod recover;
mod replace;
mod scaling;
mod seed;
mod update;
mod upgrade;
mod volumes;
mod waiting;
mod zones;

pub use active::{becomes_active, gets_label, stays_active};
pub use answers::reply;
pub use beside::{goes_along, held_back, is_side_by_side, leaves_together};
pub(crate) use elect::elect;
pub use failing::{fails_again_and_again, is_replaced_as_failing, next_failing, replace_failing};
pub use failover::{Behind, FailoverOrder, failover_alone, is_running_secondary};
pub use hooks::{
    batch_has_begun, due_hook, executes_hook, goes_on, hook_may_run, is_over, listed, open_batch, update_pod,
};
pub use lead::{
    Cause, failed_switchover, has_its_volumes, lead_candidate, lead_cause, policy_may_move_lead, sole_primary,
    update_cause,
};
pub use leave::{
    ended_member, is_needed_to_leave, is_out, is_successor, is_unconfirmed_primary, led_to_the_end, left_member,
    may_have_led, others_first, removals_rest, remove_member, shrink_group, stayers_serve, switchover_member,
};
pub use members::{
    demote_member, failed_member, follow_member, join_group, join_member, makes_room, place_group, place_member,
};
pub use membership::{
    add, agreed, change_group, change_target, counts, executes, healthy_majority, is_formed, is_let_go, kept, lost,
    promote, quorum_without, rejoin_member, remove,
};
pub use moves::{can_leave_set, fits_set, is_rolled_forward};
pub use prepared::{all_are_prepared, primary_may_stop, unprepared};
pub use rebalance::{rebalance_candidate, rebalance_group, rebalance_member};
pub use recover::{
    Asked, Serves, asked, halt_member, is_recovering, may_be_refused, recover_group, recover_member, serves,
};
pub use replace::{
    is_arriving, is_being_replaced, is_down, is_replaced, leaves_its_place, may_stay, replace_member,
    replacement_limit, update_next,
};
pub use scaling::{comes_or_leaves, due_change, may_change};
pub use seed::{SeedOrder, highest_term};
pub use update::{
    awaits_update, fails_with_template, gives_up_lead, has_no_place, has_present_template, is_in_its_place,
    is_taken_away, keeps_pod, may_be_judged, take_pod_away, template_works, update_idle, update_member,
    works_with_template,
};
pub use upgrade::{
    Upgrade, convert_group, convert_member, due_upgrade, halt_for_upgrade, has_later_data, has_programs_of,
    is_converting, programs_fit, rank, upgrade_group, upgrade_member,
};
pub use volumes::{WIPE, discard_claim, has_to_be_wiped, wipe_member};
pub use waiting::why_given_up;
pub use zones::{is_misplaced, move_member, next_to_move};

use crate::contract::{MemberName, Phase, Role};
use crate::over::role_word;
use crate::record::{Intent, Switchover, Verb};
use crate::snapshot::{Member, Snapshot};

/// The rule that a [`Violation`] breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An answer names a member that the snapshot does not have (H10).
    UnknownMember,
    /// An answer chooses a member that was barred (H10, H12).
    BarredMember,
    /// An answer names a member twice (H10).
    DuplicateMember,
    /// An answer has no candidate (H11).
    EmptyAnswer,
    /// A reason is longer than 256 bytes (H9).
    ReasonTooLong,
    /// An answer asks for a data source, which this group cannot provide.
    SourceNotPossible,
    /// A delay does not end later than now.
    DelayNotLater,
    /// An answer asks for a remedy that the group does not allow.
    RemedyNotPossible,
    /// Pod or container is not the one of the plan (S8, S9).
    TargetReplaced,
    /// The pod does not run, or is being deleted (docs/rules.md, "Targets").
    TargetUnreachable,
    /// A command is open on this member.
    MemberBusy,
    /// A command that makes a primary is open in this group (A10).
    SecondPrimaryCommand,
    /// Fewer or more pods run than expected (A1).
    PodCount,
    /// A member may be primary (promise 1).
    MayBePrimary,
    /// A member is not stopped.
    NotAllStopped,
    /// The data of a member that leaves is not removed yet (`spec.scaling.volumes: Wipe`).
    NotWiped,
    /// A position is unknown that may be the most recent (A6, S10).
    PositionUnknown,
    /// Two histories within the highest term (S14).
    HistoriesDiffer,
    /// The volume of a last primary was replaced (S16).
    ClaimChanged,
    /// Claims beyond `replicas` that no orderly shrink recorded, or the volume of the last leader or of the target of the latest unconfirmed seed or takeover, which is no member now (S15, S18).
    UnrecordedClaims,
    /// A member has data that neither the record nor a claim explains.
    NeedsAdoption,
    /// A member without data, after the group was seeded (S17).
    EmptyMember,
    /// A member of a proven older term.
    OlderTerm,
    /// A member below the highest known data (A20, S13).
    BelowHighest,
    /// A member below the most recent data that was ever seen (S15).
    BelowHighWater,
    /// A start on the member is not confirmed: it can block a decision, but not win it.
    Unconfirmed,
    /// The member failed and has not been treated (A21).
    MemberFailed,
    /// The member failed and its back-off is not over.
    BackOff,
    /// The member does not have the role that the command needs.
    WrongRole,
    /// As many members may be primary as desired (promise 1).
    PrimaryLimit,
    /// No primary serves.
    NobodyServes,
    /// No more primaries serve than desired, or the member is not beyond `replicas`.
    NotSurplus,
    /// No secondary runs that could take over.
    NobodyFollows,
    /// `spec.failover.preferRunning` excludes the member.
    LeftOut,
    /// No successor is ready to lead.
    NoSuccessor,
    /// A policy wants to move the lead, and an administrator decides who leads: by `spec.preferredPrimary` or an override.
    AdministratorDecides,
    /// A policy wants to move the lead, and it moved a short time ago.
    LeadMovedRecently,
    /// A policy wants to move the lead, and the last switchover to a member that it chose failed.
    SwitchoverFailed,
    /// A policy wants to move a secondary, and not everything of the group is in its place.
    NotAtRest,
    /// A policy wants to move a secondary, and a member became Ready, or something else happened in the group, a short time ago.
    ChangedRecently,
    /// A member has not said that it is prepared for pods to be deleted (C73).
    NotPrepared,
    /// The primary gets a new pod after the others, and gives up the lead first.
    PrimaryLast,
    /// The pod has the only copy of the data.
    OnlyCopy,
    /// The members that stay do not serve yet (S25).
    StayersFirst,
    /// The member gives up the lead, and another member has the same data.
    GivesUpLead,
    /// Not exactly the desired number of primaries serve, or no other member is left (A15).
    NotPlaceable,
    /// The group has no command for this.
    NoCommand,
    /// Who the members of the application are is not known well enough.
    ListUnknown,
    /// The members of the application are in different clusters (D27).
    SplitBrain,
    /// Fewer healthy voters than a majority would be left (D8, D14).
    QuorumAtRisk,
    /// Another change of the members is open, or half done (D15).
    ChangeOpen,
    /// The application does not list the member.
    NotListed,
    /// The application lists the member still (D19).
    StillListed,
    /// The volume is not that of the member's identity (D20).
    SecondIdentity,
    /// The application's cluster was formed before.
    AlreadyFormed,
    /// No administrator asked for the recovery of this member, in this situation (D8).
    NotAsked,
    /// A member is being recovered, and nobody else is started or changed (D8).
    Recovering,
    /// The data has to be converted to a later version of the application first.
    NotConverted,
    /// The data is of a later version than `spec.version`.
    VersionTooLow,
}

impl Rule {
    /// The word in events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Rule::UnknownMember => "UnknownMember",
            Rule::BarredMember => "BarredMember",
            Rule::DuplicateMember => "DuplicateMember",
            Rule::EmptyAnswer => "EmptyAnswer",
            Rule::ReasonTooLong => "ReasonTooLong",
            Rule::SourceNotPossible => "SourceNotPossible",
            Rule::DelayNotLater => "DelayNotLater",
            Rule::RemedyNotPossible => "RemedyNotPossible",
            Rule::TargetReplaced => "TargetReplaced",
            Rule::TargetUnreachable => "TargetUnreachable",
            Rule::MemberBusy => "MemberBusy",
            Rule::SecondPrimaryCommand => "SecondPrimaryCommand",
            Rule::PodCount => "PodCount",
            Rule::MayBePrimary => "MayBePrimary",
            Rule::NotAllStopped => "NotAllStopped",
            Rule::NotWiped => "NotWiped",
            Rule::PositionUnknown => "PositionUnknown",
            Rule::HistoriesDiffer => "HistoriesDiffer",
            Rule::ClaimChanged => "ClaimChanged",
            Rule::UnrecordedClaims => "UnrecordedClaims",
            Rule::NeedsAdoption => "NeedsAdoption",
            Rule::EmptyMember => "EmptyMember",
            Rule::OlderTerm => "OlderTerm",
            Rule::BelowHighest => "BelowHighest",
            Rule::BelowHighWater => "BelowHighWater",
            Rule::Unconfirmed => "Unconfirmed",
            Rule::MemberFailed => "MemberFailed",
            Rule::BackOff => "BackOff",
            Rule::WrongRole => "WrongRole",
            Rule::PrimaryLimit => "PrimaryLimit",
            Rule::NobodyServes => "NobodyServes",
            Rule::NotSurplus => "NotSurplus",
            Rule::NobodyFollows => "NobodyFollows",
            Rule::LeftOut => "LeftOut",
            Rule::NoSuccessor => "NoSuccessor",
            Rule::AdministratorDecides => "AdministratorDecides",
            Rule::LeadMovedRecently => "LeadMovedRecently",
            Rule::SwitchoverFailed => "SwitchoverFailed",
            Rule::NotAtRest => "NotAtRest",
            Rule::ChangedRecently => "ChangedRecently",
            Rule::NotPrepared => "NotPrepared",
            Rule::PrimaryLast => "PrimaryLast",
            Rule::OnlyCopy => "OnlyCopy",
            Rule::StayersFirst => "StayersFirst",
            Rule::GivesUpLead => "GivesUpLead",
            Rule::NotPlaceable => "NotPlaceable",
            Rule::NoCommand => "NoCommand",
            Rule::ListUnknown => "ListUnknown",
            Rule::SplitBrain => "SplitBrain",
            Rule::QuorumAtRisk => "QuorumAtRisk",
            Rule::ChangeOpen => "ChangeOpen",
            Rule::NotListed => "NotListed",
            Rule::StillListed => "StillListed",
            Rule::SecondIdentity => "SecondIdentity",
            Rule::AlreadyFormed => "AlreadyFormed",
            Rule::NotAsked => "NotAsked",
            Rule::Recovering => "Recovering",
            Rule::NotConverted => "NotConverted",
            Rule::VersionTooLow => "VersionTooLow",
        }
    }
}

/// A rule that an answer or a command breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    /// The broken rule.
    pub rule: Rule,
    /// The member that it is about. Absent: the whole group.
    pub member: Option<MemberName>,
    /// One sentence that users see.
    pub message: String,
    /// When the rule will hold if nothing else changes, in seconds since 1970. Absent: time alone does not lift it.
    pub until: Option<i64>,
}

/// The outcome of a rule.
pub type Held = Result<(), Violation>;

/// A violation about the whole group.
pub fn broken(rule: Rule, message: impl Into<String>) -> Violation {
    Violation { rule, member: None, message: message.into(), until: None }
}

/// A violation about one member.
pub fn broken_by(rule: Rule, member: &MemberName, message: impl Into<String>) -> Violation {
    Violation { rule, member: Some(member.clone()), message: message.into(), until: None }
}

/// Everything that has to hold when a command starts. `decide` runs it, and `act` again on live reads just before the command.
///
/// # Errors
/// The first rule that does not hold.
pub fn start(s: &Snapshot, intent: &Intent) -> Held {
    let name = &intent.member;
    let Some(member) = s.member(name) else {
        return Err(broken_by(Rule::TargetUnreachable, name, format!("{name} is no longer a member")));
    };
    target(s, member, intent)?;
    recover::lets(s, intent.verb)?;
    match intent.verb {
        Verb::Seed => {
            no_open_primary_command(s)?;
            let order = SeedOrder::of(s);
            order.group()?;
            order.positions_read()?;
            order.member(member)?;
            programs_fit(s, member)
        }
        Verb::Failover => {
            no_open_primary_command(s)?;
            let order = FailoverOrder::of(s);
            order.group()?;
            order.positions_read()?;
            order.member(member)
        }
        Verb::Join => {
            no_open_primary_command(s)?;
            join_group(s)?;
            join_member(s, &s.may_be_primary(), member)
        }
        Verb::Place => {
            place_group(s)?;
            place_member(s, member)
        }
        Verb::Follow => {
            members::serving(s)?;
            follow_member(s, member)
        }
        Verb::Demote => demote_member(s, &s.serving(), member),
        Verb::Switchover => {
            no_open_primary_command(s)?;
            switchover_member(s, member)
        }
        Verb::Remove => remove_member(s, member),
        Verb::Treat => failed_member(s, member),
        Verb::Rejoin => rejoin_member(s, member),
        Verb::MemberAdd | Verb::MemberRemove | Verb::MemberPromote => membership::change(s, intent),
        Verb::BeforeUpdate | Verb::AfterUpdate => hooks::hook(s, member, intent),
        Verb::Halt if is_converting(s) => halt_for_upgrade(s, member),
        Verb::Halt => halt_member(s, member),
        Verb::Convert => {
            no_open_primary_command(s)?;
            convert_group(s)?;
            let order = SeedOrder::of(s);
            order.group()?;
            order.positions_read()?;
            convert_member(s, &order, member)
        }
        Verb::Upgrade => {
            upgrade_group(s)?;
            upgrade_member(s, member)
        }
        Verb::Recover => recover_member(s, member),
        Verb::Wipe => wipe_member(s, member),
    }
}

/// The pod and container are still those of the plan, and commands reach them (S8, S9).
fn target(s: &Snapshot, member: &Member, intent: &Intent) -> Held {
    let name = &member.name;
    let Some(pod) = &member.pod else {
        return Err(broken_by(Rule::TargetReplaced, name, format!("the pod of {name} is gone")));
    };
    let id = pod.containers.get(&intent.container).filter(|c| c.running).and_then(|c| c.id.as_deref());
    if pod.uid != intent.pod_uid || id != Some(intent.container_id.as_str()) {
        return Err(broken_by(
            Rule::TargetReplaced,
            name,
            format!("the pod or container of {name} was replaced since the decision"),
        ));
    }
    can_take_command(s, member)
}

/// Commands reach the member, and no command is open on it.
///
/// # Errors
/// [`Rule::TargetUnreachable`], [`Rule::MemberBusy`].
pub fn can_take_command(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if !s.reachable(member) {
        let phase = member.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
        return Err(broken_by(Rule::TargetUnreachable, name, format!("its pod is {}", phase_word(phase))));
    }
    if member.asked {
        let commands = &s.group.commands;
        let queries = commands.check.is_some() || commands.prepared.is_some();
        let message = match (&commands.membership, queries) {
            (None, false) => "its sequence is being read",
            (Some(_), false) => "its sequence or its list of members is being read",
            (None, true) => "its sequence is being read, or another question to it is still open",
            (Some(_), true) => {
                "its sequence or its list of members is being read, or another question to it is still open"
            }
        };
        return Err(broken_by(Rule::MemberBusy, name, message));
    }
    match s.record.intent_of(name) {
        Some(intent) => {
            Err(broken_by(Rule::MemberBusy, name, format!("its command {} is not settled", intent.command)))
        }
        None => Ok(()),
    }
}

/// The phase of a pod in words that fit after "is".
#[must_use]
pub fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Missing => "missing",
        Phase::Pending => "not running yet",
        Phase::Running => "running",
        Phase::Terminating => "being deleted",
        Phase::Ended => "ended",
        Phase::Unreachable => "on a node that does not report",
    }
}

/// No other command that makes a primary is open (A10).
///
/// # Errors
/// [`Rule::SecondPrimaryCommand`].
pub fn no_open_primary_command(s: &Snapshot) -> Held {
    match s.primary_command() {
        Some(i) => Err(broken_by(
            Rule::SecondPrimaryCommand,
            &i.member,
            format!("{} on {} is not settled", i.command, i.member),
        )),
        None => Ok(()),
    }
}

/// The member has not failed, and no back-off of it is running: before that nothing is started on it (A21).
///
/// # Errors
/// [`Rule::MemberFailed`], [`Rule::BackOff`].
pub fn retry_allowed(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if let (Role::Failed, why) = s.role(member) {
        return Err(broken_by(
            Rule::MemberFailed,
            name,
            format!("it failed and has not been treated yet: {}", why.unwrap_or_default()),
        ));
    }
    let memory = s.record.member(name);
    match memory.retry_at {
        Some(at) if at > s.now => {
            let failure =
                memory.last_failure.as_ref().map_or_else(String::new, |f| format!(" (last command: {})", f.command));
            let message = format!("failures: {}{failure}; next try in {} s", memory.failures, at.saturating_sub(s.now));
            Err(Violation { until: Some(at), ..broken_by(Rule::BackOff, name, message) })
        }
        _ => Ok(()),
    }
}

fn role_is(s: &Snapshot, member: &Member, expected: &[Role]) -> Held {
    let (role, why) = s.role(member);
    if expected.contains(&role) {
        return Ok(());
    }
    let why = why.map(|w| format!(": {w}")).unwrap_or_default();
    Err(broken_by(Rule::WrongRole, &member.name, format!("it is {}{why}", role_word(role))))
}
