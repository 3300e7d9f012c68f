//! Update: `spec.template` changed; which pods are deleted next, so that their members get some of the present template? Members that are in no role go at once. Of the others a policy
//! may choose among those that the rules allow, or hold them up. Without its opinion the secondaries go from the highest ordinal, one by one or in batches, then the primary, which gives
//! up the lead first (`switchover`). Where the change calls for a new member, none is deleted: the member is to leave, so another one is made and joins first.
use crate::check::{self, Cause};
use crate::contract::{Answer, MemberName, Ranking};
use crate::plan::{Action, DeletionCause, Plan, Reason};
use crate::policy::{Answered, Point, Policies, Reply};
use crate::record::{Batched, Event, Updating, Verdict, cut};
use crate::snapshot::{Member, Mode, Snapshot};
use crate::steps::ask::{self, Bars, Opinion};
use crate::steps::prepared;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The reason of the deletion that users see.
const WHY: &str = "it has an older template than the group";

/// Members that are in no role: before anything is started in their pods.
pub fn idle(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    for member in &s.members {
        if !plan.touches(&member.name) && check::update_idle(s, member).is_ok() {
            replace(s, plan, member, WHY);
        }
    }
}

/// The next member that is in its role. It comes after all that a round may find more urgent.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    s.group.update.config_settles.into_iter().for_each(|at| plan.look_again_at(at));
    if let Some(trouble) = &s.group.update.config_trouble {
        plan.wait(Reason::ConfigUnknown, None, cut(trouble));
    }
    // That is reported already. Whose pod has that template keeps it.
    if s.record.stopped_at_canary(&s.group.update) {
        plan.record.updating = None;
        return;
    }
    let all_old = || s.members.iter().filter(|m| check::awaits_update(s, m));
    let old: Vec<&Member> = all_old().filter(|m| !check::is_being_replaced(s, m)).collect();
    let is_of_another = |m: &Member| check::is_misplaced(s, m) || check::is_replaced_as_failing(s, m);
    let for_template = |m: &&Member| check::is_being_replaced(s, m) && !is_of_another(m);
    let replaced: Vec<&Member> = s.members.iter().filter(for_template).collect();
    let by_host = s.group.update.mode == Mode::ByOperator && !s.group.is_stopped();
    let next = next(s, &old).filter(|_| by_host);
    let Some(first) = next.or(replaced.first().copied().filter(|_| by_host)) else {
        plan.record.updating = None;
        return;
    };
    let (together, others): (Vec<&Member>, Vec<&Member>) =
        replaced.iter().copied().partition(|m| check::leaves_together(s, m));
    let waits = arrivals(s, &together).into_iter().chain(others.iter().map(|member| arrival(s, member)));
    let waits: Vec<_> = waits.chain(next.map(|next| advance(s, policies, plan, next, &old))).collect();
    let (left, all) = (all_old().count(), s.members.iter().filter(|m| !s.leaves(m)).count());
    let wait = format!("{} of {all} pods have the present template; {}", all.saturating_sub(left), waits.join("; "));
    plan.wait(Reason::Updating, Some(&first.name), wait);
    let update = &s.group.update;
    // While the first member is watched the others are meant to wait; when the template failed on it, that is reported already.
    match s.record.canary_of(update).filter(|canary| update.canary > 0 && canary.verdict != Some(Verdict::Passed)) {
        Some(_) => plan.record.updating = None,
        None => report_stuck(s, plan, u32::try_from(left).unwrap_or(u32::MAX)),
    }
}

/// What a member in whose place a new one comes waits for.
pub(super) fn arrival(s: &Snapshot, member: &Member) -> String {
    let why = check::leaves_its_place(s, member).err().map(|why| format!(": {why}")).unwrap_or_default();
    format!("a new member comes in place of {}{why}", member.name)
}

/// The same for those that leave together.
fn arrivals(s: &Snapshot, members: &[&Member]) -> Option<String> {
    let (first, others) = members.split_first()?;
    if others.is_empty() {
        return Some(arrival(s, first));
    }
    let why = check::leaves_its_place(s, first).err().map(|why| format!(": {why}")).unwrap_or_default();
    let names = match others.len() {
        1..=8 => members.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(", "),
        more => format!("{} and {more} others", first.name),
    };
    Some(format!("new members come in place of {names}{why}"))
}

/// Takes the next step, or says why none is taken.
fn advance(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, next: &Member, old: &[&Member]) -> String {
    // What is applied may be the new template; another object that the API server refuses holds up no update.
    let is_applied = plan.actions.iter().any(|a| matches!(a, Action::Apply(object) if object.kind == "StatefulSet"));
    // Those in no role go first, by themselves: what becomes of them in the second look holds up nobody else, and the other way round.
    let idle = plan.actions.iter().find_map(|action| match action {
        Action::DeletePod { member, cause: DeletionCause::Update, .. } => Some(member),
        _ => None,
    });
    match is_applied {
        _ if idle.is_some() => format!("{} gets a new pod", idle.unwrap_or(&next.name)),
        _ if plan.touches(&next.name) && !check::is_replaced(s, next) => format!("{} is next", next.name),
        true => format!("{} is next, when the StatefulSet is as desired", next.name),
        false => go_on(s, policies, plan, next, old),
    }
}

/// Who is next: those that are no primaries first; of them those that do not work, for whom a new member comes; then one whose node is to be drained, which has to move in any case; then from the highest ordinal (E32).
fn next<'a>(s: &Snapshot, old: &[&'a Member]) -> Option<&'a Member> {
    old.iter().copied().max_by_key(|m| rank(s, m))
}

fn rank(s: &Snapshot, member: &Member) -> (bool, bool, bool, bool, u32) {
    let is_cure = check::is_replaced(s, member) && check::is_down(s, member);
    // Of an open batch: nobody else goes before.
    let is_named = check::open_batch(s).is_some_and(|batch| batch.members.contains(&member.name));
    (is_cure, is_named, !s.serves(member), s.is_cordoned(member), member.ordinal)
}

/// Replaces the next pods, or says why none is replaced.
fn go_on(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, next: &Member, old: &[&Member]) -> String {
    // In the place of one that does not run a new one is called at once.
    let is_cure = check::is_replaced(s, next) && check::is_down(s, next);
    match if is_cure { Turn::Next } else { whose_turn(s, policies, plan) } {
        Turn::Nobody(why) => return format!("{} would be next: {why}", next.name),
        Turn::Of(members, why) => return replace_batch(s, plan, &members, &why),
        Turn::Next => {}
    }
    // Policies are asked about the lead before the members are told that it moves.
    if let Some(cause) = check::update_cause(s, next).filter(|_| !has_begun(s, &[&next.name])) {
        return match lets_lead_move(s, policies, plan, &cause) {
            true => announce(s, plan, [next.name.clone()].into()),
            false => format!("{} is next: a policy says when", next.name),
        };
    }
    // The lead moves in `switchover`, once all are prepared.
    let held = check::update_cause(s, next).and_then(|_| check::primary_may_stop(s, next).err());
    if let Some(violation) = held {
        prepared::ask(s, plan);
        return format!("{} is next: {violation}", next.name);
    }
    if let Err(violation) = check::update_next(s, next) {
        violation.until.into_iter().for_each(|at| plan.look_again_at(at));
        return format!("{} is next: {violation}", next.name);
    }
    let mut members: Vec<&Member> = old.to_vec();
    members.sort_by_key(|m| Reverse(rank(s, m)));
    replace_batch(s, plan, &members, WHY)
}

/// Who goes next, as far as a policy decides that.
enum Turn<'s> {
    /// No policy has an opinion: the host's order counts.
    Next,
    /// These, best first, and the reason of the deletion that users see.
    Of(Vec<&'s Member>, String),
    /// Nobody for now, and why.
    Nobody(String),
}

fn whose_turn<'s>(s: &'s Snapshot, policies: &dyn Policies, plan: &mut Plan) -> Turn<'s> {
    // The way back from a template that failed waits for nobody.
    if !policies.has(Point::Update) || s.record.is_rolled_back(&s.group.update) {
        return Turn::Next;
    }
    let bars = ask::bars(s, |member| check::update_next(s, member));
    let answered = match ask::ask_optional(s, policies, plan, Point::Update, &bars) {
        Opinion::None => return Turn::Next,
        Opinion::NoAnswer | Opinion::NotYet => {
            return Turn::Nobody("a policy that may have an opinion did not answer".into());
        }
        Opinion::Of(answered) => answered,
    };
    let policy = &answered.policy.name;
    match &answered.reply {
        Reply::Answer(Answer::Choose(ranking)) => chosen(s, plan, &answered, ranking, &bars),
        // An update that waits is no trouble: it is reported as stuck when it takes too long.
        Reply::Answer(Answer::Wait(delay)) => {
            delay.until.into_iter().for_each(|at| plan.look_again_at(at));
            Turn::Nobody(format!("policy {policy} waits: {}", cut(&delay.reason)))
        }
        Reply::Answer(Answer::Refuse(why)) => {
            ask::report_refusal::<()>(plan, &answered, why);
            Turn::Nobody(format!("policy {policy} refuses: {}", cut(why)))
        }
        Reply::Answer(Answer::Abstain) | Reply::Care(_) => Turn::Next,
    }
}

/// Whether the only primary may give up the lead now so that its pod is replaced, as far as policies decide who is next; the plan says why not.
pub fn lets_lead_move(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, cause: &Cause) -> bool {
    if !policies.has(Point::Update) || s.record.is_rolled_back(&s.group.update) {
        return true;
    }
    let may_go = |member: &Member| if member.name == cause.from { Ok(()) } else { check::update_next(s, member) };
    let bars = ask::bars(s, may_go);
    let answered = match ask::ask_optional(s, policies, plan, Point::Update, &bars) {
        Opinion::None => return true,
        Opinion::NoAnswer | Opinion::NotYet => return false,
        Opinion::Of(answered) => answered,
    };
    match &answered.reply {
        Reply::Answer(Answer::Choose(ranking)) => {
            // While a successor catches up the answer stays the same: it is said once.
            if s.record.switchover.as_ref().is_none_or(|known| known.from != cause.from) {
                plan.decisions.push(ask::policy_decision(s, Point::Update, &answered, ranking, &bars));
            }
            true
        }
        Reply::Answer(Answer::Wait(delay)) => {
            let why = format!("{}: policy {} waits: {}", cause.why, answered.policy.name, cut(&delay.reason));
            plan.wait_until(Reason::SwitchoverPending, Some(&cause.from), why, delay.until);
            false
        }
        Reply::Answer(Answer::Refuse(why)) => {
            ask::report_refusal::<()>(plan, &answered, why);
            false
        }
        Reply::Answer(Answer::Abstain) | Reply::Care(_) => true,
    }
}

fn chosen<'s>(s: &'s Snapshot, plan: &mut Plan, answered: &Answered, ranking: &Ranking, bars: &Bars) -> Turn<'s> {
    let decision = ask::policy_decision(s, Point::Update, answered, ranking, bars);
    let why = cut(&format!("{WHY}; policy {} chose it: {}", answered.policy.name, decision.reason));
    plan.decisions.push(decision);
    Turn::Of(ranking.candidates.iter().filter_map(|candidate| s.member(&candidate.member)).collect(), why)
}

/// Replaces the pod of the first member, and of all others that may go along with it, or calls a new member in its place. Says whose.
fn replace_batch(s: &Snapshot, plan: &mut Plan, members: &[&Member], why: &str) -> String {
    if let Some(first) = members.first().filter(|first| check::is_replaced(s, first)) {
        let others = members.iter().skip(1).filter(|other| check::goes_along(s, other));
        return others
            .fold(call_new(s, plan, first, why), |said, other| format!("{said}; {}", call_new(s, plan, other, why)));
    }
    // The rules are held against what will be when the others are gone.
    let mut then = s.clone();
    let mut batch: Vec<&Member> = Vec::new();
    for member in members {
        if batch.is_empty() || !plan.touches(&member.name) && check::update_member(&then, member).is_ok() {
            check::take_pod_away(&mut then, &member.name);
            batch.push(member);
        }
    }
    let names: Vec<&MemberName> = batch.iter().map(|member| &member.name).collect();
    if !has_begun(s, &names) {
        return announce(s, plan, names.into_iter().cloned().collect());
    }
    let listed = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Err(violation) = check::all_are_prepared(s) {
        prepared::ask(s, plan);
        // Whom a policy chose does not go yet, so nothing was decided.
        plan.decisions.retain(|decision| decision.point != Point::Update);
        let verb = if names.len() == 1 { "is next" } else { "are next" };
        return format!("{listed} {verb}: {violation}");
    }
    batch.iter().for_each(|member| replace(s, plan, member, why));
    let verb = if names.len() == 1 { "gets a new pod" } else { "get new pods" };
    format!("{listed} {verb}")
}

/// Whether the pods of these members may go as far as `beforeUpdate` is concerned.
fn has_begun(s: &Snapshot, names: &[&MemberName]) -> bool {
    let members = names.iter().filter_map(|name| s.member(name));
    members.into_iter().all(|member| check::batch_has_begun(s, member).is_ok())
}

/// Names the batch that begins. The commands about it follow from the next round on (`hooks`).
fn announce(s: &Snapshot, plan: &mut Plan, members: BTreeSet<MemberName>) -> String {
    let batch = Batched { members, begun: false, failures: 0, retry_at: None };
    let what = format!("the update of {} is being announced", check::listed(&batch));
    if check::open_batch(s).is_none() {
        plan.record.batch = Some(batch);
        plan.look_again_at(s.now.saturating_add(1));
    }
    what
}

/// From the next round on one more member is desired. In this one nothing rests on that: the second look has the record from before it. Where no more may be on their way out, one that works stays in exchange: the
/// new one that comes in its place does so in the place of this one.
pub(super) fn call_new(s: &Snapshot, plan: &mut Plan, member: &Member, why: &str) -> String {
    if let Some(seats) = &mut plan.record.seats {
        let limit = usize::try_from(check::replacement_limit(s)).unwrap_or(usize::MAX);
        let well = s.members.iter().rev().find(|m| check::is_being_replaced(s, m) && !check::is_down(s, m));
        let instead = well.filter(|_| seats.replaced.len() >= limit).and_then(|m| seats.keep(m.ordinal));
        seats.replaced.insert(member.ordinal, instead.unwrap_or(seats.next));
    }
    plan.record.note(s.now, Event::ReplacementBegun, Some(&member.name), Some(why.into()));
    plan.look_again_at(s.now.saturating_add(1));
    format!("a new member comes in place of {}", member.name)
}

fn replace(s: &Snapshot, plan: &mut Plan, member: &Member, why: &str) {
    let Some(pod) = &member.pod else { return };
    plan.record.note(s.now, Event::PodDeleted, Some(&member.name), Some(why.into()));
    plan.actions.push(Action::DeletePod {
        member: member.name.clone(),
        pod_uid: pod.uid.clone(),
        cause: DeletionCause::Update,
        reason: why.into(),
    });
}

/// Says so when an update makes no progress (E35). It goes on when what it waits for is over; a template that does not work is given up by `rollback` alone.
pub(super) fn report_stuck(s: &Snapshot, plan: &mut Plan, left: u32) {
    // A new member that copies the data makes progress: time counts from its end on.
    if s.members.iter().any(|member| check::is_arriving(s, member)) {
        plan.record.updating = None;
        return;
    }
    let known = plan.record.updating.take().filter(|known| known.left == left);
    let updating = known.unwrap_or(Updating { left, since: s.now });
    let allowed = s.group.update.allowed();
    let overdue = updating.since.saturating_add(allowed);
    plan.record.updating = Some(updating);
    if s.now < overdue {
        return plan.look_again_at(overdue);
    }
    let why = plan.waits.last().map(|wait| wait.message.clone()).unwrap_or_default();
    plan.wait(Reason::UpdateStuck, None, format!("the update has made no progress for {allowed} s: {why}"));
}
