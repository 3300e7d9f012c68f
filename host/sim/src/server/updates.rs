//! What the commands of updates do: those before and after some members, and the conversion of data.
use super::*;

/// The data is converted: that of the member, and of all that copy from it. One that fails may have done its work before. Whether it exits 0.
pub(super) fn upgrades(state: &mut State, machine: &Machine, versions: &[&str]) -> bool {
    let fails = state.happens(Fault::CommandFails, 8);
    if fails && state.roll(Fault::CommandFails, 2) == 0 {
        return false;
    }
    state.say(format!("{} runs upgrade {}", machine.pod, versions.join(" ")));
    oracles::versions::upgrades(state, machine, versions);
    let Some(to) = versions.get(1).map(|to| oracles::versions::first(to)) else { return false };
    let copies = |m: &&Machine| m.group == machine.group && m.app.role != Role::Stopped;
    let others = state.machines.values().filter(copies).map(|m| m.claim.clone());
    for claim in others.chain([machine.claim.clone()]).collect::<Vec<_>>() {
        if let Some(disk) = state.disks.get_mut(&claim).filter(|disk| disk.data.is_some()) {
            disk.version = to;
        }
    }
    !fails
}

/// An update of some members begins or ends. One that fails may have done its work before. Whether it exits 0.
pub(super) fn encloses(state: &mut State, machine: &Machine, command: &str, members: &[&str]) -> bool {
    let fails = state.happens(Fault::CommandFails, 8);
    if fails && state.roll(Fault::CommandFails, 2) == 0 {
        return false;
    }
    state.say(format!("{} runs {command} {}", machine.pod, members.join(" ")));
    oracles::updates::encloses(state, &machine.group, command, members);
    let announced = state.announced.entry(machine.group.clone()).or_default();
    match command {
        "beforeUpdate" => announced.extend(members.iter().map(ToString::to_string)),
        _ => announced.clear(),
    }
    !fails
}
