//! Members by identity (`spec.members.kind: Pods`, D23): a number is used once, no member is made that the record does not know, and who stays has what was acknowledged.
use super::number;
use crate::controllers::{claim_of, desired, is_desired};
use crate::world::State;
use kube::ResourceExt;
use serde_json::Value;
use std::collections::BTreeSet;
use tanist_api::ReplicaGroup;

/// The numbers in that field of the seats.
fn numbers(record: &Value, field: &str) -> BTreeSet<u64> {
    let all = record.get("seats").and_then(|seats| seats.get(field)?.as_array());
    all.into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// A process writes who the members of a group are. `before`: the record of before, if there was one.
pub(super) fn written(state: &mut State, group: &ReplicaGroup, before: Option<&Value>, record: &Value) {
    let name = group.name_any();
    let Some(before) = before.filter(|before| before.get("seats").is_some()) else { return };
    let seats = |record: &Value| record.get("seats").cloned().unwrap_or_default();
    let (was, is) = (numbers(before, "numbers"), numbers(record, "numbers"));
    let (next, dormant) = (number(&seats(before), "next"), numbers(before, "dormant"));
    if number(&seats(record), "next") < next {
        state.breaks("D23", format!("the next number of {name} goes back from {next}"));
    }
    let again: Vec<u64> = is.difference(&was).copied().filter(|n| *n < next && !dormant.contains(n)).collect();
    // The application's own list brings back whom it names.
    let listed = |n: &u64| state.agreements.get(&name).is_some_and(|a| a.named(&format!("{name}-{n}")).is_some());
    if let Some(number) = again.into_iter().find(|n| !listed(n)) {
        state.breaks("D23", format!("{name} uses the number {number} again"));
    }
    let gone: Vec<u64> = was.difference(&is).copied().collect();
    if let (Some(gone), false) = (gone.first(), group.spec.replicas == 0) {
        leaves(state, group, &format!("{name}-{gone}"));
    }
}

/// A member leaves: who stays has every acknowledged write (S25, S27), and the application does not list it any more (D19).
fn leaves(state: &mut State, group: &ReplicaGroup, member: &str) {
    let name = group.name_any();
    if state.agreements.get(&name).is_some_and(|agreement| agreement.named(member).is_some()) {
        state.breaks("D19", format!("{member} leaves, and is still listed"));
    }
    if is_desired(group, member) {
        state.breaks("D23", format!("{member} leaves, and is desired"));
    }
    let Some(clients) = state.clients.get(&name) else { return };
    let claims = desired(group).into_iter().filter_map(|pod| state.claims.get(&claim_of(&pod))?.uid());
    let disks: Vec<_> = claims.filter_map(|uid| state.disks.get(&uid)).collect();
    let least = disks.iter().map(|disk| clients.promised.lacking_in(&disk.holds)).min();
    if let Some(lacking) = least.filter(|lacking| *lacking > 0) {
        state.breaks("S25 S27", format!("{member} leaves, and who stays lacks {lacking} acknowledged writes"));
    }
}

/// A process makes a pod: its number is in the record.
pub fn made(state: &mut State, group: &str, pod: &str) {
    let Some(object) = state.groups.get(group) else { return };
    // Who forgot everything since makes it again, or deletes it.
    let Some(record) = object.status.as_ref().and_then(|status| status.record.as_ref()) else { return };
    let own = pod.strip_prefix(group).and_then(|rest| rest.strip_prefix('-')?.parse::<u64>().ok());
    let is_known = own.is_some_and(|own| number(&record.get("seats").cloned().unwrap_or_default(), "next") > own);
    if !is_known {
        let seats = record.get("seats").map(ToString::to_string).unwrap_or_default();
        state.breaks("D23", format!("{pod} is made, and the record does not know its number: {seats}"));
    }
}
