//! Demote: more primaries serve than desired, or one that leaves makes room for a member that stays; which one is stopped next? A primary of an older term
//! is stopped without a question, and so is one that no confirmed command made primary: a start on it was never confirmed, and a user started it by hand (S23).
use crate::check::{self, Rule, Violation};
use crate::contract::{MemberName, Role};
use crate::plan::{Plan, Reason};
use crate::policy::{Point, Policies};
use crate::record::Verb;
use crate::snapshot::{Member, Snapshot};
use crate::steps::{ask, begin, positions};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let serving = s.serving();
    if serving.is_empty() || s.group.is_stopped() {
        return;
    }
    // One stop at a time (A13): the next question sees the result of this one.
    if s.record.intents.iter().any(|i| i.verb == Verb::Demote) {
        return;
    }
    if let Some(member) = stale(s, &serving, plan) {
        return begin::begin(s, plan, Verb::Demote, &member);
    }
    // Those that leave and are listed still are removed from the application first.
    let surplus = serving.iter().filter(|m| !(s.is_extra(m) && check::counts(s, &m.name))).count();
    if surplus <= s.group.desired_primaries() && !serving.iter().any(|m| check::makes_room(s, &serving, m)) {
        return;
    }
    // For a moment two members may say that they lead, the one elected after the other.
    if check::is_formed(s) && !serving.iter().any(|m| s.leaves(m)) {
        return;
    }
    // Those that leave are stopped first, and rest between two of them.
    if let Some((member, violation)) = rests(s, &serving) {
        let message = format!("{} is leaving: {violation}", member.name);
        return plan.wait_until(Reason::ShrinkPending, Some(&member.name), message, violation.until);
    }
    if !positions::all_known(s, plan, serving.iter().copied()) {
        return;
    }
    let bars = ask::bars(s, |m| check::demote_member(s, &serving, m));
    if let Some(name) = ask::choose_member(s, policies, plan, Point::Demote, &bars) {
        begin::begin(s, plan, Verb::Demote, &name);
    }
}

/// A primary that leaves and waits, because another member left a short time ago.
fn rests<'a>(s: &Snapshot, serving: &[&'a Member]) -> Option<(&'a Member, Violation)> {
    // One that clients do not reach goes before, and at once.
    if serving.iter().any(|member| s.is_surplus(member)) {
        return None;
    }
    let member = serving.iter().copied().filter(|m| s.leaves(m)).max_by_key(|m| m.ordinal)?;
    let violation = check::demote_member(s, serving, member).err()?;
    (violation.rule == Rule::ChangedRecently).then_some((member, violation))
}

/// A primary of an older term, or one that no confirmed command made primary. The plan says which one waits for a pause after failures.
fn stale(s: &Snapshot, serving: &[&Member], plan: &mut Plan) -> Option<MemberName> {
    let is_stale = |m: &&Member| {
        let known = s.record.member(&m.name);
        // Where the members elect, a start that was not confirmed is when its list is read.
        let is_unconfirmed = known.started.is_some() && !check::is_formed(s);
        s.role(m).0 == Role::Primary && (known.term < Some(s.record.term) || is_unconfirmed)
    };
    for member in s.members.iter().filter(is_stale) {
        match check::demote_member(s, serving, member) {
            Ok(()) => return Some(member.name.clone()),
            Err(violation) if violation.until.is_some() => {
                let message = format!(
                    "{} is primary beside the one that serves, and is stopped: {}",
                    member.name, violation.message
                );
                plan.wait_until(Reason::MayBePrimary, Some(&member.name), message, violation.until);
            }
            Err(_) => {}
        }
    }
    None
}
