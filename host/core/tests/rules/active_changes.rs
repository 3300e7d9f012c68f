//! Active/passive groups that are changed: templates, members that are preferred, drained or removed (docs/rules.md, "Active/passive").
use super::super::support::db;
use super::super::support::policies::{Natural, answered};
use super::active::{Group, labels};
use std::time::Duration;
use tanist_core::contract::{Answer, Delay, MemberName, Phase, Role};
use tanist_core::decide::decide;
use tanist_core::due::{Carried, due};
use tanist_core::evidence::Commands;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::policy::{Answered, Point, Policies, Question, Reply, Unanswered};
use tanist_core::record::{Active, GroupSize, Record, Seats};
use tanist_core::snapshot::{Batch, Container, Snapshot};

/// Rounds until it is at rest, in which new pods get well. Returns who got new pods, and who was active then.
fn roll_out(group: &mut Group) -> Vec<(MemberName, Vec<String>)> {
    let mut replaced = Vec::new();
    for _ in 0..60 {
        let active = group.active().into_iter().map(str::to_owned).collect();
        let plan = group.round();
        for action in &plan.actions {
            if let Action::DeletePod { member, .. } = action {
                replaced.push((member.clone(), active));
                break;
            }
        }
        (0..group.now.members.len()).for_each(|at| group.say(at, Role::Secondary));
    }
    replaced
}

// E5, E32: a changed template reaches all members, the active one last, which gives way first. Those that are not well go at once.
#[test]
fn the_active_member_is_updated_last() {
    let mut group = Group::settled();
    group.change_template();
    let replaced = roll_out(&mut group);
    let db_0 = || vec!["db-0".to_owned()];
    assert_eq!(replaced, [(db(2), db_0()), (db(1), db_0()), (db(0), vec!["db-1".to_owned()])]);
    assert_eq!(group.active(), ["db-1"]);

    group.change_template();
    group.now.members.iter_mut().for_each(|m| m.reading.role = Role::Failed);
    let plan = group.round();
    let deleted = |plan: &Plan| plan.actions.iter().filter(|a| matches!(a, Action::DeletePod { .. })).count();
    assert_eq!(deleted(&plan), 2, "the cure for two that are not well; the active one has its label still");
    assert_eq!(deleted(&group.round()), 1);

    // A container that ends again and again.
    let mut group = Group::settled();
    group.change_template();
    group.now.members.iter_mut().for_each(|member| member.claims.clear());
    (0..3).for_each(|at| group.pod(at).phase = Phase::Pending);
    group.round();
    assert_eq!(deleted(&group.round()), 1, "the one that had the label; the others went before");
    assert!(group.now.members.iter().all(|m| !m.pod.as_ref().unwrap().older_template));
}

// B27: members without volumes go together, because no data is lost; a group of one member is updated as well.
#[test]
fn members_without_volumes_go_together() {
    let mut group = Group::settled();
    group.now.group.update.batch = Batch::All;
    group.now.members.iter_mut().for_each(|member| member.claims.clear());
    group.change_template();
    let plan = group.round();
    let gone = |plan: &Plan| plan.actions.iter().filter(|a| matches!(a, Action::DeletePod { .. })).count();
    assert_eq!(gone(&plan), 2);
    let mut alone = Group::with(1);
    alone.now.members[0].claims.clear();
    alone.change_template();
    assert_eq!(gone(&alone.round()), 1);
    roll_out(&mut alone);
    assert_eq!(alone.active(), ["db-0"]);
}

// E32: the preferred member gets its new pod before it is active again.
#[test]
fn a_preferred_member_gives_way_once_for_its_new_pod() {
    let mut group = Group::settled();
    group.now.group.preferred_primary = Some(db(0));
    group.play(1);
    group.change_template();
    let replaced: Vec<_> = roll_out(&mut group).into_iter().map(|(member, _)| member).collect();
    assert_eq!(replaced, [db(2), db(1), db(0)]);
    assert_eq!((group.active(), group.now.record.term), (vec!["db-0"], 3));
    group.play(2);
}

// E24: of two members the active one does not give way to one that would have to give way at once.
#[test]
fn the_label_does_not_go_back_and_forth() {
    let mut group = Group::with(2);
    group.now.group.preferred_primary = Some(db(0));
    group.drain("n0", true);
    let plan = group.play(6);
    assert_eq!((group.active(), group.now.record.term), (vec!["db-1"], 2));
    let waits = group.waits(&plan, Reason::SwitchoverPending);
    assert_eq!(
        waits,
        ["db-0 is to lead in place of db-1, and nobody can be active in its place: its node is to be drained"]
    );
    group.drain("n0", false);
    group.play(6);
    assert_eq!(group.active(), ["db-0"]);
    group.change_template();
    let replaced: Vec<_> = roll_out(&mut group).into_iter().map(|(member, _)| member).collect();
    assert_eq!((replaced, group.active()), (vec![db(1), db(0)], vec!["db-0"]));
    assert_eq!(group.now.record.term, 5);
    group.play(1);
}

// The second look has the record from before the round: with a lost one nobody goes in the round in which the label says who is active.
#[test]
fn nobody_goes_in_the_round_in_which_a_lost_record_is_made_anew() {
    let ways: [fn(&mut Group); 2] = [Group::change_template, |group| group.want(2)];
    for way in ways {
        let mut group = Group::settled();
        group.now.record = Record::default();
        way(&mut group);
        let plan = group.round();
        assert_eq!((&plan.actions, plan.record.active.is_some()), (&vec![], true));
        let next = group.round();
        assert!(matches!(next.actions.last(), Some(Action::DeletePod { .. } | Action::Scale { .. })), "{next:?}");
    }
}

// E32: a policy that decides about updates says when the active member gives way.
#[test]
fn a_policy_says_when_the_active_member_is_updated() {
    struct Later;
    impl Policies for Later {
        fn has(&self, _: Point) -> bool {
            true
        }

        fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
            let waits = Reply::Answer(Answer::Wait(Delay { reason: "at night".into(), until: None }));
            if question.point == Point::Update { answered("later", waits) } else { Natural.ask(question) }
        }
    }
    let mut group = Group::settled();
    group.pod(0).outdated = true;
    group.pod(0).older_template = true;
    let plan = group.round_by(&Later);
    assert_eq!((&plan.actions, group.active()), (&vec![], vec!["db-0"]));
    assert_eq!(plan.record.active.as_ref().map(|active| &active.member), Some(&db(0)));
    group.round();
    assert_eq!(group.now.record.active.as_ref().map(|active| &active.member), Some(&db(1)));
}

// E22: a member that is to go is there until the one that comes in its place is well.
#[test]
fn a_member_that_is_to_go_waits_for_the_one_in_its_place() {
    let mut group = Group::with(2);
    group.now.group.makes_pods = true;
    group.now.record.seats = Some(Seats { numbers: [0, 1].into(), next: 2, ..Seats::default() });
    group.play(1);
    group.now.group.unwanted = [1].into();
    for _ in 0..3 {
        let plan = group.round();
        assert!(!plan.actions.iter().any(|a| matches!(a, Action::DeletePod { .. })), "{plan:?}");
    }
    let mut third = Group::settled().now.members[2].clone();
    third.pod.as_mut().unwrap().routed = None;
    group.now.members.push(third);
    (0..4).for_each(|_| drop(group.round()));
    let names: Vec<_> = group.now.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["db-0", "db-2"]);
}

/// A policy that has every question.
struct All;

impl Policies for All {
    fn has(&self, _: Point) -> bool {
        true
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        Natural.ask(question)
    }
}

// P53: policies may delay another number of members.
#[test]
fn a_policy_lets_members_in() {
    let group = Group::settled();
    let mut s = group.now.clone();
    (s.group.requested.replicas, s.group.replicas) = (5, 3);
    s.record.admitted = Some(GroupSize { replicas: 3, primaries: 1 });
    let plan = decide(&s, &All);
    assert_eq!(plan.decisions.iter().map(|decision| decision.point).collect::<Vec<_>>(), [Point::Admit]);
}

// Of pods that do not run it is said that they do not, and not that somebody has to help.
#[test]
fn a_pod_that_ends_is_no_failure() {
    let mut group = Group::with(1);
    group.pod(0).phase = Phase::Terminating;
    let plan = group.round();
    let reasons: Vec<_> = plan.waits.iter().map(|wait| wait.reason).collect();
    assert_eq!(reasons, [Reason::PodsNotRunning]);
}

// E24: an operator was frozen just before it gave a label that was decided on long ago: whatever ended that turn has changed the pod.
#[test]
fn a_pod_without_a_label_gets_the_other_one_first() {
    let mut group = Group::settled();
    group.pod(0).routed = None;
    group.pod(0).gate = Some(false);
    assert_eq!(labels(&group.round()), [("db-0".into(), Some("secondary"))]);
    assert_eq!(labels(&group.round()), [("db-0".into(), Some("primary"))]);
}

// E24, E26: whatever happens there are never two active members, and when it stops one of those that are well is, each of the others has the other label, and nothing more is written.
#[test]
fn whatever_happens_one_member_is_active_in_the_end() {
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let mut group = Group::settled();
        group.want(if seed % 3 == 0 { 2 } else { 3 });
        for _ in 0..80 {
            happen(&mut group, &mut dice);
            (0..dice.below(3)).for_each(|_| drop(group.round()));
        }
        group.now.members.iter_mut().for_each(|member| member.pod.as_mut().unwrap().phase = Phase::Running);
        (0..group.now.members.len()).for_each(|at| group.say(at, Role::Secondary));
        roll_out(&mut group);
        (0..group.now.members.len()).for_each(|at| group.say(at, Role::Secondary));
        group.play(3);
        assert_eq!(group.active().len(), 1, "seed {seed}");
        let active = group.now.record.active.as_ref().map(|active| &active.member);
        for member in &group.now.members {
            let label = if Some(&member.name) == active { "primary" } else { "secondary" };
            assert_eq!(member.pod.as_ref().unwrap().routed.as_deref(), Some(label), "seed {seed}: {}", member.name);
        }
    }
}

/// One thing that may happen to a group.
fn happen(group: &mut Group, dice: &mut Dice) {
    let at = dice.below(group.now.members.len());
    match dice.below(12) {
        0 => group.say(at, Role::Failed),
        1 | 2 => group.say(at, Role::Secondary),
        3 => group.say(at, Role::Unknown),
        4 => group.make(at),
        5 => group.pod(at).phase = [Phase::Running, Phase::Terminating, Phase::Unreachable][dice.below(3)],
        6 => group.change_template(),
        7 => group.now.group.preferred_primary = [None, Some(db(0)), Some(db(1))][dice.below(3)].clone(),
        8 => group.drain(["n0", "n1", "n2"][dice.below(3)], dice.below(2) == 0),
        // The status was removed.
        9 => group.now.record = Record::default(),
        10 => group.pod(at).routed = [None, Some("secondary".to_owned())][dice.below(2)].clone(),
        _ => group.now.now += 60,
    }
}

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

// A member that is preferred, a drain, a scale-down: the label moves on purpose, to one that is well.
#[test]
fn the_active_member_gives_way_on_purpose() {
    let mut group = Group::settled();
    group.now.group.preferred_primary = Some(db(2));
    group.say(2, Role::Failed);
    group.round();
    let plan = group.play(2);
    let waits = group.waits(&plan, Reason::SwitchoverPending);
    assert!(
        waits[0].starts_with("db-2 is to lead in place of db-0, and nobody can be active in its place: "),
        "{waits:?}"
    );
    assert!(waits[0].contains("it is failed (status exited 1)") && !waits[0].contains("it is the active"), "{waits:?}");
    group.say(2, Role::Secondary);
    let plan = group.round();
    assert_eq!(labels(&plan), [("db-2".into(), Some("secondary"))], "db-0 keeps its label until that is stored");
    group.play(5);
    assert_eq!(group.active(), ["db-2"]);

    group.now.group.preferred_primary = None;
    ["n2", "n0"].into_iter().for_each(|node| group.drain(node, true));
    group.play(6);
    assert_eq!(group.active(), ["db-1"], "not db-0, whose node is to be drained, too");
    group.drain("n1", true);
    group.play(2);
    assert_eq!(group.active(), ["db-1"], "there is no better place");

    group.want(1);
    let plan = group.round();
    assert!(!plan.actions.iter().any(|a| matches!(a, Action::Scale { .. })), "the active one leaves: the label first");
    (0..8).for_each(|_| drop(group.round()));
    assert_eq!((group.active(), group.now.members.len()), (vec!["db-0"], 1));
    group.want(0);
    assert_eq!(group.round().record.active, None, "it gives way before its pod goes");
    (0..2).for_each(|_| drop(group.round()));
    assert_eq!((group.now.members.len(), group.now.record.active.clone()), (0, None));
}

// A scale-down takes nobody away while only members that leave are well.
#[test]
fn nobody_leaves_while_only_those_that_leave_are_well() {
    let mut group = Group::settled();
    group.say(0, Role::Failed);
    group.want(1);
    (0..5).for_each(|_| drop(group.round()));
    assert_eq!((group.active(), group.now.members.len()), (vec!["db-1"], 3));
    group.say(0, Role::Secondary);
    (0..5).for_each(|_| drop(group.round()));
    assert_eq!((group.active(), group.now.members.len()), (vec!["db-0"], 1));
}

// E5, E25: nor is the way down held up by one that leaves and whose pod cannot start: the lead moves, and its pod goes with the others (simulator, seed 7003517).
#[test]
fn one_that_leaves_and_cannot_start_holds_up_nobody() {
    let mut group = Group::settled();
    group.say(0, Role::Failed);
    (0..5).for_each(|_| drop(group.round()));
    assert_eq!(group.active(), ["db-1"]);
    group.say(0, Role::Secondary);
    let pod = group.pod(2);
    (pod.phase, pod.older_template, pod.outdated, pod.ready) = (Phase::Pending, true, true, false);
    pod.containers.values_mut().for_each(|container| *container = Container { id: None, running: false, ready: false });
    group.want(1);
    (0..8).for_each(|_| drop(group.round()));
    assert_eq!((group.active(), group.now.members.len()), (vec!["db-0"], 1));
}

// A decision of a round counts once it is stored: another operator that was frozen has decided otherwise.
#[test]
fn the_label_follows_what_is_stored() {
    let mut group = Group::settled();
    group.say(0, Role::Failed);
    group.round();
    let before = group.now.record.clone();
    let plan = decide(&Snapshot { record: Record { active: None, ..before }, ..group.now.clone() }, &Natural);
    assert_eq!(labels(&plan), [], "db-1 is chosen, and not stored as the active one");
    assert_eq!(plan.record.active, Some(Active { member: db(1), pod_uid: "pod-2".into() }));
}

// E23: nobody else watches them, so they are asked twice a minute; the user may want it more often.
#[test]
fn members_are_asked_twice_a_minute() {
    let mut group = Group::settled();
    let plan = group.play(1);
    let next = |group: &Group, resync| {
        let carried = Carried { done: &[], retry: None, resync: Duration::from_secs(resync), now: group.now.now };
        due(&group.now, &plan, &Commands::default(), carried).as_secs()
    };
    assert_eq!((next(&group, 60), next(&group, 10)), (30, 10));
    group.now.group.active_passive = false;
    assert_eq!(next(&group, 60), 60);
}

// A paused group is left as it is.
#[test]
fn a_pause_leaves_the_label_where_it_is() {
    let mut group = Group::settled();
    group.now.group.paused = true;
    group.say(0, Role::Failed);
    assert_eq!(group.round().actions, []);
    assert_eq!(group.active(), ["db-0"]);
}
