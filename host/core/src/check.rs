//! The rules that no policy can break: one named variant and one function each.
//!
//! They run on every answer, and [`start`] runs again on live reads just before each act. A broken rule drops the whole answer.
mod answers;
mod claims;
mod failover;
mod leave;
mod members;
mod seed;

pub use answers::reply;
pub use failover::{counts, failover_alone, failover_group, failover_member, follows};
pub use leave::{handover_member, heir, remove_member, shrink_group, stayers_serve};
pub use members::{demote_member, failed_member, follow_member, join_group, join_member, place_group, place_member};
pub use seed::{highest_term, of_older_term, seed_group, seed_member, top};

use crate::contract::{MemberName, Phase, Role};
use crate::over::word;
use crate::record::{Intent, Verb};
use crate::snapshot::{Member, Snapshot};

/// Which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An answer names a member that the snapshot does not have (H10).
    UnknownMember,
    /// An answer chooses a member that was barred (H10, H12).
    BarredMember,
    /// An answer names a member twice (H10).
    DuplicateMember,
    /// An answer chooses nobody (H11).
    EmptyAnswer,
    /// A reason is longer than 256 bytes (H9).
    ReasonTooLong,
    /// An answer asks for a data source, which this group cannot provide.
    SourceNotPossible,
    /// A delay does not end later than now.
    DelayNotLater,
    /// A remedy that the group does not allow.
    RemedyNotPossible,
    /// Pod or container are not those of the plan (S8, S9).
    TargetReplaced,
    /// The pod does not run, or is being deleted (docs/rules.md, "Targets").
    TargetUnreachable,
    /// A command is unsettled on this member.
    MemberBusy,
    /// A command that makes a primary is unsettled in this group (A10).
    SecondPrimaryCommand,
    /// Fewer or more pods run than the set has (A1).
    Gate,
    /// Somebody may be primary (promise 1).
    MayBePrimary,
    /// Somebody is not stopped.
    NotAllStopped,
    /// A position is unknown that may be the freshest (A6, S10).
    PositionUnknown,
    /// Two histories inside the highest term (S14).
    HistoriesDiffer,
    /// The volume of a last primary is another one (S16).
    ClaimChanged,
    /// Claims beyond `replicas` that no orderly shrink recorded (S18).
    UnrecordedClaims,
    /// Data without memory.
    NeedsAdoption,
    /// A member without data, after the group was seeded (S17).
    EmptyMember,
    /// A member of a proven older term.
    OlderTerm,
    /// A member below the highest known data (A20, S13).
    BelowHighest,
    /// A member below what was ever seen (S15).
    BelowHighWater,
    /// A start of this term is not confirmed on it: it can block, not win.
    Unconfirmed,
    /// A command failed on it and nothing put it right (A21).
    MemberFailed,
    /// It failed a moment ago.
    BackOff,
    /// It has not the role that this needs.
    WrongRole,
    /// As many may be primary as are wanted (promise 1).
    PrimaryLimit,
    /// No primary serves.
    NobodyServes,
    /// Not more primaries serve than wanted.
    NotSurplus,
    /// No secondary runs that could take over.
    NobodyFollows,
    /// The owner of the application leaves it out (`spec.failover.preferRunning`).
    LeftOut,
    /// Nobody is ready to lead in its place.
    NoHeir,
    /// Those who stay do not serve yet (S25).
    StayersFirst,
    /// It hands over, and another member has the same data.
    HandsOver,
    /// Not exactly as many primaries serve as wanted, or nobody is left over (A15).
    NotPlaceable,
    /// The group has no command for it.
    NoCommand,
}

/// A rule that would be, or was, broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// By or on whom.
    pub member: Option<MemberName>,
    /// One sentence for people.
    pub message: String,
    /// When time alone will lift it.
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

/// Everything that has to hold when a command starts: run by `decide`, and again on live reads just before the act.
///
/// # Errors
/// The first rule that does not hold.
pub fn start(s: &Snapshot, intent: &Intent) -> Held {
    let name = &intent.member;
    let Some(member) = s.member(name) else {
        return Err(broken_by(Rule::TargetUnreachable, name, format!("{name} is no member any more")));
    };
    target(s, member, intent)?;
    match intent.verb {
        Verb::Seed => {
            lone(s)?;
            seed_group(s)?;
            seed::positions_read(s)?;
            seed_member(s, member)
        }
        Verb::Failover => {
            lone(s)?;
            failover_group(s)?;
            failover::positions_read(s)?;
            failover_member(s, member)
        }
        Verb::Join => {
            lone(s)?;
            join_group(s)?;
            join_member(s, member)
        }
        Verb::Place => {
            place_group(s)?;
            place_member(s, member)
        }
        Verb::Follow => {
            members::serving(s)?;
            follow_member(s, member)
        }
        Verb::Demote => demote_member(s, member),
        Verb::HandOver => {
            lone(s)?;
            handover_member(s, member)
        }
        Verb::Remove => remove_member(s, member),
        Verb::Treat => failed_member(s, member),
    }
}

/// The pod and container of the plan are still those, and can be reached (S8, S9).
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
    free(s, member)
}

/// Nothing is under way on the member, and commands reach it.
///
/// # Errors
/// [`Rule::TargetUnreachable`], [`Rule::MemberBusy`].
pub fn free(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if !s.reachable(member) {
        let phase = member.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
        return Err(broken_by(Rule::TargetUnreachable, name, format!("its pod is {}", phase_word(phase))));
    }
    if member.asked {
        return Err(broken_by(Rule::MemberBusy, name, "its sequence is being read"));
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

/// No other command that makes a primary is unsettled (A10).
///
/// # Errors
/// [`Rule::SecondPrimaryCommand`].
pub fn lone(s: &Snapshot) -> Held {
    match s.primary_command() {
        Some(i) => Err(broken_by(
            Rule::SecondPrimaryCommand,
            &i.member,
            format!("{} on {} is not settled", i.command, i.member),
        )),
        None => Ok(()),
    }
}

/// It failed: nothing is started on it before it is treated, and not before its back-off is over (A21).
///
/// # Errors
/// [`Rule::MemberFailed`], [`Rule::BackOff`].
pub fn rested(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if let (Role::Failed, why) = s.role(member) {
        return Err(broken_by(
            Rule::MemberFailed,
            name,
            format!("it failed and is not treated: {}", why.unwrap_or_default()),
        ));
    }
    let memory = s.record.member(name);
    match memory.retry_at {
        Some(at) if at > s.now => {
            let failure = memory.last_failure.map_or_else(String::new, |f| format!(" ({} failed)", f.command));
            let message =
                format!("it failed {} times{failure}; next try in {} s", memory.failures, at.saturating_sub(s.now));
            Err(Violation { until: Some(at), ..broken_by(Rule::BackOff, name, message) })
        }
        _ => Ok(()),
    }
}

fn role_is(s: &Snapshot, member: &Member, wanted: &[Role]) -> Held {
    let (role, why) = s.role(member);
    if wanted.contains(&role) {
        return Ok(());
    }
    let why = why.map(|w| format!(": {w}")).unwrap_or_default();
    Err(broken_by(Rule::WrongRole, &member.name, format!("it is {}{why}", word(role))))
}
