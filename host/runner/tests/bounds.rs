//! Nothing that a command does can hold up, drown or outlive its answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod common;
use common::*;
use std::fs;
use std::time::{Duration, Instant};

fn exec(member: &Member, token: &str, deadline: &str, script: &str) -> Frame {
    let options = ["--token", token, "--uid", UID, "--deadline", deadline];
    frame_of(member.ask("exec", &options, &["sh", "-c", &member.script(script)]).output().unwrap())
}

#[test]
fn the_deadline_ends_the_process_group_and_the_outcome_is_unknown() {
    let member = Member::start(&[]);
    let began = Instant::now();
    let script = "sleep 60 & echo $! > DIR/child; trap 'echo tidied; exit 0' TERM; echo begun; wait";
    let frame = exec(&member, "t", "0.5", script);
    // An orderly exit after our TERM is no success: nobody knows how far it came.
    assert_eq!((frame.outcome.as_str(), frame.stdout.as_str()), ("unknown:deadline", "begun\ntidied\n"));
    assert!(began.elapsed() < Duration::from_secs(2), "an obedient group needs no KILL: {:?}", began.elapsed());
    eventually("the child is gone", || !alive(&member.lines_of("child")[0]));
    assert_eq!(member.settle("t").outcome, "unknown:deadline");
    assert_eq!(member.sh("next", "true").outcome, "exited:0");
}

#[test]
fn who_ignores_term_is_killed_two_seconds_later() {
    let member = Member::start(&[]);
    let began = Instant::now();
    let frame = exec(&member, "t", "0.3", "trap '' TERM; (trap '' TERM; echo $$; sleep 60) & sleep 60");
    assert_eq!(frame.outcome, "unknown:deadline");
    assert!((2.0..4.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
}

#[test]
fn a_group_that_outlives_its_leader_at_the_deadline_is_killed_too() {
    let member = Member::start(&[]);
    let frame = exec(
        &member,
        "t",
        "0.3",
        "(trap '' TERM; echo $(cut -d' ' -f4 /proc/self/stat) > DIR/child; sleep 60 & wait; sleep 60) & wait",
    );
    assert_eq!(frame.outcome, "unknown:deadline");
    let pid = member.lines_of("child")[0].clone();
    eventually("the child is gone", || !alive(&pid));
}

#[test]
fn a_flood_of_output_is_cut_and_memory_stays_flat() {
    let member = Member::start(&[]);
    let before = member.memory_kb();
    let options = ["--token", "t", "--uid", UID, "--deadline", "2"];
    let client = member.ask("exec", &options, &["sh", "-c", "cat /dev/zero & cat /dev/zero >&2"]).spawn().unwrap();
    let end = Instant::now() + Duration::from_millis(1800);
    let mut most = 0;
    while Instant::now() < end {
        most = most.max(member.memory_kb());
        std::thread::sleep(Duration::from_millis(20));
    }
    let frame = frame_of(client.wait_with_output().unwrap());
    assert_eq!((frame.outcome.as_str(), frame.cut), ("unknown:deadline", true));
    assert_eq!((frame.stdout.len(), frame.stderr.len()), (64 * 1024, 16 * 1024));
    assert!(most < before + 2048, "{before} kB became {most} kB");
}

#[test]
fn a_flood_that_ends_is_drained_and_its_code_is_told() {
    let member = Member::start(&[]);
    let frame = member.sh("t", "head -c 50000000 /dev/zero; exit 7");
    assert_eq!((frame.outcome.as_str(), frame.stdout.len(), frame.cut), ("exited:7", 64 * 1024, true));
    let frame = member.sh("u", "head -c 65536 /dev/zero");
    assert_eq!((frame.stdout.len(), frame.cut), (64 * 1024, false));
}

#[test]
fn a_daemon_that_keeps_the_pipe_holds_nothing_up_and_lives_on() {
    let member = Member::start(&[]);
    let began = Instant::now();
    let script = "(echo $(cut -d' ' -f4 /proc/self/stat) > DIR/daemon; sleep 1; echo line one; echo line two; sleep 60) & echo up";
    let frame = member.sh("t", script);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!((frame.outcome.as_str(), frame.stdout.as_str()), ("exited:0", "up\n"));
    // Its later lines are the container's log; a closed pipe would have ended it at the first.
    member.log_line("line one");
    member.log_line("line two");
    assert!(alive(&member.lines_of("daemon")[0]));
}

#[test]
fn a_flooding_daemon_does_not_hold_up_the_answer() {
    let member = Member::start(&[]);
    let began = Instant::now();
    let frame = member.sh("t", "setsid cat /dev/zero & echo $! > DIR/daemon; exit 2");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(frame.outcome, "exited:2");
}

#[test]
fn daemons_are_adopted_and_no_zombie_stays() {
    let member = Member::start(&[]);
    member.sh("t", "for n in 1 2 3; do setsid sleep 0.$n > /dev/null 2>&1 & done");
    std::thread::sleep(Duration::from_millis(600));
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", member.pid())).unwrap();
    assert_eq!(children.trim(), "");
}

#[test]
fn commands_get_no_input_the_containers_environment_and_a_group_of_their_own() {
    let member = Member::start(&[]);
    assert_eq!(member.sh("a", "readlink /proc/self/fd/0; cat").stdout, "/dev/null\n");
    assert_eq!(
        member.sh("b", "pwd; echo $HOME").stdout,
        format!("{}\n{}\n", std::env::current_dir().unwrap().display(), std::env::var("HOME").unwrap())
    );
    assert_eq!(member.sh("c", "test $$ = $(cut -d' ' -f5 /proc/$$/stat)").outcome, "exited:0");
    // Nothing of ours leaks: whatever is open beyond the three was open in the runner's own parent.
    let list = "echo /proc/self/fd/*";
    let here = std::process::Command::new("sh").args(["-c", list]).output().unwrap().stdout;
    assert_eq!(member.sh("d", list).stdout, String::from_utf8(here).unwrap());
    assert_eq!(member.sh("e", "yes | head -1").stderr, "", "SIGPIPE is as every program expects it");
}

#[test]
fn a_slow_writer_meets_the_deadline_like_everyone() {
    let member = Member::start(&[]);
    let frame = exec(&member, "t", "0.6", "while :; do printf x; sleep 0.05; done");
    assert_eq!(frame.outcome, "unknown:deadline");
    assert!((1..30).contains(&frame.stdout.len()));
}
