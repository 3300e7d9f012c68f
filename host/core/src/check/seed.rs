//! Which member may become the first primary, and when: the order of data, and the objections of the record (docs/rules.md, "Order of data").
use super::{Held, Rule, Violation, broken, broken_by, can_take_command, phase_word, retry_allowed, role_is};
use super::{claims, zones};
use crate::contract::{MemberName, Phase, Position, Role, Sequence};
use crate::data;
use crate::limits;
use crate::memory;
use crate::over;
use crate::over::role_word;
use crate::record::{Mark, MemberRecord, Untold};
use crate::snapshot::{Member, Override, Snapshot};
use std::cmp::Ordering;

/// A snapshot before a seed, with what its members say together about the order of data. It is worked out once per question, so that judging a
/// member does not look at all the others again.
pub struct SeedOrder<'a> {
    s: &'a Snapshot,
    highest_term: Option<u64>,
    highest_data: Result<Option<Sequence>, Violation>,
    all_empty: bool,
}

impl<'a> SeedOrder<'a> {
    /// Works it out.
    #[must_use]
    pub fn of(s: &'a Snapshot) -> Self {
        let all_empty = s.members.iter().all(|m| m.position == Position::Empty || never_came(s, m));
        let mut order = SeedOrder { s, highest_term: highest_term(s), highest_data: Ok(None), all_empty };
        order.highest_data =
            highest_among(s.members.iter().filter(|m| !order.is_of_older_term(m) && s.position_is_current(m)));
        order
    }

    /// Whether the member's data is proven to be of an older term: such a member neither wins nor blocks.
    #[must_use]
    pub fn is_of_older_term(&self, member: &Member) -> bool {
        let own = self.s.record.member(&member.name).counts_as();
        matches!((own, self.highest_term), (Some(own), Some(highest)) if own < highest)
            && !self.may_have_followed(member)
    }

    /// Whether the member is of an older term, and may have data of the highest one.
    fn may_have_followed(&self, member: &Member) -> bool {
        let data = if self.s.position_is_current(member) { &member.position } else { &Position::NotAsked };
        may_have_followed(self.s, member, data, self.highest_term)
    }

    /// The highest data of the highest term. `None`: no member of that term has data.
    ///
    /// # Errors
    /// [`Rule::HistoriesDiffer`]: two histories within the highest term; an administrator decides (S14).
    pub fn highest_data(&self) -> Result<Option<&Sequence>, Violation> {
        self.highest_data.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    /// What has to hold for the whole group before a member is seeded.
    ///
    /// # Errors
    /// The first rule that does not hold; an override lifts all but Over.
    pub fn group(&self) -> Held {
        let s = self.s;
        super::membership::not_formed(s)?;
        nobody_starts_alone(s)?;
        let has_override = s.active_override().is_some();
        if !has_override {
            expected_pods_run(s)?;
        }
        all_stopped(s)?;
        if has_override {
            return Ok(());
        }
        claims::no_claim_ahead(s)?;
        claims::no_target_left(s)?;
        self.positions_known()?;
        memory_explains(s)?;
        self.claims_unchanged()?;
        self.leaders_have_data()?;
        self.highest_data().map(|_| ())
    }

    /// The last primaries do not all say that they have nothing, each on the volume that it had: a volume that broke may look empty, and nobody else has for certain what they acknowledged (S15), as before a failover.
    fn leaders_have_data(&self) -> Held {
        let s = self.s;
        let known = |m: &Member| s.record.member(&m.name);
        let led = |m: &&Member| known(m).primary_term == self.highest_term && !known(m).followed_since;
        let mut leaders = s.members.iter().filter(|_| self.highest_term.is_some()).filter(led).peekable();
        let Some(first) = leaders.peek().copied() else { return Ok(()) };
        if self.all_empty || leaders.any(|m| m.position != Position::Empty || m.claims.is_empty()) {
            return Ok(());
        }
        let message = format!(
            "{} was primary and says that it has no data, on the volume that it had; if that is so, choose who leads with the annotation tanist.dev/override",
            first.name
        );
        Err(broken_by(Rule::EmptyMember, &first.name, message))
    }

    /// An unknown position blocks, because it may be the most recent (A6; docs/requirements.md, reading 3).
    fn positions_known(&self) -> Held {
        for member in self.s.members.iter().filter(|m| !self.is_of_older_term(m)) {
            if let Position::Unknown(why) = &member.position {
                let message =
                    format!("the data of {} cannot be read, and it may be the most recent: {why}", member.name);
                return Err(broken_by(Rule::PositionUnknown, &member.name, message));
            }
        }
        Ok(())
    }

    /// Every position that counts was read from the present container and after the primary was lost; older readings may be out of date (S8, S9).
    pub(super) fn positions_read(&self) -> Held {
        let s = self.s;
        if s.active_override().is_some() {
            return Ok(());
        }
        let counts = |m: &&Member| !self.is_of_older_term(m) && !never_came(s, m);
        match s.members.iter().filter(counts).find(|m| !s.position_is_current(m)) {
            Some(m) => Err(broken_by(
                Rule::PositionUnknown,
                &m.name,
                format!("the data of {} has not been read since the primary was lost", m.name),
            )),
            None => Ok(()),
        }
    }

    /// Every last primary has the volume that it had (S16). A volume that is not recorded is no proof that it is the same one (S32).
    fn claims_unchanged(&self) -> Held {
        let Some(highest) = self.highest_term else { return Ok(()) };
        for member in &self.s.members {
            let memory = self.s.record.member(&member.name);
            if memory.primary_term == Some(highest) && memory::claim_uids(&member.claims) != memory.claim_uid {
                let message = format!(
                    "{} was primary and its volume was replaced; the lost data may have been the most recent",
                    member.name
                );
                return Err(broken_by(Rule::ClaimChanged, &member.name, message));
            }
        }
        Ok(())
    }

    /// What has to hold for the member that is seeded.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn member(&self, member: &Member) -> Held {
        let s = self.s;
        can_take_command(s, member)?;
        role_is(s, member, &[Role::Stopped])?;
        if let Some(requested) = s.active_override() {
            return override_fits(s, member, requested);
        }
        retry_allowed(s, member)?;
        let name = &member.name;
        let memory = s.record.member(name);
        if self.is_of_older_term(member) {
            let why = "its data is of an older term and may lack the latest writes";
            return Err(broken_by(Rule::OlderTerm, name, why));
        }
        let Position::Known(own) = &member.position else { return self.empty_member(member) };
        if self.may_have_followed(member) {
            let why = "it was not told whom to follow in the last term, and its data has changed since";
            return Err(broken_by(Rule::Unconfirmed, name, why));
        }
        if memory.started.as_ref().is_some_and(|started| !started.target) {
            let why = "a start on it was never confirmed, and its data has changed since";
            return Err(broken_by(Rule::Unconfirmed, name, why));
        }
        let behind = self.highest_data()?.filter(|top| data::compare((0, own), (0, top)) != Some(Ordering::Equal));
        if let Some(top) = behind {
            return Err(broken_by(
                Rule::BelowHighest,
                name,
                format!("its data ({own}) is behind the highest known ({top})"),
            ));
        }
        // The volume is recorded only once a role was confirmed. Before that the target of the very first seed may be seeded again.
        if memory.term.is_some() {
            claims::volume_unchanged(s, member)?;
        }
        above_high_water(s, member, own)
    }

    fn empty_member(&self, member: &Member) -> Held {
        let name = &member.name;
        if member.position != Position::Empty {
            return Err(broken_by(Rule::PositionUnknown, name, "its data could not be read"));
        }
        // Until the first seed is confirmed only its target can have data: that member may be seeded again, or any member while all are empty.
        let allowed = match &self.s.record.ever_seeded {
            None => self.all_empty,
            Some(seeded) if seeded.confirmed => false,
            Some(seeded) => self.all_empty || &seeded.member == name,
        };
        match &self.s.record.high_water {
            None if allowed => Ok(()),
            mark => {
                let holder = mark.as_ref().map(|mark| who_has_it(self.s, mark)).unwrap_or_default();
                let message = format!("it has no data, and this group has or had data{holder}");
                Err(broken_by(Rule::EmptyMember, name, message))
            }
        }
    }
}

/// Members that agree wait for one another while they start. When the record and the claims' memory are lost in that moment, nobody knows whom to start beside a member that waits, and it would wait for ever.
fn nobody_starts_alone(s: &Snapshot) -> Held {
    let is_known = s.record.membership.is_some() || s.record.ever_seeded.is_some();
    if s.group.commands.membership.is_none() || is_known {
        return Ok(());
    }
    let since = |m: &Member| m.reading.since.saturating_add(limits::ALONE_SECONDS);
    let starts = |m: &&Member| s.role(m).0 == Role::Starting && s.record.intent_of(&m.name).is_none();
    match s.members.iter().find(|m| starts(m) && s.now >= since(m)) {
        Some(m) => Err(broken_by(
            Rule::NeedsAdoption,
            &m.name,
            format!(
                "{} is starting, and neither the record nor a claim says with which members; find the volume with the data that you need, delete the pod of {}, then choose who leads with the annotation tanist.dev/override",
                m.name, m.name
            ),
        )),
        None => Ok(()),
    }
}

/// Whether the member does not run and was never started, and came in the place of another one, which is still there. Or nothing was ever started there, and the user does not want it there any more: its zone may have no node.
/// Where members have data before the first seed (volumes that a user filled) its volume may have the most recent one, so it is waited for.
pub(super) fn never_came(s: &Snapshot, member: &Member) -> bool {
    let known = s.record.member(&member.name);
    let is_new = s.record.seats.as_ref().is_some_and(|seats| seats.is_successor(member.ordinal));
    let has_come = known.term.is_some() || known.started.is_some() || s.reachable(member);
    let is_out = || may_never_come(s, member) && !has_unexplained_data(s);
    s.group.makes_pods && !has_come && (is_new || is_out())
}

/// Whether nothing was ever started on the member, its pod has no node, and the user does not want it there any more: the pod may wait for ever.
fn may_never_come(s: &Snapshot, member: &Member) -> bool {
    let is_unwanted = || s.leaves(member) || zones::is_misplaced(s, member);
    s.group.makes_pods && zones::has_no_node(s, member) && is_unwanted()
}

/// Whether members have data although no first seed is remembered: users filled volumes, or the memory is lost.
fn has_unexplained_data(s: &Snapshot) -> bool {
    s.record.ever_seeded.is_none() && s.members.iter().any(|m| matches!(m.position, Position::Known(_)))
}

/// Exactly the expected members run: as many as the `StatefulSet` has or ever had (A1, S18).
fn expected_pods_run(s: &Snapshot) -> Held {
    if s.set.is_none() {
        return Err(broken(Rule::PodCount, "the StatefulSet does not exist yet"));
    }
    // One that was to come in the place of another one, which is still there, and was never started has nothing: it may have no place.
    let has_come = |m: &&Member| !never_came(s, m);
    let absent = s.members.iter().filter(|m| never_came(s, m) && s.roster().was_provided(m)).count();
    let expected = s.roster().provided().saturating_sub(u32::try_from(absent).unwrap_or(u32::MAX));
    let running = s.members.iter().filter(has_come).filter(|m| s.reachable(m)).count();
    if usize::try_from(expected).ok() == Some(running) && s.members.iter().filter(has_come).count() == running {
        return Ok(());
    }
    nobody_waits_for_ever(s)?;
    let missing = s.members.iter().filter(|m| !s.reachable(m)).map(|m| {
        let phase = m.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
        format!("; {} is {}", m.name, phase_word(phase))
    });
    let missing: String = missing.collect();
    let message =
        format!("running pods: {running}, expected: {expected}; the first primary waits for exactly those{missing}");
    Err(broken(Rule::PodCount, message))
}

/// A pod without a place may never run, and without a memory nobody knows that its volume is empty: when the first primary waits for nothing else, an administrator decides.
fn nobody_waits_for_ever(s: &Snapshot) -> Held {
    let mut missing = s.members.iter().filter(|m| !s.reachable(m)).peekable();
    let Some(first) = missing.peek().copied() else { return Ok(()) };
    if !missing.all(|m| may_never_come(s, m)) {
        return Ok(());
    }
    let message = format!(
        "the group has data that it has no record of, {} may have more recent data, and its pod has no node; give it a node, or choose who leads with the annotation tanist.dev/override",
        first.name
    );
    Err(broken_by(Rule::NeedsAdoption, &first.name, message))
}

/// Nobody may be primary, and nobody is being started.
pub(super) fn nobody_may_lead(s: &Snapshot) -> Held {
    if let Some((name, why)) = s.may_be_primary().into_iter().next() {
        let message = format!("{name} may be primary: {why}");
        return Err(Violation { until: over::proven_at(s), ..broken_by(Rule::MayBePrimary, &name, message) });
    }
    // An open start may lead to a running member at any moment, even if `status` just said stopped.
    if let Some(intent) = s.record.intents.first() {
        let message = format!("{} on {} is not settled; the first primary waits for it", intent.command, intent.member);
        return Err(broken_by(Rule::NotAllStopped, &intent.member, message));
    }
    Ok(())
}

/// No member runs, may be running or is about to run (promise 1). No override lifts this.
pub(super) fn all_stopped(s: &Snapshot) -> Held {
    nobody_may_lead(s)?;
    // A member in a pod that is being deleted still runs.
    for member in s.members.iter().filter(|m| over::may_run(s, m)) {
        let (role, why) = s.role(member);
        if role != Role::Stopped {
            let why = why.map(|w| format!(": {w}")).unwrap_or_default();
            let message = format!(
                "{} is {}{why}; the first primary waits until every member is stopped",
                member.name,
                role_word(role)
            );
            return Err(broken_by(Rule::NotAllStopped, &member.name, message));
        }
    }
    Ok(())
}

/// The mark of a member of an older term that may have followed a primary of the highest one without having been told.
pub(super) fn untold<'a>(s: &'a Snapshot, member: &Member, highest: Option<u64>) -> Option<&'a Untold> {
    let known = s.record.member(&member.name);
    known.untold.as_ref().filter(|_| known.term < highest)?.of(highest?)
}

/// Whether the member, with that data, is one of those, and did not stand still.
pub(super) fn may_have_followed(s: &Snapshot, member: &Member, data: &Position, highest: Option<u64>) -> bool {
    untold(s, member, highest).is_some_and(|mark| !mark.stood_still(member, data))
}

/// The highest term that any member counts as of.
#[must_use]
pub fn highest_term(s: &Snapshot) -> Option<u64> {
    s.members.iter().filter_map(|m| s.record.member(&m.name).counts_as()).max()
}

/// Every member's data is explained by the record or a claim. An administrator decides about data that is not.
fn memory_explains(s: &Snapshot) -> Held {
    for member in &s.members {
        let unexplained = s.record.member(&member.name).counts_as().is_none();
        if let (Position::Known(sequence), true) = (&member.position, unexplained) {
            let message = format!(
                "{} has data ({sequence}) that this group has no record of; choose who leads with the annotation tanist.dev/override",
                member.name
            );
            return Err(broken_by(Rule::NeedsAdoption, &member.name, message));
        }
    }
    if let Some(claim) = s.surplus_claims.first() {
        let message = format!(
            "the claim {claim} belongs to no expected member; raise spec.replicas until it has a member, or delete the claim"
        );
        return Err(broken(Rule::UnrecordedClaims, message));
    }
    Ok(())
}

/// The highest data among members of one term.
pub(super) fn highest_among<'a>(members: impl Iterator<Item = &'a Member>) -> Result<Option<Sequence>, Violation> {
    let mut best: Option<(&MemberName, &Sequence)> = None;
    for member in members {
        let Position::Known(sequence) = &member.position else { continue };
        let Some((holder, highest)) = best else {
            best = Some((&member.name, sequence));
            continue;
        };
        match data::compare((0, sequence), (0, highest)) {
            Some(Ordering::Greater) => best = Some((&member.name, sequence)),
            Some(_) => {}
            None => {
                let message = format!(
                    "{holder} holds {highest} and {} holds {sequence}: these histories cannot be compared; choose one with the annotation tanist.dev/override",
                    member.name
                );
                return Err(broken_by(Rule::HistoriesDiffer, &member.name, message));
            }
        }
    }
    Ok(best.map(|(_, sequence)| sequence.clone()))
}

/// Which member has the most recent data, as the end of a sentence, if that one is not desired any more. Empty: it is desired, or nobody knows who has it.
fn who_has_it(s: &Snapshot, mark: &Mark) -> String {
    let has = |(_, known): &(&MemberName, &MemberRecord)| {
        known.sequence.as_ref() == Some(&mark.sequence) && known.counts_as() == Some(mark.term)
    };
    let mut gone = s.record.members.iter().filter(|(name, _)| s.member(name).is_none());
    let holder = gone.find(has).map(|(name, _)| {
        format!("; {name} has it, and is not a desired member: raise spec.replicas until it is one again")
    });
    holder.unwrap_or_default()
}

/// No member is seeded or promoted below the most recent data that was ever seen, except by an override (S15).
pub(super) fn above_high_water(s: &Snapshot, member: &Member, own: &Sequence) -> Held {
    let Some(mark) = &s.record.high_water else { return Ok(()) };
    let term = s.record.member(&member.name).counts_as().unwrap_or_default();
    match data::compare((term, own), (mark.term, &mark.sequence)) {
        Some(Ordering::Equal | Ordering::Greater) => Ok(()),
        _ => {
            let message = format!(
                "its data ({own}) is behind {} of term {}, the most recent data that this group ever had{}",
                mark.sequence,
                mark.term,
                who_has_it(s, mark)
            );
            Err(broken_by(Rule::BelowHighWater, &member.name, message))
        }
    }
}

/// An administrator chose the member and named its sequence. [`Snapshot::active_override`] has checked the term.
pub(super) fn override_fits(s: &Snapshot, member: &Member, requested: &Override) -> Held {
    let name = &member.name;
    if name != &requested.member {
        let why = format!("the override chooses {}", requested.member);
        return Err(broken_by(Rule::BarredMember, name, why));
    }
    if !s.position_is_current(member) {
        let why = "its data has not been read since the primary was lost";
        return Err(broken_by(Rule::PositionUnknown, name, why));
    }
    if member.position != requested.position {
        let found = data::show_position(&member.position);
        let message =
            format!("the override names {}, but the member has {found}", data::show_position(&requested.position));
        return Err(broken_by(Rule::BelowHighest, name, message));
    }
    Ok(())
}
