//! What users see: conditions and the table of members, computed from snapshot and plan alone.
mod available;
mod condition;
mod rescaling;
mod trouble;
mod update;

pub use condition::{Condition, ConditionReason, Finding, Kind, Truth};
pub use trouble::{Failed, Trouble};
pub use update::UpdatePhase;

use crate::check;
use crate::contract::{MemberName, Role, Sequence};
use crate::plan::{Action, Plan, Reason, Wait};
use crate::record::{MemberRecord, Verb, cut};
use crate::snapshot::{Batch, Member, Mode, Snapshot};
use rescaling::rescaling;

/// A row of the table of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The member's name.
    pub name: MemberName,
    /// The number in its name.
    pub ordinal: u32,
    /// The phase of its pod.
    pub phase: crate::contract::Phase,
    /// The role that its `status` command reports.
    pub role: Role,
    /// Why the role is unknown or failed.
    pub detail: Option<String>,
    /// The last sequence that was read from it.
    pub sequence: Option<Sequence>,
    /// The last term in which its role was confirmed.
    pub term: Option<u64>,
    /// The UID of its pod.
    pub pod_uid: Option<String>,
    /// The node that it runs on.
    pub node: Option<String>,
    /// The number of the template that its pod was made from.
    pub revision: Option<u64>,
    /// Whether it serves in its role.
    pub serving: bool,
    /// Commands that failed since the last start that succeeded.
    pub failures: u32,
    /// What the application's list says of it. Absent: the group has no command for that, or no list was read yet.
    pub membership: Option<Membership>,
    /// What the group waits for on this member.
    pub waits_for: Option<String>,
}

/// What the application's list of members says of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// It is a member with a vote.
    Voter,
    /// It is a member without a vote.
    Learner,
    /// It was added, and never started.
    Added,
    /// It is no member.
    NotListed,
}

/// How the group's policies are, as the host found them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyHealth {
    /// Every policy of the stack is loaded as the spec says.
    Active(String),
    /// The last good policy decides; the text says what is wrong with the new one.
    Stale(String),
    /// A policy was never loaded, so nothing is decided; the text says why.
    Missing(String),
    /// A policy is being loaded for the first time, or again after a restart; nothing is decided until then. The text says which.
    Loading(String),
    /// A policy changes so often that changes wait until its source is quiet; the text says which, and what decides meanwhile.
    Flapping(String),
    /// A policy failed several questions in a row, and the one before it decides; the text says which.
    Reverted(String),
}

impl PolicyHealth {
    /// The sentence that users see.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Active(text) | Self::Stale(text) | Self::Missing(text) => text,
            Self::Loading(text) | Self::Flapping(text) | Self::Reverted(text) => text,
        }
    }
}

/// Everything in the group's `status` except the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// In a fixed order.
    pub conditions: Vec<Condition>,
    /// One row for each member, by ordinal.
    pub members: Vec<Row>,
    /// The serving primaries.
    pub primaries: Vec<MemberName>,
    /// The number of members that serve in their role or are idle on purpose.
    pub settled: u32,
    /// The number of members that have a pod of the present template.
    pub updated: u32,
    /// How far the present template has come, and the member on which it is tried or failed.
    pub update: (UpdatePhase, Option<MemberName>),
}

/// Computes the report. `trouble`: what failed while observing or acting.
#[must_use]
pub fn report(s: &Snapshot, plan: &Plan, policies: &PolicyHealth, trouble: Option<&Trouble>) -> Report {
    let now = Snapshot { record: plan.record.clone(), ..s.clone() };
    let members: Vec<_> = now.members.iter().map(|m| row(&now, plan, m)).collect();
    let primaries: Vec<_> = now.serving().iter().map(|m| m.name.clone()).collect();
    // Those that leave are none of the desired ones.
    let settled = now.members.iter().filter(|m| settled(&now, m) && !now.leaves(m)).count();
    let updated = now.members.iter().filter(|m| update::is_updated(&now, m)).count();
    // Until the one in whose place it came is gone a new member is one more.
    let counts = |m: &&Member| changes_places(&now, m) || check::is_being_replaced(&now, m);
    let still = now.members.iter().filter(|_| update::is_replacing(&now)).filter(counts).count();
    let desired = usize::try_from(now.group.replicas).unwrap_or(usize::MAX);
    let updated = updated.min(desired.saturating_sub(still));
    let mut conditions = vec![
        ready(&now, plan, &primaries, settled),
        available::available(&now),
        progressing(&now, plan, trouble),
        degraded(&now, plan, trouble),
        policy_active(plan, policies),
        stalled(plan),
    ];
    if let Some(why) = &plan.needs_adoption {
        conditions.push(Condition::new(Kind::NeedsAdoption, Truth::True, Finding::DataWithoutMemory, why));
    }
    if let Some(message) = outdated(&now) {
        conditions.push(Condition::new(Kind::UpdatePending, Truth::True, Finding::PodsOfAnOlderTemplate, &message));
    }
    conditions.extend(rescaling(&now, plan));
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let update = update::update(&now);
    let settled = if still > 0 { settled.saturating_add(go_on(&now)).min(desired) } else { settled };
    Report { conditions, members, primaries, settled: number(settled), updated: number(updated), update }
}

/// The conditions when nothing could be observed: all that depend on an observation are Unknown.
#[must_use]
pub fn unobserved(trouble: &Trouble, policies: &PolicyHealth) -> Vec<Condition> {
    let mut conditions: Vec<_> = [Kind::Ready, Kind::Available, Kind::Progressing, Kind::Degraded, Kind::Stalled]
        .into_iter()
        .map(|kind| Condition::new(kind, Truth::Unknown, trouble.reason, &trouble.message))
        .collect();
    conditions.insert(4, policy_condition(policies));
    conditions
}

fn row(s: &Snapshot, plan: &Plan, m: &Member) -> Row {
    let memory = s.record.member(&m.name);
    let (role, detail) = s.role(m);
    let pod = m.pod.as_ref();
    Row {
        name: m.name.clone(),
        ordinal: m.ordinal,
        phase: pod.map_or(crate::contract::Phase::Missing, |p| p.phase),
        role,
        detail: detail.map(|d| cut(&d)),
        sequence: memory.sequence.clone(),
        term: memory.term,
        pod_uid: pod.map(|p| p.uid.clone()),
        node: pod.and_then(|p| p.node.clone()),
        revision: pod.and_then(|p| p.template),
        serving: [Role::Primary, Role::Secondary].iter().any(|r| s.confirmed(m, *r)),
        failures: memory.failures,
        membership: membership(s, m),
        waits_for: plan.waits.iter().find(|w| w.member.as_ref() == Some(&m.name)).map(|w| cut(&w.message)),
    }
}

/// By the last list on which members agreed.
fn membership(s: &Snapshot, m: &Member) -> Option<Membership> {
    let known = s.record.membership.as_ref().filter(|_| s.group.commands.membership.is_some())?;
    Some(match known.of(&m.name) {
        None => Membership::NotListed,
        Some(listed) if !listed.started => Membership::Added,
        Some(listed) if listed.voter => Membership::Voter,
        Some(_) => Membership::Learner,
    })
}

/// The message about pods of an older template (docs/requirements.md, reading 24). A template that only the operator changed, with another runner, reaches a pod
/// when that is replaced for another reason.
fn outdated(s: &Snapshot) -> Option<String> {
    let old: Vec<&Member> = s.members.iter().filter(|m| m.pod.as_ref().is_some_and(|p| p.outdated)).collect();
    let (older, runner): (Vec<&Member>, Vec<&Member>) = match s.group.update.mode {
        Mode::ByHand => (old, Vec::new()),
        Mode::ByOperator | Mode::Paused => {
            old.into_iter().partition(|m| m.pod.as_ref().is_some_and(|p| p.older_template))
        }
    };
    let named = |members: &[&Member], what: &str| {
        let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{}: {what}", names.join(", ")))
    };
    let (called, older): (Vec<&Member>, Vec<&Member>) = older.into_iter().partition(|m| check::is_replaced(s, m));
    let new = named(&called, "older template; new members come in their place");
    let first = named(
        &older,
        match s.group.update.mode {
            Mode::ByHand => "older template; to apply the present one delete these pods, one at a time",
            _ if s.record.stopped_at_canary(&s.group.update) => {
                "another template than the one that works; their next pods are of that one"
            }
            Mode::Paused => "older template; they get new pods when spec.update.paused is false",
            Mode::ByOperator if s.record.is_rolled_back(&s.group.update) => {
                "another template than the one that works; they get pods of that one"
            }
            Mode::ByOperator => match s.group.update.batch {
                Batch::Member => "older template; they get new pods one after the other, the primary last",
                Batch::Zone => "older template; they get new pods zone by zone, the primary last",
                Batch::All => "older template; they get new pods together, the primary last",
            },
        },
    );
    let second = named(
        &runner,
        "of another version of Tanist, or with a status or stop of before; their next pods have the present ones",
    );
    let all: Vec<String> = [new, first, second].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Whether `spec.template` changed and no pod runs the new one. Tools that wait for Ready after a change (`kubectl wait`, Flux) would
/// otherwise report success although nothing was rolled out.
fn only_older_templates(s: &Snapshot) -> bool {
    let mut pods = s.members.iter().filter_map(|m| m.pod.as_ref()).peekable();
    pods.peek().is_some() && pods.all(|p| p.older_template)
}

fn settled(s: &Snapshot, m: &Member) -> bool {
    let serving = [Role::Primary, Role::Secondary].iter().any(|r| s.confirmed(m, *r));
    let enough = s.group.is_stopped() || s.serving().len() >= s.group.desired_primaries();
    let idle = s.role(m).0 == Role::Stopped && enough && (s.group.is_stopped() || s.group.commands.secondary.is_none());
    // No Service leads to a stray pod, so its member is not in its role for clients.
    let stray = m.pod.as_ref().is_some_and(|p| p.stray.is_some());
    (serving || idle) && !stray
}

/// Whether the member comes in the place of another one, which is still there, and is in no role yet; or it leaves, because the one that came in its place is.
fn changes_places(s: &Snapshot, m: &Member) -> bool {
    let Some(seats) = s.record.seats.as_ref().filter(|_| s.group.makes_pods) else { return false };
    // After the cut-over nobody is called any more, and some of the new ones may still be on their way.
    let is_on_its_way =
        || check::is_side_by_side(s) && !seats.leaving.is_empty() && s.record.member(&m.name).term.is_none();
    (seats.is_successor(m.ordinal) || is_on_its_way()) && !settled(s, m) || seats.leaving.contains(&m.ordinal)
}

/// How many members of the former version go on beside the new ones after the cut-over, because some of these are still on their way.
fn go_on(s: &Snapshot) -> usize {
    let Some(seats) = s.record.seats.as_ref().filter(|_| check::is_side_by_side(s)) else { return 0 };
    let desired = usize::try_from(s.group.replicas).unwrap_or(usize::MAX);
    let stay = s.members.iter().filter(|m| !seats.leaving.contains(&m.ordinal) && settled(s, m)).count();
    let former = s.members.iter().filter(|m| seats.leaving.contains(&m.ordinal) && settled(s, m)).count();
    former.min(desired.saturating_sub(stay))
}

/// Whether the members are those that are desired, and each is in its role. New ones that are still to come in the place of others may be missing, or be there already.
fn is_whole(s: &Snapshot, settled: usize) -> bool {
    let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let there = s.members.iter().filter(|m| !changes_places(s, m)).count();
    let leading = s.serving().iter().filter(|m| !s.is_extra(m)).count();
    let may_be = number(s.group.replicas)..=number(s.roster().desired());
    let is_enough = may_be.contains(&settled.saturating_add(go_on(s)));
    leading == s.group.desired_primaries() && settled == there && is_enough
}

fn ready(s: &Snapshot, plan: &Plan, primaries: &[MemberName], settled: usize) -> Condition {
    if plan.waits.iter().any(|w| w.reason == Reason::Paused) {
        return Condition::new(Kind::Ready, Truth::Unknown, Reason::Paused, "the group is paused");
    }
    let asked = s.group.requested.replicas;
    let not_let_in = (asked != s.group.replicas)
        .then(|| format!("spec.replicas is {asked}, and policies have not allowed this number of members"));
    if s.group.is_stopped() && s.members.iter().all(|m| s.role(m).0 != Role::Primary) {
        if let Some(why) = &not_let_in {
            return Condition::new(Kind::Ready, Truth::False, Finding::NotAdmitted, why);
        }
        return Condition::new(Kind::Ready, Truth::True, Finding::Stopped, "spec.replicas is 0");
    }
    let unknown = s.members.iter().filter(|m| m.pod.is_some() && s.role(m).0 == Role::Unknown).count();
    let desired = usize::try_from(s.group.replicas).unwrap_or(usize::MAX);
    let text = format!(
        "{} of {} primaries serve, {} of {desired} members are in their role",
        primaries.len(),
        s.group.primaries,
        settled.saturating_add(go_on(s)).min(desired)
    );
    if is_whole(s, settled) {
        // The readiness of pods follows within seconds; until then Services do not lead to all members.
        let lags = s.members.iter().find(|m| !changes_places(s, m) && m.pod.as_ref().is_some_and(|p| !p.ready));
        if let Some(m) = lags {
            let message = format!("{text}; the pod of {} is not Ready yet", m.name);
            return Condition::new(Kind::Ready, Truth::False, Finding::PodsNotReady, &message);
        }
        if let Some(why) = not_let_in {
            return Condition::new(Kind::Ready, Truth::False, Finding::NotAdmitted, &format!("{text}; {why}"));
        }
        if s.record.is_rolled_back(&s.group.update) {
            let message = format!(
                "{text}; spec.template did not work, and pods have or get the template before it: change spec.template"
            );
            return Condition::new(Kind::Ready, Truth::False, Finding::RolledBack, &message);
        }
        let failed = s.record.canary_of(&s.group.update).filter(|canary| canary.failure().is_some());
        let concerns = || s.members.iter().any(|m| check::awaits_update(s, m));
        if let Some(canary) = failed.filter(|_| s.record.stopped_at_canary(&s.group.update) || concerns()) {
            let message = format!(
                "{text}; spec.template failed on {}, and nobody else gets it: change spec.template",
                canary.member
            );
            return Condition::new(Kind::Ready, Truth::False, Reason::CanaryFailed, &message);
        }
        if only_older_templates(s) {
            let how = match s.group.update.mode {
                Mode::ByHand => "it reaches a pod when you delete it",
                Mode::Paused => "spec.update.paused is set",
                Mode::ByOperator if s.members.iter().any(|m| check::is_replaced(s, m)) => {
                    "new members come in the place of the former ones"
                }
                Mode::ByOperator => match s.group.update.batch {
                    Batch::Member => "the pods are replaced one after the other",
                    Batch::Zone => "the pods are replaced zone by zone",
                    Batch::All => "the pods are replaced together",
                },
            };
            let message = format!("{text}; no pod runs the new spec.template yet: {how}");
            return Condition::new(Kind::Ready, Truth::False, Finding::UpdatePending, &message);
        }
        return Condition::new(Kind::Ready, Truth::True, Finding::AllMembersInRole, &text);
    }
    if primaries.is_empty() && unknown > 0 {
        return Condition::new(
            Kind::Ready,
            Truth::Unknown,
            Finding::RolesUnknown,
            &format!("{text}; the role of {unknown} members is unknown"),
        );
    }
    let why = plan.waits.first().map_or(String::new(), |w| format!("; {}", w.message));
    let reason = if primaries.is_empty() { Finding::NoPrimary } else { Finding::MembersNotInRole };
    Condition::new(Kind::Ready, Truth::False, reason, &format!("{text}{why}"))
}

/// Whether a wait ends by itself, without an administrator.
fn moves(wait: &Wait) -> bool {
    use Reason as R;
    match wait.reason {
        R::CreatingObjects | R::PodsNotRunning | R::CommandRunning | R::OutcomeUnknown | R::ConfirmingRole => true,
        R::ReadingPositions | R::MayBePrimary | R::MembersNotStopped | R::PolicyWaits | R::MemberFailed => true,
        R::PolicyLoading | R::DecisionDelayed => true,
        R::CandidatesFailed | R::NoCandidate => wait.until.is_some(),
        R::Paused | R::PositionUnknown | R::HistoriesDiffer | R::BelowHighWater | R::ClaimChanged => false,
        R::UnrecordedClaims | R::NeedsAdoption | R::PolicyRefuses | R::PolicyBroken | R::AnswerRejected => false,
        R::PodCannotStart | R::PodStray | R::FailoverPending | R::OverrideInvalid | R::SwitchoverFailed => false,
        R::FollowPending | R::ShrinkPending | R::SwitchoverPending | R::ListUnknown | R::ListsDiffer => true,
        R::MovePending | R::ZonesPending | R::ReplacementPending => true,
        R::RejoinPending | R::ResizePending | R::RecoverPending | R::Updating | R::VolumesGrowing | R::Canary => true,
        R::SplitBrain | R::KeptData | R::ResizeOverdue | R::UpdateStuck | R::RolledBack | R::RecoverInvalid => false,
        R::VolumeNotGrown | R::ConfigUnknown | R::CanaryFailed | R::ClusterStateBlocked => false,
        R::Upgrading => true,
        R::VersionTooLow => false,
    }
}

/// The condition Progressing while nothing is awaited.
fn calm(s: &Snapshot) -> Condition {
    let in_role = |role| s.members.iter().find(|m| s.role(m).0 == role).map(|m| &m.name);
    if let Some(name) = in_role(Role::Starting) {
        return Condition::new(Kind::Progressing, Truth::True, Finding::MemberStarting, &format!("{name} is starting"));
    }
    if let Some(name) = in_role(Role::Unknown) {
        return Condition::new(
            Kind::Progressing,
            Truth::Unknown,
            Finding::RolesUnknown,
            &format!("the role of {name} is unknown"),
        );
    }
    Condition::new(Kind::Progressing, Truth::False, Finding::Settled, "nothing is left to do")
}

fn progressing(s: &Snapshot, plan: &Plan, trouble: Option<&Trouble>) -> Condition {
    if let Some(trouble) = trouble {
        return Condition::new(Kind::Progressing, Truth::Unknown, trouble.reason, &trouble.message);
    }
    let run = plan.actions.iter().find_map(|a| match a {
        Action::Run { intent, .. } => Some(format!("{} on {}", intent.command, intent.member)),
        _ => None,
    });
    if let Some(run) = run {
        return Condition::new(Kind::Progressing, Truth::True, Finding::CommandStarted, &run);
    }
    // A policy that has answered nothing but "wait" for long makes no progress.
    let stuck = |w: &Wait| plan.stalled.is_some() && w.reason == Reason::PolicyWaits;
    match plan.waits.iter().find(|w| moves(w) && !stuck(w)) {
        Some(wait) => Condition::new(Kind::Progressing, Truth::True, wait.reason, &wait.message),
        None => match plan.waits.first() {
            Some(wait) => Condition::new(Kind::Progressing, Truth::False, wait.reason, &wait.message),
            None => calm(s),
        },
    }
}

fn degraded(s: &Snapshot, plan: &Plan, trouble: Option<&Trouble>) -> Condition {
    // While the data is converted nobody serves on purpose.
    let converts = check::is_converting(s)
        || s.record.intents.iter().any(|intent| intent.verb == Verb::Convert)
        || is_to_lead_first(s);
    let nobody_serves = s.record.term > 0 && !s.group.is_stopped() && s.serving().is_empty() && !converts;
    // That something takes long matters less than that nobody serves.
    let is_less = |reason| nobody_serves && matches!(reason, Reason::UpdateStuck | Reason::ResizeOverdue);
    let stands = |w: &&Wait| !moves(w) && w.reason != Reason::Paused && !is_less(w.reason);
    if let Some(wait) = plan.waits.iter().find(stands) {
        return Condition::new(Kind::Degraded, Truth::True, wait.reason, &wait.message);
    }
    if let Some(why) = &plan.stalled {
        return Condition::new(Kind::Degraded, Truth::True, Finding::Stalled, why);
    }
    if let Some(wait) = plan.waits.iter().find(|w| w.reason == Reason::MemberFailed) {
        return Condition::new(Kind::Degraded, Truth::True, Reason::MemberFailed, &wait.message);
    }
    if let Some(trouble) = trouble {
        return Condition::new(Kind::Degraded, Truth::True, trouble.reason, &trouble.message);
    }
    if plan.waits.iter().any(|w| w.reason == Reason::Paused) {
        return Condition::new(Kind::Degraded, Truth::Unknown, Reason::Paused, "the group is paused");
    }
    if nobody_serves {
        return Condition::new(
            Kind::Degraded,
            Truth::True,
            Finding::NoPrimary,
            "the group served before and no primary serves now",
        );
    }
    if let Some(member) = s.members.iter().find(|m| s.reachable(m) && s.role(m).0 == Role::Unknown) {
        return Condition::new(
            Kind::Degraded,
            Truth::Unknown,
            Finding::RolesUnknown,
            &format!("the role of {} is unknown", member.name),
        );
    }
    Condition::new(Kind::Degraded, Truth::False, Finding::Healthy, "nothing needs an administrator")
}

/// Whether a member has converted its data, and nobody led with that yet.
fn is_to_lead_first(s: &Snapshot) -> bool {
    let of_term = |known: Option<u64>| known == Some(s.record.term);
    let mut members = s.record.members.values();
    let converted = |known: &MemberRecord| known.version.is_some() && of_term(known.term);
    s.group.commands.upgrade.is_some() && members.clone().any(converted) && !members.any(|m| of_term(m.primary_term))
}

fn policy_active(plan: &Plan, policies: &PolicyHealth) -> Condition {
    if let Some(unanswered) = plan.broken.iter().find(|u| u.kind != crate::policy::NOT_LOADED) {
        let message = format!("{} could not answer ({}): {}", unanswered.policy, unanswered.kind, unanswered.message);
        return Condition::new(Kind::PolicyActive, Truth::False, Finding::PolicyFailed, &message);
    }
    if let Some(violation) = plan.violations.first() {
        return Condition::new(Kind::PolicyActive, Truth::False, Reason::AnswerRejected, &violation.message);
    }
    policy_condition(policies)
}

fn policy_condition(policies: &PolicyHealth) -> Condition {
    match policies {
        PolicyHealth::Active(text) => Condition::new(Kind::PolicyActive, Truth::True, Finding::Loaded, text),
        PolicyHealth::Stale(text) => Condition::new(Kind::PolicyActive, Truth::False, Finding::LastGoodDecides, text),
        PolicyHealth::Missing(text) => Condition::new(Kind::PolicyActive, Truth::Unknown, Finding::NoPolicy, text),
        PolicyHealth::Loading(text) => Condition::new(Kind::PolicyActive, Truth::Unknown, Reason::PolicyLoading, text),
        PolicyHealth::Flapping(text) => Condition::new(Kind::PolicyActive, Truth::False, Finding::Flapping, text),
        PolicyHealth::Reverted(text) => {
            Condition::new(Kind::PolicyActive, Truth::False, Finding::PreviousDecides, text)
        }
    }
}

fn stalled(plan: &Plan) -> Condition {
    if plan.waits.iter().any(|w| w.reason == Reason::Paused) {
        return Condition::new(Kind::Stalled, Truth::Unknown, Reason::Paused, "the group is paused");
    }
    match &plan.stalled {
        Some(why) if plan.waits.iter().any(|w| w.reason == Reason::PolicyWaits) => {
            Condition::new(Kind::Stalled, Truth::True, Finding::PolicyNeverDecides, why)
        }
        Some(why) => Condition::new(Kind::Stalled, Truth::True, Finding::NoCandidateLeft, why),
        None => Condition::new(Kind::Stalled, Truth::False, Finding::Moving, "there is a candidate, or none is needed"),
    }
}
