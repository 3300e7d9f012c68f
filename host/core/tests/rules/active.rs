//! Active/passive groups: the members run by themselves, and exactly one of them is active (docs/rules.md, "Active/passive"; E22 to E26).
use super::super::support::db;
use super::super::support::policies::{Natural, Reversed};
use super::super::support::world::World;
use tanist_core::checked::{recheck_deletion, recheck_scaling, recheck_turn};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::evidence::{Ended, probed};
use tanist_core::plan::{Action, DeletionCause, Plan, Reason};
use tanist_core::policy::{Answered, Policies, Question, Unanswered};
use tanist_core::record::Record;
use tanist_core::snapshot::{Node, Pod, Snapshot};

/// An active/passive group, its pods, and the controller of its `StatefulSet`.
pub(super) struct Group {
    pub now: Snapshot,
    made: u32,
}

impl Group {
    /// Three members whose pods are new.
    pub(super) fn new() -> Self {
        let mut now = World::settled(10_000).observe();
        now.group.active_passive = true;
        now.group.commands.secondary = None;
        now.record = Record::default();
        now.nodes = Some(["n0", "n1", "n2"].map(|name| (name.to_owned(), node())).into());
        let mut group = Group { now, made: 0 };
        (0..group.now.members.len()).for_each(|at| group.make(at));
        group
    }

    /// The same once all are well and db-0 is active.
    pub(super) fn settled() -> Self {
        let mut group = Group::new();
        (0..3).for_each(|at| group.say(at, Role::Secondary));
        group.play(5);
        assert_eq!(group.active(), ["db-0"]);
        group
    }

    /// The member gets a new pod, which runs and is not well yet.
    pub(super) fn make(&mut self, at: usize) {
        self.made += 1;
        let (made, since) = (self.made, self.now.now);
        let member = &mut self.now.members[at];
        // Each has a volume; nothing is remembered of it.
        member.position = Position::NotAsked;
        let pod = member.pod.as_mut().unwrap();
        (pod.uid, pod.phase, pod.phase_since) = (format!("pod-{made}"), Phase::Running, since);
        (pod.routed, pod.gate, pod.ready, pod.node) = (None, None, false, Some(format!("n{at}")));
        (pod.outdated, pod.older_template) = (false, false);
        self.say(at, Role::Failed);
    }

    /// What `status` says from now on.
    pub(super) fn say(&mut self, at: usize, role: Role) {
        let reading = &mut self.now.members[at].reading;
        reading.unknown_streak = if role == Role::Unknown { reading.unknown_streak + 1 } else { 0 };
        (reading.role, reading.detail) = (role, (role == Role::Failed).then(|| "status exited 1".into()));
    }

    pub(super) fn pod(&mut self, at: usize) -> &mut Pod {
        self.now.members[at].pod.as_mut().unwrap()
    }

    /// Members that have the label.
    pub(super) fn active(&self) -> Vec<&str> {
        self.now.members.iter().filter(|m| m.leads_clients()).map(|m| m.name.as_str()).collect()
    }

    pub(super) fn round(&mut self) -> Plan {
        self.round_by(&Natural)
    }

    /// One round: what it plans is done, after the second looks that the operator takes. Never are there two active members (E24).
    pub(super) fn round_by(&mut self, policies: &dyn Policies) -> Plan {
        let plan = decide(&self.now, policies);
        let decided = self.now.clone();
        self.now.now += 1;
        self.now.record = plan.record.clone();
        for action in &plan.actions {
            match action {
                Action::Route { member, pod_uid, role, ready, .. } => {
                    // As the operator does; the second look sees what this round wrote before.
                    let has_label = decided.member(member).is_some_and(|member| member.leads_clients());
                    if *role == Some("primary") && !has_label {
                        recheck_turn(&decided, &self.now, member, pod_uid).unwrap();
                    }
                    let pod = self.now.members.iter_mut().filter_map(|m| m.pod.as_mut()).find(|p| p.uid == *pod_uid);
                    let pod = pod.unwrap();
                    (pod.routed, pod.gate, pod.ready) = (role.map(str::to_owned), Some(*ready), *ready);
                }
                Action::DeletePod { member, pod_uid, cause, .. } => {
                    recheck_deletion(&decided, &decided, member, pod_uid, *cause).unwrap();
                    let at = self.now.members.iter().position(|m| m.name == *member).unwrap();
                    match cause {
                        DeletionCause::Update => self.make(at),
                        DeletionCause::Left => drop(self.now.members.remove(at)),
                        other => panic!("no pod of such a group is deleted for {other:?}"),
                    }
                }
                Action::Scale { replicas } => {
                    recheck_scaling(&decided, &decided, *replicas).unwrap();
                    self.now.set.as_mut().unwrap().replicas = *replicas;
                    self.now.members.truncate(usize::try_from(*replicas).unwrap());
                }
                other => panic!("nothing else is done for such a group: {other:?}"),
            }
        }
        let active = self.active();
        assert!(active.len() < 2, "{active:?}");
        plan
    }

    /// So many rounds, of which the last one changes nothing.
    pub(super) fn play(&mut self, rounds: usize) -> Plan {
        (1..rounds).for_each(|_| drop(self.round()));
        let before = self.now.record.clone();
        let plan = self.round();
        assert_eq!((&plan.actions, &plan.record), (&vec![], &before), "nothing is left to do");
        plan
    }

    /// The same for the first so many members.
    pub(super) fn with(members: u32) -> Self {
        let mut group = Group::settled();
        group.want(members);
        (0..5).for_each(|_| drop(group.round()));
        assert_eq!((group.active(), group.now.members.len()), (vec!["db-0"], usize::try_from(members).unwrap()));
        group
    }

    pub(super) fn want(&mut self, members: u32) {
        (self.now.group.replicas, self.now.group.requested.replicas) = (members, members);
    }

    pub(super) fn drain(&mut self, node: &str, cordoned: bool) {
        self.now.nodes.as_mut().unwrap().get_mut(node).unwrap().cordoned = cordoned;
    }

    /// `spec.template` changes.
    pub(super) fn change_template(&mut self) {
        for pod in self.now.members.iter_mut().filter_map(|m| m.pod.as_mut()) {
            (pod.outdated, pod.older_template) = (true, true);
        }
    }

    pub(super) fn waits(&self, plan: &Plan, reason: Reason) -> Vec<String> {
        plan.waits.iter().filter(|wait| wait.reason == reason).map(|wait| wait.message.clone()).collect()
    }
}

fn node() -> Node {
    Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None }
}

/// The labels that the plan gives.
pub(super) fn labels(plan: &Plan) -> Vec<(String, Option<&'static str>)> {
    let label = |action: &Action| match action {
        Action::Route { member, role, .. } => Some((member.to_string(), *role)),
        _ => None,
    };
    plan.actions.iter().filter_map(label).collect()
}

// E22, E24: of those that are well the lowest is active; when it is well no more another one is, at once, and it stays that.
#[test]
fn exactly_one_member_that_is_well_is_active() {
    let mut group = Group::new();
    let plan = group.round();
    assert_eq!((labels(&plan), plan.waits.len()), (vec![], 0), "they are starting");
    let mut unmade = Group::new();
    unmade.now.members.iter_mut().for_each(|member| member.pod = None);
    let plan = unmade.round();
    assert_eq!(unmade.waits(&plan, Reason::NoCandidate), [""; 0], "nobody was ever active");
    group.say(2, Role::Secondary);
    group.say(1, Role::Secondary);
    group.round();
    let plan = group.round();
    assert_eq!(labels(&plan), [("db-1".into(), Some("primary"))], "once that is in the record");
    group.say(0, Role::Secondary);
    group.play(3);
    assert_eq!(group.active(), ["db-1"], "who is active and well stays it");
    assert_eq!(group.now.record.term, 1);

    group.say(1, Role::Failed);
    let plan = group.round();
    assert_eq!(labels(&plan), [("db-1".into(), None)], "its label goes first");
    assert_eq!(group.waits(&plan, Reason::MemberFailed), ["db-1 is not well: status exited 1"]);
    let plan = group.round();
    assert_eq!(labels(&plan), [("db-0".into(), Some("primary"))]);
    group.say(1, Role::Secondary);
    group.play(3);
    assert_eq!((group.active(), group.now.record.term), (vec!["db-0"], 2));
    let past: Vec<_> = group.now.record.history.iter().map(|past| (past.what.as_str(), past.member.clone())).collect();
    assert_eq!(past, [("activated", Some(db(1))), ("activated", Some(db(0)))]);
}

// E24: a policy says who; it is asked when nobody is active.
#[test]
fn a_policy_chooses_among_those_that_are_well() {
    struct Asked(std::cell::RefCell<Vec<Question>>);
    impl Policies for Asked {
        fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
            self.0.borrow_mut().push(question.clone());
            Reversed.ask(question)
        }
    }
    let policies = Asked(Default::default());
    let mut group = Group::new();
    (0..2).for_each(|at| group.say(at, Role::Secondary));
    (0..4).for_each(|_| drop(group.round_by(&policies)));
    assert_eq!(group.active(), ["db-1"]);
    let asked = policies.0.into_inner();
    assert_eq!(asked.len(), 1, "once");
    let members = &asked[0].snapshot.members;
    assert!(members.iter().all(|m| m.position == Position::Empty), "there is no data that counts");
    let barred: Vec<_> = members.iter().map(|m| m.barred.as_deref()).collect();
    assert_eq!(barred, [None, None, Some("it is starting (status exited 1)")]);
}

// E26: without a member that is well nobody is active, and no Service leads anywhere.
#[test]
fn without_a_member_that_is_well_nobody_is_active() {
    let mut group = Group::settled();
    (0..3).for_each(|at| group.say(at, Role::Failed));
    let plan = group.play(3);
    assert_eq!(group.active(), [""; 0]);
    assert!(group.now.members.iter().all(|m| m.pod.as_ref().unwrap().routed.is_none()));
    let why = "no member is well, so none is active: db-0: it is failed (status exited 1); db-1: it is failed (status exited 1); db-2: it is failed (status exited 1)";
    assert_eq!(group.waits(&plan, Reason::NoCandidate), [why]);
    group.make(0);
    let plan = group.play(2);
    assert_eq!(group.waits(&plan, Reason::NoCandidate), [""; 0], "a new pod is starting");
    group.say(2, Role::Secondary);
    group.play(4);
    assert_eq!(group.active(), ["db-2"]);
}

// E23: every container counts, by its own probe, and `status` besides.
#[test]
fn every_container_has_to_be_ready() {
    let mut group = Group::settled();
    let more = group.pod(0).containers["db"].clone();
    group.pod(0).containers.insert("proxy".into(), more);
    group.play(1);
    group.pod(0).containers.get_mut("proxy").unwrap().ready = false;
    let plan = group.round();
    assert_eq!(group.waits(&plan, Reason::MemberFailed), ["db-0 is not well: its container proxy is not ready"]);
    group.play(3);
    assert_eq!(group.active(), ["db-1"]);
    let exited = |code| probed(Ended::Exited(code, Default::default()));
    assert_eq!((exited(0).role, exited(7).role, exited(10).role), (Role::Secondary, Role::Failed, Role::Failed));
    assert_eq!(exited(7).detail.as_deref(), Some("status exited 7"));
    assert_eq!(probed(Ended::Unknown("deadline".into())).role, Role::Unknown);
    assert_eq!(probed(Ended::NotStarted("refused".into())).role, Role::Unknown);
}

// S19: a probe that could not be asked for a moment changes nothing; three times in a row does.
#[test]
fn a_silent_probe_takes_nobody_out_of_service() {
    let mut group = Group::settled();
    for _ in 0..2 {
        group.say(0, Role::Unknown);
        assert_eq!(group.round().actions, []);
    }
    group.say(0, Role::Unknown);
    group.round();
    group.round();
    assert_eq!(group.active(), ["db-1"]);
}

// E24: whatever takes the pod away, the label goes with it, and a new pod under its name is another candidate.
#[test]
fn who_is_gone_is_active_no_more() {
    let ways: [fn(&mut Group); 4] = [
        |group| group.make(0),
        |group| group.pod(0).phase = Phase::Terminating,
        |group| group.pod(0).phase = Phase::Unreachable,
        |group| group.now.members[0].pod = None,
    ];
    for way in ways {
        let mut group = Group::settled();
        way(&mut group);
        (0..3).for_each(|_| drop(group.round()));
        assert_eq!(group.active(), ["db-1"]);
    }
    let mut group = Group::settled();
    group.make(0);
    group.say(0, Role::Secondary);
    group.play(4);
    assert_eq!((group.active(), group.now.record.term), (vec!["db-0"], 2), "its new pod was chosen anew");
}

// E24: the write that takes the label away was lost, or is not seen yet.
#[test]
fn no_pod_gets_the_label_while_another_one_has_it() {
    let mut group = Group::settled();
    group.say(0, Role::Failed);
    group.round();
    group.pod(0).routed = Some("primary".into());
    let plan = group.round();
    assert_eq!(labels(&plan), [("db-0".into(), None)]);
    assert_eq!(labels(&group.round()), [("db-1".into(), Some("primary"))]);
}

// E24: one that leaves is chosen only when there is nobody else.
#[test]
fn one_that_leaves_is_not_chosen_beside_one_that_stays() {
    let mut group = Group::settled();
    group.want(1);
    group.now.record = Record::default();
    (0..3).for_each(|at| group.pod(at).routed = Some("secondary".into()));
    let plan = group.round_by(&Reversed);
    assert_eq!(plan.record.active.map(|active| active.member), Some(db(0)));
}

// E24: the record is lost, or older, or somebody gave the label by hand: who has it alone and is well is active, and of two the one that the record names.
#[test]
fn the_label_says_who_was_active_when_the_record_is_lost() {
    let mut group = Group::settled();
    group.say(0, Role::Failed);
    (0..3).for_each(|_| drop(group.round()));
    group.say(0, Role::Secondary);
    group.now.record = Record::default();
    group.play(2);
    assert_eq!(group.active(), ["db-1"]);
    assert_eq!(group.now.record.active.as_ref().map(|active| &active.member), Some(&db(1)));

    group.pod(2).routed = Some("primary".into());
    let plan = group.round();
    assert_eq!(labels(&plan), [("db-2".into(), Some("secondary"))], "the record knows better");
    group.pod(2).routed = Some("primary".into());
    group.now.record = Record::default();
    let plan = group.round();
    let taken = [("db-1".into(), Some("secondary")), ("db-2".into(), Some("secondary"))];
    assert_eq!(labels(&plan), taken, "of two nobody knows which one was");
    group.play(3);
    assert_eq!(group.active(), ["db-0"]);
    // A probe that is silent gives no label.
    group.pod(1).routed = Some("primary".into());
    group.say(1, Role::Unknown);
    assert_eq!(labels(&group.round()), [("db-1".into(), Some("secondary"))]);
}
