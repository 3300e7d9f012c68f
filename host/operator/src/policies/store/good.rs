//! The versions of one layer that were good: which one decides when the newest cannot, and which copies of them are stored. Pure.
//!
//! A layer is found by its source and not by its place in the list, so that a layer that is inserted before it changes nothing (docs/safety.md, S33).
use crate::policies::source::Content;
use std::time::{Duration, Instant};
use tanist_core::policy::Point;
use tanist_engine::Heard;

/// How many versions of a layer are remembered, and copies of them stored: what decides, what decided before, and one more.
pub const VERSIONS: usize = 3;

/// So many questions in a row may fail before the version before decides.
pub const FAULTS: u32 = 3;

/// The first pause before a copy that could not be written is tried again. Each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(5);

/// The longest such pause.
const LONGEST: Duration = Duration::from_secs(300);

/// What decides in a layer. Two versions are the same only if all three are: other parameters are another policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The digest of the component or script.
    pub digest: String,
    /// The parameters as in the spec, as JSON with sorted keys.
    pub parameters: String,
    /// The questions it is asked. `None`: all that it can answer.
    pub points: Option<Vec<Point>>,
}

/// Something that has to be done, and may have to be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The earliest time at which it is done.
    pub at: Instant,
    /// The pause if it fails then.
    pause: Duration,
}

impl Due {
    /// It is due now; after a failure it is due again after the first pause.
    pub fn at_once(now: Instant) -> Self {
        Due { at: now, pause: PAUSE }
    }

    /// Whether it failed before. Nobody is told then that it is about to come.
    pub fn has_failed(self) -> bool {
        self.pause > PAUSE
    }

    /// After a failure.
    pub fn again(self, now: Instant) -> Self {
        Due { at: now + self.pause, pause: self.pause.saturating_mul(2).min(LONGEST) }
    }
}

/// The copy of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copied {
    /// It has none and needs none: what decides is built in, and nothing was said about it.
    Needless,
    /// It has to be written. The content is there until it is; a built-in policy has none.
    Due(Due, Option<Content>),
    /// It is being written.
    Writing(Due, Option<Content>),
    /// It has this name.
    Is(String),
}

/// Where the policy of a version is.
#[derive(Debug, Clone, PartialEq)]
pub enum Loaded<P> {
    /// It is in memory and can be asked.
    Yes(P),
    /// Only in its copy.
    No,
    /// Its copy has to be read.
    Due(Due),
    /// Its copy is being read.
    Reading(Due),
    /// It was read and has to be compiled.
    Read(Content),
    /// Its copy cannot be used, for this reason.
    Never(String),
}

/// One version that was good.
#[derive(Debug, Clone)]
pub struct Good<P> {
    /// The digest, parameters and points that were good together.
    pub version: Version,
    /// Higher is newer.
    pub number: u64,
    /// Where the policy of this version is.
    pub loaded: Loaded<P>,
    /// Whether a copy of this version is stored.
    pub copied: Copied,
    /// Whether it answered a question, or abstained, without failing. What was stored by another process counts as if it had.
    pub answered: bool,
}

/// The versions of one layer that were good, newest first.
#[derive(Debug)]
pub struct Goods<P> {
    list: Vec<Good<P>>,
    /// The questions in a row that the newest failed.
    faults: u32,
    /// Whether the newest failed too many.
    reverted: bool,
    /// Copies that are not needed any more.
    dropped: Vec<String>,
}

impl<P> Default for Goods<P> {
    fn default() -> Self {
        Goods { list: Vec::new(), faults: 0, reverted: false, dropped: Vec::new() }
    }
}

impl<P: Clone> Goods<P> {
    /// All of them, newest first.
    pub fn list(&self) -> &[Good<P>] {
        &self.list
    }

    /// The same, to change how they are loaded or copied.
    pub fn list_mut(&mut self) -> &mut [Good<P>] {
        &mut self.list
    }

    /// This version is good now. `content`: what to copy. `needless`: it needs no copy.
    pub fn accept(&mut self, version: Version, policy: P, content: Option<Content>, needless: bool, now: Instant) {
        let newest = self.list.iter().map(|good| good.number).max().unwrap_or(0);
        // The copy of a release without notes (number 0) does not say which parameters it is for, so it is written again.
        if let Some(front) = self.list.first_mut().filter(|front| front.version == version && front.number > 0) {
            front.loaded = Loaded::Yes(policy);
            return;
        }
        let again = self.list.iter().position(|good| good.version == version).map(|at| self.list.remove(at));
        self.drop_copy(again.as_ref());
        let copied = if needless { Copied::Needless } else { Copied::Due(Due::at_once(now), content) };
        let (number, answered) = (newest.saturating_add(1), again.is_some_and(|good| good.answered));
        self.list.insert(0, Good { version, number, loaded: Loaded::Yes(policy), copied, answered });
        (self.faults, self.reverted) = (0, false);
        self.trim();
    }

    /// Versions that another process stored. What this process saw itself is newer; where both are the same, the copy is known.
    pub fn recall(&mut self, stored: Vec<Good<P>>) {
        let highest = stored.iter().map(|good| good.number).max().unwrap_or(0);
        for good in &mut self.list {
            good.number = good.number.saturating_add(highest);
        }
        for (place, old) in stored.into_iter().enumerate() {
            match self.list.iter_mut().find(|good| good.version == old.version) {
                // Only the newest copy stands for the newest version: after a restart the order of the copies counts.
                Some(good) if place == 0 && !matches!(good.copied, Copied::Is(_)) => good.copied = old.copied,
                Some(_) => self.drop_copy(Some(&old)),
                None => self.list.push(old),
            }
        }
        self.trim();
    }

    fn trim(&mut self) {
        for gone in self.list.split_off(VERSIONS.min(self.list.len())) {
            self.drop_copy(Some(&gone));
        }
        // Two may have to decide at any moment; older ones are read again if they are needed.
        for good in self.list.iter_mut().skip(2) {
            good.loaded = Loaded::No;
        }
    }

    fn drop_copy(&mut self, good: Option<&Good<P>>) {
        if let Some(Copied::Is(name)) = good.map(|good| &good.copied) {
            self.dropped.push(name.clone());
        }
    }

    /// The copies that are not needed any more, once everything that is remembered has a copy.
    pub fn take_dropped(&mut self) -> Vec<String> {
        let safe = self.list.iter().all(|good| matches!(good.copied, Copied::Is(_) | Copied::Needless));
        if safe { std::mem::take(&mut self.dropped) } else { Vec::new() }
    }

    /// Whether there are such copies, or will be.
    pub fn drops(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Notes how a version took a question of a group. Returns whether the version before decides from now on.
    pub fn heard(&mut self, version: &Version, heard: Heard) -> bool {
        let Some(at) = self.list.iter().position(|good| good.version == *version) else { return false };
        match (heard, at) {
            (Heard::CutOff, _) | (Heard::Failed, 1..) => false,
            (Heard::Answered, _) => {
                if at == 0 {
                    self.faults = 0;
                }
                self.list.iter_mut().skip(at).take(1).for_each(|good| good.answered = true);
                false
            }
            (Heard::Failed, 0) => {
                self.faults = self.faults.saturating_add(1);
                let reverts = !self.reverted && self.faults >= FAULTS && self.before().is_some();
                self.reverted |= reverts;
                reverts
            }
        }
    }

    /// Whether the newest failed a question and may have to be replaced.
    pub fn fails(&self) -> bool {
        self.faults > 0 || self.reverted
    }

    /// The place of the version before the newest that answered.
    fn before(&self) -> Option<usize> {
        self.list.iter().enumerate().skip(1).find(|(_, good)| good.answered).map(|(at, _)| at)
    }

    /// The place of the version that decides instead of the newest, because that failed too often.
    pub fn instead(&self) -> Option<usize> {
        self.before().filter(|_| self.reverted)
    }

    /// The policy of that digest is in memory anyway, because it is built in. Its copies have no bytes.
    pub fn provide(&mut self, digest: &str, policy: &P) {
        for good in self.list.iter_mut().filter(|good| good.version.digest == digest) {
            good.loaded = Loaded::Yes(policy.clone());
        }
    }

    /// Has the copy of the newest version read, unless that is what a source has: a digest, or `None` if it has none.
    pub fn recall_unless(&mut self, digest: Option<&str>, now: Instant) {
        if self.list.first().is_some_and(|good| Some(good.version.digest.as_str()) != digest) {
            self.fetch(0, now);
        }
    }

    /// Leaves the memory, as far as there are copies: the spec does not name this layer, and may again.
    pub fn unload(&mut self) {
        let stored = self.list.iter_mut().filter(|good| matches!(good.copied, Copied::Is(_)));
        stored.filter(|good| matches!(good.loaded, Loaded::Yes(_))).for_each(|good| good.loaded = Loaded::No);
    }

    /// Has the copy of the version before read, if it is not in memory. Returns whether that is new.
    pub fn prepare_before(&mut self, now: Instant) -> bool {
        self.before().is_some_and(|at| self.fetch(at, now))
    }

    /// Has the copy at that place read, if it was not tried yet. Returns whether that is new.
    fn fetch(&mut self, at: usize, now: Instant) -> bool {
        match self.list.get_mut(at) {
            Some(good) if matches!(good.loaded, Loaded::No) && matches!(good.copied, Copied::Is(_)) => {
                good.loaded = Loaded::Due(Due::at_once(now));
                true
            }
            _ => false,
        }
    }

    /// The newest version that can decide in place of the source as it is now, with its parameters in the form that the policy gets. `fetches`:
    /// whether a copy may be read for that.
    pub fn stand_in(
        &mut self,
        fetches: bool,
        now: Instant,
        fit: impl Fn(&P, &str) -> Result<String, String>,
    ) -> StandIn<P> {
        let first = self.instead().unwrap_or(0);
        for at in first..self.list.len() {
            if fetches {
                self.fetch(at, now);
            }
            let Some(good) = self.list.get(at) else { break };
            match &good.loaded {
                Loaded::Yes(policy) => {
                    if let Ok(parameters) = fit(policy, &good.version.parameters) {
                        return StandIn::Decides(policy.clone(), parameters, good.version.clone());
                    }
                }
                Loaded::Due(due) | Loaded::Reading(due) if due.has_failed() => return StandIn::None,
                Loaded::Due(_) | Loaded::Reading(_) | Loaded::Read(_) => return StandIn::Comes,
                Loaded::No | Loaded::Never(_) => {}
            }
        }
        StandIn::None
    }
}

/// What can decide in place of a source.
#[derive(Debug)]
pub enum StandIn<P> {
    /// This version: policy, parameters in the form that it gets, version.
    Decides(P, String, Version),
    /// A copy is being read or compiled.
    Comes,
    /// No version that was good can decide now.
    None,
}
