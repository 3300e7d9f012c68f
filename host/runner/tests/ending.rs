//! SIGTERM: no new tokens are accepted, the running command ends, `stop` runs, and no process is left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod common;
use common::*;
use std::fs;
use std::time::{Duration, Instant};

fn stopping(script: &str, grace: &str) -> Member {
    Member::with_status(&["--grace", grace, "--stop-arg", "sh", "--stop-arg", "-c", "--stop-arg", script])
}

#[test]
fn sigterm_runs_stop_and_ends() {
    let mut member = stopping("echo stopped >> DIR/stopped; echo to the log", "600");
    member.terminate();
    assert_eq!(member.log_line("to the log"), "to the log");
    let (code, took) = member.ended();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(300), "nothing waits for the grace to pass: {took:?}");
    assert_eq!(member.lines_of("stopped"), ["stopped"]);
}

#[test]
fn the_stop_signals_of_well_known_images_end_it_in_order_too() {
    for name in ["INT", "QUIT", "USR1", "WINCH", "37"] {
        let mut member = stopping("echo stopped >> DIR/stopped", "10");
        signal(member.pid(), name);
        assert_eq!((member.ended().0, member.lines_of("stopped")), (Some(0), vec!["stopped".to_owned()]), "{name}");
    }
}

#[test]
fn a_second_sigterm_changes_nothing() {
    let mut member =
        stopping("echo stop >> DIR/stopped; until test -e DIR/go; do sleep 0.05; done; echo over >> DIR/stopped", "20");
    member.terminate();
    eventually("stop runs", || member.lines_of("stopped").len() == 1);
    member.terminate();
    fs::write(member.path("go"), "").unwrap();
    assert_eq!(member.ended().0, Some(0));
    assert_eq!(member.lines_of("stopped"), ["stop", "over"]);
}

#[test]
fn the_running_command_gets_term_and_then_stop_runs() {
    let mut member = stopping("echo stop >> DIR/order", "40");
    let client = member.begin_sh(
        "t",
        &[],
        "trap 'sleep 0.3; echo term >> DIR/order; exit 0' TERM; echo up >> DIR/order; while :; do sleep 0.05; done",
    );
    eventually("up", || member.lines_of("order").len() == 1);
    member.terminate();
    let frame = frame_of(client.wait_with_output().unwrap());
    assert_eq!(frame.outcome, "unknown:shutting-down");
    assert_eq!(member.ended().0, Some(0));
    assert_eq!(member.lines_of("order"), ["up", "term", "stop"]);
    member.begin();
    assert_eq!(member.settle("t").outcome, "unknown:shutting-down");
}

#[test]
fn a_command_that_ignores_term_is_killed_within_half_the_grace() {
    let mut member = stopping("touch DIR/stopped", "20");
    let client = member.begin_sh("t", &[], "trap '' TERM; touch DIR/up; while :; do sleep 0.05; done");
    eventually("up", || member.path("up").exists());
    let began = Instant::now();
    member.terminate();
    assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "unknown:shutting-down");
    assert!(began.elapsed() >= Duration::from_millis(9900), "it has half of the grace: {:?}", began.elapsed());
    // The other half was left for `stop`, for it ran.
    assert_eq!(member.ended().0, Some(0));
    assert!(member.path("stopped").exists());
}

#[test]
fn while_it_ends_new_tokens_are_refused_and_questions_answered() {
    let mut member = stopping("touch DIR/stopping; until test -e DIR/go; do sleep 0.05; done", "120");
    eventually("ready", || member.ready() == 200);
    member.sh("old", "exit 3");
    member.terminate();
    eventually("stop runs", || member.path("stopping").exists());
    assert_eq!(member.sh("new", "touch DIR/ran").outcome, "not-started:shutting-down");
    assert_eq!(member.settle("new").outcome, "void", "a refused token is unused");
    assert_eq!(member.sh("old", "touch DIR/ran").outcome, "exited:3");
    assert_eq!(member.settle("old").outcome, "exited:3");
    assert_eq!(member.settle("void").outcome, "void");
    assert_eq!(member.status().outcome, "exited:7");
    let (code, body) = member.get("/ready");
    assert_eq!((code, body.split(' ').next()), (503, Some("shutting-down")));
    fs::write(member.path("go"), "").unwrap();
    assert_eq!(member.ended().0, Some(0));
    assert!(!member.path("ran").exists());
}

#[test]
fn a_hung_stop_is_ended_inside_the_grace() {
    let mut member = stopping("trap '' TERM; touch DIR/stopping; while :; do sleep 0.05; done", "5");
    let began = Instant::now();
    member.terminate();
    // It would never end by itself.
    assert_eq!(member.ended().0, Some(0));
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(3), "it has the grace but its reserve: {took:?}");
}

#[test]
fn stop_has_a_timeout_of_its_own() {
    let mut member =
        Member::start(&["--grace", "600", "--stop-timeout", "0.5", "--stop-arg", "sleep", "--stop-arg", "6000"]);
    member.terminate();
    member.log_line("stop: unknown:deadline");
    let (code, took) = member.ended();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(300), "the grace is not waited for: {took:?}");
}

#[test]
fn everyone_who_is_left_gets_term_and_then_kill() {
    let mut member = Member::start(&["--grace", "10"]);
    let daemon = "setsid sh -c 'trap \"echo tidied >> DIR/tidied; exit\" TERM; touch DIR/up1; while :; do sleep 0.05; done' & \
                  setsid sh -c 'trap \"\" TERM; echo $$ > DIR/stubborn; while :; do sleep 0.05; done' &";
    member.sh("t", &format!("({daemon}) > /dev/null 2>&1"));
    eventually("up", || member.path("up1").exists() && member.lines_of("stubborn").len() == 1);
    let stubborn = member.lines_of("stubborn")[0].clone();
    member.terminate();
    assert_eq!(member.ended().0, Some(0));
    assert_eq!(member.lines_of("tidied"), ["tidied"]);
    eventually("the stubborn one is killed", || !alive(&stubborn));
}
