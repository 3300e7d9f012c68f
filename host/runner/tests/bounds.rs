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
    let script = "sleep 60 & echo $! > DIR/child; trap 'echo tidied; exit 0' TERM; echo begun; wait";
    let in_order = (1..=3).map(|n| format!("t{n}")).find(|token| {
        let began = Instant::now();
        let frame = exec(&member, token, "10", script);
        // An orderly exit after our TERM is no success: it is not known how far the command came.
        assert_eq!(frame.outcome, "unknown:deadline");
        assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());
        eventually("the child is gone", || !alive(&member.lines_of("child")[0]));
        assert_eq!(member.settle(token).outcome, "unknown:deadline");
        // What it said last is proof that no KILL came: that would have ended the shell before its trap. A slow machine may need more than the 2 s
        // between the two: then it is tried again.
        frame.stdout == "begun\ntidied\n"
    });
    assert!(in_order.is_some(), "KILL came before the trap had ended");
    assert_eq!(member.sh("next", "true").outcome, "exited:0");
}

#[test]
fn who_ignores_term_is_killed_two_seconds_later() {
    let member = Member::start(&[]);
    let began = Instant::now();
    let frame = exec(&member, "t", "10", "trap '' TERM; (trap '' TERM; echo $$; sleep 600) & sleep 600");
    assert_eq!(frame.outcome, "unknown:deadline");
    // Not before its two seconds, and long before it would have ended.
    assert!(began.elapsed() >= Duration::from_secs(12), "{:?}", began.elapsed());
}

#[test]
fn a_group_that_outlives_its_leader_at_the_deadline_is_killed_too() {
    let member = Member::start(&[]);
    let frame = exec(
        &member,
        "t",
        "10",
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
    let (full, mut kept) = ((64 * 1024, 16 * 1024, true), (0, 0, false));
    // A flood keeps a small machine busy, so it is short at first; only where that does not fill both outputs it lasts longer.
    for deadline in ["2", "5", "10"] {
        let token = format!("t{deadline}");
        let options = ["--token", &token, "--uid", UID, "--deadline", deadline];
        let client = member.ask("exec", &options, &["sh", "-c", "cat /dev/zero & cat /dev/zero >&2"]).spawn().unwrap();
        eventually("it floods", || member.path(&format!("state/tokens/{token}")).exists());
        // For as long as it floods.
        let mut most = 0;
        while member.settle(&token).outcome == "running" {
            most = most.max(member.memory_kb());
        }
        let frame = frame_of(client.wait_with_output().unwrap());
        assert_eq!(frame.outcome, "unknown:deadline");
        assert!(most < before + 2048, "{before} kB became {most} kB");
        kept = (frame.stdout.len(), frame.stderr.len(), frame.cut);
        if kept == full {
            break;
        }
    }
    assert_eq!(kept, full);
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
    let script = "(echo $(cut -d' ' -f4 /proc/self/stat) > DIR/daemon; until test -e DIR/go; do sleep 0.05; done; \
                  echo line one; echo line two; sleep 60) & echo up";
    let frame = member.sh("t", script);
    assert_eq!((frame.outcome.as_str(), frame.stdout.as_str()), ("exited:0", "up\n"));
    // It was answered while the daemon holds the pipe: only now may that write.
    fs::write(member.path("go"), "").unwrap();
    // Its later lines are the container's log; a closed pipe would have ended it at the first.
    member.log_line("line one");
    member.log_line("line two");
    assert!(alive(&member.lines_of("daemon")[0]));
}

#[test]
fn an_answer_is_cut_while_somebody_else_holds_its_stdout() {
    let member = Member::start(&[]);
    // The second half of a number comes when the output is not read any more.
    let frame = member.sh("half", "printf 12; (until test -e DIR/go; do sleep 0.05; done; printf 34) &");
    assert_eq!((frame.outcome.as_str(), frame.stdout.as_str(), frame.cut), ("exited:0", "12", true));
    assert!(member.settle("half").cut, "the stored answer says so too");
    // Whoever has let go of stdout in time, or holds nothing but stderr, leaves a whole answer.
    let whole = "printf 12; (touch DIR/off; until test -e DIR/go; do sleep 0.05; done) > /dev/null & \
                 until test -e DIR/off; do sleep 0.02; done";
    let frame = member.sh("whole", whole);
    assert_eq!((frame.outcome.as_str(), frame.stdout.as_str(), frame.cut), ("exited:0", "12", false));
    fs::write(member.path("go"), "").unwrap();
    // It writes when the command itself was reaped, and some time after that. A slow machine may need more than 200 ms for it: then the answer says that
    // it is cut, and it is tried again.
    let late = "(while kill -0 $$ 2> /dev/null; do sleep 0.01; done; sleep 0.05; printf 34) & printf 12";
    let in_time = (1..=10).any(|n| {
        let frame = member.sh(&format!("late-{n}"), late);
        assert!(frame.cut || frame.stdout == "1234", "{frame:?}");
        !frame.cut
    });
    assert!(in_time, "what comes within 200 ms belongs to it");
}

#[test]
fn a_flooding_daemon_does_not_hold_up_the_answer() {
    let member = Member::start(&[]);
    // It never ends by itself: to be answered at all, before the client's deadline of 20 s, is what is asked.
    let frame = member.sh("t", "setsid cat /dev/zero & echo $! > DIR/daemon; exit 2");
    assert_eq!((frame.outcome.as_str(), frame.cut), ("exited:2", true));
    assert!(alive(&member.lines_of("daemon")[0]));
}

#[test]
fn daemons_are_adopted_and_no_zombie_stays() {
    let member = Member::start(&[]);
    member.sh("t", "for n in 1 2 3; do setsid sleep 0.$n > /dev/null 2>&1 & done");
    // Zombies are children too, and would stay.
    eventually("no child is left", || children_of(member.pid()).is_empty());
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
    let began = Instant::now();
    let frame = exec(&member, "t", "10", "while :; do printf x; sleep 0.05; done");
    let most = began.elapsed().as_millis() / 50;
    assert_eq!(frame.outcome, "unknown:deadline");
    assert!((1..=most).contains(&(frame.stdout.len() as u128)), "{} of {most}", frame.stdout.len());
}
