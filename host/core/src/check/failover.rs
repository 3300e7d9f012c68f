//! Who may take over from lost primaries, and when (docs/rules.md, "Which question arises", "Order of data").
//!
//! Members of the highest term count, and nobody else. A secondary that was not read may have what no other has: it is waited for, unless the
//! owner of the application said how many are enough. The lost primary alone is not waited for.
use super::claims::{explained, own_claims, record_is_current};
use super::seed::{above_high_water, highest_among, highest_term, overruled};
use super::{Held, Rule, Violation, broken, broken_by, free, phase_word, rested, role_is};
use crate::contract::{Phase, Position, Role, Sequence};
use crate::data;
use crate::over;
use crate::record::Verb;
use crate::snapshot::{Evidence, Member, Snapshot};
use std::cmp::Ordering;

/// No primary serves, nobody may be one, and a secondary runs. No override lifts this (promise 1).
///
/// # Errors
/// [`Rule::PrimaryLimit`], [`Rule::MayBePrimary`], [`Rule::NobodyFollows`].
pub fn failover_alone(s: &Snapshot) -> Held {
    if let Some(member) = s.serving().first() {
        return Err(broken_by(Rule::PrimaryLimit, &member.name, format!("{} serves as primary", member.name)));
    }
    if let Some((name, why)) = s.may_be_primary().into_iter().next() {
        let message = format!("{name} may be primary: {why}");
        return Err(Violation { until: over::proven_at(s), ..broken_by(Rule::MayBePrimary, &name, message) });
    }
    match s.members.iter().any(|m| follows(s, m)) {
        true => Ok(()),
        false => Err(broken(Rule::NobodyFollows, "no secondary runs")),
    }
}

/// Whether the member runs as secondary and commands reach it.
#[must_use]
pub fn follows(s: &Snapshot, member: &Member) -> bool {
    s.reachable(member) && s.role(member).0 == Role::Secondary
}

/// Whether the member's data is asked for: it is of the highest term, and the owner does not leave it out.
#[must_use]
pub fn counts(s: &Snapshot, member: &Member) -> bool {
    let memory = s.record.member(&member.name);
    highest_term(s).is_some() && memory.counts_as() == highest_term(s) && !left_out(s, member)
}

/// `spec.failover.preferRunning`: a stopped old primary holds more than was promised to anyone, as long as somebody runs who has what was. Where
/// nobody does, it was alone, and it alone has everything.
fn left_out(s: &Snapshot, member: &Member) -> bool {
    let has_data = |m: &Member| {
        let (of, highest) = (s.record.member(&m.name).counts_as(), highest_term(s));
        follows(s, m) && of == highest && m.position != Position::Empty
    };
    let left_out = s.group.failover.prefer_running && led(s, member) && !follows(s, member);
    left_out && s.members.iter().any(has_data) && lost(s).is_none()
}

/// A member of the highest term whose volume was replaced since it was confirmed: what it held may have been the freshest, and nobody can read it
/// any more.
fn lost(s: &Snapshot) -> Option<&Member> {
    let confirmed = |m: &&Member| highest_term(s).is_some() && s.record.member(&m.name).term == highest_term(s);
    s.members.iter().filter(confirmed).find(|m| !led(s, m) && own_claims(s, m).is_err())
}

/// Who led is over and its data is read: nobody had more.
fn leader_is_read(s: &Snapshot) -> bool {
    let read =
        |m: &Member| matches!(m.position, Position::Known(_)) && s.position_stands(m) && own_claims(s, m).is_ok();
    s.members.iter().any(|m| led(s, m) && counts(s, m) && read(m))
}

/// Whether it led the highest term: it is over by now, and what only it has was never promised to anyone.
fn led(s: &Snapshot, member: &Member) -> bool {
    s.record.member(&member.name).primary_term == highest_term(s)
}

/// What has to hold for the whole group before anyone takes over.
///
/// # Errors
/// The first rule that does not hold; an override lifts all but Over.
pub fn failover_group(s: &Snapshot) -> Held {
    failover_alone(s)?;
    if s.overrule().is_some() {
        return Ok(());
    }
    record_is_current(s)?;
    if !enough(s) {
        let waited = |m: &&Member| counts(s, m) && !led(s, m) && !only_joins(s, m);
        s.members.iter().filter(waited).try_for_each(|m| readable(s, m))?;
        if let Some(member) = lost(s).filter(|_| !leader_is_read(s)) {
            let message = format!(
                "the volume of {} is another one than when it followed last; what it held may have been the freshest, and who led cannot be read",
                member.name
            );
            return Err(broken_by(Rule::ClaimChanged, &member.name, message));
        }
    }
    top(s).map(|_| ())
}

/// Whether the member is on its way to become a secondary and cannot hold anything that others lack: what it held before is known and not
/// above the highest known now, its command runs still or it says that it is starting, and nobody saw it as secondary or primary since. What
/// it copies meanwhile comes from the lost primary, and is promised to nobody before `status` says secondary.
fn only_joins(s: &Snapshot, member: &Member) -> bool {
    let memory = s.record.member(&member.name);
    let Some(intent) = s.record.intent_of(&member.name).filter(|i| i.verb == Verb::Place && !i.again) else {
        return false;
    };
    let Some(started) = memory.started.as_ref().filter(|started| !started.target && !started.followed) else {
        return false;
    };
    let on_its_way = match (s.evidence.get(&intent.token), s.role(member).0) {
        (Some(Evidence::Running), Role::Stopped | Role::Starting) => true,
        // It exited 0: a member that is stopped by now may have served in between.
        (Some(Evidence::Exited(0)), Role::Starting) => true,
        _ => false,
    };
    on_its_way && s.reachable(member) && holds_no_more(s, &started.before, memory.term)
}

/// Whether data of that term is not above the highest that is known of the highest term.
fn holds_no_more(s: &Snapshot, before: &Position, term: Option<u64>) -> bool {
    match before {
        Position::Empty => true,
        Position::Unknown(_) | Position::NotAsked => false,
        Position::Known(_) if term < highest_term(s) => true,
        Position::Known(before) => {
            let top = top(s).ok().flatten();
            let order = top.and_then(|top| data::compare((0, before), (0, &top)));
            matches!(order, Some(Ordering::Less | Ordering::Equal))
        }
    }
}

fn readable(s: &Snapshot, member: &Member) -> Held {
    let why = match &member.position {
        Position::Unknown(why) => format!("cannot be read: {why}"),
        Position::NotAsked if free(s, member).is_err() => unread(s, member),
        _ => return Ok(()),
    };
    let message = format!("the data of {} {why}; it may be the freshest", member.name);
    Err(broken_by(Rule::PositionUnknown, &member.name, message))
}

fn unread(s: &Snapshot, member: &Member) -> String {
    match s.record.intent_of(&member.name) {
        Some(intent) => format!("is not read while its command {} is not settled", intent.command),
        None if s.reachable(member) => "is being read".into(),
        None => {
            let phase = member.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
            format!("is not known, its pod is {}", phase_word(phase))
        }
    }
}

/// As many positions are known as the owner of the application asks for. An empty volume, or another one than was confirmed, says nothing of what
/// was acknowledged.
fn enough(s: &Snapshot) -> bool {
    let known =
        |m: &&Member| matches!(m.position, Position::Known(_)) && s.position_stands(m) && own_claims(s, m).is_ok();
    let known = s.members.iter().filter(|m| counts(s, m)).filter(known).count();
    s.group.failover.reads.is_some_and(|reads| usize::try_from(reads).is_ok_and(|reads| known >= reads))
}

/// Every position that counts and can be read was read since nobody leads (S8).
pub(super) fn positions_read(s: &Snapshot) -> Held {
    if s.overrule().is_some() || enough(s) {
        return Ok(());
    }
    match s.members.iter().find(|m| counts(s, m) && free(s, m).is_ok() && !s.position_stands(m)) {
        Some(m) => {
            let message = format!("the data of {} was not read since nobody leads", m.name);
            Err(broken_by(Rule::PositionUnknown, &m.name, message))
        }
        None => Ok(()),
    }
}

/// The highest data that counts. `None`: nobody that counts has any.
fn top(s: &Snapshot) -> Result<Option<Sequence>, Violation> {
    highest_among(s.members.iter().filter(|m| counts(s, m)))
}

/// What has to hold for the member that takes over.
///
/// # Errors
/// The first rule that does not hold.
pub fn failover_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    role_is(s, member, &[Role::Secondary, Role::Stopped])?;
    if let Some(overrule) = s.overrule() {
        return overruled(s, member, overrule);
    }
    rested(s, member)?;
    let name = &member.name;
    if left_out(s, member) {
        return Err(broken_by(Rule::LeftOut, name, "it led and is stopped; spec.failover.preferRunning leaves it out"));
    }
    if !counts(s, member) {
        let why = "its data is of an older term: it may lack writes of the last one";
        return Err(broken_by(Rule::OlderTerm, name, why));
    }
    if s.record.member(name).started.as_ref().is_some_and(|started| !started.target) {
        let why = "a start on it was never confirmed: what it holds may be half a copy";
        return Err(broken_by(Rule::Unconfirmed, name, why));
    }
    explained(s, member)?;
    own_claims(s, member)?;
    let own = match &member.position {
        Position::Known(own) if s.position_stands(member) => own,
        Position::Empty => return Err(broken_by(Rule::EmptyMember, name, "it holds no data, and this group has some")),
        _ => return Err(broken_by(Rule::PositionUnknown, name, "its data was not read since nobody leads")),
    };
    if let Some(top) = top(s)?.filter(|top| data::compare((0, own), (0, top)) != Some(Ordering::Equal)) {
        let why = format!("its data ({own}) is behind the highest known ({top})");
        return Err(broken_by(Rule::BelowHighest, name, why));
    }
    above_high_water(s, member, own)?;
    hands_over(s, member)
}

/// Among equals, whom a person named goes first, who hands over last, and who leaves or is on a node that is to be emptied after those who
/// stay (docs/rules.md, "Barred always"; S25).
/// Each may lead again when nobody else has what it has.
fn hands_over(s: &Snapshot, member: &Member) -> Held {
    let equal = |m: &Member| {
        m.name != member.name
            && counts(s, m)
            && m.position == member.position
            && s.position_stands(m)
            && free(s, m).is_ok()
            && rested(s, m).is_ok()
    };
    let open = s.record.handover.as_ref().filter(|h| h.is_open());
    let from = |m: &Member| open.is_some_and(|h| h.from == m.name);
    let named = open.and_then(|h| h.to.as_ref());
    if named == Some(&member.name) {
        return Ok(());
    }
    let leaves = |m: &Member| s.group.is_surplus(m) || s.is_cordoned(m);
    let stays = s.members.iter().any(|m| equal(m) && !leaves(m) && !from(m));
    let why = if let Some(named) = s.members.iter().find(|m| named == Some(&m.name) && equal(m)) {
        format!("{} is to lead, and has the same data", named.name)
    } else if from(member) && s.members.iter().any(equal) {
        "it hands over, and another member has the same data".into()
    } else if s.group.is_surplus(member) && stays {
        "it leaves, and one that stays has the same data".into()
    } else if s.is_cordoned(member) && stays {
        "its node is to be emptied, and a member elsewhere has the same data".into()
    } else {
        return Ok(());
    };
    Err(broken_by(Rule::HandsOver, &member.name, why))
}
