//! A small deterministic world: pods, nodes, volumes and an application in memory. It observes as the operator does, decides with the core,
//! carries plans out, and lets an oracle look at each of them.
mod action;

use super::agreement::Agreement;
use super::app::{App, Behaviour, Body, Data, Exec, Ghost, Read, Volume};
use super::clients::Clients;
pub use super::setting::command;
use super::setting::{group, on_one_line};
use super::tally::Events;
use super::{db, oracle, sequence};
use std::collections::{BTreeMap, BTreeSet};
use tanist_core::checked::{recheck, recheck_deletion, recheck_discard, recheck_scaling, recheck_update};
use tanist_core::contract::{MemberName, Phase, Position, Role, Timestamp};
use tanist_core::decide::decide;
use tanist_core::memory;
use tanist_core::plan::{Action, DeletionCause, Plan};
use tanist_core::policy::Policies;
use tanist_core::record::{GroupSize, Intent, Record};
use tanist_core::roster::Roster;
use tanist_core::snapshot::{Container, Group, Member, Node, Object, Pod, Query, QueryAnswer, Reading, Set, Snapshot};
use tanist_core::state::Stored;

/// Where it all begins: no round number in any test.
pub const START: Timestamp = 1_000_000;

#[derive(Debug, Clone)]
pub struct World {
    pub now: Timestamp,
    pub group: Group,
    pub record: Record,
    pub objects: Vec<Object>,
    pub set: Option<Set>,
    pub pods: BTreeMap<u32, Body>,
    pub volumes: BTreeMap<u32, Volume>,
    pub nodes: BTreeMap<String, Node>,
    /// Nodes that were deleted, and when.
    pub deleted_nodes: BTreeMap<String, Timestamp>,
    /// Whether nodes may be read.
    pub nodes_known: bool,
    pub ended: BTreeSet<String>,
    pub ghosts: Vec<Ghost>,
    pub execs: BTreeMap<String, Exec>,
    /// How the next command of that name on that member behaves; the flag: always.
    pub behaviours: Vec<(MemberName, String, Behaviour, bool)>,
    pub surplus_claims: Vec<String>,
    /// The ConfigMap of the cluster state.
    pub cluster_state: Stored,
    /// Whether a deleted pod comes back by itself.
    pub respawn: bool,
    /// What happened.
    pub log: Vec<String>,
    /// Commands that were started, `sequence` included.
    pub started: Vec<String>,
    /// How often what happened: commands by verb, faults, and what the group waited for.
    pub events: Events,
    pub births: u32,
    pub rounds: u32,
    /// Since when the present process has looked.
    pub began: Timestamp,
    /// What was fresher than a member that led a new term, by leave of the rules: the member and what it held.
    pub abandoned: BTreeMap<u32, Option<(u64, u64)>>,
    /// What `check` and `prepared` said, which is always that all is well.
    pub answers: BTreeMap<(Query, MemberName), QueryAnswer>,
    /// Whose update `beforeUpdate` announced, and `afterUpdate` has not ended yet.
    pub announced: BTreeSet<MemberName>,
    /// The members of the application by its own count.
    pub agreement: Agreement,
    /// Who writes, and what was acknowledged. Absent: scripts say what is written.
    pub clients: Option<Clients>,
}

impl World {
    /// Every pod runs, every volume is empty, nothing is remembered.
    pub fn new(replicas: u32, primaries: u32) -> Self {
        let mut world = World {
            now: START,
            group: group(replicas, primaries),
            record: Record::default(),
            objects: Vec::new(),
            set: Some(Set { uid: "set".into(), replicas, ..Set::default() }),
            pods: BTreeMap::new(),
            volumes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            deleted_nodes: BTreeMap::new(),
            nodes_known: true,
            ended: BTreeSet::new(),
            ghosts: Vec::new(),
            execs: BTreeMap::new(),
            behaviours: Vec::new(),
            surplus_claims: Vec::new(),
            cluster_state: Stored::Absent,
            respawn: true,
            log: Vec::new(),
            started: Vec::new(),
            events: Events::default(),
            births: 0,
            rounds: 0,
            began: 0,
            abandoned: BTreeMap::new(),
            announced: BTreeSet::new(),
            answers: BTreeMap::new(),
            agreement: Agreement::default(),
            clients: None,
        };
        for ordinal in 0..replicas {
            world.new_volume(ordinal);
            world.new_pod(ordinal);
        }
        world
    }

    pub fn birth(&mut self, what: &str) -> String {
        self.births += 1;
        format!("{what}{}", self.births)
    }

    pub fn new_volume(&mut self, ordinal: u32) {
        let uid = self.birth("claim");
        self.volumes.insert(
            ordinal,
            Volume { uid, data: Data::Empty, written: 0, led: 0, holds: BTreeSet::new(), mark: None, version: None },
        );
        self.lose();
    }

    /// A node is deleted. What runs there goes on for a while.
    pub fn delete_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.deleted_nodes.insert(name.to_owned(), self.now);
    }

    /// A new pod on its usual node, or on the spare one while that node is lost.
    pub fn new_pod(&mut self, ordinal: u32) {
        let usual = format!("node-{ordinal}");
        let fresh = || Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
        let lost = self.nodes.entry(usual.clone()).or_insert_with(fresh);
        let node = if lost.ready && !lost.out_of_service { usual } else { "spare".to_owned() };
        self.nodes.entry(node.clone()).or_insert_with(fresh);
        let (uid, id) = (self.birth("pod"), self.birth("c"));
        let pod = Pod {
            uid,
            version: "1".into(),
            phase: Phase::Running,
            phase_since: self.now,
            ready: false,
            node: Some(node),
            grace: 10,
            containers: BTreeMap::from([("db".to_owned(), Container { id: Some(id), running: true, ready: true })]),
            routed: None,
            outdated: false,
            older_template: false,
            needs_new_member: false,
            template: None,
            gate: None,
            labels: Vec::new(),
            trouble: None,
            stray: None,
            is_elsewhere: false,
            programs: self.group.version.clone(),
            adoption: None,
            is_being_deleted: false,
            lacked_memory: false,
        };
        let said = (Role::Stopped, self.now, 0);
        self.pods.insert(ordinal, Body { pod, app: App::stopped(), said, read: None });
    }

    /// The template changed after the member's pod was made.
    pub fn older(&mut self, ordinal: u32) {
        let pod = &mut self.body(ordinal).pod;
        (pod.outdated, pod.older_template) = (true, true);
    }

    /// The user names a version: pods with programs of another one have an older template. Those that were made before any was named had that one.
    pub fn name_version(&mut self, version: &str) {
        let first = self.group.version.replace(version.to_owned()).is_none();
        for body in self.pods.values_mut() {
            let pod = &mut body.pod;
            pod.programs = if first { Some(version.to_owned()) } else { pod.programs.take() };
            let is_older = pod.programs.as_deref() != Some(version);
            (pod.outdated, pod.older_template) = (is_older, is_older);
        }
    }

    pub fn body(&mut self, ordinal: u32) -> &mut Body {
        self.pods.get_mut(&ordinal).unwrap_or_else(|| panic!("db-{ordinal} has no pod"))
    }

    /// The volume holds that and the member is remembered as confirmed in that term.
    pub fn remember(&mut self, ordinal: u32, term: u64, data: &str) {
        let volume = self.volumes.get_mut(&ordinal).unwrap();
        volume.data = if data == "EMPTY" { Data::Empty } else { Data::Known(sequence(data)) };
        volume.written = term;
        let uid = volume.uid.clone();
        self.record.term = self.record.term.max(term);
        self.record.ever_seeded.get_or_insert(tanist_core::record::Seeded { member: db(0), confirmed: true });
        self.record.last_replicas = self.record.last_replicas.max(self.group.replicas);
        let known = self.record.member_mut(&db(ordinal));
        known.term = Some(term);
        known.claim_uid = Some(uid);
    }

    /// The member runs in that role, as memory has it.
    pub fn serve(&mut self, ordinal: u32, role: Role) {
        self.body(ordinal).app.role = role;
    }

    /// What the operator would see now. Asking `status` counts.
    pub fn observe(&mut self) -> Snapshot {
        let now = self.now;
        for body in self.pods.values_mut() {
            let answers = matches!(body.pod.phase, Phase::Running | Phase::Terminating) && body.runs();
            let role = if answers { body.app.probe.unwrap_or(body.app.role) } else { Role::Unknown };
            let (last, since, streak) = body.said;
            // What was read in one role says nothing once there was another one.
            body.read.take_if(|read| read.role != role);
            body.said =
                (role, if role == last { since } else { now }, if role == Role::Unknown { streak + 1 } else { 0 });
        }
        let group = self.seen_group();
        let expected = Roster::new(&group, self.set.as_ref(), &self.record).size();
        let ordinals: BTreeSet<u32> = (0..expected).chain(self.pods.keys().copied()).collect();
        let claims: Vec<_> = self.volumes.iter().map(|(o, v)| (db(*o), v.claim(*o))).collect();
        let record = memory::recall(self.record.clone(), "db", claims.iter().map(|(m, c)| (m, c)));
        let present: Vec<_> = ordinals.iter().map(|o| db(*o)).collect();
        let left_claims = memory::left(&record, "db", &present, claims.iter().map(|(m, c)| (m, c)));
        let evidence = record.intents.iter().filter_map(|i| Some((i.token.clone(), self.evidence(i)?))).collect();
        let mut snapshot = Snapshot {
            moving: None,
            now,
            began: self.began,
            nonce: format!("n{}", self.rounds),
            group: group.clone(),
            objects: self.objects.clone(),
            set: self.set.clone(),
            members: ordinals.iter().map(|o| self.member(*o)).collect(),
            evidence,
            nodes: self.nodes_known.then(|| self.nodes.clone()),
            nodes_at: now,
            deleted_nodes: self.deleted_nodes.clone(),
            gone_pods: BTreeMap::new(),
            ended: self.ended.clone(),
            lists: self.lists(),
            answers: self.answers.clone(),
            surplus_claims: self.surplus_claims.clone(),
            left_claims,
            cluster_state: self.cluster_state.clone(),
            strangers: BTreeSet::new(),
            record,
        };
        // While a member may lead, or an administrator may act by hand, data changes.
        if snapshot.data_may_move() {
            self.pods.values_mut().filter_map(|b| b.read.as_mut()).for_each(|r| r.led = true);
            snapshot.members.iter_mut().for_each(|m| m.position_stale = true);
        }
        snapshot
    }

    /// The group as the operator reads it: with the number of members that policies let in last.
    pub fn seen_group(&self) -> Group {
        let requested = GroupSize { replicas: self.group.replicas, primaries: self.group.primaries };
        let counts = self.record.admitted.filter(|size| size.replicas != requested.replicas).unwrap_or(requested);
        Group { replicas: counts.replicas, primaries: counts.primaries, requested, ..self.group.clone() }
    }

    fn member(&self, ordinal: u32) -> Member {
        let claims = self.volumes.get(&ordinal).map(|v| v.claim(ordinal)).into_iter().collect();
        let mut member = Member {
            name: db(ordinal),
            ordinal,
            pod: None,
            claims,
            reading: Reading::default(),
            position: Position::NotAsked,
            position_at: 0,
            position_stale: false,
            asked: false,
            conditions: Vec::new(),
        };
        let Some(body) = self.pods.get(&ordinal) else { return member };
        let (role, since, unknown_streak) = body.said;
        let detail = (role == Role::Unknown).then(|| "no answer".to_owned());
        member.pod = Some(body.pod.clone());
        let runs = |e: &&Exec| e.intent.pod_uid == body.pod.uid && e.works_at.is_some();
        let running = self.execs.values().find(runs).filter(|_| self.group.runner).map(|e| e.intent.token.clone());
        let processes = body.app.processes;
        member.reading = Reading { role, detail, since, unknown_streak, processes, running, contact: None };
        if let Some(Read { container, position, at, role: then, led }) = &body.read {
            let patience = match position {
                Position::Unknown(_) => 10,
                _ => 30,
            };
            if *container == body.container_id() && *then == role && self.now - at < patience {
                (member.position, member.position_at, member.position_stale) = (position.clone(), *at, *led);
            }
        }
        member
    }

    /// As the runner would tell: nothing when the pod is another one, not started when the token never came.
    fn evidence(&self, intent: &Intent) -> Option<tanist_core::snapshot::Evidence> {
        use tanist_core::snapshot::Evidence;
        let body = self.pods.values().find(|b| b.pod.uid == intent.pod_uid)?;
        if body.pod.phase == Phase::Unreachable {
            return None;
        }
        if body.container_id() != intent.container_id {
            return Some(Evidence::Interrupted);
        }
        let never = || Evidence::NotStarted(tanist_protocol::why::Word::Void.into());
        Some(self.execs.get(&intent.token).map_or_else(never, |e| e.evidence(self.now)))
    }

    /// One round. Whether anything was done or remembered.
    pub fn round(&mut self, policies: &dyn Policies) -> (Snapshot, Plan, bool) {
        self.work();
        self.rounds += 1;
        let snapshot = self.observe();
        let plan = decide(&snapshot, policies);
        for decision in plan.decisions.iter().filter(|d| d.chosen.is_some()) {
            self.say(on_one_line(decision));
        }
        oracle::judge(self, &snapshot, &plan);
        self.events.of_plan(&snapshot, &plan);
        let record = self.record.clone();
        self.act(&snapshot, &plan);
        self.work();
        let changed = !plan.actions.is_empty() || self.record != record;
        (snapshot, plan, changed)
    }

    /// Writes what the plan remembers and does what it says.
    pub fn act(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let update = |action| match action {
            &Action::DeletePod { ref member, ref pod_uid, cause: DeletionCause::Update, .. } => {
                Some((member, pod_uid.as_str()))
            }
            _ => None,
        };
        let updated: Vec<_> = plan.actions.iter().filter_map(update).collect();
        let held = recheck_update(snapshot, snapshot, &updated);
        held.unwrap_or_else(|(member, v)| panic!("{member}: nothing changed, and {v}"));
        for action in &plan.actions {
            let held = match action {
                Action::Run { intent, .. } => recheck(snapshot, snapshot, intent).map(drop),
                Action::DeletePod { member, pod_uid, cause, .. } => {
                    recheck_deletion(snapshot, snapshot, member, pod_uid, *cause).map(drop)
                }
                Action::Scale { replicas } => recheck_scaling(snapshot, snapshot, *replicas).map(drop),
                Action::DeleteClaim { uid, .. } => recheck_discard(snapshot, snapshot, uid).map(drop),
                _ => Ok(()),
            };
            held.unwrap_or_else(|v| panic!("{action:?}: nothing changed, and {v}"));
        }
        self.record.clone_from(&plan.record);
        for action in &plan.actions {
            self.carry_out(action);
        }
    }

    /// Lets the world move up to now: commands work, members arrive in their roles, the kubelet ends what the API forgot.
    pub fn work(&mut self) {
        let now = self.now;
        let due: Vec<_> = self.execs.values().filter(|e| e.works_at.is_some_and(|at| at <= now)).cloned().collect();
        for exec in due {
            self.execs.get_mut(&exec.intent.token).unwrap().works_at = None;
            self.effect(&exec);
        }
        let arriving = |b: &mut Body| b.app.next.take_if(|(_, at)| *at <= now).map(|(role, _)| role);
        let arrived: Vec<_> = self.pods.iter_mut().filter_map(|(o, b)| Some((*o, arriving(b)?))).collect();
        arrived.into_iter().for_each(|(ordinal, role)| self.arrive(ordinal, role));
        self.elect();
        self.replicate();
        let (nodes, deleted) = (&self.nodes, &self.deleted_nodes);
        self.ghosts.retain(|g| match nodes.get(&g.node) {
            // Its kubelet goes on, and hears of the deleted pod.
            None => deleted.get(&g.node).is_some_and(|at| now < g.since.max(*at) + g.grace + 29),
            Some(n) if n.out_of_service => false,
            Some(n) => !n.ready || now < g.since.max(n.since) + g.grace + 29,
        });
    }

    /// The application dies, its container is replaced.
    pub fn restart(&mut self, ordinal: u32) {
        let id = self.birth("c");
        self.cancel(ordinal);
        let body = self.body(ordinal);
        body.app = App::stopped();
        body.pod.containers.insert("db".into(), Container { id: Some(id), running: true, ready: true });
    }

    /// Commands end with the container in which they run.
    fn cancel(&mut self, ordinal: u32) {
        let Some(uid) = self.pods.get(&ordinal).map(|b| b.pod.uid.clone()) else { return };
        self.execs.values_mut().filter(|e| e.intent.pod_uid == uid).for_each(|e| e.works_at = None);
    }

    /// An orderly deletion: the last status shows every container ended.
    pub fn delete(&mut self, ordinal: u32) {
        self.cancel(ordinal);
        let Some(body) = self.pods.remove(&ordinal) else { return };
        self.ended.insert(body.pod.uid);
        if self.respawn {
            self.new_pod(ordinal);
        }
    }

    /// A forced deletion: the API forgets the pod, its processes live on.
    pub fn forget(&mut self, ordinal: u32) {
        let Some(body) = self.pods.remove(&ordinal) else { return };
        let node = body.pod.node.clone().unwrap_or_default();
        let grace = i64::from(body.pod.grace);
        let volume = self.volumes.get(&ordinal).map(|v| v.uid.clone()).unwrap_or_default();
        let (pod_uid, since, app) = (body.pod.uid, self.now, body.app);
        self.ghosts.push(Ghost { pod_uid, ordinal, volume, node, grace, since, app });
        if self.respawn {
            self.new_pod(ordinal);
        }
    }

    pub fn say(&mut self, what: String) {
        self.log.push(format!("+{} {what}", self.now - START));
    }

    /// Plays rounds until nothing moves, waiting at most so many seconds in all. The last plan.
    pub fn play(&mut self, policies: &dyn Policies, seconds: i64) -> (Snapshot, Plan) {
        let end = self.now + seconds;
        for _ in 0..500 {
            let (snapshot, plan, changed) = self.round(policies);
            if changed {
                continue;
            }
            let working = self.execs.values().filter_map(|e| e.works_at);
            let arriving = self.pods.values().filter_map(|b| Some(b.app.next?.1));
            let next = plan.wake_at().into_iter().chain(working).chain(arriving).filter(|at| *at > self.now).min();
            match next {
                Some(at) if at <= end => self.now = at,
                _ if self.now < end => self.now = end,
                _ => {
                    // Every story ends with: plan again, nothing.
                    let again = decide(&self.observe(), policies);
                    assert!(
                        again.actions.is_empty() && again.record == self.record,
                        "planned again: {:?}",
                        again.actions
                    );
                    return (snapshot, plan);
                }
            }
        }
        let snapshot = self.observe();
        let plan = decide(&snapshot, policies);
        panic!("no calm after 500 rounds:\n{}\n{:#?}\n{:#?}", self.log.join("\n"), plan.actions, plan.waits);
    }
}

pub fn ordinal(member: &MemberName) -> u32 {
    member
        .as_str()
        .rsplit_once('-')
        .and_then(|(_, n)| n.parse().ok())
        .unwrap_or_else(|| panic!("{member} has no number"))
}
