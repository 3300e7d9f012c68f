//! A group's stack as a round finds it, and what its status says of it.
use super::examined::Examined;
use super::source::text;
use super::store::good::{FAULTS, Version};
use super::store::swaps::{AT_ONCE, QUIET, WINDOW};
use super::store::work::{Found, Key, Standing};
use crate::decisions::{self, Pace};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tanist_api::spec::Policy as PolicySpec;
use tanist_api::status::PolicyStatus;
use tanist_cluster::report;
use tanist_core::policy::{Answered, CUT_OFF, LOADING, NOT_LOADED, Point, Policies, PolicyName, Question, Unanswered};
use tanist_core::status::PolicyHealth;
use tanist_engine::{Heard, Layer, Stack};

/// Built-in policies that answer each question that they are asked, and never abstain: a policy behind one of them is not asked.
const ANSWER_ALL: [&str; 1] = ["sequence"];

/// Characters of a message in the status.
const MESSAGE: usize = 512;

/// A group's stack, ready to be asked.
pub struct Active {
    stack: Option<Stack>,
    /// Whether all policies are loaded, for the conditions.
    pub health: PolicyHealth,
    /// The policies for the status, in the order in which they are asked.
    pub status: Vec<PolicyStatus>,
    /// Sentences that are worth an event: a policy failed too often, and the version before decides from now on.
    pub news: Vec<String>,
    /// For each policy of the stack, what decides in which layer.
    pub(super) versions: Vec<(Key, Version)>,
    heard: Mutex<Vec<(usize, Heard)>>,
    slow: AtomicBool,
    cut_off: AtomicBool,
}

impl Active {
    /// What the status says of them.
    pub fn told(&self) -> report::Policies<'_> {
        report::Policies { health: &self.health, status: &self.status }
    }
}

impl Policies for Active {
    /// A policy that is not loaded may have any point.
    fn has(&self, point: Point) -> bool {
        self.stack.as_ref().is_none_or(|stack| stack.has(point))
    }

    fn are_loaded(&self) -> bool {
        self.stack.is_some()
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let Some(stack) = &self.stack else {
            let kind = if matches!(self.health, PolicyHealth::Loading(_)) { LOADING } else { NOT_LOADED };
            return Err(Unanswered {
                policy: PolicyName::none(),
                kind,
                message: self.health.text().to_owned(),
                notes: vec![],
            });
        };
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fuel: u64 = 0;
        let answered = stack.ask_and_note(question, &mut |place, how, used| {
            heard.push((place, how));
            fuel = fuel.saturating_add(used);
        });
        if decisions::is_slow(fuel, question.snapshot.members.len()) {
            self.slow.store(true, Ordering::Relaxed);
        }
        if answered.as_ref().is_err_and(|unanswered| unanswered.kind == CUT_OFF) {
            self.cut_off.store(true, Ordering::Relaxed);
        }
        answered
    }
}

impl Active {
    /// The stack of the layers that were found for these policies of a spec, in their order. `news`: layers that began to be decided by the version before.
    #[must_use]
    pub fn new(specs: &[PolicySpec], found: Vec<(Key, Found<Examined>)>, news: &[Key]) -> Self {
        let mut said = Said::default();
        let (mut layers, mut versions, mut status, mut told) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut answered = BTreeSet::new();
        for (spec, (key, found)) in specs.iter().zip(found) {
            let source = text(spec);
            let mut exam = None;
            let layer = found.decides.map(|(made, parameters, version)| {
                let points = version.points.clone();
                versions.push((key.clone(), version));
                exam = made.sentence(points.as_deref());
                Layer { policy: made.policy.from_source(&source).into(), points, parameters }
            });
            let message = said.add(&found.standing, &source, layer.as_ref());
            if news.contains(&key) {
                told.extend(message.clone());
            }
            let mut shown = shown(&source, layer.as_ref(), &found.standing, message);
            shown.exam = exam;
            if layer.is_some() && is_never_asked(&mut answered, spec, &shown.points) && shown.state == "Active" {
                shown.state = "NeverAsked".into();
                shown.message = Some(never_asked(&shown.points));
            }
            status.push(shown);
            layers.extend(layer);
        }
        let names: Vec<_> = layers.iter().map(|layer| layer.policy.name().to_string()).collect();
        let (health, is_complete) = said.health(&names);
        // If one policy is missing, the group is only observed: the other policies alone may decide differently from what the user intends.
        let stack = is_complete.then(|| Stack::new(layers));
        Active {
            stack,
            health,
            status,
            news: told,
            versions,
            heard: Mutex::default(),
            slow: AtomicBool::default(),
            cut_off: AtomicBool::default(),
        }
    }

    /// How the policies took the questions since the last call: the key of the layer, what decided there, what was heard.
    pub(super) fn take_heard(&self) -> Vec<(&Key, &Version, Heard)> {
        let heard = std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        let known = |(place, how)| self.versions.get(place).map(|(key, version)| (key, version, how));
        heard.into_iter().filter_map(known).collect()
    }

    /// Has the policies ready for the next question, when nobody waits for an answer. Not those of a slow group, which would take the processor from the others twice.
    pub fn prepare(&self) {
        if let Some(stack) = self.stack.as_ref().filter(|_| !self.pace().slow) {
            stack.prepare();
        }
    }

    /// How the questions so far went, together.
    #[must_use]
    pub fn pace(&self) -> Pace {
        Pace { slow: self.slow.load(Ordering::Relaxed), cut_off: self.cut_off.load(Ordering::Relaxed) }
    }

    /// Whether there are policies to be asked.
    #[cfg(test)]
    pub(super) fn is_complete(&self) -> bool {
        self.stack.is_some()
    }
}

/// The sentences about the layers of a stack, by what they mean for the group.
#[derive(Default)]
struct Said {
    missing: Vec<String>,
    awaited: Vec<String>,
    reverted: Vec<String>,
    flapping: Vec<String>,
    stale: Vec<String>,
    loading: Vec<String>,
}

impl Said {
    /// Adds a layer, and returns what its own status says.
    fn add(&mut self, standing: &Standing, source: &str, layer: Option<&Layer>) -> Option<String> {
        let name = layer.map(|layer| layer.policy.name().name.as_str());
        let (list, message) = match (standing, name) {
            (Standing::Active, _) => return None,
            (Standing::Failed(why), Some(name)) => (&mut self.stale, format!("{why}; {name} goes on deciding")),
            (Standing::Failed(why), None) => (&mut self.missing, why.clone()),
            (Standing::Loading, Some(name)) => {
                (&mut self.loading, format!("it is being loaded; until then {name} goes on deciding"))
            }
            (Standing::Loading | Standing::Flapping, None) => {
                (&mut self.awaited, "it is being loaded; nothing is decided until then".to_owned())
            }
            (Standing::Flapping, Some(name)) => (&mut self.flapping, flapping(name)),
            (Standing::Reverted, _) => (&mut self.reverted, reverted(layer)),
        };
        list.push(format!("{source}: {message}"));
        // The status of a policy has the source in a field of its own.
        Some(match standing {
            Standing::Failed(why) => why.clone(),
            _ => message,
        })
    }

    /// What the group's condition says, most important first, and whether every layer has something that decides.
    fn health(self, names: &[String]) -> (PolicyHealth, bool) {
        let is_complete = self.missing.is_empty() && self.awaited.is_empty();
        let say =
            |list: Vec<String>, health: fn(String) -> PolicyHealth| (!list.is_empty()).then(|| health(list.join("; ")));
        let health = say(self.missing, PolicyHealth::Missing)
            .or_else(|| say(self.awaited, PolicyHealth::Loading))
            .or_else(|| say(self.reverted, PolicyHealth::Reverted))
            .or_else(|| say(self.flapping, PolicyHealth::Flapping))
            .or_else(|| say(self.stale, PolicyHealth::Stale))
            .or_else(|| say(self.loading, PolicyHealth::Loading))
            .unwrap_or_else(|| PolicyHealth::Active(names.join(", ")));
        (health, is_complete)
    }
}

fn flapping(name: &str) -> String {
    format!(
        "it changed more than {AT_ONCE} times within {} s, so its last change waits until it has not changed for {} s; {name} decides until then",
        WINDOW.as_secs(),
        QUIET.as_secs()
    )
}

fn reverted(layer: Option<&Layer>) -> String {
    let name = layer.map(|layer| layer.policy.name());
    let decides = name.map_or_else(|| "nothing".to_owned(), |name| format!("{} {}", name.name, name.version));
    let digest = name.and_then(|name| name.digest.get(..19)).unwrap_or_default();
    format!(
        "its present version failed {FAULTS} questions in a row; the one before ({decides}, {digest}) decides until it is changed"
    )
}

/// Whether a policy is asked nothing, because those before it answer each question that it is asked. `answered`: the questions that are answered before it; those
/// that it answers are added.
fn is_never_asked(answered: &mut BTreeSet<Point>, spec: &PolicySpec, points: &[Point]) -> bool {
    let is_never_asked = points.iter().all(|point| answered.contains(point));
    if spec.builtin.as_deref().is_some_and(|name| ANSWER_ALL.contains(&name)) {
        answered.extend(points);
    }
    is_never_asked
}

fn never_asked(points: &[Point]) -> String {
    match points {
        [] => "it is never asked: it has none of the questions that the spec names for it".to_owned(),
        _ => "it is never asked: a policy before it answers each of its questions; list it first".to_owned(),
    }
}

fn shown(source: &str, layer: Option<&Layer>, standing: &Standing, message: Option<String>) -> PolicyStatus {
    // Of the version that decides, which may have been given other points than the spec has now.
    let asked = |layer: &Layer| match &layer.points {
        None => layer.policy.points().collect(),
        Some(points) => points.iter().copied().filter(|point| layer.policy.has(*point)).collect(),
    };
    let name = layer.map(|layer| layer.policy.name());
    PolicyStatus {
        source: source.to_owned(),
        name: name.map(|name| name.name.clone()),
        version: name.map(|name| name.version.clone()),
        digest: name.map(|name| name.digest.clone()),
        points: layer.map(asked).unwrap_or_default(),
        state: state(standing, layer.is_some()).to_owned(),
        message: message.map(|why| why.chars().take(MESSAGE).collect()),
        exam: None,
    }
}

/// The word of the API for the state of a policy.
fn state(standing: &Standing, decides: bool) -> &'static str {
    match (standing, decides) {
        (Standing::Active, _) => "Active",
        (Standing::Loading, _) | (Standing::Flapping, false) => "Loading",
        (Standing::Flapping, true) => "Flapping",
        (Standing::Reverted, _) => "PreviousDecides",
        (Standing::Failed(_), true) => "LastGoodDecides",
        (Standing::Failed(_), false) => "NotLoaded",
    }
}
