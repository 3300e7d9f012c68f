//! `--if-status`: the last look and its act are one step, and a look that says no leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod common;
use common::*;
use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

/// A status command that reads the role when it begins and says it once the file `hold` is gone.
const READS_FIRST: &str = "code=$(cat DIR/code 2>/dev/null || echo 7); echo begin >> DIR/polls; \
                           while test -e DIR/hold; do sleep 0.02; done; echo end $code >> DIR/polls; exit $code";

/// Stopped, polled once, and then only when asked or after a command.
fn watched(timeout: &str, more: &[&str]) -> Member {
    let mut options = vec!["--listen", "127.0.0.1:0", "--status-interval", "60", "--status-timeout", timeout];
    for argument in ["sh", "-c", READS_FIRST] {
        options.extend(["--status-arg", argument]);
    }
    options.extend(more);
    let member = Member::start(&options);
    eventually("the first poll", || member.get("/status").1.contains("\"code\":7"));
    assert_eq!(member.lines_of("polls"), ["begin", "end 7"]);
    member
}

/// Polls that begin from now on do not end before [`release`].
fn hold(member: &Member) {
    fs::write(member.path("hold"), "").unwrap();
}

fn release(member: &Member) {
    fs::remove_file(member.path("hold")).unwrap();
}

fn only_if(member: &Member, token: &str, codes: &str, script: &str) -> Frame {
    member.exec_with(token, &["--if-status", codes], &["sh", "-c", &member.script(script)])
}

/// Begins an exec and returns once a poll has begun; there are none but its own.
fn begin_look(member: &Member, token: &str, options: &[&str], script: &str) -> Child {
    let before = member.lines_of("polls").len();
    let all = [&["--token", token, "--uid", UID, "--deadline", "60"], options].concat();
    let client = member.ask("exec", &all, &["sh", "-c", &member.script(script)]).spawn().unwrap();
    eventually("it looks", || member.lines_of("polls").len() > before);
    client
}

/// Nothing in the state directory has this token's name.
fn unused(member: &Member, token: &str) -> bool {
    ["tokens", "scratch"].iter().all(|dir| !member.path(&format!("state/{dir}/{token}")).exists())
        && !member.path("state/retired.hashes").exists()
}

#[test]
fn in_the_right_role_it_starts_after_one_look() {
    let member = watched("5", &[]);
    let frame = only_if(&member, "a", "7", "echo command >> DIR/polls; echo out; echo err >&2; exit 3");
    assert_eq!((frame.outcome.as_str(), frame.stdout.as_str(), frame.stderr.as_str()), ("exited:3", "out\n", "err\n"));
    assert_eq!(member.lines_of("polls")[..5], ["begin", "end 7", "begin", "end 7", "command"]);
    assert_eq!(member.settle("a"), frame);
    for (token, code) in [("b", 7), ("c", 0)] {
        member.says(code);
        assert_eq!(only_if(&member, token, "7,0", "true").outcome, "exited:0", "{code}");
    }
}

#[test]
fn in_the_wrong_role_it_does_not_start_and_the_token_stays_unused() {
    let member = watched("5", &[]);
    member.says(8);
    for token in ["again", "never"] {
        let frame = only_if(&member, token, "7,0", "echo ran >> DIR/ran");
        assert_eq!((frame.token.as_str(), frame.outcome.as_str()), (token, "not-started:role"));
        assert_eq!((frame.stdout.as_str(), frame.stderr.as_str()), ("", "status exited 8\n"));
        assert!(unused(&member, token));
    }
    assert!(!member.path("ran").exists());
    assert_eq!(member.sh("other", "true").outcome, "exited:0", "nobody is busy");
    // Unused means: the same token may start when the role is right, or be settled as void.
    member.says(7);
    assert_eq!(only_if(&member, "again", "7,0", "echo ran >> DIR/ran").outcome, "exited:0");
    assert_eq!(member.settle("never").outcome, "void");
    assert_eq!(only_if(&member, "never", "7,0", "echo ran >> DIR/ran").outcome, "not-started:void");
    assert_eq!(member.lines_of("ran"), ["ran"]);
}

#[test]
fn the_answer_that_stands_is_not_believed() {
    let member = watched("5", &[]);
    member.says(8);
    assert!(member.get("/status").1.contains("\"code\":7"), "7 does not stand: the test proves nothing");
    assert_eq!(only_if(&member, "t", "7", "echo ran >> DIR/ran").stderr, "status exited 8\n");
    assert!(!member.path("ran").exists());
    member.says(7);
    assert!(member.get("/status").1.contains("\"code\":8"), "8 does not stand: the test proves nothing");
    assert_eq!(only_if(&member, "t", "7", "echo ran >> DIR/ran").outcome, "exited:0");
}

#[test]
fn a_poll_that_began_before_the_request_is_not_believed_and_not_overtaken() {
    for (before, now, outcome) in [(7, 8, "not-started:role"), (8, 7, "exited:0")] {
        for options in [&["--if-status", "7"][..], &["--if-status", "7", "--quiet-status"]] {
            // The poll is held until it is released; nothing else may end it.
            let member = watched("60", &[]);
            member.says(before);
            hold(&member);
            let older = member.ask("status", &["--uid", UID], &[]).spawn().unwrap();
            eventually("the older poll", || member.lines_of("polls").len() == 3);
            member.says(now);
            let all = [&["--token", "t", "--uid", UID, "--deadline", "20"], options].concat();
            let client = member.ask("exec", &all, &["true"]).spawn().unwrap();
            eventually("it has the desk", || member.get("/status").1.contains("\"busy\":true"));
            release(&member);
            assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, outcome, "{options:?}");
            let polls = ["begin", "end 7", "begin", &format!("end {before}"), "begin", &format!("end {now}")];
            assert_eq!(member.lines_of("polls")[..6], polls, "{options:?}");
            older.wait_with_output().unwrap();
        }
    }
}

#[test]
fn a_known_token_gets_its_answer_without_a_look() {
    let mut member = watched("5", &[]);
    assert_eq!(member.sh("finished", "echo ran >> DIR/ran; exit 3").outcome, "exited:3");
    assert_eq!(member.settle("void").outcome, "void");
    let runs = member.begin_sh("runs", &[], "echo ran >> DIR/ran; until test -e DIR/go; do sleep 0.05; done");
    member.says(8);
    let again = |member: &Member, token| only_if(member, token, "7", "echo again >> DIR/ran").outcome;
    assert_eq!(again(&member, "finished"), "exited:3");
    assert_eq!(again(&member, "void"), "not-started:void");
    // A client gives up its poll after 2 s, and that may still be to come: it is over when one that was asked for later is.
    member.status();
    let polls = member.lines_of("polls").len();
    let same = member.begin_sh("runs", &["--if-status", "7"], "echo again >> DIR/ran");
    eventually("both wait", || threads(member.pid(), "client") == 2);
    // When `settle` has answered, a look at the status would have happened already; polls after an answer are another matter.
    assert_eq!(member.settle("runs").outcome, "running");
    assert_eq!(member.lines_of("polls").len(), polls, "nobody looks");
    fs::write(member.path("go"), "").unwrap();
    for client in [runs, same] {
        assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "exited:0");
    }
    fs::remove_file(member.path("go")).unwrap();
    let cut = member.begin_sh("cut", &[], "echo ran >> DIR/ran; until test -e DIR/go; do sleep 0.05; done");
    eventually("it ran", || member.lines_of("ran").len() == 3);
    // No poll is left that could note its end later.
    member.status();
    member.kill();
    cut.wait_with_output().unwrap();
    fs::write(member.path("go"), "").unwrap();
    fs::write(member.path("polls"), "").unwrap();
    member.begin();
    eventually("the first poll", || member.lines_of("polls").len() == 2);
    assert_eq!(again(&member, "cut"), "interrupted");
    assert_eq!(member.lines_of("polls"), ["begin", "end 8"]);
    assert_eq!(member.lines_of("ran"), ["ran", "ran", "ran"]);
}

#[test]
fn nothing_else_starts_while_it_looks() {
    let member = watched("60", &[]);
    hold(&member);
    let options = ["--if-status", "7", "--expect", "running"];
    let first = begin_look(&member, "first", &options, "echo first >> DIR/ran");
    let same = member.ask("exec", &["--token", "first", "--uid", UID, "--deadline", "20"], &["false"]).spawn().unwrap();
    let busy = member.sh("second", "echo second >> DIR/ran");
    assert_eq!((busy.outcome.as_str(), busy.stderr.as_str()), ("not-started:busy", "busy: first\n"));
    // It may start any moment: not void. It may as well not: readiness does not know of it yet.
    assert_eq!(member.settle("first").outcome, "running");
    assert!(member.get("/ready").1.starts_with("ready code=7 expect=stopped"));
    assert!(unused(&member, "first"));
    release(&member);
    let first = frame_of(first.wait_with_output().unwrap());
    assert_eq!(first.outcome, "exited:0");
    assert_eq!(frame_of(same.wait_with_output().unwrap()), first);
    assert_eq!(member.sh("second", "echo second >> DIR/ran").outcome, "exited:0");
    assert_eq!(member.lines_of("ran"), ["first", "second"]);
}

#[test]
fn a_hung_status_starts_nothing_and_holds_nothing_up_for_longer_than_a_poll() {
    let member = watched("5", &[]);
    hold(&member);
    for options in [&["--if-status", "7"][..], &["--if-status", "7", "--quiet-status"]] {
        let frame = member.exec_with("t", options, &["touch", member.path("ran").to_str().unwrap()]);
        assert_eq!((frame.outcome.as_str(), frame.stderr.as_str()), ("not-started:role", "status unknown: deadline\n"));
        assert!(unused(&member, "t") && !member.path("ran").exists());
    }
    release(&member);
    assert_eq!(only_if(&member, "t", "7", "true").outcome, "exited:0");
    let missing = Member::start(&["--status-arg", "/no/such"]);
    assert_eq!(only_if(&missing, "t", "7", "true").stderr, "status unknown: no-such-file\n");
}

#[test]
fn the_deadline_counts_while_it_looks() {
    let member = watched("5", &[]);
    // The poll would hold for its 5 s; the look ends with the deadline, before it.
    hold(&member);
    let options = ["--token", "t", "--uid", UID, "--deadline", "0.3", "--if-status", "7"];
    assert_eq!(frame_of(member.ask("exec", &options, &["true"]).output().unwrap()).outcome, "not-started:deadline");
    assert!(unused(&member, "t"));
}

#[test]
fn without_a_status_command_the_condition_is_a_mistake() {
    let member = Member::start(&[]);
    assert_eq!(only_if(&member, "t", "7", "echo ran >> DIR/ran").outcome, "not-started:no-status-command");
    assert!(unused(&member, "t") && !member.path("ran").exists());
    assert_eq!(member.sh("t", "exit 3").outcome, "exited:3");
    assert_eq!(only_if(&member, "t", "7", "true").outcome, "exited:3");
}

#[test]
fn sigterm_while_it_looks_means_not_started_at_once() {
    for more in [&[][..], &["--quiet-status"]] {
        let stop = ["--grace", "20", "--stop-arg", "sh", "--stop-arg", "-c", "--stop-arg", "echo stop >> DIR/stopped"];
        let mut member = watched("600", &stop);
        hold(&member);
        let client = begin_look(&member, "t", &[&["--if-status", "7"], more].concat(), "echo ran >> DIR/ran");
        // The poll runs for ten minutes: its end is not waited for.
        member.terminate();
        assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "not-started:shutting-down");
        assert_eq!(member.ended().0, Some(0));
        assert_eq!(member.lines_of("stopped"), ["stop"]);
        assert!(unused(&member, "t") && !member.path("ran").exists());
        release(&member);
        member.begin();
        assert_eq!(only_if(&member, "t", "7", "true").outcome, "exited:0");
    }
}

#[test]
fn between_the_look_of_a_quiet_command_and_its_act_nobody_polls() {
    // Every third poll says 8, and others ask for status all the time.
    let status = "n=$(cat DIR/n 2>/dev/null || echo 0); echo $((n + 1)) > DIR/n; code=$((n % 3 == 2 ? 8 : 7)); \
                  echo begin >> DIR/polls; sleep 0.03; echo end $code >> DIR/polls; exit $code";
    let mut options = vec!["--status-interval", "0.05"];
    for argument in ["sh", "-c", status] {
        options.extend(["--status-arg", argument]);
    }
    let member = Member::start(&options);
    let began = Instant::now();
    let mut frames = Vec::new();
    let count = |frames: &[Frame], outcome: &str| frames.iter().filter(|frame| frame.outcome == outcome).count();
    let enough = |frames: &[Frame]| count(frames, "exited:0") >= 10 && count(frames, "not-started:role") >= 2;
    let in_time = || began.elapsed() < Duration::from_secs(300);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while in_time() && !member.path("over").exists() {
                    member.status();
                }
            });
        }
        let script = member.script("echo command >> DIR/polls; sleep 0.2; echo over >> DIR/polls");
        while in_time() && !enough(&frames) {
            let token = format!("t{}", frames.len());
            let options = ["--quiet-status", "--if-status", "7"];
            frames.push(member.exec_with(&token, &options, &["sh", "-c", &script]));
        }
        fs::write(member.path("over"), "").unwrap();
    });
    assert!(enough(&frames), "{frames:?}");
    assert!(
        frames.iter().all(|frame| frame.outcome == "exited:0" || frame.stderr == "status exited 8\n"),
        "{frames:?}"
    );
    let lines = member.lines_of("polls");
    for at in (0..lines.len()).filter(|at| lines[*at] == "command") {
        assert_eq!(lines[at - 2..at + 2], ["begin", "end 7", "command", "over"]);
    }
    let polls: Vec<_> = lines.iter().filter(|line| line.contains(' ') || *line == "begin").collect();
    assert!(
        polls.chunks(2).all(|pair| pair[0] == "begin" && pair.get(1).is_none_or(|end| *end != "begin")),
        "{lines:?}"
    );
    eventually("polls go on", || member.status().outcome == "exited:8");
}

#[test]
fn a_look_that_was_given_up_never_comes_beside_the_next_quiet_command() {
    let member = watched("60", &[]);
    hold(&member);
    let older = member.ask("status", &["--uid", UID], &[]).spawn().unwrap();
    eventually("the older poll", || member.lines_of("polls").len() == 3);
    let options = ["--token", "t", "--uid", UID, "--deadline", "0.3", "--quiet-status", "--if-status", "7"];
    assert_eq!(frame_of(member.ask("exec", &options, &["true"]).output().unwrap()).outcome, "not-started:deadline");
    release(&member);
    let script = member.script("echo command >> DIR/polls; sleep 0.5; echo over >> DIR/polls");
    assert_eq!(member.exec_with("next", &["--quiet-status"], &["sh", "-c", &script]).outcome, "exited:0");
    assert_eq!(member.lines_of("polls")[..6], ["begin", "end 7", "begin", "end 7", "command", "over"]);
    older.wait_with_output().unwrap();
}
