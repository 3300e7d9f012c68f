//! Versions: programs start on data of their own version, and data is converted once, by programs of the later version (docs/rules.md, "Major versions").
use crate::faults::Fault;
use crate::world::{Machine, State};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;
use tanist_api::spec::{ReplicaGroupSpec, UpgradeOn};
use tanist_api::{ANNOTATION_VERSION, ReplicaGroup};
use tanist_core::contract::Role;

/// The version of the application whose programs the image of a pod has. Those of groups that are none of this simulator are taken to have the version that is named.
#[must_use]
pub fn programs(pod: &Pod) -> u64 {
    let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.as_deref());
    let own = image.and_then(|image| image.strip_prefix("db:")).map(first);
    own.or_else(|| pod.annotations().get(ANNOTATION_VERSION).map(|version| first(version))).unwrap_or(1)
}

/// The first number of a version: the other ones are not simulated.
#[must_use]
pub fn first(version: &str) -> u64 {
    version.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// The spec of a group that has the command.
fn spec<'s>(state: &'s State, machine: &Machine) -> Option<&'s ReplicaGroupSpec> {
    let spec = state.groups.get(&machine.group).map(|group| &group.spec)?;
    spec.commands.upgrade.as_ref().map(|_| spec)
}

/// Whether the members of the group stop for a conversion of the data.
pub(super) fn stop_all(group: &ReplicaGroup, record: &Value) -> bool {
    let spec = &group.spec;
    let is_due = spec.version.as_deref() != record.get("version").and_then(Value::as_str);
    is_due && spec.commands.upgrade.is_some() && spec.update.upgrade_on == UpgradeOn::StoppedMember
}

/// Whether only converted data fits to programs of a later version.
fn is_strict(state: &State, machine: &Machine) -> bool {
    // Which version the data of a backup had is not remembered.
    let restored = state.faults.happened.contains_key(&Fault::VolumeRestored);
    !restored && spec(state, machine).is_some_and(|spec| spec.update.upgrade_on == UpgradeOn::StoppedMember)
}

fn version_on(state: &State, claim: &str) -> Option<u64> {
    state.disks.get(claim).filter(|disk| disk.data.is_some() && disk.version > 0).map(|disk| disk.version)
}

/// A command works in a member. `follows`: the pod whose data it copies first.
pub fn performs(state: &mut State, machine: &Machine, command: &str, follows: Option<&str>) {
    if command == "stop" || spec(state, machine).is_none() {
        return;
    }
    let source = follows.and_then(|pod| state.claims.get(&crate::controllers::claim_of(pod))?.uid());
    let Some(data) = version_on(state, source.as_deref().unwrap_or(&machine.claim)) else { return };
    let (pod, programs) = (&machine.pod, machine.programs);
    // Those of an earlier version do not start on it.
    if programs > data && is_strict(state, machine) {
        state.breaks("versions", format!("{pod} runs {command} of version {programs} on data of version {data}"));
    }
}

/// Whether the programs in a member refuse the data on its volume, or that which it would copy: it is of a later version.
#[must_use]
pub fn refuses(state: &State, machine: &Machine, follows: Option<&str>) -> bool {
    let source = follows.and_then(|pod| state.claims.get(&crate::controllers::claim_of(pod))?.uid());
    let data = version_on(state, source.as_deref().unwrap_or(&machine.claim));
    spec(state, machine).is_some() && data.is_some_and(|data| machine.programs < data)
}

/// The data of a member is converted from one version to another one.
pub fn upgrades(state: &mut State, machine: &Machine, versions: &[&str]) {
    let (pod, programs) = (&machine.pod, machine.programs);
    let mut named = versions.iter().map(|version| first(version));
    let (from, to): (u64, u64) = (named.next().unwrap_or(0), named.next().unwrap_or(0));
    let has_data = state.disks.get(&machine.claim).is_some_and(|disk| disk.data.is_some());
    if !has_data {
        return state.breaks("versions", format!("{pod} is to convert data, and has none"));
    }
    let data = version_on(state, &machine.claim).unwrap_or(from);
    // It may have been converted before, also to a version between, and nobody heard of it.
    if is_strict(state, machine) && !(from..=to).contains(&data) {
        state.breaks("versions", format!("{pod} converts data of version {data} from {from} to {to}"));
    }
    if programs < to {
        state.breaks("versions", format!("{pod} converts data to {to} with programs of version {programs}"));
    }
    // One that follows on a node that does not report follows nobody any more.
    let is_in_the_way = |uid: &str, m: &Machine| m.app.role == Role::Primary || state.reaches(uid, m);
    let runs = |(uid, m): &(&String, &Machine)| {
        m.group == machine.group && m.app.role != Role::Stopped && m.ending.is_none() && is_in_the_way(uid, m)
    };
    if is_strict(state, machine)
        && let Some(other) = state.machines.iter().find(runs).map(|(_, m)| m.pod.clone())
    {
        state.breaks("versions", format!("{pod} converts its data while {other} runs"));
    }
}

/// Why the data of a group that serves is not of the version that its user wants. `None`: it is, or the user names none.
pub fn lacks(state: &State, group: &ReplicaGroup) -> Option<String> {
    let wanted = group.spec.version.as_deref().filter(|_| group.spec.commands.upgrade.is_some())?;
    let leads = |m: &&Machine| m.group == group.name_any() && m.app.role == Role::Primary;
    let primary = state.machines.values().find(leads)?;
    let said = group.status.as_ref()?.version.as_deref();
    if said != Some(wanted) {
        return Some(format!("its data is said to be of version {said:?}, not {wanted}"));
    }
    let data = version_on(state, &primary.claim)?;
    (data != first(wanted)).then(|| format!("{} has data of version {data}, not {wanted}", primary.pod))
}
