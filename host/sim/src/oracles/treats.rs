//! Treatments: a member is stopped or its pod deleted only when something failed in it, and after some of them only after a pause (S19).
use super::{Noted, Oracles};
use crate::faults::Fault;
use crate::world::State;
use tanist_core::contract::Role;
use tanist_core::limits::{BACKOFF_FIRST_SECONDS, FREE_TREATMENTS};
use tanist_core::record::Verb;

/// A command starts that treats a member as failed, in the pod of that UID.
pub(super) fn starts(state: &mut State, uid: &str, token: &str, noted: &Noted) {
    if noted.verb != Verb::Treat.as_str() {
        return;
    }
    if let Some(machine) = state.machines.get(uid) {
        let role = machine.app.role;
        let serves = role != Role::Stopped && machine.ending.is_none() && state.reaches(uid, machine);
        if serves && !state.oracles.failed.contains(&machine.container) {
            let member = &noted.member;
            let what = format!("{token} stops {member}, which serves as {role:?} and is well");
            state.breaks("S19", what);
        }
    }
    let decided = state.oracles.decided.get(token).copied();
    treats(state, &noted.member, decided.unwrap_or(state.now));
}

/// A member is treated: it is stopped, or its pod is deleted. The third time and each one after that comes after a pause, from one decision to the next (seed 38005931).
pub(super) fn treats(state: &mut State, member: &str, now: i64) {
    let times = state.oracles.treated.entry(member.to_owned()).or_default();
    times.push(now);
    let count = times.len();
    let last = count.checked_sub(2).and_then(|at| times.get(at)).copied();
    // By a clock that is wrong a pause is over earlier.
    let knows_the_time = !state.faults.happened.contains_key(&Fault::ClockSkewed);
    let free = usize::try_from(FREE_TREATMENTS).unwrap_or(usize::MAX);
    let pause = last.map(|last| now.saturating_sub(last)).filter(|pause| *pause < BACKOFF_FIRST_SECONDS - 1);
    if let Some(pause) = pause.filter(|_| count > free && knows_the_time) {
        state.breaks("S19", format!("treatment {count} of {member} comes {pause} s after the last one"));
    }
}

/// A user changed what runs in that container: the last command there may count as failed, for the member is not in the role that it was to have.
pub fn spoils(state: &mut State, container: &str) {
    state.oracles.failed.insert(container.to_owned());
}

/// A member, or a whole group, may be treated at once again: a start succeeded, the spec changed, or its memory is gone.
pub fn forgives(state: &mut State, name: &str) {
    let is_meant = |member: &String| member == name || member.rsplit_once('-').is_some_and(|(group, _)| group == name);
    state.oracles.treated.retain(|member, _| !is_meant(member));
}

/// Whether a command starts in the pod of that UID at this moment, and went with a status that somebody removed: who decides now knows only that the member was stopped, and
/// nothing can say that a command is on its way (seed 72007873).
pub(super) fn just_began(state: &State, uid: &str) -> bool {
    let Oracles { noted, forgotten, started, .. } = &state.oracles;
    let is_for = |token: &&String| noted.get(*token).is_some_and(|noted| noted.pod_uid == uid);
    let began = |token: &String| started.get(token).is_some_and(|at| at.saturating_add(1) >= state.now);
    forgotten.iter().filter(is_for).any(began)
}
