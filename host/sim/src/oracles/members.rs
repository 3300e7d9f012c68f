//! Groups whose members agree: who may be added, removed, started and stopped, by what the application itself has agreed on (docs/rules.md, "Membership").
use super::{Noted, list, text};
use crate::agree::{self, Agreement, Past};
use crate::controllers;
use crate::faults::Fault;
use crate::world::{Machine, State};
use kube::ResourceExt;
use serde_json::Value;
use tanist_core::contract::Role;
use tanist_core::limits::{LIST_FRESH_SECONDS, LIST_SECONDS};
use tanist_core::membership::quorum;
use tanist_core::record::Verb;

/// Seconds from a look until what was decided on it happens, while nothing is late: some requests, and the clock of the world has whole seconds.
const LOOKS: i64 = 5;

/// The faults by which it happens later, and by how many seconds at most.
const LATER: [(Fault, i64); 7] = [
    (Fault::ExecLate, 20),
    (Fault::RequestSlow, 32),
    // The second process goes on beside the first one, and both may stand still.
    (Fault::OperatorFrozen, 80),
    (Fault::MemberFrozen, 45),
    (Fault::WatchLags, 10),
    // An answer that does not arrive is awaited.
    (Fault::StatusHangs, 20),
    (Fault::ApiDown, 40),
];

/// Whether the command with that token changes the members of the application.
#[must_use]
pub(super) fn is_change(token: &str) -> bool {
    token.starts_with("member-")
}

/// The data of a member is removed from its volume: it is none any more, and what was acknowledged is on those of others (D20, S25).
pub fn wipes(state: &mut State, machine: &Machine) {
    let (pod, group) = (machine.pod.clone(), machine.group.clone());
    if state.agreements.get(&group).is_some_and(|agreement| agreement.named(&pod).is_some()) {
        state.breaks("D20", format!("the data of {pod} is removed, which is a member"));
    }
    let Some(clients) = state.clients.get(&group) else { return };
    let of_group = |disk: &&crate::app::Disk| disk.identity.is_some();
    let others =
        state.disks.iter().filter(|(claim, _)| **claim != machine.claim).map(|(_, disk)| disk).filter(of_group);
    let least = others.map(|disk| clients.promised.lacking_in(&disk.holds)).min();
    if least.is_none_or(|lacking| lacking > 0) && clients.promised != crate::app::Writes::default() {
        state.breaks(
            "S25 S27",
            format!("the data of {pod} is removed, and no other volume has all acknowledged writes"),
        );
    }
}

/// A process writes these intents: one of them at most changes the members (D15).
pub(super) fn records(state: &mut State, group: &str, intents: &[Value]) {
    let open: Vec<String> = intents.iter().map(|i| text(i, "token")).filter(|token| is_change(token)).collect();
    if open.len() > 1 {
        state.breaks("D15", format!("two changes of the members of {group} are open: {}", open.join(", ")));
    }
}

/// A command starts in the pod of that UID.
pub(super) fn starts(state: &mut State, uid: &str, token: &str, noted: &Noted) {
    if !state.agreements.contains_key(&noted.group) {
        return;
    }
    agree::refresh(state, &noted.group);
    let is = |verbs: &[Verb]| verbs.iter().any(|verb| verb.as_str() == noted.verb);
    let found = if is_change(token) {
        changes(state, uid, token, noted)
    } else if is(&[Verb::Join, Verb::Place, Verb::Failover, Verb::Rejoin]) {
        comes(state, uid, noted)
    } else if is(&[Verb::Demote, Verb::Switchover, Verb::Remove, Verb::Treat]) {
        leaves(state, uid, noted)
    } else {
        None
    };
    if let Some((rows, what)) = found {
        state.breaks(rows, format!("{token}: {what}"));
    }
}

type Found = Option<(&'static str, String)>;

/// Whether that held at some time since the last look on which what happens now may have been decided, with the voters of now.
fn held(state: &State, agreement: &Agreement, look: i64, holds: impl Fn(&Past) -> bool) -> bool {
    let late: i64 = LATER.iter().filter(|(kind, _)| state.faults.happened.contains_key(kind)).map(|(_, s)| s).sum();
    let from = state.now.saturating_sub(late.saturating_add(look).saturating_add(LOOKS));
    let voters = agreement.voters();
    let ends = agreement.past.iter().skip(1).map(|past| past.since).chain([i64::MAX]);
    let mut past = agreement.past.iter().zip(ends).filter(|(past, end)| *end >= from && past.voters == voters);
    past.any(|(past, _)| holds(past))
}

/// A change of the members starts.
fn changes(state: &State, uid: &str, token: &str, noted: &Noted) -> Found {
    let agreement = state.agreements.get(&noted.group)?;
    let runs = |(other, m): &(&String, &Machine)| {
        m.group == noted.group
            && *other != uid
            && m.busy.as_deref().is_some_and(|busy| is_change(busy) && busy != token)
    };
    if let Some((_, other)) = state.machines.iter().find(runs) {
        return Some(("D15", format!("another change runs in {}", other.pod)));
    }
    let voters = agreement.voters().len();
    if !held(state, agreement, LIST_FRESH_SECONDS, |past| past.well_without(None) >= quorum(voters)) {
        return Some(("D8", format!("no majority of {voters} voters is healthy")));
    }
    let target = &noted.target;
    let listed = agreement.named(target);
    if noted.verb == Verb::MemberAdd.as_str() && listed.is_some() {
        return Some(("D12 D15", format!("{target} is added a second time")));
    }
    let (id, listed) = listed.filter(|_| noted.verb == Verb::MemberRemove.as_str())?;
    let left = voters.saturating_sub(usize::from(listed.voter)).max(1);
    if !held(state, agreement, LIST_FRESH_SECONDS, |past| past.well_without(Some(id)) >= quorum(left)) {
        return Some(("D14", format!("without {target} no majority of {left} voters is healthy")));
    }
    let is_well = held(state, agreement, 0, |past| past.well.contains(id))
        && state.agreements.get(&noted.group).is_some_and(|a| a.past.last().is_some_and(|past| past.well.contains(id)));
    (is_well && is_desired(state, noted, target)).then(|| ("D14 D16", format!("{target} is desired and well")))
}

/// Whether that member is desired now, and was when the command was decided on.
fn is_desired(state: &State, noted: &Noted, member: &str) -> bool {
    let Some(group) = state.groups.get(&noted.group) else { return false };
    group.metadata.generation == Some(noted.generation) && controllers::is_desired(group, member)
}

/// A member is started in the pod of that UID.
fn comes(state: &State, uid: &str, noted: &Noted) -> Found {
    let agreement = state.agreements.get(&noted.group)?;
    let machine = state.machines.get(uid)?;
    let is_second = |(other, m): &(&String, &Machine)| {
        *other != uid && m.pod == machine.pod && m.claim == machine.claim && m.app.role != Role::Stopped
    };
    if let Some((_, other)) = state.machines.iter().find(is_second) {
        return Some(("S20 D20", format!("{} runs under its identity on {} already", machine.pod, other.node)));
    }
    let own = state.disks.get(&machine.claim).and_then(|disk| disk.identity.as_ref());
    let known = known(state, &noted.group, &machine.pod);
    let listed = agreement.named(&machine.pod);
    // A removal, or an addition, whose end nobody knows shows in the list alone, and nobody serves who could say it (docs/rules.md, "Membership").
    let may_be_listed = noted.verb == Verb::Rejoin.as_str() && known.is_some();
    match (own, listed) {
        (_, None) if may_be_listed => None,
        (_, None) => Some(("D10", format!("{} is not listed", machine.pod))),
        (Some(id), Some((current, _))) if id != current => {
            Some(("D20", format!("{} comes back as {id}, and is listed as {current}", machine.pod)))
        }
        (Some(id), _) if agreement.homes.get(id) != Some(&machine.claim) => {
            Some(("D20", format!("{} starts as {id} on a copy of its volume", machine.pod)))
        }
        // That its first start worked may not be known, nor that its volume is empty; then the application refuses.
        (None, Some((id, listed))) if listed.started && known == Some(true) && can_read(state) => {
            Some(("D20", format!("{} was started as {id}, and starts on another volume", machine.pod)))
        }
        _ => None,
    }
}

/// Whether nothing keeps the operator from reading sequences.
fn can_read(state: &State) -> bool {
    let keeps = [
        Fault::SequenceFails,
        Fault::SequenceGarbled,
        Fault::ExecLost,
        Fault::ExecRefused,
        Fault::ExecLate,
        Fault::StreamLost,
        Fault::OutputCut,
        Fault::MemberFrozen,
        Fault::ApiDown,
    ];
    keeps.iter().all(|kind| !state.faults.happened.contains_key(kind))
}

/// Whether a member was started before, by the last list that the record has. `None`: it is not in it.
#[must_use]
pub fn known(state: &State, group: &str, member: &str) -> Option<bool> {
    let record = state.groups.get(group)?.status.as_ref()?.record.as_ref()?;
    let listed = list(record.get("membership")?, "members").iter().find(|listed| text(listed, "member") == member)?;
    listed.get("started").and_then(Value::as_bool)
}

/// A member is stopped in the pod of that UID.
fn leaves(state: &State, uid: &str, noted: &Noted) -> Found {
    let group = state.groups.get(&noted.group)?;
    let agreement = state.agreements.get(&noted.group)?;
    let machine = state.machines.get(uid)?;
    // On the way to 0 all stop.
    if group.spec.replicas == 0 || group.metadata.generation != Some(noted.generation) {
        return None;
    }
    let id = state.disks.get(&machine.claim)?.identity.as_ref().filter(|id| agreement.members.contains_key(*id))?;
    if noted.verb == Verb::Remove.as_str() {
        return Some(("D19", format!("{} is stopped, and still listed", machine.pod)));
    }
    let (voters, failed) = (agreement.voters(), state.oracles.failed.contains(&machine.container));
    if !voters.contains(id) || failed && noted.verb == Verb::Treat.as_str() {
        return None;
    }
    let needed = quorum(voters.len());
    let now = agreement.past.last()?;
    let loses = now.well.contains(id) && now.well_without(None) >= needed;
    let could = held(state, agreement, LIST_SECONDS, |past| past.well_without(Some(id)) >= needed);
    (loses && !could).then(|| ("D14", format!("without {} no majority is left", machine.pod)))
}

/// A process gives the `StatefulSet` of a group fewer members. With none all members stay listed.
pub(super) fn shrinks(state: &mut State, group: &str, to: u32) {
    let Some(agreement) = state.agreements.get(group).filter(|_| to > 0) else { return };
    let ordinal = |name: &str| name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<u32>().ok());
    let goes = agreement.members.values().find(|listed| ordinal(&listed.name).is_none_or(|own| own >= to));
    if let Some(name) = goes.map(|listed| listed.name.clone()) {
        state.breaks("D19", format!("{group} shrinks to {to}, and {name} is still listed"));
    }
}

/// The application of a group forms a cluster, which happens once (D27).
pub fn forms(state: &mut State, group: &str, pod: &str) {
    let known = state.agreements.get(group).and_then(|agreement| agreement.cluster.clone());
    if let Some(known) = known {
        state.breaks("D27", format!("{pod} forms a second cluster beside {known}"));
    }
}

/// An administrator is asked to delete the volume of a member (D20).
pub fn empties(state: &mut State, group: &str, pod: &str) {
    let Some(agreement) = state.agreements.get(group) else { return };
    let claim = state.claims.get(&crate::controllers::claim_of(pod)).and_then(ResourceExt::uid).unwrap_or_default();
    let counts = |id: &&String| agreement.members.contains_key(*id) && agreement.homes.get(*id) == Some(&claim);
    let own = agree::identity_of(state, pod).filter(counts).cloned();
    if let Some(id) = own {
        state.breaks("D20", format!("an administrator is to empty the volume of {pod}, whose identity {id} counts"));
    }
}
