//! The store's decisions against a world in memory, with a clock of its own.
use super::good::FAULTS;
use super::queue::{Failure, RETRY};
use super::state::{Examinee, State};
use super::work::{Found, GroupRef, Note, Standing, Stored, Wanted, Work};
use crate::policies::source::{Content, Kind, Origin};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tanist_core::policy::Point;
use tanist_engine::Heard;

mod flapping;
mod last_good;
mod loading;

/// A policy of the tests: its text.
type Policy = String;

impl Examinee for Policy {
    fn objection(&self, points: Option<&[Point]>) -> Option<String> {
        let at_failover =
            self.contains("at failover") && points.is_some_and(|points| !points.contains(&Point::Failover));
        (self.contains("reckless") && !at_failover).then(|| "its exam failed".into())
    }
}

/// A copy: name, note, content.
type Copied = (String, Option<Note>, Option<Content>);

/// Sources, an API server with copies, and a process that loads policies.
struct World {
    state: State<Policy>,
    now: Instant,
    sources: BTreeMap<Origin, Content>,
    /// By the UID of the group that owns them.
    copies: BTreeMap<String, Vec<Copied>>,
    /// What was compiled, in order.
    compiled: Vec<String>,
    /// The requests that fail, each once.
    failing: Vec<&'static str>,
    /// Whether compilations end.
    compiles: bool,
    woken: BTreeSet<String>,
}

fn map(name: &str) -> Origin {
    Origin::ConfigMap { namespace: "shop".into(), name: name.into(), key: "policy.wasm".into() }
}

fn content(text: &str) -> Content {
    Content::new(Kind::Component, "policy.wasm", text.as_bytes())
}

fn group(uid: &str) -> GroupRef {
    GroupRef { namespace: "shop".into(), name: "db".into(), uid: uid.into() }
}

/// The layer of a source with these parameters.
fn layer(origin: Origin, parameters: &str) -> Wanted {
    let key = match &origin {
        Origin::Builtin(name) => format!("builtin/{name}"),
        Origin::ConfigMap { name, .. } => format!("configmap/{name}/policy.wasm"),
        Origin::File { name, .. } => format!("file/{name}"),
        Origin::BuiltinScript { name, .. } => format!("builtin/{name}"),
    };
    Wanted { key, origin: Ok(origin), parameters: parameters.into(), points: None, former: None }
}

/// What decides in a layer (`-`: nothing), its parameters, and how it stands.
fn told(found: &Found<Policy>) -> (String, String, Standing) {
    let decides = found.decides.as_ref();
    let (policy, parameters) =
        decides.map_or(("-".into(), String::new()), |(policy, parameters, _)| (policy.clone(), parameters.clone()));
    (policy, parameters, found.standing.clone())
}

fn is(policy: &str, parameters: &str, standing: Standing) -> (String, String, Standing) {
    (policy.into(), parameters.into(), standing)
}

impl World {
    fn new() -> Self {
        let mut world = World {
            state: State::default(),
            now: Instant::now(),
            sources: BTreeMap::new(),
            copies: BTreeMap::new(),
            compiled: Vec::new(),
            failing: Vec::new(),
            compiles: true,
            woken: BTreeSet::new(),
        };
        world.restart();
        world
    }

    /// A new process, which has only what the API server and the sources have.
    fn restart(&mut self) {
        self.state = State::default();
        self.state.add_builtin("sequence", "sequence".into());
        self.state.namespace_known("shop");
        self.compiled.clear();
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.settle();
    }

    /// A source has this text now.
    fn edit(&mut self, origin: &Origin, text: &str) {
        self.sources.insert(origin.clone(), content(text));
        self.touch(origin);
    }

    fn remove(&mut self, origin: &Origin) {
        self.sources.remove(origin);
        self.touch(origin);
    }

    fn touch(&mut self, origin: &Origin) {
        self.state.touched(|touched| touched == origin);
        self.settle();
    }

    /// Does everything that is to be done now.
    fn settle(&mut self) {
        loop {
            let work = self.state.todo(self.now);
            self.woken.extend(self.state.take_woken().into_iter().map(|group| group.uid));
            if work.is_empty() {
                return;
            }
            work.into_iter().for_each(|work| self.carry_out(work));
        }
    }

    fn carry_out(&mut self, work: Work) {
        let now = self.now;
        match work {
            Work::Read(origin) => {
                let shown = self.sources.get(&origin).cloned().ok_or_else(|| "there is none".to_owned());
                self.state.read(&origin, shown, now);
            }
            Work::Compile(content) => {
                self.compiled.push(String::from_utf8(content.bytes.to_vec()).unwrap());
                if self.compiles {
                    self.compile(&content);
                }
            }
            Work::List(group) => {
                let ours = self.copies.entry(group.uid.clone()).or_default().iter();
                let stored = ours.map(|(name, note, _)| Stored { name: name.clone(), note: note.clone() }).collect();
                let listed = self.request("list", stored);
                self.state.listed(&group.uid, listed, now);
            }
            Work::Fetch(group, name) => {
                let found = self.copies[&group.uid].iter().find(|copy| copy.0 == name);
                let read = self.request("fetch", found.and_then(|(_, _, content)| content.clone()));
                self.state.fetched(&group.uid, &name, read, now);
            }
            Work::Copy(group, note, content) => {
                let name = format!("copy-{}-{}", note.key, note.number);
                let written = self.request("copy", name.clone());
                if written.is_ok() {
                    self.copies.entry(group.uid.clone()).or_default().push((name, Some(note.clone()), content));
                }
                self.state.copied(&group.uid, &note, written, now);
            }
            Work::Remove(group, name) => {
                let removed = self.request("remove", ()).is_ok();
                if removed {
                    self.copies.entry(group.uid.clone()).or_default().retain(|copy| copy.0 != name);
                }
                self.state.removed(&group.uid, &name, removed, now);
            }
        }
    }

    fn compile(&mut self, content: &Content) {
        let text = String::from_utf8(content.bytes.to_vec()).unwrap();
        let made = match text.strip_prefix("broken") {
            Some(_) => Err(Failure { why: format!("{text} is no policy"), is_load: false }),
            None => Ok(text),
        };
        self.state.compiled(&content.digest, made, self.now);
    }

    fn request<T>(&mut self, verb: &str, answer: T) -> Result<T, String> {
        match self.failing.iter().position(|fails| *fails == verb) {
            Some(at) => Err(self.failing.remove(at).to_owned()),
            None => Ok(answer),
        }
    }

    /// A round of a group, as it finds its layers.
    fn look(&mut self, uid: &str, layers: &[Wanted]) -> Vec<(String, String, Standing)> {
        let fit = |_: &Policy, parameters: &str| match parameters {
            "typo" => Err("typo does not fit".to_owned()),
            other => Ok(other.to_owned()),
        };
        let (found, more) = self.state.look(&group(uid), layers, self.now, fit);
        if !more {
            assert_eq!(self.state.todo(self.now), [], "there is something to do, and nobody looks for it");
        }
        found.iter().map(told).collect()
    }

    /// Whether a round of the group has somebody look for what is to be done.
    fn is_busy(&mut self, uid: &str, layers: &[Wanted]) -> bool {
        self.state.look(&group(uid), layers, self.now, |_, parameters| Ok(parameters.to_owned())).1
    }

    /// A round, what it starts, and another round, which finds the outcome.
    fn round(&mut self, uid: &str, layers: &[Wanted]) -> Vec<(String, String, Standing)> {
        self.look(uid, layers);
        self.settle();
        let found = self.look(uid, layers);
        self.settle();
        found
    }

    /// What a group's copies are of: text and parameters, oldest first.
    fn stored(&self, uid: &str) -> Vec<String> {
        let mut all: Vec<_> =
            self.copies[uid].iter().filter_map(|(_, note, content)| Some((note.as_ref()?, content))).collect();
        all.sort_by_key(|(note, _)| note.number);
        let text = |content: &Option<Content>| {
            content.as_ref().map_or("-".into(), |c| String::from_utf8(c.bytes.to_vec()).unwrap())
        };
        all.iter().map(|(note, content)| format!("{} {}", text(content), note.version.parameters)).collect()
    }

    /// The group's policies take a question like that, in the layer of that number.
    fn heard(&mut self, uid: &str, layers: &[Wanted], at: usize, heard: Heard) {
        let (found, _) = self.state.look(&group(uid), layers, self.now, |_, parameters| Ok(parameters.to_owned()));
        let version = found[at].decides.clone().unwrap().2;
        self.state.heard(uid, &layers[at].key, &version, heard, self.now);
        self.settle();
    }
}
