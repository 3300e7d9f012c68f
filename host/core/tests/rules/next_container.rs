//! A start whose container ended before it is known what became of it: the request may still be under way, and would reach the next container of the same pod.
use super::super::support::app::Behaviour;
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::checks::stopped;
use tanist_core::contract::Role;
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::Verb;
use tanist_core::snapshot::{Evidence, Snapshot};
use tanist_protocol::why::Word;

/// A group that is about to be seeded by db-0, whose container was replaced since, and what is known of the command.
fn seeding(evidence: Option<Evidence>) -> (World, Snapshot) {
    let mut world = stopped();
    world.behaviours.push((db(0), "primary".into(), Behaviour::Works(30), false));
    world.round(&Natural);
    world.now += 10;
    world.restart(0);
    let mut s = world.observe();
    let token = s.record.intents.first().map(|intent| intent.token.clone()).expect("it is being seeded");
    s.evidence.clear();
    s.evidence.extend(evidence.map(|evidence| (token, evidence)));
    (world, s)
}

fn is_open(plan: &Plan) -> bool {
    plan.record.intents.iter().any(|intent| intent.verb == Verb::Seed && intent.member == db(0))
}

// S1: until its runner says what became of the command, nobody else is seeded: the runner would start it in the next container.
#[test]
fn a_start_that_may_reach_the_next_container_stays_open() {
    for evidence in [None, Some(Evidence::Running), Some(Evidence::Unknown("the stream broke".into()))] {
        let (_, s) = seeding(evidence.clone());
        let plan = decide(&s, &Natural);
        let runs = plan.actions.iter().any(|action| matches!(action, Action::Run { .. }));
        assert!(is_open(&plan) && !runs, "{evidence:?}: {:?}", plan.actions);
        assert!(plan.waits.iter().any(|wait| wait.reason == Reason::OutcomeUnknown), "{evidence:?}");
    }
}

// What the runner says is final: it starts that token no more.
#[test]
fn the_runner_of_the_next_container_settles_it() {
    let ended = |word: Word| Evidence::Unknown(word.into());
    for evidence in [
        Evidence::Interrupted,
        Evidence::Exited(1),
        Evidence::NotStarted(Word::Void.into()),
        // It ended the command itself, when its container got SIGTERM or at the deadline, and has the token as used.
        ended(Word::ShuttingDown),
        ended(Word::Deadline),
        ended(Word::Forgotten),
    ] {
        let (_, s) = seeding(Some(evidence.clone()));
        assert!(!is_open(&decide(&s, &Natural)), "{evidence:?}");
    }
    // It does not know what became of it: its disk cannot be read.
    let (_, s) = seeding(Some(ended(Word::Storage)));
    assert!(is_open(&decide(&s, &Natural)));
}

// A start that did reach the next container worked, and its role shows that.
#[test]
fn a_start_that_reached_the_next_container_counts() {
    for evidence in [None, Some(Evidence::Exited(0))] {
        let (mut world, _) = seeding(None);
        world.serve(0, Role::Primary);
        let mut s = world.observe();
        let (token, term) = (s.record.intents[0].token.clone(), s.record.intents[0].term);
        s.evidence.clear();
        s.evidence.extend(evidence.clone().map(|evidence| (token, evidence)));
        let plan = decide(&s, &Natural);
        assert!(!is_open(&plan), "{evidence:?}");
        assert_eq!(plan.record.member(&db(0)).term, Some(term), "{evidence:?}");
    }
}

// Without the runner nobody can be asked: only while this process waits for the end of the execution it may still begin.
#[test]
fn without_the_runner_the_end_of_the_execution_decides() {
    for (evidence, open) in [(Evidence::Running, true), (Evidence::Unknown("the stream broke".into()), false)] {
        let (_, mut s) = seeding(Some(evidence.clone()));
        s.group.runner = false;
        assert_eq!(is_open(&decide(&s, &Natural)), open, "{evidence:?}");
    }
}

// S9: what ran in the container that ended is stopped, so the stop worked. One that did not stop the member that runs now may arrive late, when the member leads again: it stays open until the
// runner says. While the next container is not there nobody can be asked, and a takeover does not wait for it.
#[test]
fn a_stop_ends_with_its_container() {
    let is_open = |role: Role, runs: bool, evidence: Option<Evidence>| {
        let (_, mut s) = seeding(evidence);
        s.record.intents[0].verb = Verb::Demote;
        s.members[0].reading.role = role;
        s.members[0].pod.as_mut().unwrap().containers.get_mut("db").unwrap().running = runs;
        decide(&s, &Natural).record.intents.iter().any(|intent| intent.verb == Verb::Demote)
    };
    assert!(!is_open(Role::Stopped, true, None));
    assert!(is_open(Role::Failed, true, None));
    assert!(!is_open(Role::Failed, true, Some(Evidence::NotStarted(Word::Void.into()))), "it is void");
    assert!(!is_open(Role::Unknown, false, None));
}

// A container that never comes back holds the group up for no longer than any command of unknown outcome: then its pod goes.
#[test]
fn a_container_that_does_not_come_back_costs_its_pod() {
    let (_, mut s) = seeding(None);
    s.now += 5_000;
    let pod = s.members[0].pod.as_mut().unwrap();
    pod.phase = tanist_core::contract::Phase::Pending;
    pod.containers.get_mut("db").unwrap().running = false;
    let plan = decide(&s, &Natural);
    assert!(plan.actions.iter().any(|action| matches!(action, Action::DeletePod { member, .. } if *member == db(0))));
}

// S20, S21: the pod goes before the command is settled. The node that it ran on is still known, and proves in time that nothing of it runs.
#[test]
fn a_pod_that_goes_before_its_start_is_settled_is_proven_over_by_its_node() {
    let (_, mut s) = seeding(None);
    s.record = decide(&s, &Natural).record;
    let node = s.record.last_primaries.iter().map(|last| last.node.clone()).collect::<Vec<_>>();
    assert!(matches!(node.as_slice(), [Some(_)]), "{node:?}");
    s.members.iter_mut().filter(|member| member.name == db(0)).for_each(|member| member.pod = None);
    s.record = decide(&s, &Natural).record;
    assert!(!s.record.intents.is_empty(), "it may run on its node");
    (s.now, s.nodes_at) = (s.now + 100_000, s.now + 100_000);
    assert!(!is_open(&decide(&s, &Natural)));
}
