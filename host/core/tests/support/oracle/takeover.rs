//! What a takeover may do, and which writes it may lose.
use super::super::app::{Body, Data, Volume};
use super::super::db;
use super::{World, ensure, leaders, named, ordinal, show_leaders};
use tanist_core::contract::{MemberName, Phase, Role};
use tanist_core::record::Intent;
use tanist_core::snapshot::Snapshot;

/// No member leads, and no acknowledged write is lost except those that only a lost primary has.
pub(super) fn taken_over(w: &World, s: &Snapshot, intent: &Intent) -> Result<(), String> {
    ensure(leaders(w) == 0, || format!("{} lead or may lead: {}", leaders(w), show_leaders(w)))?;
    if named(w, s, intent) {
        return Ok(());
    }
    running_first(w, s, intent)?;
    let slack = slack(w, s, intent);
    not_below_mark(w, s, &intent.member, slack)?;
    let own = &w.volumes[&ordinal(&intent.member)];
    let mut lost = 0;
    for write in w.lacks(ordinal(&intent.member)) {
        let mut holders = w.volumes.iter().filter(|(_, v)| v.holds.contains(&write)).map(|(o, _)| *o);
        let Some(holder) = holders.find(|o| !excused(w, s, *o)).filter(|_| !given_up(w, s, intent, write)) else {
            continue;
        };
        // A number stands for one write at least.
        lost += 1;
        ensure(lost <= slack, || {
            let most = format!("{lost} writes are lost, {slack} may be");
            format!("db-{holder} holds the write {write}, {} does not; {most}", intent.member)
        })?;
    }
    if w.clients.is_some() {
        return Ok(()); // numbers say less than writes
    }
    for (other, volume) in &w.volumes {
        let abandoned = w.abandoned.get(other) == Some(&volume.truth());
        let spared = abandoned || excused(w, s, *other) || slack > 0 && within(w, *other, own, slack);
        ensure(spared || volume.truth() <= own.truth(), || {
            format!("db-{other} holds {:?}, the target {:?}", volume.truth(), own.truth())
        })?;
    }
    Ok(())
}

/// How many writes the takeover may lose: `spec.failover.maxBehind`, for a member that runs as secondary; otherwise none.
fn slack(w: &World, s: &Snapshot, intent: &Intent) -> u64 {
    let runs = w.pods.get(&ordinal(&intent.member)).is_some_and(|b| b.said.0 == Role::Secondary);
    s.group.failover.max_behind.filter(|_| runs).unwrap_or_default()
}

/// Whether the member was asked and said that it is ahead by no more than that.
fn within(w: &World, member: u32, own: &Volume, slack: u64) -> bool {
    let read = w.pods.get(&member).is_some_and(|b| b.pod.phase == Phase::Running);
    let (Data::Known(top), Data::Known(mine)) = (&w.volumes[&member].data, &own.data) else { return false };
    read && top.number.saturating_sub(mine.number) <= slack && top.history == mine.history
}

/// Whether the writes that only this member has may be lost: it was primary in the highest term, to its end, and cannot be read. In scripts, which do
/// not say what was acknowledged, also with `preferRunning` if it is a stopped old primary beside a running secondary with data of that term.
fn excused(w: &World, s: &Snapshot, of: u32) -> bool {
    let highest = s.members.iter().filter_map(|m| s.record.member(&m.name).counts_as()).max();
    let body = w.pods.get(&of);
    let memory = s.record.member(&db(of));
    let led = memory.primary_term == highest && !memory.followed_since;
    let unreadable = matches!(w.volumes[&of].data, Data::Unreadable(_));
    let lost = unreadable || body.is_none_or(|b| b.pod.phase != Phase::Running);
    let runs = |o: &u32| w.pods.get(o).is_some_and(|b| b.app.role == Role::Secondary && b.pod.phase == Phase::Running);
    let of_it = |o: &u32| s.record.member(&db(*o)).counts_as() == highest && w.volumes[o].data != Data::Empty;
    let script = s.group.failover.prefer_running && w.clients.is_none();
    led && (lost || script && !runs(&of) && w.volumes.keys().any(|o| runs(o) && of_it(o)))
}

/// With `preferRunning` a stopped old primary does not take over beside a running secondary of its term: it may have writes that were never
/// acknowledged. That needs secondaries that were told whom to follow and whose volumes are those that they had.
fn running_first(w: &World, s: &Snapshot, intent: &Intent) -> Result<(), String> {
    let memory = |o: &u32| s.record.member(&db(*o));
    let target = ordinal(&intent.member);
    let stopped = w.pods.get(&target).is_some_and(|b| b.said.0 == Role::Stopped);
    let led = memory(&target).primary_term == Some(s.record.term) && !memory(&target).followed_since;
    let own_volumes = w.volumes.iter().all(|(o, v)| memory(o).claim_uid.as_ref().is_none_or(|uid| *uid == v.uid));
    if !(s.group.failover.prefer_running && stopped && led && own_volumes) {
        return Ok(());
    }
    let follows = |o: &u32, b: &Body| {
        let told = memory(o).started.is_none() && !memory(o).follow_again && w.volumes[o].data != Data::Empty;
        told && b.said.0 == Role::Secondary && b.pod.phase == Phase::Running
    };
    // If one that cannot lead has more than these, only the old primary has it, too.
    let of_term = || w.pods.iter().filter(|(o, _)| **o != target && memory(o).counts_as() == Some(s.record.term));
    let most = of_term().map(|(o, _)| w.volumes[o].truth()).max();
    match of_term().find(|(o, b)| follows(o, b) && Some(w.volumes[*o].truth()) == most).map(|(o, _)| o) {
        Some(o) => Err(format!("{} was the primary and is stopped, and db-{o} runs", intent.member)),
        None => Ok(()),
    }
}

/// The member is not below the most recent data that the record knows of. What a leader of a later term had is more recent, even if nothing was
/// written in that term yet.
pub(super) fn not_below_mark(w: &World, s: &Snapshot, member: &MemberName, slack: u64) -> Result<(), String> {
    let own = &w.volumes[&ordinal(member)];
    let Some(mark) = &s.record.high_water else { return Ok(()) };
    let later = own.led > mark.term || own.written > mark.term;
    ensure(later || own.truth().is_some_and(|(_, n)| n.saturating_add(slack) >= mark.sequence.number), || {
        format!("{:?} is below {mark:?}", own.truth())
    })
}

/// An earlier start in the same term on the same member already gave the write up, and that start was not proven void.
pub(super) fn given_up(w: &World, s: &Snapshot, intent: &Intent, write: u64) -> bool {
    let Some(started) = &s.record.member(&intent.member).started else { return false };
    let same = |i: &Intent| i.member == intent.member && i.verb.opens_term() && i.term == started.term;
    w.execs.values().any(|e| same(&e.intent) && e.gives_up.contains(&write))
}
