//! What the commands of a member do whose application agrees on its members.
use super::*;

/// What the commands of a member do.
pub fn perform(state: &mut State, uid: &str, machine: &Machine, words: &[&str]) -> (u8, Vec<u8>) {
    let (command, arguments) = words.split_first().map_or(("", &[][..]), |(command, rest)| (*command, rest));
    refresh(state, &machine.group);
    if command == "memberList" {
        let printed = if state.happens(Fault::CommandFails, 12) { None } else { list(state, uid, machine) };
        return printed.map_or((1, Vec::new()), |text| (0, text.into_bytes()));
    }
    let is_start = matches!(command, "seed" | "primary");
    if is_start && state.is_damaged(machine) {
        return (1, Vec::new());
    }
    let fails = state.happens(Fault::CommandFails, 8);
    // One that fails may have done its work before.
    if fails && state.roll(Fault::CommandFails, 2) == 0 {
        return (1, Vec::new());
    }
    state.say(format!("{} runs {}", machine.pod, words.join(" ")));
    let done = match command {
        "stop" => true,
        "wipe" => wipe(state, machine),
        "seed" => form(state, machine),
        "primary" => join(state, machine, arguments),
        _ => change(state, uid, machine, command, arguments),
    };
    if let Some(machine) = state.machines.get_mut(uid).filter(|_| command == "stop" || is_start && done) {
        let runs = is_start && !fails;
        machine.app = App { role: if runs { Role::Starting } else { Role::Stopped }, ..App::default() };
        machine.expects_running = runs;
    }
    refresh(state, &machine.group);
    (u8::from(!done || fails), Vec::new())
}

/// What `memberList` prints. `None`: no majority answers.
fn list(state: &State, uid: &str, machine: &Machine) -> Option<String> {
    let agreement = state.agreements.get(&machine.group)?;
    let serves = state.machines.get(uid).is_some_and(serves);
    let is_alone = agreement.voters().len() == 1;
    if !serves || !is_alone && !has_quorum(state, &machine.group) {
        return None;
    }
    let well = well(state, &machine.group);
    let mut text = format!("cluster {}\n", agreement.cluster.as_ref()?);
    for (id, listed) in &agreement.members {
        let name = if listed.started { &listed.name } else { "-" };
        let vote = if listed.voter { "voter" } else { "learner" };
        let health = if well.contains(id) { "healthy" } else { "unhealthy" };
        let host = format!("{}.{}.{NAMESPACE}.svc.cluster.local", listed.name, machine.group);
        let _ = writeln!(text, "{name} {id} {vote} {health} http://{host}:2380");
    }
    Some(text)
}

/// Forms a cluster on an empty volume, and goes on with what is on another one. Whether it works.
fn form(state: &mut State, machine: &Machine) -> bool {
    let Some(agreement) = state.agreements.get(&machine.group) else { return false };
    if let Some(id) = identity(state, &machine.claim) {
        return agreement.members.contains_key(id);
    }
    members::forms(state, &machine.group, &machine.pod);
    let (cluster, id) = (state.birth("cluster"), state.birth("m"));
    let Some(agreement) = state.agreements.get_mut(&machine.group) else { return false };
    let listed = Listed { name: machine.pod.clone(), started: true, voter: true };
    agreement.members = [(id.clone(), listed)].into();
    agreement.cluster = Some(cluster);
    begin(state, machine, id);
    true
}

/// From now on a volume has that identity.
fn begin(state: &mut State, machine: &Machine, id: String) {
    let Some(agreement) = state.agreements.get_mut(&machine.group) else { return };
    agreement.homes.insert(id.clone(), machine.claim.clone());
    let history = agreement.cluster.clone().unwrap_or_default();
    let disk = Disk { data: Some(Register { history, number: 1 }), identity: Some(id), ..Disk::default() };
    state.disks.insert(machine.claim.clone(), disk);
}

/// Starts a member under the identity of its volume; on an empty one as the member that was announced under its name, if another one tells it of the cluster. Whether it works.
fn join(state: &mut State, machine: &Machine, peers: &[&str]) -> bool {
    let Some(agreement) = state.agreements.get(&machine.group) else { return false };
    if let Some(id) = identity(state, &machine.claim) {
        return agreement.members.contains_key(id);
    }
    let well = well(state, &machine.group);
    let peers: Vec<&str> = peers.iter().filter_map(|peer| peer.split('.').next()).collect();
    let tells = |(id, listed): (&String, &Listed)| well.contains(id) && peers.contains(&listed.name.as_str());
    if !agreement.members.iter().any(tells) {
        return false;
    }
    let announced = agreement.members.iter().find(|(_, listed)| listed.name == machine.pod && !listed.started);
    let Some(id) = announced.map(|(id, _)| id.clone()) else { return false };
    if let Some(agreement) = state.agreements.get_mut(&machine.group) {
        agreement.members.entry(id.clone()).and_modify(|listed| listed.started = true);
    }
    begin(state, machine, id);
    true
}

/// The data of a stopped member is removed. Whether it was stopped.
fn wipe(state: &mut State, machine: &Machine) -> bool {
    if machine.app.role != Role::Stopped {
        return false;
    }
    members::wipes(state, machine);
    state.disks.insert(machine.claim.clone(), Disk::default());
    true
}

/// Changes the members, if a majority agrees. Whether it did.
fn change(state: &mut State, uid: &str, machine: &Machine, command: &str, arguments: &[&str]) -> bool {
    let serves = state.machines.get(uid).is_some_and(serves);
    let (Some(argument), true) = (arguments.first(), serves && !state.stands_still(uid)) else { return false };
    let is_behind = learner_is_behind(state, &machine.group, argument);
    let id = state.birth("m");
    let Some(agreement) = state.agreements.get_mut(&machine.group) else { return false };
    let is_whole = agreement.members.values().all(|listed| listed.voter);
    let done = match command {
        "memberAdd" if is_whole && agreement.named(argument).is_none() => {
            let voter = !agreement.learners;
            agreement.members.insert(id, Listed { name: (*argument).to_owned(), started: false, voter });
            true
        }
        "memberRemove" => agreement.members.remove(*argument).is_some(),
        "memberPromote" if !is_behind => agreement.members.get_mut(*argument).is_some_and(|listed| {
            let is_learner = listed.started && !listed.voter;
            listed.voter |= is_learner;
            is_learner
        }),
        _ => false,
    };
    if done {
        // It is written like everything else: a majority has all that was written before.
        spread(state, &machine.group, usize::MAX);
    }
    done
}

/// Whether a learner does not run, or lacks more than a tenth of what the others have: etcd's own measure.
fn learner_is_behind(state: &State, group: &str, id: &str) -> bool {
    let number = |claim: &String| state.disks.get(claim).and_then(|disk| disk.data.as_ref()).map_or(0, |d| d.number);
    let most = serving(state, group).iter().map(number).max().unwrap_or(0);
    let own = state.agreements.get(group).and_then(|agreement| agreement.homes.get(id)).map_or(0, number);
    !well(state, group).contains(id) || own.saturating_mul(10) < most.saturating_mul(9)
}
