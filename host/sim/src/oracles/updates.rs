//! Updates: a pod of an older template is deleted so that the next one has the present template; the only primary gives up the lead before (docs/rules.md, "Update").
use crate::controllers::present_revision;
use crate::faults::Fault;
use crate::kubelet::lacks_its_image;
use crate::strikes::group_of;
use crate::world::State;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Map, Value};
use tanist_api::spec::{Batch, OnFailure, Primaries, ReplicaGroupSpec, Strategy};
use tanist_api::{LABEL_GROUP, LABEL_ROLE};
use tanist_core::contract::Role;

/// Seconds after which everybody who looks knows of a pod.
const KNOWN: i64 = 30;

/// Whether the operator may replace the pod because it is of an older revision than its StatefulSet's.
pub(super) fn may_replace(state: &State, pod: &str) -> bool {
    let Some(object) = state.pods.get(pod) else { return false };
    let group = group_of(object);
    let present = present_revision(state, &group);
    let is_older = present.is_some() && object.labels().get("controller-revision-hash") != present.as_ref();
    let update = state.groups.get(&group).map(|group| &group.spec.update);
    is_older && update.is_some_and(|update| update.batch != Batch::None && !update.paused)
}

/// A process replaces such a pod. `is_well`: it serves, and nothing failed in it.
pub(super) fn replaces(state: &mut State, pod: &str, is_well: bool) {
    let Some(object) = state.pods.get(pod).filter(|_| is_well) else { return };
    let leads = object.labels().get(LABEL_ROLE).is_some_and(|role| role == "primary");
    let spec = state.groups.get(&group_of(object)).map(|group| &group.spec);
    let has_others = spec.is_some_and(|spec| {
        spec.replicas > 1 && spec.primaries == Primaries::Count(1) && spec.commands.secondary.is_some()
    });
    // One that was never in a role has nothing that another member could take over.
    let of_all = [Strategy::Replace, Strategy::SideBySide];
    let is_replaced = spec.is_some_and(|spec| of_all.contains(&spec.update.strategy) && has_numbers(state, pod));
    let is_primary = state.machine(pod).is_some_and(|machine| machine.app.role == Role::Primary);
    // One whose image does not exist stays alone with that, however long nobody corrects it (E5). A deletion that was on its way finds it.
    let update = spec.map(|spec| spec.update.batch);
    let begun = |other: &Pod| other.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    // Nor is one seen that lost its label (seed 54001217).
    let is_seen = |other: &Pod| other.labels().contains_key(LABEL_GROUP);
    let waits =
        |other: &Pod| lacks_its_image(other) && is_seen(other) && state.now > begun(other).saturating_add(KNOWN);
    let waiting =
        state.pods.iter().find(|(name, other)| *name != pod && group_of(other) == group_of(object) && waits(other));
    if let (Some((waiting, _)), Some(Batch::Member)) = (waiting, update) {
        state.breaks("E5", format!("{pod} is replaced and well, and {waiting} waits for its image"));
        return;
    }
    // Who is in no role is neither announced nor asked: it may wait for others that are silent (seeds 51017812, 80008472).
    let starts = state.machine(pod).is_some_and(|machine| machine.app.role == Role::Starting);
    let is_announced = state.announced.get(&group_of(object)).is_some_and(|announced| announced.contains(pod));
    if spec.is_some_and(|spec| spec.commands.before_update.is_some()) && !starts && !is_announced {
        state.breaks("B11", format!("{pod} is replaced and well, and nobody was told"));
        return;
    }
    // The way back from a template that failed waits for nobody.
    let is_asked =
        |spec: &ReplicaGroupSpec| spec.commands.prepared.is_some() && spec.update.on_failure != OnFailure::RollBack;
    if spec.is_some_and(is_asked) && !starts && !state.prepared.contains(&object.uid().unwrap_or_default()) {
        state.breaks("C73", format!("{pod} is replaced and well, and never said that it is prepared"));
        return;
    }
    // Of two voters the other one could not lead alone.
    let voters = state.agreements.get(&group_of(object)).map(|agreement| agreement.voters().len());
    let is_active = leads && state.passive.contains(&group_of(object));
    if is_active && spec.is_some_and(|spec| spec.replicas > 1) {
        state.breaks("E32", format!("{pod} is active, and is replaced before it gave way"));
    }
    if leads && has_others && is_primary && voters.is_none_or(|voters| voters > 2) {
        state.breaks("E32", format!("{pod} leads, and is replaced before another one does"));
    }
    if is_replaced {
        state.breaks("B10", format!("the pod of {pod}, in whose place a new member has to come, is deleted"));
    }
}

/// A command before or after the update of some members runs. Who forgot that an update had begun begins another one.
pub fn encloses(state: &mut State, group: &str, command: &str, members: &[&str]) {
    let forgets = [Fault::StatusLost, Fault::GroupRecreated].iter().any(|f| state.faults.happened.contains_key(f));
    let open = state.announced.get(group);
    let other = open.into_iter().flatten().find(|announced| !members.contains(&announced.as_str()));
    let (Some(other), "beforeUpdate", false) = (other, command, forgets) else { return };
    state.breaks("B11", format!("the update of {} begins before that of {other} has ended", members.join(", ")));
}

/// Whether the record says that the operator makes the pods of the member's group, and that the member was in a role; one that came in the place of another one, which is still there, gets a new pod.
fn has_numbers(state: &State, pod: &str) -> bool {
    let group = state.pods.get(pod).and_then(|object| state.groups.get(&group_of(object)));
    let record = group.and_then(|group| group.status.as_ref()?.record.as_ref());
    let was_in_role = |record: &Value| record.pointer(&format!("/members/{pod}/term")).is_some_and(Value::is_number);
    let own = pod.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
    let is_new = |record: &Value| {
        let replaced = record.pointer("/seats/replaced").and_then(Value::as_object);
        replaced.into_iter().flat_map(Map::values).any(|first| first.as_u64() <= own)
    };
    let has_seats = |record: &Value| record.get("seats").is_some_and(Value::is_object);
    record.is_some_and(|record| has_seats(record) && was_in_role(record) && !is_new(record))
}
