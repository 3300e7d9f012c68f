//! What is known of sources, of what was made of them, and of the groups that use them. Pure: it does nothing itself, and time is an input.
//!
//! A round looks up what is ready ([`State::look`]), and never more than that. Everything that takes time is [`super::work::Work`], which
//! [`State::todo`] hands out (progress.rs). Its results come back, and [`State::take_woken`] says which groups see something else than before.
use super::good::{Copied, Due, Good, Goods, Loaded, StandIn, Version};
use super::queue::Queue;
use super::swaps::Swaps;
use super::work::{Found, GroupRef, Key, Standing, Wanted};
use crate::policies::source::{Content, Origin};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tanist_core::policy::Point;
use tanist_engine::Heard;

/// What a source shows: its content, or why there is none.
pub type Shown = Result<Content, String>;

/// A policy, as far as its exam is concerned.
pub trait Examinee {
    /// Why it may not begin to decide where it is asked at these points; `None`: at all that it has. One that decided before goes on nevertheless.
    fn objection(&self, points: Option<&[Point]>) -> Option<String>;
}

/// Everything that the store knows. `P`: a policy that is ready to be asked.
pub struct State<P> {
    pub(super) sources: BTreeMap<Origin, Source>,
    /// The policies that were made of contents in use, by digest.
    pub(super) ready: BTreeMap<String, P>,
    builtins: BTreeMap<String, P>,
    pub(super) queue: Queue,
    /// The groups that use policies, by UID.
    pub(super) groups: BTreeMap<String, Group<P>>,
    /// Namespaces whose `ConfigMap`s are all known.
    pub(super) known: BTreeSet<String>,
    pub(super) woken: BTreeSet<GroupRef>,
}

/// A source that groups use.
#[derive(Default)]
pub(super) struct Source {
    /// UIDs of the groups that use it.
    pub(super) users: BTreeSet<String>,
    /// Whether it may show something else than when it was read.
    pub(super) is_due: bool,
    pub(super) is_being_read: bool,
    pub(super) looked: Option<Instant>,
    pub(super) shows: Swaps<Shown>,
    /// What its users were told last: whether its changes wait, and the digest that is ready or why none is.
    pub(super) told: (bool, Option<Result<String, String>>),
}

/// A group that uses policies.
pub(super) struct Group<P> {
    pub(super) name: GroupRef,
    pub(super) copies: Copies,
    pub(super) layers: BTreeMap<Key, Goods<P>>,
    /// The layers of the spec at the last look, with their sources.
    pub(super) used: BTreeMap<Key, Option<Origin>>,
    /// Copies of a release that noted nothing about them.
    pub(super) former: BTreeSet<String>,
    /// Copies to be removed, and whether that is being done.
    pub(super) leftovers: BTreeMap<String, (Due, bool)>,
    /// Whether all layers were as the spec says at the last look.
    pub(super) is_well: bool,
    /// Layers in which the version before decides, which no event told yet.
    news: Vec<Key>,
}

/// Whether the group's copies are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copies {
    Due(Due),
    Reading(Due),
    Known,
}

/// A source as it is now.
enum Present<P> {
    /// A policy of that digest.
    Policy(P, String),
    /// It cannot be used.
    Bad(String),
    /// It is being read or compiled. With the digest, once it was read.
    Loading(Option<String>),
}

impl<P> Default for State<P> {
    fn default() -> Self {
        State {
            sources: BTreeMap::new(),
            ready: BTreeMap::new(),
            builtins: BTreeMap::new(),
            queue: Queue::default(),
            groups: BTreeMap::new(),
            known: BTreeSet::new(),
            woken: BTreeSet::new(),
        }
    }
}

impl<P: Clone + Examinee> State<P> {
    /// A built-in policy is ready.
    pub fn add_builtin(&mut self, name: &str, policy: P) {
        self.builtins.insert(name.to_owned(), policy);
    }

    /// What a round needs: each layer as it is now, and whether there may be something to do ([`State::todo`]). The group is remembered as a user of these sources, and only of these. `fit`: checks
    /// parameters and returns them in the form that the policy gets.
    pub fn look(
        &mut self,
        name: &GroupRef,
        wanted: &[Wanted],
        now: Instant,
        fit: impl Fn(&P, &str) -> Result<String, String>,
    ) -> (Vec<Found<P>>, bool) {
        self.register(name, wanted, now);
        let found: Vec<_> = wanted.iter().map(|layer| self.find(name, layer, now, &fit)).collect();
        let Some(group) = self.groups.get_mut(&name.uid) else { return (found, true) };
        group.is_well = found.iter().all(|found| found.standing == Standing::Active);
        // What is to be done is looked for in all groups: a round of one that rests must not have that done.
        let more = !group.is_well || !group.rests();
        (found, more)
    }

    /// Remembers which sources the group uses.
    fn register(&mut self, name: &GroupRef, wanted: &[Wanted], now: Instant) {
        let group = self.groups.entry(name.uid.clone()).or_insert_with(|| Group {
            name: name.clone(),
            copies: Copies::Due(Due::at_once(now)),
            layers: BTreeMap::new(),
            used: BTreeMap::new(),
            former: BTreeSet::new(),
            leftovers: BTreeMap::new(),
            is_well: false,
            news: Vec::new(),
        });
        let used: BTreeMap<_, _> = wanted.iter().map(|layer| (layer.key.clone(), layer.origin.clone().ok())).collect();
        // A user who names another ConfigMap each time would fill the memory of all while one layer of the group is not well.
        let unused = group.layers.iter_mut().filter(|(key, _)| !used.contains_key(*key));
        unused.for_each(|(_, goods)| goods.unload());
        let before = std::mem::replace(&mut group.used, used);
        let now_used: BTreeSet<_> = read_origins(&group.used).cloned().collect();
        let left: Vec<_> = read_origins(&before).filter(|origin| !now_used.contains(*origin)).collect();
        for origin in &left {
            self.sources.get_mut(*origin).into_iter().for_each(|source| _ = source.users.remove(&name.uid));
        }
        for origin in now_used {
            let source = self.sources.entry(origin);
            let source = source.or_insert_with(|| Source { is_due: true, ..Source::default() });
            source.users.insert(name.uid.clone());
        }
        if !left.is_empty() {
            self.sweep();
        }
    }

    fn find(
        &mut self,
        name: &GroupRef,
        layer: &Wanted,
        now: Instant,
        fit: &impl Fn(&P, &str) -> Result<String, String>,
    ) -> Found<P> {
        let (present, flaps, content) = self.present(&layer.origin);
        let Some(group) = self.groups.get_mut(&name.uid) else {
            return Found { standing: Standing::Loading, decides: None };
        };
        group.adopt_former_copy(layer);
        let copies = group.copies;
        let goods = group.layers.entry(layer.key.clone()).or_default();
        if let (Ok(Origin::Builtin(_)), Present::Policy(policy, digest)) = (&layer.origin, &present) {
            goods.provide(digest, policy);
        }
        let bad = match present {
            Present::Policy(policy, digest) => match may_decide(&policy, layer, fit) {
                Ok(parameters) => {
                    let (version, needless) = version(layer, digest);
                    goods.accept(version.clone(), policy.clone(), content, needless, now);
                    let standing = if flaps { Standing::Flapping } else { Standing::Active };
                    // Until the version before is in memory, the newest goes on being asked.
                    if goods.instead().is_some()
                        && let StandIn::Decides(policy, parameters, version) = goods.stand_in(true, now, fit)
                    {
                        return Found { standing: Standing::Reverted, decides: Some((policy, parameters, version)) };
                    }
                    return Found { standing, decides: Some((policy, parameters, version)) };
                }
                Err(why) => Some(why),
            },
            Present::Bad(why) => Some(why),
            Present::Loading(None) => None,
            Present::Loading(Some(digest)) => {
                // The copy of what is being compiled anyway would bring nothing.
                let is_same = goods.list().first().is_some_and(|good| good.version.digest == digest);
                let decides = goods.stand_in(!is_same, now, fit);
                return stale(Standing::Loading, flaps, decides);
            }
        };
        let stand_in = goods.stand_in(bad.is_some(), now, fit);
        let comes = match (&stand_in, copies) {
            (StandIn::Decides(..), _) => false,
            (StandIn::Comes, _) => true,
            (StandIn::None, Copies::Due(due) | Copies::Reading(due)) => !due.has_failed(),
            (StandIn::None, Copies::Known) => false,
        };
        match bad {
            Some(why) if !comes => stale(Standing::Failed(why), flaps, stand_in),
            Some(_) | None => stale(Standing::Loading, flaps, stand_in),
        }
    }

    /// A source as it is now, whether its changes wait, and its content, for a copy.
    fn present(&self, origin: &Result<Origin, String>) -> (Present<P>, bool, Option<Content>) {
        let origin = match origin {
            Err(why) => return (Present::Bad(why.clone()), false, None),
            Ok(Origin::Builtin(name)) => {
                let made = self.builtins.get(name).cloned();
                let digest = format!("builtin/{name}");
                let present = made.map_or(Present::Loading(None), |policy| Present::Policy(policy, digest));
                return (present, false, None);
            }
            Ok(origin) => origin,
        };
        let Some(source) = self.sources.get(origin) else { return (Present::Loading(None), false, None) };
        let flaps = source.shows.flaps();
        match source.shows.acts() {
            None => (Present::Loading(None), flaps, None),
            Some(Err(why)) => (Present::Bad(why.clone()), flaps, None),
            Some(Ok(content)) => {
                let digest = content.digest.clone();
                let present = match (self.ready.get(&digest), self.queue.why(&digest)) {
                    (Some(policy), _) => Present::Policy(policy.clone(), digest),
                    (None, Some(why)) => Present::Bad(why.to_owned()),
                    (None, None) => Present::Loading(Some(digest)),
                };
                (present, flaps, Some(content.clone()))
            }
        }
    }

    /// Notes how a version took a question of a group, in the layer of that key. Returns whether there is more to do now.
    pub fn heard(&mut self, uid: &str, key: &str, version: &Version, heard: Heard, now: Instant) -> bool {
        let Some(group) = self.groups.get_mut(uid) else { return false };
        let Some(goods) = group.layers.get_mut(key) else { return false };
        let reverts = goods.heard(version, heard);
        if reverts {
            group.news.push(key.to_owned());
            self.woken.insert(group.name.clone());
        }
        (goods.fails() && goods.prepare_before(now)) || reverts
    }

    /// The layers in which the version before decides since the last call.
    pub fn take_news(&mut self, uid: &str) -> Vec<Key> {
        self.groups.get_mut(uid).map(|group| std::mem::take(&mut group.news)).unwrap_or_default()
    }

    /// Forgets a group that is gone, and what only it used.
    pub fn forget(&mut self, uid: &str) {
        self.groups.remove(uid);
        for source in self.sources.values_mut() {
            source.users.remove(uid);
        }
        self.sweep();
    }

    /// How many sources and how many policies made of them are remembered.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> (usize, usize) {
        (self.sources.len(), self.ready.len())
    }

    /// Drops what no group uses any more.
    pub(super) fn sweep(&mut self) {
        self.sources.retain(|_, source| !source.users.is_empty());
        let shown = self.sources.values().flat_map(|source| source.shows.values());
        let mut used: BTreeSet<String> =
            shown.filter_map(|shown| shown.as_ref().ok()).map(|content| content.digest.clone()).collect();
        for good in self.groups.values().flat_map(|group| group.layers.values()).flat_map(Goods::list) {
            if matches!(good.loaded, Loaded::Yes(_)) {
                used.insert(good.version.digest.clone());
            }
        }
        self.ready.retain(|digest, _| used.contains(digest));
    }
}

/// The sources of a group that have to be read: those that are not built in.
fn read_origins(used: &BTreeMap<Key, Option<Origin>>) -> impl Iterator<Item = &Origin> {
    used.values().flatten().filter(|origin| !matches!(origin, Origin::Builtin(_)))
}

/// The parameters of a layer in the form that its policy gets, or why the policy may not begin to decide.
fn may_decide<P: Examinee>(
    policy: &P,
    layer: &Wanted,
    fit: &impl Fn(&P, &str) -> Result<String, String>,
) -> Result<String, String> {
    policy.objection(layer.points.as_deref()).map_or_else(|| fit(policy, &layer.parameters), Err)
}

/// The version of a layer whose source has that digest, and whether it needs no copy: what is built in is always there, and only what the spec
/// says about it can be lost.
fn version(layer: &Wanted, digest: String) -> (Version, bool) {
    let is_builtin = matches!(layer.origin, Ok(Origin::Builtin(_)));
    let needless = is_builtin && layer.parameters == "{}" && layer.points.is_none();
    (Version { digest, parameters: layer.parameters.clone(), points: layer.points.clone() }, needless)
}

/// What a layer is whose source does not decide now.
fn stale<P>(standing: Standing, flaps: bool, stand_in: StandIn<P>) -> Found<P> {
    match stand_in {
        StandIn::Decides(policy, parameters, version) => {
            let standing = if flaps { Standing::Flapping } else { standing };
            Found { standing, decides: Some((policy, parameters, version)) }
        }
        StandIn::Comes | StandIn::None => Found { standing, decides: None },
    }
}

impl<P: Clone> Group<P> {
    /// Takes the copy that a release without notes wrote of what decided last. It is taken for a version with the present parameters, as that release
    /// did.
    fn adopt_former_copy(&mut self, layer: &Wanted) {
        let Some((digest, name)) = &layer.former else { return };
        let is_known = self.layers.get(&layer.key).is_some_and(|goods| !goods.list().is_empty());
        if !is_known && self.former.remove(name) {
            let version = version(layer, digest.clone()).0;
            let copied = Copied::Is(name.clone());
            let good = Good { version, number: 0, loaded: Loaded::No, copied, answered: true };
            self.layers.entry(layer.key.clone()).or_default().recall(vec![good]);
        }
    }
}
