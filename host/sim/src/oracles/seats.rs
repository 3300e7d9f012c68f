//! Members by identity (`spec.members.kind: Pods`, D23, B9): a number is used once, no member is made that the record does not know, and who stays has what was acknowledged.
use super::number;
use crate::controllers::{claim_of, is_desired, is_misplaced, present_revision};
use crate::faults::Fault;
use crate::world::{Machine, State};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tanist_api::spec::{CutOver, Strategy};
use tanist_api::{LABEL_ROLE, ReplicaGroup};
use tanist_core::contract::Role;

/// The numbers in that field of the seats.
fn numbers(record: &Value, field: &str) -> BTreeSet<u64> {
    let all = record.get("seats").and_then(|seats| seats.get(field)?.as_array());
    all.into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// The record of before, with what the write has learned: members that the application lists (seed 262259437), and the zones of the nodes on which members are.
fn with_learned(state: &State, group: &str, before: &Value, is: &BTreeSet<u64>) -> Value {
    let mut known = before.clone();
    let was = before.pointer("/seats/zones").and_then(Value::as_object).cloned().unwrap_or_default();
    let is_known = |number: u64| was.values().any(|all| all.as_array().is_some_and(|all| all.contains(&number.into())));
    let mut zones = was.clone();
    for number in numbers(before, "numbers").into_iter().filter(|number| !is_known(*number)) {
        let node = state.pods.get(&format!("{group}-{number}")).and_then(|pod| pod.spec.as_ref()?.node_name.clone());
        let labels = node.and_then(|node| state.nodes.get(&node)).map(|node| node.labels());
        let Some(zone) = labels.and_then(|labels| labels.get("topology.kubernetes.io/zone")) else { continue };
        let all = zones.entry(zone.clone()).or_insert_with(|| json!([]));
        all.as_array_mut().into_iter().for_each(|all| all.push(number.into()));
    }
    if let Some(seats) = known.get_mut("seats").and_then(Value::as_object_mut) {
        seats.insert("zones".into(), zones.into());
        seats.insert("numbers".into(), json!(numbers(before, "numbers").union(is).collect::<Vec<_>>()));
    }
    known
}

/// A process writes who the members of a group are. `before`: the record of before, if there was one.
pub(super) fn written(state: &mut State, group: &ReplicaGroup, before: Option<&Value>, record: &Value) {
    let name = group.name_any();
    let next = record.get("seats").map_or(0, |seats| number(seats, "next"));
    let highest = state.oracles.numbered.entry(name.clone()).or_default();
    *highest = next.max(*highest);
    let Some(before) = before.filter(|before| before.get("seats").is_some()) else { return };
    if record.get("seats").is_none() {
        return handed_over(state, &name, before);
    }
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
    let replaced = |record: &Value| record.pointer("/seats/replaced").and_then(Value::as_object).map_or(0, Map::len);
    let most = match group.spec.update.strategy {
        Strategy::SideBySide => usize::MAX,
        _ => usize::try_from(group.spec.update.max_concurrent_replacements).unwrap_or(usize::MAX),
    };
    if replaced(record) > replaced(before) && replaced(record) > most {
        state.breaks(
            "B9",
            format!("new members come in place of {} of {name}, and {most} may at a time", replaced(record)),
        );
    }
    let leaving: Vec<u64> = numbers(record, "leaving").difference(&numbers(before, "leaving")).copied().collect();
    for number in leaving {
        let_go(state, group, record, &format!("{name}-{number}"));
    }
    let gone: Vec<u64> = was.difference(&is).copied().collect();
    if let (Some(gone), false) = (gone.first(), group.spec.replicas == 0) {
        let member = format!("{name}-{gone}");
        // The record of now does not know it any more.
        let mut known = group.clone();
        known.status.get_or_insert_default().record = Some(with_learned(state, &name, before, &is));
        if is_desired(&known, &member) {
            state.breaks("D23", format!("{member} leaves, and is desired"));
        }
        leaves(state, group, &member);
    }
}

/// A member is to leave because a new one works in its place: as many others as desired were in a role, or wait for a new member themselves, if that one does nothing any more.
fn let_go(state: &mut State, group: &ReplicaGroup, record: &Value, member: &str) {
    let (name, leaving) = (group.name_any(), numbers(record, "leaving"));
    let others = numbers(record, "numbers").into_iter().filter(|number| !leaving.contains(number));
    let was_in_role =
        |number: u64| record.pointer(&format!("/members/{name}-{number}/term")).is_some_and(Value::is_number);
    let replaced = record.pointer("/seats/replaced").and_then(Value::as_object);
    let is_replaced = |number: u64| replaced.is_some_and(|all| all.contains_key(&number.to_string()));
    let seats = record.get("seats").cloned().unwrap_or_default();
    let waits = |number: u64| is_replaced(number) || is_misplaced(group, &seats, number);
    let there = others.filter(|number| was_in_role(*number) || waits(*number)).count();
    // Where nobody can be added while this one is listed it goes first. With learners that is while it has no vote itself, and then only if a command failed in it, or its pod does not run.
    let has_learners = group.spec.commands.member_promote.is_some();
    let has_failed = record.pointer(&format!("/members/{member}/failures")).and_then(Value::as_u64) > Some(0);
    let goes_first =
        state.agreements.get(&name).and_then(|agreement| agreement.named(member)).is_some_and(|(_, listed)| {
            !has_learners || (!listed.voter || !listed.started) && (has_failed || state.running(member).is_none())
        });
    // Nobody stops before all are there.
    let update = &group.spec.update;
    let needed = match (update.strategy, update.cut_over) {
        (Strategy::SideBySide, CutOver::One) => 1,
        _ => group.spec.replicas,
    };
    if !goes_first && u32::try_from(there).is_ok_and(|there| there < needed) {
        let message = format!("{member} is to leave, and {there} of {} others were in a role", group.spec.replicas);
        state.breaks("B8", message);
    }
}

/// Clients are led to a secondary: of two versions side by side not to a new one while one of before stays and is read from (E4).
pub(super) fn shows(state: &mut State, group: &str, pod: &str) {
    let Some(object) = state.groups.get(group).filter(|group| is_side_by_side(group)) else { return };
    let record = object.status.as_ref().and_then(|status| status.record.as_ref());
    let replaced = record.and_then(|record| record.pointer("/seats/replaced")?.as_object());
    let own = pod.strip_prefix(group).and_then(|rest| rest.strip_prefix('-')?.parse::<u64>().ok());
    let present = present_revision(state, group);
    let is_read = |name: &String| {
        let follows =
            |(uid, machine): (&str, &Machine)| machine.app.role == Role::Secondary && state.reaches(uid, machine);
        state.running(name).is_some_and(follows)
    };
    let is_older = |number: &String| {
        let name = format!("{group}-{number}");
        let former = state.pods.get(&name).filter(|_| is_read(&name));
        former.is_some_and(|pod| {
            let is_shown = pod.labels().get(LABEL_ROLE).is_some_and(|role| role == "secondary");
            is_shown && pod.labels().get("controller-revision-hash") != present.as_ref()
        })
    };
    let came_for = |(former, first): (&String, &Value)| first.as_u64() <= own && is_older(former);
    if own.is_some() && replaced.into_iter().flatten().any(came_for) {
        state.breaks("E4", format!("clients are led to {pod} before the cut-over"));
    }
}

/// Whether new members come in the place of all at once. Where zones are named members move one by one, too.
fn is_side_by_side(group: &ReplicaGroup) -> bool {
    group.spec.update.strategy == Strategy::SideBySide && group.spec.zones.list.is_empty()
}

/// A StatefulSet makes the pods of a group from now on: it would make each member that there was, and no other.
fn handed_over(state: &mut State, group: &str, before: &Value) {
    let was = numbers(before, "numbers");
    if !state.sets.contains_key(group) {
        return state.breaks("D23", format!("{group} is to have a StatefulSet, and there is none"));
    }
    // Its size is no part of this: a user may have changed that since, and it is set right.
    if was.iter().copied().ne(0..was.len() as u64) {
        state.breaks("D23", format!("{group} has the members {was:?}, which no StatefulSet has"));
    }
    // A change of the owner that is still on its way comes later, and is taken back; what belonged to a group of before goes by itself.
    let belongs =
        |pod: &Pod| pod.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    let others = was.iter().map(|number| format!("{group}-{number}"));
    let other = others.into_iter().find(|name| state.pods.get(name).is_some_and(|pod| !belongs(pod)));
    if let Some(other) = other {
        state.breaks("D23", format!("{other} belongs to nobody"));
    }
}

/// A process deletes a StatefulSet: what belongs to it goes, too.
pub fn dropped(state: &mut State, set: &StatefulSet) {
    let uid = set.uid().unwrap_or_default();
    let belongs = |pod: &Pod| pod.metadata.owner_references.iter().flatten().any(|owner| owner.uid == uid);
    // One in which nothing was started yet may go.
    let runs = |name: &String| state.running(name).is_some_and(|(_, machine)| machine.app.role != Role::Stopped);
    let lost = state.pods.iter().find(|(name, pod)| belongs(pod) && runs(name)).map(|(name, _)| name.clone());
    if let Some(lost) = lost {
        state.breaks("D23", format!("{lost} goes with the StatefulSet {}", set.name_any()));
    }
}

/// A member leaves: some member that is left has every acknowledged write (S25, S27), and the application does not list it any more (D19). Whoever leaves later is looked at then.
fn leaves(state: &mut State, group: &ReplicaGroup, member: &str) {
    let name = group.name_any();
    if state.agreements.get(&name).is_some_and(|agreement| agreement.named(member).is_some()) {
        state.breaks("D19", format!("{member} leaves, and is still listed"));
    }
    let Some(clients) = state.clients.get(&name) else { return };
    let record = group.status.as_ref().and_then(|status| status.record.as_ref());
    let left = record.map(|record| numbers(record, "numbers")).unwrap_or_default();
    let stay = left.into_iter().map(|number| format!("{name}-{number}"));
    let claims = stay.filter_map(|pod| state.claims.get(&claim_of(&pod))?.uid());
    let disks: Vec<_> = claims.filter_map(|uid| state.disks.get(&uid)).collect();
    let least = disks.iter().map(|disk| clients.promised.lacking_in(&disk.holds)).min();
    if let Some(lacking) = least.filter(|lacking| *lacking > 0) {
        state.breaks("S25 S27", format!("{member} leaves, and who stays lacks {lacking} acknowledged writes"));
    }
}

/// Whether the record of the pod's group has numbers, and not that of the pod any more: its member has left.
pub fn has_left(state: &State, pod: &str) -> bool {
    let parts = pod.rsplit_once('-').and_then(|(group, number)| Some((group, number.parse::<u64>().ok()?)));
    let Some((group, number)) = parts else { return false };
    let record = state.groups.get(group).and_then(|group| group.status.as_ref()?.record.as_ref());
    record.is_some_and(|record| record.get("seats").is_some() && !numbers(record, "numbers").contains(&number))
}

/// A process makes a pod: its number is in the record. One that arrives late, of a group that is gone, is deleted with it.
pub fn made(state: &mut State, group: &str, pod: &str) {
    let Some(object) = state.groups.get(group) else { return };
    let owners = state.pods.get(pod).into_iter().flat_map(|pod| pod.metadata.owner_references.iter().flatten());
    if owners.map(|owner| &owner.uid).any(|uid| object.uid().is_some_and(|own| own != *uid)) {
        return;
    }
    // Who forgot everything since makes it again, or deletes it.
    let Some(record) = object.status.as_ref().and_then(|status| status.record.as_ref()) else { return };
    let own = pod.strip_prefix(group).and_then(|rest| rest.strip_prefix('-')?.parse::<u64>().ok());
    // One that arrives when a StatefulSet has taken over is a pod of that, too.
    let set = state.sets.get(group).and_then(|set| u64::try_from(set.spec.as_ref()?.replicas?).ok());
    let next = match (record.get("seats"), set) {
        (Some(seats), _) => number(seats, "next"),
        (None, replicas) => replicas.unwrap_or(0),
    };
    let is_forgotten = state.faults.happened.contains_key(&Fault::StatusLost);
    let highest = state.oracles.numbered.get(group).copied().filter(|_| is_forgotten).unwrap_or_default();
    let is_known = own.is_some_and(|own| next.max(highest) > own);
    if !is_known {
        let seats = record.get("seats").map(ToString::to_string).unwrap_or_default();
        state.breaks("D23", format!("{pod} is made, and the record does not know its number: {seats}"));
    }
}
