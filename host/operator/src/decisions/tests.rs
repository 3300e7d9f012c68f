use super::*;
use crate::mock;
use crate::policies::builtin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tanist_core::contract::{Group, Member, Phase, Position, Role, Sequence, Snapshot};
use tanist_core::policy::{Point, Question};
use tanist_engine::{Layer, Policy, Stack};

fn question() -> Question {
    let member = Member {
        name: "db-0".into(),
        ordinal: 0,
        phase: Phase::Running,
        phase_since: 1,
        ready: false,
        role: Role::Stopped,
        role_since: 1,
        role_detail: None,
        last_primary: None,
        term: None,
        position: Position::Known(Sequence { history: None, number: 1 }),
        node: None,
        zone: None,
        failures: 0,
        last_failure: None,
        marked: None,
        conditions: vec![],
        labels: vec![],
        facts: vec![],
        barred: None,
    };
    let group = Group {
        name: "db".into(),
        namespace: "shop".into(),
        replicas: 1,
        primaries: 1,
        has_secondaries: true,
        term: 0,
        preferred_primary: None,
        high_water: None,
        labels: vec![],
        facts: vec![],
    };
    let snapshot = Snapshot { now: 1, group, members: vec![member], history: vec![], parameters: "{}".into() };
    Question { point: Point::Seed, snapshot }
}

/// A decision that ends when the sender is dropped.
fn blocked() -> (mpsc::Sender<()>, impl FnOnce() -> ((), bool) + Send + 'static) {
    let (sender, receiver) = mpsc::channel::<()>();
    let wait = move || {
        // The end of the channel is what is waited for.
        let _ = receiver.recv();
        ((), true)
    };
    (sender, wait)
}

// H24: slow groups leave a place free for the others, whatever they do with theirs.
#[tokio::test]
async fn slow_groups_leave_a_place_free() {
    let decisions = Arc::new(Decisions::new(2));
    for group in ["slow-1", "slow-2"] {
        decisions.run(group, || ((), true)).await.unwrap();
        assert!(decisions.is_slow(group));
    }
    let mut ends = Vec::new();
    for group in ["slow-1", "slow-2"] {
        let (end, decide) = blocked();
        ends.push(end);
        let decisions = decisions.clone();
        tokio::spawn(async move { decisions.run(group, decide).await });
        tokio::task::yield_now().await;
    }
    assert_eq!(decisions.run("quick", || (1, false)).await, Ok(1), "both slow groups share one place");
    assert!(!decisions.is_slow("quick"));
    drop(ends);
}

// A group that decides quickly again is no slow one any more, and a group that is gone is forgotten.
#[tokio::test]
async fn a_group_that_is_quick_again_is_not_slow() {
    let decisions = Decisions::new(2);
    decisions.run("a", || ((), true)).await.unwrap();
    decisions.run("a", || ((), false)).await.unwrap();
    assert!(!decisions.is_slow("a"));
    decisions.run("a", || ((), true)).await.unwrap();
    decisions.forget("a");
    assert!(!decisions.is_slow("a"));
}

// A decision that panics costs its own round, and no place.
#[tokio::test]
async fn a_decision_that_is_interrupted_leaves_its_place() {
    let decisions = Decisions::new(2);
    for _ in 0..3 {
        let interrupted = decisions.run("a", || -> ((), bool) { std::panic::resume_unwind(Box::new(())) }).await;
        assert_eq!(interrupted, Err(Error::Finish));
    }
    assert_eq!(decisions.run("a", || (1, false)).await, Ok(1));
}

// H24: twenty groups whose policies burn all but a little of their budget and abstain, again and again. Meanwhile another group's question is
// answered, many times, although each of theirs takes a hundred times as long.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn hostile_groups_do_not_hold_up_another_groups_question() {
    let path = std::path::Path::new(env!("TANIST_POLICY_SEQUENCE")).with_file_name("hostile.wasm");
    let engine = mock::engine();
    let hostile = Arc::new(Policy::load(&engine, "file/hostile", &std::fs::read(path).unwrap()).unwrap());
    let sequence = builtin::policy(&engine, &builtin::POLICIES[0]).unwrap();
    let burns = hostile.validate(r#"{"do":"burn","times":2000000}"#).unwrap();
    let layer = Layer { policy: hostile, points: None, parameters: burns };
    let burning = Stack::new(vec![layer.clone(), layer]);
    let quick = Stack::new(vec![Layer { policy: Arc::new(sequence), points: None, parameters: "{}".into() }]);

    let decisions = Arc::new(Decisions::new(2));
    let asked = Arc::new(AtomicUsize::new(0));
    let decide = |stack: &Stack| {
        let (stack, mut fuel) = (stack.clone(), 0);
        move || {
            let said = stack.ask_and_note(&question(), &mut |_, _, used| fuel += used);
            (said.is_ok(), is_slow(fuel, 1))
        }
    };
    let hostile: Vec<_> = (0..20)
        .map(|number| {
            let (decisions, asked, burning) = (decisions.clone(), asked.clone(), burning.clone());
            tokio::spawn(async move {
                loop {
                    let decided = decisions.run(&format!("hostile-{number}"), decide(&burning)).await;
                    assert_ne!(decided, Ok(true), "it answers nothing");
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    // All of them are known to be slow, and go on.
    let all_slow = async {
        while !(0..20).all(|number| decisions.is_slow(&format!("hostile-{number}"))) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), all_slow).await.expect("they are slow");
    let before = asked.load(Ordering::SeqCst);
    for _ in 0..50 {
        assert_eq!(decisions.run("quick", decide(&quick)).await, Ok(true));
    }
    // In one queue each answer would wait for ten of theirs.
    let meanwhile = asked.load(Ordering::SeqCst) - before;
    assert!(meanwhile < 50 * 4, "50 answers waited for {meanwhile} questions of hostile groups");
    assert!(!decisions.is_slow("quick"));
    assert!(hostile.iter().all(|task| !task.is_finished()), "one of them got an answer");
    hostile.iter().for_each(tokio::task::JoinHandle::abort);
}
