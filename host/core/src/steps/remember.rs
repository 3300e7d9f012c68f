//! Remember: what this round's observations say for later ones. Nothing here starts anything.
use crate::contract::{Position, Role};
use crate::memory;
use crate::over;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::record::{LastPrimary, Mark, MemberRecord, Seeded, Verb};
use crate::snapshot::{Member, Snapshot};
use crate::steps::begin::push_last_primary;

/// See the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    clear_backoff(s, plan);
    adopt(s, plan);
    for ahead in memory::ahead(s) {
        plan.wait(Reason::ClaimChanged, Some(ahead.member), ahead.to_string());
    }
    for member in &s.members {
        unchanged(s, plan, member);
        followed(s, plan, member);
        leads(s, plan, member);
        serving(s, plan, member);
        position(s, plan, member);
    }
    last_primaries(s, plan);
    replicas(s, plan);
}

/// A new generation or a new value of `tanist.dev/retry` clears every back-off.
fn clear_backoff(s: &Snapshot, plan: &mut Plan) {
    let record = &mut plan.record;
    if record.cleared_generation == s.group.generation && record.cleared_retry == s.group.retry {
        return;
    }
    record.cleared_generation = s.group.generation;
    record.cleared_retry.clone_from(&s.group.retry);
    record.clear_backoff();
}

/// Memory is lost and the application runs: what serves is taken as it is, if it is certain that nobody else does (rows A32, A49).
fn adopt(s: &Snapshot, plan: &mut Plan) {
    if !s.record.is_blank() || !s.record.intents.is_empty() {
        return;
    }
    let of = |role| s.members.iter().filter(move |m| s.reachable(m) && s.role(m).0 == role);
    let primaries: Vec<_> = of(Role::Primary).collect();
    let Some(first) = primaries.first() else { return };
    if primaries.len() > s.group.wanted_primaries() {
        let names: Vec<_> = primaries.iter().map(|m| m.name.to_string()).collect();
        let wanted = s.group.primaries;
        let message = format!(
            "{} are primary, {wanted} are wanted, and nothing says who led: stop the others by hand",
            names.join(", ")
        );
        plan.wait(Reason::NeedsAdoption, None, message.clone());
        plan.needs_adoption = Some(message);
        return;
    }
    let maybe = s.may_be_primary();
    if let Some((name, why)) = maybe.iter().find(|(name, _)| primaries.iter().all(|m| &m.name != *name)) {
        let message = format!("{name} may be primary too: {why}; what runs is taken as it is once that is known");
        return plan.wait(Reason::MayBePrimary, Some(name), message);
    }
    plan.record.term = 1;
    plan.record.ever_seeded = Some(Seeded { member: first.name.clone(), confirmed: true });
    for member in primaries.iter().copied().chain(of(Role::Secondary)) {
        let known = plan.record.member_mut(&member.name);
        known.term = Some(1);
        known.claim_uid = memory::claim_uids(&member.claims);
    }
    plan.record.note(
        s.now,
        "adopted",
        None,
        Some(format!("{} primaries ran and nothing was remembered", primaries.len())),
    );
}

/// Who was told to follow and leads now is not led to follow any more (docs/rules.md, "May be primary").
fn leads(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let known = plan.record.members.get_mut(&member.name);
    if let Some(known) =
        known.filter(|k| s.seen(member).0 == Role::Primary && over::led_to_follow(k.last_command.as_deref()))
    {
        known.last_command = None;
    }
}

/// A start that failed and changed nothing no longer counts: stopped is read and the sequence is what it was (docs/rules.md, "Term").
fn unchanged(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let known = s.record.member(&member.name);
    let Some(started) = &known.started else { return };
    let over = s.record.intent_of(&member.name).is_none() && s.reachable(member) && s.role(member).0 == Role::Stopped;
    if over && member.position == started.before && matches!(member.position, Position::Known(_) | Position::Empty) {
        plan.record.member_mut(&member.name).started = None;
    }
}

/// Who says secondary or primary before its start is confirmed: it may hold what nobody else has, whatever it says until then.
fn followed(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let joins = s.record.intent_of(&member.name).is_some_and(|intent| intent.verb == Verb::Place);
    if !joins || !matches!(s.seen(member).0, Role::Secondary | Role::Primary) {
        return;
    }
    let known = plan.record.members.get_mut(&member.name);
    if let Some(started) = known.and_then(|k| k.started.as_mut()).filter(|started| !started.target) {
        started.followed = true;
    }
}

/// Who serves is a last primary until it is over; and who led in this term, by what claims remember, and is not seen to be stopped or to
/// follow: the status may have been lost while it could not be read (S32).
fn serving(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let serves = s.serves(member);
    let memory = s.record.member(&member.name);
    let led = s.record.term > 0
        && memory.primary_term == Some(s.record.term)
        && !over::led_to_follow(memory.last_command.as_deref());
    let may_lead = led && over::alive(s, member) && !matches!(s.seen(member).0, Role::Stopped | Role::Secondary);
    let (Some(pod), true) = (&member.pod, serves || may_lead) else { return };
    let name = &s.group.commands.status.container;
    let Some(container_id) = pod.containers.get(name).and_then(|c| c.id.clone()) else { return };
    let known = plan.record.member_mut(&member.name);
    if serves && known.primary_term != Some(s.record.term) {
        known.primary_term = Some(s.record.term);
        known.last_primary = Some(s.now);
    }
    let entry = LastPrimary {
        member: member.name.clone(),
        pod_uid: pod.uid.clone(),
        container: name.clone(),
        container_id,
        node: pod.node.clone(),
        grace: pod.grace,
        gone: None,
    };
    push_last_primary(plan, entry);
}

fn position(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let Position::Known(sequence) = &member.position else { return };
    if s.group.failover.prefer_running && holds_more_than_promised(s, member) {
        return;
    }
    let known = plan.record.member_mut(&member.name);
    let Some(term) = term_of_data(known, &member.position) else { return };
    known.sequence = Some(sequence.clone());
    memory::raise(&mut plan.record, Mark { term, sequence: sequence.clone() });
}

/// Where only what standbys have was promised, a primary holds more than that while it runs, and afterwards, if somebody was its standby.
fn holds_more_than_promised(s: &Snapshot, member: &Member) -> bool {
    let of_term = |m: &Member| s.record.member(&m.name).term == Some(s.record.term);
    let led = s.record.member(&member.name).primary_term == Some(s.record.term);
    let followed = s.members.iter().any(|m| m.name != member.name && of_term(m));
    s.role(member).0 == Role::Primary || led && followed
}

/// Of which term the data is, as far as the high-water mark goes. What a start left as it was is what it was. What the target of a seed
/// changed is of the new term. What another start changed is a copy in the making: nobody knows what it says of the group.
fn term_of_data(known: &MemberRecord, position: &Position) -> Option<u64> {
    match &known.started {
        Some(started) if &started.before == position => known.term,
        Some(started) if !started.target => None,
        _ => known.counts_as(),
    }
}

/// Notes since when a pod is gone, and drops what is proven over. Commands settled a moment ago are settled in this snapshot already.
fn last_primaries(s: &Snapshot, plan: &mut Plan) {
    for last in std::mem::take(&mut plan.record.last_primaries) {
        match over::over(s, &last) {
            Ok(proof) => plan.record.note(s.now, "primary-over", Some(&last.member), Some(proof.into())),
            Err(_) => plan.record.last_primaries.push(last),
        }
    }
    for last in &mut plan.record.last_primaries {
        // A pod that is seen again was never gone: its time begins anew.
        last.gone = match s.pod(&last.pod_uid) {
            Some(_) => None,
            None => Some(last.gone.unwrap_or(s.now)),
        };
    }
}

/// The set only grows here; an orderly shrink is a step of its own.
fn replicas(s: &Snapshot, plan: &mut Plan) {
    if let Some(set) = &s.set {
        plan.record.last_replicas = plan.record.last_replicas.max(set.replicas);
    }
    // Who left and is wanted again is a member like any other.
    plan.record.retired.retain(|name| s.members.iter().all(|m| &m.name != name || s.group.is_surplus(m)));
}
