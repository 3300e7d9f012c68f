//! The metrics, under the names that the alerts and the dashboard of deploy/ use.
use crate::policies::Active;
use kube::ResourceExt;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tanist_api::ReplicaGroup;
use tanist_cluster::count::{Count, Execution, Went};
use tanist_core::check;
use tanist_core::contract::{Answer, Care, Phase, Role};
use tanist_core::over::role_word;
use tanist_core::plan::{Action, Plan};
use tanist_core::policy::{Answered, Point, Policies, Question, Reply, Unanswered};
use tanist_core::record::{Event, Verb};
use tanist_core::snapshot::Snapshot;
use tanist_core::status::{Condition, Kind, Truth};

/// Labels of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    point: String,
    policy: String,
    result: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PointLabels {
    point: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    policy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExecLabels {
    command: String,
    result: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NamespaceLabels {
    namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoleLabels {
    namespace: String,
    group: String,
    role: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    namespace: String,
    group: String,
    cause: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    namespace: String,
    group: String,
    condition: String,
    status: String,
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of this process.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    decisions: Family<DecisionLabels, Counter>,
    decision_seconds: Seconds<PointLabels>,
    fuel: Family<PolicyLabels, Counter>,
    execs: Family<ExecLabels, Counter>,
    exec_seconds: Seconds<ExecLabels>,
    unknown_outcomes: Counter,
    violations: Counter,
    failovers: Family<CauseLabels, Counter>,
    reloads: Family<ResultLabels, Counter>,
    round_seconds: Histogram,
    /// Rounds that failed.
    pub round_errors: Counter,
    groups: Family<NamespaceLabels, Gauge>,
    members: Family<RoleLabels, Gauge>,
    conditions: Family<ConditionLabels, Gauge>,
    /// Events that were not written.
    pub events_dropped: Counter,
    slots_missed: Family<KindLabels, Counter>,
    /// 1 while this process is the leader, else 0.
    pub leader: Gauge,
    /// Names of groups by namespace, so that the numbers of deleted groups can be removed.
    known: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
}

const ROLES: [Role; 6] = [Role::Primary, Role::Secondary, Role::Starting, Role::Stopped, Role::Failed, Role::Unknown];

impl Default for Metrics {
    fn default() -> Self {
        // A decision takes microseconds, an execution milliseconds to minutes.
        let decisions: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_005, 4.0, 10));
        let executions: fn() -> Histogram = || Histogram::new(exponential_buckets(0.01, 3.0, 11));
        let mut metrics = Metrics {
            registry: Arc::default(),
            decisions: Family::default(),
            decision_seconds: Family::new_with_constructor(decisions),
            fuel: Family::default(),
            execs: Family::default(),
            exec_seconds: Family::new_with_constructor(executions),
            unknown_outcomes: Counter::default(),
            violations: Counter::default(),
            failovers: Family::default(),
            reloads: Family::default(),
            round_seconds: Histogram::new(exponential_buckets(0.005, 2.0, 14)),
            round_errors: Counter::default(),
            groups: Family::default(),
            members: Family::default(),
            conditions: Family::default(),
            events_dropped: Counter::default(),
            slots_missed: Family::default(),
            leader: Gauge::default(),
            known: Arc::default(),
        };
        metrics.registry = Arc::new(metrics.registered());
        metrics
    }
}

impl Metrics {
    fn registered(&self) -> Registry {
        let mut r = Registry::with_prefix("tanist");
        r.register("decisions", "Questions put to policies, by their outcome", self.decisions.clone());
        r.register("decision_seconds", "Seconds until a question is answered", self.decision_seconds.clone());
        r.register(
            "fuel",
            "Fuel that policies used; one unit is about one instruction of WebAssembly",
            self.fuel.clone(),
        );
        r.register("execs", "Commands executed in members", self.execs.clone());
        r.register("exec_seconds", "Seconds that a command takes in a member", self.exec_seconds.clone());
        r.register("unknown_outcomes", "Commands whose outcome is unknown", self.unknown_outcomes.clone());
        r.register(
            "check_violations",
            "Answers and commands that broke a check and were dropped",
            self.violations.clone(),
        );
        r.register("failovers", "Failovers and switchovers that were started, by their cause", self.failovers.clone());
        r.register(
            "policy_reloads",
            "Policies that were added or changed, by whether they could be loaded",
            self.reloads.clone(),
        );
        r.register("round_seconds", "Seconds that a round takes", self.round_seconds.clone());
        r.register("round_errors", "Rounds that ended early", self.round_errors.clone());
        r.register("groups", "Groups that this operator manages", self.groups.clone());
        r.register("members", "Members by role", self.members.clone());
        r.register(
            "group_condition",
            "Conditions of groups; 1 for the present status, 0 for the others",
            self.conditions.clone(),
        );
        r.register(
            "events_dropped",
            "Kubernetes events that were not written: too many at once, or the API server did not take them in time",
            self.events_dropped.clone(),
        );
        r.register(
            "exec_slots_missed",
            "Executions in members that were postponed because no slot was free in time",
            self.slots_missed.clone(),
        );
        r.register("leader", "Whether this process is the leader", self.leader.clone());
        r
    }

    /// As Prometheus reads it.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// A round is over.
    pub fn round(&self, object: &ReplicaGroup, s: &Snapshot, plan: &Plan, conditions: &[Condition], took: Duration) {
        self.violations.inc_by(u64::try_from(plan.violations.len()).unwrap_or(u64::MAX));
        self.round_seconds.observe(took.as_secs_f64());
        let (namespace, group) = (object.namespace().unwrap_or_default(), object.name_any());
        for role in ROLES {
            let count = s.members.iter().filter(|m| s.role(m).0 == role).count();
            let labels =
                RoleLabels { namespace: namespace.clone(), group: group.clone(), role: role_word(role).to_owned() };
            self.members.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.conditions(object, conditions);
    }

    /// Counts the failovers among the actions that were done, by the cause of the primary's loss.
    pub fn failover(&self, s: &Snapshot, plan: &Plan, done: &[Action]) {
        let promoted = |a: &Action| matches!(a, Action::Run { intent, .. } if intent.verb == Verb::Failover);
        let activated = || plan.noted(&s.record).any(|past| Event::Activated.is(&past.what));
        let is_lost = s.record.term > 0 && s.serving().is_empty();
        if done.iter().any(promoted) || is_lost && activated() {
            let labels = CauseLabels {
                namespace: s.group.namespace.clone(),
                group: s.group.name.clone(),
                cause: cause(s).to_owned(),
            };
            self.failovers.get_or_create(&labels).inc();
        }
    }

    /// Counts policies that were added, changed or broke since the status was written.
    pub fn reloads(&self, object: &ReplicaGroup, active: &Active) {
        let before = object.status.as_ref().map(|s| s.policies.as_slice()).unwrap_or_default();
        for now in &active.status {
            let old = before.iter().find(|p| p.source == now.source);
            let result = match (now.state.as_str(), old) {
                ("Active" | "NeverAsked", Some(old)) if old.digest == now.digest && old.state == now.state => continue,
                ("Active" | "NeverAsked", _) => "loaded",
                // Neither has an outcome yet.
                ("Loading" | "Flapping", _) => continue,
                (why, Some(old)) if old.state == why => continue,
                _ => "failed",
            };
            self.reloads.get_or_create(&ResultLabels { result: result.into() }).inc();
        }
    }

    /// Removes the numbers of a group that is gone.
    pub fn forget(&self, namespace: &str, group: &str) {
        for role in ROLES {
            let role = role_word(role).to_owned();
            self.members.remove(&RoleLabels { namespace: namespace.into(), group: group.into(), role });
        }
        for (kind, truth) in all_conditions() {
            self.conditions.remove(&condition_labels(namespace, group, kind, truth));
        }
        self.know(namespace, |groups| groups.remove(group));
    }

    fn know(&self, namespace: &str, change: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = known.entry(namespace.to_owned()).or_default();
        change(groups);
        let labels = NamespaceLabels { namespace: namespace.to_owned() };
        self.groups.get_or_create(&labels).set(i64::try_from(groups.len()).unwrap_or(i64::MAX));
    }
}

impl Count for Metrics {
    fn executed(&self, command: &str, went: Went, took: Duration) {
        let labels = ExecLabels { command: command.to_owned(), result: went.as_str().to_owned() };
        self.execs.get_or_create(&labels).inc();
        self.exec_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    fn no_slot(&self, kind: Execution) {
        self.slots_missed.get_or_create(&KindLabels { kind: kind.as_str().to_owned() }).inc();
    }

    fn unknown(&self) {
        self.unknown_outcomes.inc();
    }

    /// Sets the numbers of a group's conditions. A condition that the group no longer has gets no number.
    fn conditions(&self, object: &ReplicaGroup, conditions: &[Condition]) {
        let (namespace, group) = (object.namespace().unwrap_or_default(), object.name_any());
        for (kind, truth) in all_conditions() {
            let labels = condition_labels(&namespace, &group, kind, truth);
            match conditions.iter().find(|c| c.kind == kind) {
                Some(said) => drop(self.conditions.get_or_create(&labels).set(i64::from(said.status == truth))),
                None => drop(self.conditions.remove(&labels)),
            }
        }
        self.know(&namespace, |groups| groups.insert(group));
    }
}

/// Every condition with every status that it can have.
fn all_conditions() -> impl Iterator<Item = (Kind, Truth)> {
    Kind::ALL.iter().flat_map(|kind| Truth::ALL.iter().map(|truth| (*kind, *truth)))
}

fn condition_labels(namespace: &str, group: &str, kind: Kind, truth: Truth) -> ConditionLabels {
    let (namespace, group, condition) = (namespace.to_owned(), group.to_owned(), kind.as_str().to_owned());
    ConditionLabels { namespace, group, condition, status: truth.as_str().to_owned() }
}

/// The cause of a primary's loss, judged by what is left of it.
fn cause(s: &Snapshot) -> &'static str {
    if s.record.switchover.as_ref().is_some_and(|h| h.is_open()) {
        return "switchover";
    }
    let highest = s.record.members.values().filter_map(|m| m.primary_term).max();
    let led = s.members.iter().find(|m| highest.is_some() && s.record.member(&m.name).primary_term == highest);
    match led.and_then(|m| m.pod.as_ref()).map(|p| p.phase) {
        Some(Phase::Running) => "process",
        Some(Phase::Unreachable) => "node",
        Some(Phase::Missing | Phase::Pending | Phase::Terminating | Phase::Ended) | None => "pod",
    }
}

/// Policies whose answers are timed and counted.
pub struct Measured<'a> {
    /// The policies that answer.
    pub active: &'a dyn Policies,
    /// The metrics that count the answers.
    pub metrics: &'a Metrics,
}

impl Policies for Measured<'_> {
    fn has(&self, point: Point) -> bool {
        self.active.has(point)
    }

    fn are_loaded(&self) -> bool {
        self.active.are_loaded()
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let began = Instant::now();
        let answered = self.active.ask(question);
        let point = question.point.to_string();
        let result = outcome(question, &answered);
        let policy = match &answered {
            Ok(answered) => &answered.policy.name,
            Err(unanswered) => &unanswered.policy.name,
        };
        let labels = DecisionLabels { point: point.clone(), policy: policy.clone(), result: result.into() };
        self.metrics.decisions.get_or_create(&labels).inc();
        self.metrics.decision_seconds.get_or_create(&PointLabels { point }).observe(began.elapsed().as_secs_f64());
        if let Ok(answered) = &answered {
            let labels = PolicyLabels { policy: answered.policy.name.clone() };
            self.metrics.fuel.get_or_create(&labels).inc_by(answered.fuel);
        }
        answered
    }
}

/// The outcome of a question in one word. An answer that breaks a check is `rejected`: the core drops it.
fn outcome(question: &Question, answered: &Result<Answered, Unanswered>) -> &'static str {
    match answered {
        Err(unanswered) if unanswered.is_delay() => "delayed",
        Err(unanswered) if question.point.is_optional() && unanswered.is_abstention() => "nobody",
        Err(_) => "broken",
        Ok(answered) if check::reply(question, &answered.reply).is_err() => "rejected",
        Ok(answered) => match &answered.reply {
            Reply::Answer(Answer::Choose(_)) | Reply::Care(Care::Treat(_)) => "chosen",
            Reply::Answer(_) | Reply::Care(_) => "nobody",
        },
    }
}

#[cfg(test)]
mod tests;
