//! Terms: who opens one does it alone (S1, S2, S5, S13, S20 to S22).
use super::{Noted, makes_primary};
use crate::controllers::claim_of;
use crate::world::{Machine, State};
use tanist_core::contract::Role;
use tanist_core::record::Verb;

/// Whoever opens a term does it alone.
pub(super) fn leads_alone(state: &mut State, uid: &str, token: &str, noted: &Noted) {
    let (is_seed, is_failover) = (noted.verb == Verb::Seed.as_str(), noted.verb == Verb::Failover.as_str());
    if !is_seed && !is_failover {
        return;
    }
    let before = state.oracles.opened.insert((noted.group.clone(), noted.term), token.to_owned());
    if let Some(before) = before {
        state.breaks("S1 S2", format!("{token} opens term {}, as {before} did", noted.term));
    }
    let is_about_to = |m: &Machine| m.busy.as_deref().is_some_and(makes_primary);
    // A secondary whose pod was deleted at once leads nobody, and its node ends it.
    let is_there = |uid: &str| state.pods.values().any(|pod| pod.metadata.uid.as_deref() == Some(uid));
    // Nor does one whose claim a user deleted after its group had gone: of it nobody knows any more (seed 208320944).
    let has_claim = |m: &Machine| state.claims.contains_key(&claim_of(&m.pod));
    // Nor one that left while the others served: its node was silent, and it was not waited for (seed 9009952).
    let record = state.groups.get(&noted.group).and_then(|group| group.status.as_ref()?.record.as_ref());
    let size = record.and_then(|record| record.get("lastReplicas")?.as_u64());
    let has_left = |m: &Machine| {
        let own = m.pod.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
        size.is_some_and(|size| size > 0 && own >= Some(size)) && !state.is_up(&m.node)
    };
    let hinders = |other: &str, m: &Machine| {
        let follows = is_seed && m.app.role == Role::Secondary && is_there(other) && has_claim(m) && !has_left(m);
        m.app.role == Role::Primary || follows || is_about_to(m)
    };
    let others = state.machines.iter();
    let others = others.filter(|(other, m)| *other != uid && m.group == noted.group && hinders(other, m));
    let others: Vec<_> = others.map(|(_, m)| format!("{} is {:?}", m.pod, m.app.role)).collect();
    if !others.is_empty() {
        let rows = if is_seed { "S1 S2 S13" } else { "S5 S20 S21 S22" };
        state.breaks(rows, format!("{token} starts on {} while {}", noted.member, others.join(", ")));
    }
}
