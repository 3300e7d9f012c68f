//! What is to do next, and what came of it. Pure.
use super::good::{Copied, Due, Good, Goods, Loaded};
use super::queue::Failure;
use super::state::{Copies, Examinee, Group, Shown, Source, State};
use super::work::{GroupRef, Note, Stored, Work};
use crate::policies::source::{Content, Origin, file_of};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often a file is read again where no change of it was noticed: volumes of other machines announce none.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

impl<P: Clone + Examinee> State<P> {
    /// What is to be done now. Each thing is handed out once, until its result has come back.
    pub fn todo(&mut self, now: Instant) -> Vec<Work> {
        let mut work = Vec::new();
        for (origin, source) in &mut self.sources {
            source.shows.settle(now);
            let is_known = match origin {
                Origin::ConfigMap { namespace, .. } => self.known.contains(namespace),
                Origin::Builtin(_) | Origin::BuiltinScript { .. } | Origin::File { .. } => true,
            };
            let again = look_again(origin, source.looked).is_some_and(|at| at <= now);
            if (source.is_due || again) && is_known && !source.is_being_read {
                (source.is_due, source.is_being_read) = (false, true);
                work.push(Work::Read(origin.clone()));
            }
        }
        self.recall_where_sources_differ(now);
        for group in self.groups.values_mut() {
            group.todo(now, &mut work);
        }
        self.tell();
        let wanted = self.wanted();
        while let Some(content) = {
            let asked = wanted.iter().map(|(namespace, c)| (namespace.as_str(), c.kind, c.digest.as_str()));
            let begun = self.queue.begin(asked, now);
            begun.and_then(|(_, digest)| wanted.iter().find(|(_, c)| c.digest == digest)).map(|(_, c)| c.clone())
        } {
            work.push(Work::Compile(content));
        }
        work
    }

    /// After a restart: has the newest copy of a layer read whose source is not what the copy is of. What the source has now may take long to
    /// compile, or be broken, and nothing is decided meanwhile.
    fn recall_where_sources_differ(&mut self, now: Instant) {
        for group in self.groups.values_mut().filter(|group| group.copies == Copies::Known) {
            for (key, origin) in &group.used {
                let Some(Some(source)) = origin.as_ref().map(|origin| self.sources.get(origin)) else { continue };
                let (Some(shown), Some(goods)) = (source.shows.acts(), group.layers.get_mut(key)) else { continue };
                goods.recall_unless(shown.as_ref().ok().map(|content| content.digest.as_str()), now);
            }
        }
    }

    /// What has to be compiled, with the namespace that needs it. Copies of what decided before come first: they are known to be good, and a group
    /// waits. A source waits while a copy is looked for that would go first.
    fn wanted(&self) -> Vec<(String, Content)> {
        let copies = self.groups.values().flat_map(|group| {
            let goods = group.layers.values().flat_map(Goods::list);
            goods.filter_map(|good| match &good.loaded {
                Loaded::Read(content) => Some((group.name.namespace.clone(), content.clone())),
                _ => None,
            })
        });
        let recalls = |source: &Source| source.users.iter().filter_map(|uid| self.groups.get(uid)).any(Group::recalls);
        let shown = self.sources.iter().filter_map(|(origin, source)| match source.shows.acts() {
            Some(Ok(content)) if !recalls(source) => Some((origin.namespace().to_owned(), content.clone())),
            _ => None,
        });
        copies.chain(shown).filter(|(_, content)| !self.ready.contains_key(&content.digest)).collect()
    }

    /// When [`State::todo`] has something to do that no result and no change announces.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let sources = self.sources.iter().flat_map(|(origin, source)| {
            let again = look_again(origin, source.looked).filter(|_| !source.is_being_read);
            [source.shows.due(), again].into_iter().flatten()
        });
        let groups = self.groups.values().flat_map(Group::times);
        let wanted = self.wanted();
        let again = wanted.iter().filter_map(|(_, content)| self.queue.again(&content.digest));
        sources.chain(groups).chain(again).filter(|at| *at > now).min()
    }

    /// Sources for which that is true may show something else now.
    pub fn touched(&mut self, is_touched: impl Fn(&Origin) -> bool) {
        for (_, source) in self.sources.iter_mut().filter(|(origin, _)| is_touched(origin)) {
            source.is_due = true;
        }
    }

    /// All `ConfigMap`s of a namespace are known, so one that is not found does not exist.
    pub fn namespace_known(&mut self, namespace: &str) {
        self.known.insert(namespace.to_owned());
    }

    /// A source was read.
    pub fn read(&mut self, origin: &Origin, shown: Shown, now: Instant) {
        if let Some(source) = self.sources.get_mut(origin) {
            source.is_being_read = false;
            source.looked = Some(now);
            source.shows.show(shown, now);
        }
        self.tell();
        self.sweep();
    }

    /// A source is still being read and does not answer.
    pub fn is_silent(&mut self, origin: &Origin, why: String, now: Instant) {
        if let Some(source) = self.sources.get_mut(origin) {
            source.shows.show(Err(why), now);
        }
        self.tell();
    }

    /// A content was compiled.
    pub fn compiled(&mut self, digest: &str, made: Result<P, Failure>, now: Instant) {
        self.queue.end(digest, made.as_ref().err().cloned(), now);
        for group in self.groups.values_mut() {
            let waiting = group.layers.values_mut().flat_map(Goods::list_mut);
            let waiting =
                waiting.filter(|good| matches!(&good.loaded, Loaded::Read(content) if content.digest == *digest));
            for good in waiting {
                match &made {
                    Ok(policy) => good.loaded = Loaded::Yes(policy.clone()),
                    Err(failure) if failure.is_load => continue,
                    Err(failure) => good.loaded = Loaded::Never(failure.why.clone()),
                }
                self.woken.insert(group.name.clone());
            }
        }
        if let Ok(policy) = made {
            self.ready.insert(digest.to_owned(), policy);
        }
        self.tell();
        self.sweep();
    }

    /// The copies that a group owns were listed.
    pub fn listed(&mut self, uid: &str, listed: Result<Vec<Stored>, String>, now: Instant) {
        let Some(group) = self.groups.get_mut(uid) else { return };
        match (listed, group.copies) {
            (Ok(stored), _) => {
                group.recall(stored);
                self.woken.insert(group.name.clone());
            }
            (Err(_), Copies::Due(due) | Copies::Reading(due)) => group.copies = Copies::Due(due.again(now)),
            (Err(_), Copies::Known) => {}
        }
    }

    /// A copy was read. `None`: there is none of that name any more, or it is not the group's.
    pub fn fetched(&mut self, uid: &str, name: &str, read: Result<Option<Content>, String>, now: Instant) {
        let Some(group) = self.groups.get_mut(uid) else { return };
        let all =
            group.layers.iter_mut().flat_map(|(key, goods)| goods.list_mut().iter_mut().map(move |good| (key, good)));
        for (key, good) in all.filter(|(_, good)| matches!(&good.copied, Copied::Is(of) if of == name)) {
            let Loaded::Reading(due) = good.loaded else { continue };
            good.loaded = match &read {
                Err(_) => Loaded::Due(due.again(now)),
                Ok(Some(content)) if content.digest == good.version.digest => match self.ready.get(&content.digest) {
                    Some(policy) => Loaded::Yes(policy.clone()),
                    None => Loaded::Read(content.called(file_of(key))),
                },
                Ok(_) => Loaded::Never("its copy is gone or was changed".to_owned()),
            };
            self.woken.insert(group.name.clone());
        }
    }

    /// A copy was written, under that name.
    pub fn copied(&mut self, uid: &str, note: &Note, written: Result<String, String>, now: Instant) {
        let Some(group) = self.groups.get_mut(uid) else { return };
        let goods = group.layers.get_mut(&note.key);
        let good = goods.and_then(|goods| goods.list_mut().iter_mut().find(|good| good.number == note.number));
        match (good, written) {
            (Some(good), Ok(name)) => good.copied = Copied::Is(name),
            (Some(good), Err(_)) => {
                if let Copied::Writing(due, content) = good.copied.clone() {
                    good.copied = Copied::Due(due.again(now), content);
                }
            }
            // Meanwhile newer versions took its place.
            (None, Ok(name)) => drop(group.leftovers.insert(name, (Due::at_once(now), false))),
            (None, Err(_)) => {}
        }
    }

    /// A copy was removed, or could not be.
    pub fn removed(&mut self, uid: &str, name: &str, is_removed: bool, now: Instant) {
        let Some(group) = self.groups.get_mut(uid) else { return };
        match group.leftovers.get_mut(name) {
            Some(_) if is_removed => drop(group.leftovers.remove(name)),
            Some((due, is_begun)) => (*due, *is_begun) = (due.again(now), false),
            None => {}
        }
    }

    /// The groups that see something else than before.
    pub fn take_woken(&mut self) -> Vec<GroupRef> {
        std::mem::take(&mut self.woken).into_iter().collect()
    }

    /// Wakes the users of sources that are ready, cannot be used, or began or ended to change too often. While a source is being loaded nobody is woken: what
    /// decided before goes on deciding.
    fn tell(&mut self) {
        for source in self.sources.values_mut() {
            let outcome = match source.shows.acts() {
                None => None,
                Some(Err(why)) => Some(Err(why.clone())),
                Some(Ok(content)) if self.ready.contains_key(&content.digest) => Some(Ok(content.digest.clone())),
                Some(Ok(content)) => self.queue.why(&content.digest).map(|why| Err(why.to_owned())),
            };
            let now = (source.shows.flaps(), outcome.or_else(|| source.told.1.clone()));
            if source.told != now {
                source.told = now;
                let users = source.users.iter().filter_map(|uid| self.groups.get(uid));
                self.woken.extend(users.map(|group| group.name.clone()));
            }
        }
    }
}

/// When a source is read again although nothing announced a change.
fn look_again(origin: &Origin, looked: Option<Instant>) -> Option<Instant> {
    looked.filter(|_| matches!(origin, Origin::File { .. })).map(|at| at + LOOK_AGAIN)
}

impl<P: Clone> Group<P> {
    /// Whether a copy of what decided before is being looked for, for the first time.
    fn recalls(&self) -> bool {
        let is_listing = matches!(self.copies, Copies::Due(due) | Copies::Reading(due) if !due.has_failed());
        let mut used = self.used.keys().filter_map(|key| self.layers.get(key)?.list().first());
        let is_reading =
            |good: &Good<P>| matches!(good.loaded, Loaded::Due(due) | Loaded::Reading(due) if !due.has_failed());
        is_listing || used.any(is_reading)
    }

    /// Whether nothing is to be done for the group, now or later, unless its spec, a source or an answer changes that.
    pub(super) fn rests(&self) -> bool {
        let goods = || self.layers.values().flat_map(Goods::list);
        let is_loaded = |good: &Good<P>| !matches!(good.loaded, Loaded::Read(_));
        let keeps_all = self.layers.keys().all(|key| self.used.contains_key(key)) && self.former.is_empty();
        let drops = self.layers.values().any(Goods::drops);
        self.copies == Copies::Known && self.times().next().is_none() && goods().all(is_loaded) && keeps_all && !drops
    }

    fn todo(&mut self, now: Instant, work: &mut Vec<Work>) {
        match self.copies {
            Copies::Due(due) if due.at <= now => {
                self.copies = Copies::Reading(due);
                work.push(Work::List(self.name.clone()));
            }
            _ => {}
        }
        for (key, goods) in &mut self.layers {
            for good in goods.list_mut() {
                if let (Loaded::Due(due), Copied::Is(name)) = (&good.loaded, &good.copied)
                    && due.at <= now
                {
                    work.push(Work::Fetch(self.name.clone(), name.clone()));
                    good.loaded = Loaded::Reading(*due);
                }
                // Numbers go on from those of the copies that are there.
                if let (Copies::Known, Copied::Due(due, content)) = (self.copies, &good.copied)
                    && due.at <= now
                {
                    let note = Note { key: key.clone(), version: good.version.clone(), number: good.number };
                    work.push(Work::Copy(self.name.clone(), note, content.clone()));
                    good.copied = Copied::Writing(*due, content.clone());
                }
            }
        }
        if self.copies == Copies::Known {
            self.drop_copies(now);
        }
        for (name, (_, is_begun)) in self.leftovers.iter_mut().filter(|(_, (due, is_begun))| due.at <= now && !is_begun)
        {
            *is_begun = true;
            work.push(Work::Remove(self.name.clone(), name.clone()));
        }
    }

    /// Finds the copies that nothing needs any more. Those of sources that the spec does not name stay until all its layers are well: the spec may be what is
    /// wrong.
    fn drop_copies(&mut self, now: Instant) {
        let mut gone: Vec<String> = self.layers.values_mut().flat_map(Goods::take_dropped).collect();
        let copied = |good: &Good<P>| matches!(good.copied, Copied::Is(_) | Copied::Needless);
        if self.is_well && self.layers.values().flat_map(Goods::list).all(copied) {
            let unused: Vec<_> = self.layers.keys().filter(|key| !self.used.contains_key(*key)).cloned().collect();
            for goods in unused.iter().filter_map(|key| self.layers.remove(key)) {
                gone.extend(goods.list().iter().filter_map(|good| match &good.copied {
                    Copied::Is(name) => Some(name.clone()),
                    _ => None,
                }));
            }
            gone.extend(std::mem::take(&mut self.former));
        }
        for name in gone {
            self.leftovers.entry(name).or_insert((Due::at_once(now), false));
        }
    }

    /// Takes over what was stored before, each layer's copies newest first.
    fn recall(&mut self, stored: Vec<Stored>) {
        let mut layers = BTreeMap::<String, Vec<Good<P>>>::new();
        for Stored { name, note } in stored {
            let Some(Note { key, version, number }) = note else {
                self.former.insert(name);
                continue;
            };
            let (loaded, copied) = (Loaded::No, Copied::Is(name));
            layers.entry(key).or_default().push(Good { version, number, loaded, copied, answered: true });
        }
        for (key, mut goods) in layers {
            goods.sort_by_key(|good| std::cmp::Reverse(good.number));
            self.layers.entry(key).or_default().recall(goods);
        }
        self.copies = Copies::Known;
    }

    fn times(&self) -> impl Iterator<Item = Instant> {
        let listing = match self.copies {
            Copies::Due(due) => Some(due.at),
            Copies::Reading(_) | Copies::Known => None,
        };
        let is_known = self.copies == Copies::Known;
        let goods = self.layers.values().flat_map(Goods::list).flat_map(move |good| {
            let read = match &good.loaded {
                Loaded::Due(due) => Some(due.at),
                _ => None,
            };
            let copy = match &good.copied {
                Copied::Due(due, _) if is_known => Some(due.at),
                _ => None,
            };
            [read, copy].into_iter().flatten()
        });
        let leftovers = self.leftovers.values().filter(|(_, is_begun)| !is_begun).map(|(due, _)| due.at);
        listing.into_iter().chain(goods).chain(leftovers)
    }
}
