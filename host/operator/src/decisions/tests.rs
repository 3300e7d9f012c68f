use super::*;
use crate::mock;
use crate::policies::builtin;
use rustix::process::getpriority_process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tanist_core::examples;
use tanist_core::policy::{Point, Question};
use tanist_engine::{Layer, Policy, Stack};

const QUICK: Pace = Pace { slow: false, cut_off: false };
const SLOW: Pace = Pace { slow: true, cut_off: false };
const CUT_OFF: Pace = Pace { slow: true, cut_off: true };
/// It hardly got a processor, so it used hardly any fuel.
const STARVED: Pace = Pace { slow: false, cut_off: true };

fn is_slow_group(decisions: &Decisions, group: &str) -> bool {
    decisions.slow_at(group, Instant::now()).is_some()
}

fn question() -> Question {
    Question { point: Point::Seed, snapshot: examples::snapshot(vec![examples::member(0, 1)]) }
}

fn panics() -> ((), Pace) {
    std::panic::resume_unwind(Box::new(()))
}

/// A decision that ends when the sender is dropped.
fn blocked() -> (mpsc::Sender<()>, impl FnOnce() -> ((), Pace) + Send + 'static) {
    let (sender, receiver) = mpsc::channel::<()>();
    let wait = move || {
        // The end of the channel is what is waited for.
        let _ = receiver.recv();
        ((), SLOW)
    };
    (sender, wait)
}

// H24: slow groups leave a place free for the others, whatever they do with theirs.
#[tokio::test]
async fn slow_groups_leave_a_place_free() {
    let decisions = Arc::new(Decisions::new(2));
    for group in ["slow-1", "slow-2"] {
        decisions.run(group, || ((), SLOW), || ()).await.unwrap();
        assert!(is_slow_group(&decisions, group));
    }
    let mut ends = Vec::new();
    for group in ["slow-1", "slow-2"] {
        let (end, decide) = blocked();
        ends.push(end);
        let decisions = decisions.clone();
        tokio::spawn(async move { decisions.run(group, decide, || ()).await });
        tokio::task::yield_now().await;
    }
    assert_eq!(decisions.run("quick", || (1, QUICK), || ()).await, Ok(1), "both slow groups share one place");
    assert!(!is_slow_group(&decisions, "quick"));
    drop(ends);
}

// H24: a quick decision in between, for instance of a round that asks nothing, does not make a group quick; ten minutes without a slow one do. A group that is
// gone is forgotten.
#[tokio::test]
async fn a_group_is_slow_for_ten_minutes_after_a_slow_decision() {
    let decisions = Decisions::new(2);
    decisions.run("a", || ((), SLOW), || ()).await.unwrap();
    decisions.run("a", || ((), QUICK), || ()).await.unwrap();
    assert!(is_slow_group(&decisions, "a"));
    let now = Instant::now();
    assert!(decisions.slow_at("a", now + Duration::from_secs(590)).is_some());
    assert!(decisions.slow_at("a", now + Duration::from_secs(600)).is_none());
    decisions.run("a", || ((), SLOW), || ()).await.unwrap();
    decisions.forget("a");
    assert!(!is_slow_group(&decisions, "a"));
}

/// How the thread of a decision is scheduled: whether it stops for any other one, and its niceness.
fn scheduled() -> (bool, i32) {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    (thread_schedule_policy().unwrap() == idle, getpriority_process(None).unwrap())
}

// H24: a slow group gives way on the processors, too, and nobody else does. A panic there costs one round.
#[tokio::test]
async fn slow_groups_give_way_on_the_processors() {
    let decisions = Decisions::new(2);
    // Where this process itself gives way to all others, every thread does.
    let usual = scheduled();
    assert_eq!(decisions.run("a", || (scheduled(), SLOW), || ()).await, Ok(usual));
    assert!(is_slow_group(&decisions, "a"));
    assert!(decisions.run("a", || (scheduled(), SLOW), || ()).await.unwrap().0);
    assert_eq!(decisions.run("b", || (scheduled(), QUICK), || ()).await, Ok(usual));
    let interrupted = decisions.run("a", panics, || ()).await;
    assert_eq!(interrupted, Err(Error::Finish));
    assert_eq!(decisions.run("a", || (1, QUICK), || ()).await, Ok(1));
}

// H24: a slow group that did not get enough of a processor has its part of one the next time, so that it decides on a machine that is always busy. One that got so
// little that it used hardly any fuel does, too; a group that is not known as slow is not concerned.
#[tokio::test]
async fn a_slow_group_that_was_cut_off_insists_once() {
    let decisions = Decisions::new(2);
    let (waits, usual) = decisions.run("a", || (scheduled(), SLOW), || ()).await.unwrap();
    for starved in [CUT_OFF, STARVED] {
        assert!(decisions.run("a", move || (scheduled(), starved), || ()).await.unwrap().0);
        assert_eq!(decisions.run("a", || (scheduled(), QUICK), || ()).await, Ok((waits, (usual + 10).min(19))));
        assert_eq!(decisions.run("a", || (scheduled(), SLOW), || ()).await, Ok((waits, (usual + 10).min(19))));
    }
    decisions.run("b", || ((), STARVED), || ()).await.unwrap();
    assert!(!is_slow_group(&decisions, "b"));
}

// H24: after a slow decision its place stays taken for twice as long, so that slow groups together leave most of a processor to the others.
#[tokio::test]
async fn the_place_of_a_slow_decision_rests() {
    let decisions = Decisions::new(2);
    let work = Duration::from_millis(200);
    let burn = move || {
        thread::sleep(work);
        (Instant::now(), SLOW)
    };
    decisions.run("a", burn, || ()).await.unwrap();
    // When that was is known on its own thread: this one may hear of it late.
    let decided = decisions.run("a", burn, || ()).await.unwrap();
    assert_eq!(decisions.run("quick", || (1, QUICK), || ()).await, Ok(1), "the others do not wait for it");
    drop(decisions.slow.acquire().await.unwrap());
    let rested = decided.elapsed();
    assert!(rested >= 2 * work, "it rested for {rested:?}");
}

// What is done for the next question is done when the decision is known, and in no slow group.
#[tokio::test]
async fn the_next_question_is_prepared_after_the_decision_and_not_in_slow_groups() {
    let decisions = Decisions::new(2);
    let (sender, receiver) = mpsc::channel();
    let (known, wait) = mpsc::channel::<()>();
    let told = sender.clone();
    let then = move || {
        // It begins, and the decision is known although this waits.
        let _ = wait.recv();
        told.send("prepared").unwrap();
    };
    assert_eq!(decisions.run("a", || (1, QUICK), then).await, Ok(1));
    drop(known);
    assert_eq!(receiver.recv(), Ok("prepared"));
    for _ in 0..2 {
        let told = sender.clone();
        decisions.run("slow", || ((), SLOW), move || told.send("slow").unwrap()).await.unwrap();
    }
    let told = sender.clone();
    decisions.run("slow", || ((), QUICK), move || told.send("slow").unwrap()).await.unwrap();
    drop(sender);
    assert!(receiver.recv().is_err(), "a slow group was prepared");
}

// A decision that panics costs its own round, and no place.
#[tokio::test]
async fn a_decision_that_is_interrupted_leaves_its_place() {
    let decisions = Decisions::new(2);
    for _ in 0..3 {
        let interrupted = decisions.run("a", panics, || ()).await;
        assert_eq!(interrupted, Err(Error::Finish));
    }
    assert_eq!(decisions.run("a", || (1, QUICK), || ()).await, Ok(1));
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
            (said.is_ok(), Pace { slow: is_slow(fuel, 1), cut_off: false })
        }
    };
    let hostile: Vec<_> = (0..20)
        .map(|number| {
            let (decisions, asked, burning) = (decisions.clone(), asked.clone(), burning.clone());
            tokio::spawn(async move {
                loop {
                    let decided = decisions.run(&format!("hostile-{number}"), decide(&burning), || ()).await;
                    assert_ne!(decided, Ok(true), "it answers nothing");
                    // As a round that asks nothing.
                    let _ = decisions.run(&format!("hostile-{number}"), || ((), QUICK), || ()).await;
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    // All of them are known to be slow, and go on.
    let all_slow = async {
        while !(0..20).all(|number| is_slow_group(&decisions, &format!("hostile-{number}"))) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(300), all_slow).await.expect("they are slow");
    let before = asked.load(Ordering::SeqCst);
    for _ in 0..50 {
        assert_eq!(decisions.run("quick", decide(&quick), || ()).await, Ok(true));
    }
    // In one queue each answer would wait for ten of theirs.
    let meanwhile = asked.load(Ordering::SeqCst) - before;
    assert!(meanwhile < 50 * 4, "50 answers waited for {meanwhile} questions of hostile groups");
    assert!(!is_slow_group(&decisions, "quick"));
    assert!(hostile.iter().all(|task| !task.is_finished()), "one of them got an answer");
    hostile.iter().for_each(tokio::task::JoinHandle::abort);
}
