//! The truth: objects with versions and UIDs, nodes, volumes and processes.
use crate::agree::Agreement;
use crate::app::{App, Disk};
use crate::clients::Clients;
use crate::faults::Faults;
use crate::oracles::Oracles;
use crate::runner::Tokens;
use crate::shared::Shared;
use crate::transcript::Transcript;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::DynamicObject;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tanist_api::{LABEL_GROUP, ReplicaGroup};
use tanist_cluster::cluster::Kind;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The time at which every simulation begins, in seconds since 1970: no round number.
pub const START: i64 = 1_795_000_007;

/// The namespace of all that is simulated.
pub const NAMESPACE: &str = "shop";

/// The cluster in truth.
#[derive(Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
    began: Instant,
}

/// What there is.
#[derive(Default)]
pub struct State {
    /// Groups by name, as all objects here.
    pub groups: BTreeMap<String, Shared<ReplicaGroup>>,
    /// StatefulSets by name; they have the names of their groups.
    pub sets: BTreeMap<String, Shared<StatefulSet>>,
    /// Pods by name; they have the names of their members.
    pub pods: BTreeMap<String, Shared<Pod>>,
    /// Claims by name, those that members left behind included.
    pub claims: BTreeMap<String, Shared<PersistentVolumeClaim>>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Shared<Node>>,
    /// Nodes that were deleted and whose kubelets go on, and from when on they hear of deleted pods.
    pub deleted_nodes: BTreeMap<String, i64>,
    /// Services and disruption budgets.
    pub plain: BTreeMap<(Kind, String), Shared<DynamicObject>>,
    /// Templates that groups had.
    pub templates: BTreeMap<String, Shared<DynamicObject>>,
    /// Who owns fields of an object by apply.
    pub managers: BTreeMap<(Kind, String), BTreeSet<&'static str>>,
    /// What runs in pods, by UID, whether or not their objects exist.
    pub machines: BTreeMap<String, Machine>,
    /// What volumes hold, by UID of the claim.
    pub disks: BTreeMap<String, Disk>,
    /// Pods as they were when they went, and when, for whoever watches.
    pub ended: Vec<(i64, Shared<Pod>)>,
    /// How often an object changed that a watch of the operator shows.
    pub changes: u64,
    /// Tells whoever watches.
    pub news: Arc<Notify>,
    /// On what the members of each group have agreed whose members agree.
    pub agreements: BTreeMap<String, Agreement>,
    /// The groups of which one member is active, and all run by themselves. Their names stay when they are deleted.
    pub passive: BTreeSet<String>,
    /// Whose update `beforeUpdate` announced in each group, and `afterUpdate` has not ended yet.
    pub announced: BTreeMap<String, BTreeSet<String>>,
    /// UIDs of the pods that have said by `prepared` that they are.
    pub prepared: BTreeSet<String>,
    /// Who writes to each group, and what was promised to them.
    pub clients: BTreeMap<String, Clients>,
    /// What broke a promise, in the order in which it happened.
    pub broken: Vec<String>,
    /// What the oracles remember.
    pub oracles: Oracles,
    /// The writes that an admission webhook refuses, by their word.
    pub guarded: Option<&'static str>,
    /// Whether the start of a primary was once not noted on its claim, because the request failed. The operator goes on then: the record has the start.
    pub unnoted: bool,
    /// Until when what runs in pods stands still, by UID of the pod.
    pub frozen: BTreeMap<String, i64>,
    /// Nodes that stay away until everything else has healed, and whether they come back then.
    pub away: BTreeMap<String, bool>,
    /// Backups of volumes by name of the claim, with the annotations that it had.
    pub copies: BTreeMap<String, (Disk, BTreeMap<String, String>)>,
    /// Groups that were deleted and are created again a moment later.
    pub deleted_groups: BTreeMap<String, Shared<ReplicaGroup>>,
    /// Owners that are gone, by UID, and when the garbage collector deletes what belonged to them.
    pub gone_owners: BTreeMap<String, i64>,
    /// Whether nothing happens any more, so that whoever looks for changes need not look often.
    pub is_at_rest: bool,
    /// What goes wrong.
    pub faults: Faults,
    /// What happened, one line each.
    pub log: Vec<String>,
    /// The same for people, with what the operator asked for. Absent: nobody reads it.
    pub transcript: Option<Transcript>,
    /// The time, in seconds since 1970.
    pub now: i64,
    /// How long it has been simulated.
    pub passed: Duration,
    version: u64,
    births: u64,
    random: Option<SmallRng>,
    /// The dice of clients, who throw so often that they would change everything else.
    random_of_clients: Option<SmallRng>,
    history: DefaultHasher,
}

/// The container of a member's pod.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The group that it belongs to.
    pub group: String,
    /// The pod's name.
    pub pod: String,
    /// The node that it runs on.
    pub node: String,
    /// The claim whose volume is mounted.
    pub claim: String,
    /// The ID of the container.
    pub container: String,
    /// The runner's tokens.
    pub tokens: Tokens,
    /// The token of the command that runs.
    pub busy: Option<String>,
    /// Whether the last command that succeeded wants the application to run.
    pub expects_running: bool,
    /// The application that runs in the container; its role is the true one.
    pub app: App,
    /// When it got SIGTERM, in seconds since 1970.
    pub ending: Option<i64>,
    /// Whether its group is active/passive: no runner is in it, and the application works from the start of its container on.
    pub is_passive: bool,
    /// The version of the application whose programs its image has.
    pub programs: u64,
}

impl Machine {
    /// A container that starts: what runs in it, and whether something is to run.
    pub fn begin(&mut self) {
        self.app = if self.is_passive { App::works() } else { App::default() };
        (self.busy, self.expects_running) = (None, self.is_passive);
    }
}

impl World {
    /// An empty cluster with that many nodes that report. `seed`: of all that is random in it.
    #[must_use]
    pub fn new(nodes: u32, seed: u64) -> Self {
        let world = World { state: Arc::default(), began: Instant::now() };
        {
            let mut state = world.lock();
            state.random = Some(SmallRng::seed_from_u64(seed));
            state.random_of_clients = Some(SmallRng::seed_from_u64(!seed));
            state.faults = Faults::new(seed);
            for number in 0..nodes {
                state.add_node(&format!("n{number}"));
            }
        }
        world
    }

    /// What there is now. Never held across an await.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.passed = self.passed();
        state.now = START.saturating_add(i64::try_from(state.passed.as_secs()).unwrap_or(i64::MAX));
        state
    }

    /// How long it has been simulated.
    #[must_use]
    pub fn passed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Creates a group.
    pub fn create(&self, mut group: ReplicaGroup) {
        group.metadata.namespace = Some(NAMESPACE.to_owned());
        self.lock().create(group.into());
    }
}

impl State {
    /// Creates a group, whatever was known of another one of that name.
    pub fn create(&mut self, mut group: Shared<ReplicaGroup>) {
        group.metadata.generation = Some(1);
        group.metadata.uid = Some(self.birth("group"));
        group.status = None;
        self.stamp(&mut group.metadata);
        let name = group.metadata.name.clone().unwrap_or_default();
        // What members agreed on is on their volumes, which outlive the group.
        if let Some(agreement) = Agreement::of(&group).filter(|_| !self.agreements.contains_key(&name)) {
            self.agreements.insert(name.clone(), agreement);
        }
        if group.spec.commands.primary.is_none() {
            self.passive.insert(name.clone());
        }
        self.tell();
        self.groups.insert(name, group);
    }

    /// A new UID.
    pub fn birth(&mut self, what: &str) -> String {
        self.births += 1;
        format!("{what}-{}", self.births)
    }

    /// Gives an object that was changed its new version.
    pub fn stamp(&mut self, meta: &mut ObjectMeta) {
        self.version += 1;
        meta.resource_version = Some(self.version.to_string());
        if meta.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_GROUP)) {
            self.tell();
        }
    }

    /// Watches show that something changed.
    pub fn tell(&mut self) {
        self.changes += 1;
        self.news.notify_waiters();
    }

    /// The version of the newest object.
    #[must_use]
    pub fn version(&self) -> String {
        self.version.to_string()
    }

    /// A random number below `sides`; 0 if that is 0.
    pub fn dice(&mut self, sides: u64) -> u64 {
        self.random.as_mut().map_or(0, |random| random.random_range(0..sides.max(1)))
    }

    /// A random number below `sides` for clients; 0 if that is 0.
    pub fn dice_of_clients(&mut self, sides: u64) -> u64 {
        self.random_of_clients.as_mut().map_or(0, |random| random.random_range(0..sides.max(1)))
    }

    /// A promise is broken. `rows`: those of docs/safety.md that make it.
    pub fn breaks(&mut self, rows: &str, what: impl AsRef<str>) {
        let text = format!("{rows}: {}", what.as_ref());
        self.say(format!("BROKEN {text}"));
        self.broken.push(text);
    }

    /// Notes what happened.
    pub fn say(&mut self, what: impl AsRef<str>) {
        let passed = self.now.saturating_sub(START);
        let line = format!("{passed:>6} s  {}", what.as_ref());
        self.note(&line);
        self.log.push(line);
        let at = self.passed;
        if let Some(transcript) = &mut self.transcript {
            transcript.add(at, what.as_ref().to_owned());
        }
    }

    /// The operator asks for something.
    pub fn asked(&mut self, what: impl FnOnce() -> String) {
        let at = self.passed;
        if let Some(transcript) = &mut self.transcript {
            transcript.add(at, format!("tanist {}", what()));
        }
    }

    /// Adds something to the history that [`State::digest`] is of.
    pub fn note(&mut self, what: &(impl Hash + ?Sized)) {
        what.hash(&mut self.history);
    }

    /// A hash of everything that was said and written so far, and of when.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.history.finish()
    }

    /// The time as objects have it.
    #[must_use]
    pub fn time(&self) -> Time {
        Time(jiff::Timestamp::from_second(self.now).unwrap_or_default())
    }

    /// The application in a pod of that name, if it has one.
    #[must_use]
    pub fn machine(&self, pod: &str) -> Option<&Machine> {
        let uid = self.pods.get(pod)?.metadata.uid.as_ref()?;
        self.machines.get(uid)
    }

    /// The same with the UID of the pod.
    #[must_use]
    pub fn running(&self, pod: &str) -> Option<(&str, &Machine)> {
        let uid = self.pods.get(pod)?.metadata.uid.as_ref()?;
        self.machines.get_key_value(uid).map(|(uid, machine)| (uid.as_str(), machine))
    }

    /// Whether a node reports and reaches others.
    #[must_use]
    pub fn is_up(&self, node: &str) -> bool {
        let conditions = self.nodes.get(node).and_then(|n| n.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
    }

    /// Whether nothing starts on the volume of what runs there.
    #[must_use]
    pub fn is_damaged(&self, machine: &Machine) -> bool {
        self.disks.get(&machine.claim).is_some_and(|disk| disk.is_damaged)
    }

    /// Whether what runs in the pod of that UID stands still.
    #[must_use]
    pub fn stands_still(&self, uid: &str) -> bool {
        self.frozen.get(uid).is_some_and(|until| self.now < *until)
    }

    /// Whether others reach what runs in the pod of that UID.
    #[must_use]
    pub fn reaches(&self, uid: &str, machine: &Machine) -> bool {
        self.is_up(&machine.node) && !self.stands_still(uid)
    }

    /// Whether a node's kubelet hears of deleted pods.
    #[must_use]
    pub fn has_kubelet(&self, node: &str) -> bool {
        self.deleted_nodes.get(node).map_or_else(|| self.is_up(node), |hears| self.now >= *hears)
    }

    /// A node reports, or does not. What runs on it goes on.
    pub fn set_node(&mut self, name: &str, is_up: bool) {
        let (now, word) = (self.time(), if is_up { "True" } else { "Unknown" });
        let Some(mut node) = self.nodes.get(name).cloned() else { return };
        let conditions = node.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten());
        for ready in conditions.filter(|condition| condition.type_ == "Ready" && condition.status != word) {
            (ready.status, ready.last_transition_time) = (word.to_owned(), Some(now.clone()));
        }
        self.stamp(&mut node.metadata);
        self.nodes.insert(name.to_owned(), node);
        self.tell();
        self.say(format!("node {name} {}", if is_up { "reports" } else { "does not report" }));
    }

    /// Whether nothing new is to run on a node.
    #[must_use]
    pub fn is_cordoned(&self, node: &str) -> bool {
        self.nodes.get(node).and_then(|node| node.spec.as_ref()?.unschedulable).unwrap_or(false)
    }

    /// A node is cordoned, or no longer.
    pub fn cordon(&mut self, name: &str, is_cordoned: bool) {
        let Some(mut node) = self.nodes.get(name).cloned() else { return };
        node.spec.get_or_insert_default().unschedulable = Some(is_cordoned);
        self.stamp(&mut node.metadata);
        self.nodes.insert(name.to_owned(), node);
        self.tell();
        self.say(format!("node {name} is {}", if is_cordoned { "cordoned" } else { "open again" }));
    }

    /// A node joins the cluster, and reports.
    pub fn add_node(&mut self, name: &str) {
        self.deleted_nodes.remove(name);
        let ready = NodeCondition {
            type_: "Ready".into(),
            status: "True".into(),
            last_transition_time: Some(self.time()),
            ..NodeCondition::default()
        };
        let status = NodeStatus { conditions: Some(vec![ready]), ..NodeStatus::default() };
        // Two zones, by the number of the node.
        let zone = if name.ends_with(['0', '2', '4', '6', '8']) { "zone-a" } else { "zone-b" };
        let labels = [("topology.kubernetes.io/zone".to_owned(), zone.to_owned())].into();
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some(self.birth("node")),
            labels: Some(labels),
            ..ObjectMeta::default()
        };
        let mut node = Node { metadata, status: Some(status), ..Node::default() };
        self.stamp(&mut node.metadata);
        self.nodes.insert(name.to_owned(), node.into());
        self.tell();
    }
}
