//! `--if-sequence`: the data is where the decision saw it, read in the very turn in which the command starts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod common;
use common::*;
use std::fs;
use std::process::Child;

/// A sequence command that prints what the file `data` holds, once the file `hold` is gone.
const SEQUENCE: &str = "echo sequence >> DIR/order; while test -e DIR/hold; do sleep 0.02; done; cat DIR/data; exit $(cat DIR/exit 2>/dev/null || echo 0)";

/// Stopped, with this data, polled all the time.
fn member(data: &str) -> Member {
    let member = Member::with_status(&[]);
    fs::write(member.path("data"), data).unwrap();
    member
}

fn begin(member: &Member, token: &str, expected: &str, more: &[&str], script: &str) -> Child {
    // Long enough for everything that is asked while a test holds the sequence command.
    let look = ["--if-sequence", expected, "--sequence-deadline", "60", "--sequence-args", "3"];
    let all = [&["--token", token, "--uid", UID, "--deadline", "60"], &look[..], more].concat();
    let (sequence, script) = (member.script(SEQUENCE), member.script(script));
    member.ask("exec", &all, &["sh", "-c", &sequence, "sh", "-c", &script]).spawn().unwrap()
}

fn only_if(member: &Member, token: &str, expected: &str, more: &[&str]) -> Frame {
    let script = "echo command >> DIR/order; echo out";
    frame_of(begin(member, token, expected, more, script).wait_with_output().unwrap())
}

fn ran(member: &Member) -> bool {
    member.lines_of("order").contains(&"command".to_owned())
}

#[test]
fn it_starts_when_the_data_is_where_it_was() {
    for (data, expected) in [("7\n", "7"), (" h:0007\n\n", "h:7"), ("EMPTY\n", "EMPTY")] {
        let member = member(data);
        let frame = only_if(&member, "t", expected, &["--if-status", "7", "--expect", "running"]);
        assert_eq!((frame.outcome.as_str(), frame.stdout.as_str()), ("exited:0", "out\n"), "{data:?}");
        assert_eq!(member.lines_of("order"), ["sequence", "command"]);
        // Known tokens get their answer without a look.
        assert_eq!(only_if(&member, "t", "8", &[]), frame);
        assert_eq!(member.lines_of("order"), ["sequence", "command"]);
    }
}

#[test]
fn anything_else_starts_nothing_and_leaves_the_token_unused() {
    let cases: &[(&str, &str, &str)] = &[
        ("8\n", "0", "sequence printed another position\n"),
        ("h:7\n", "0", "sequence printed another position\n"),
        ("7\n8\n", "0", "sequence printed another position\n"),
        ("", "0", "sequence printed another position\n"),
        ("7\n", "3", "sequence exited 3\n"),
    ];
    for (data, exit, why) in cases {
        let member = member(data);
        fs::write(member.path("exit"), exit).unwrap();
        let frame = only_if(&member, "t", "7", &[]);
        assert_eq!(
            (frame.outcome.as_str(), frame.stderr.as_str(), frame.stdout.as_str()),
            ("not-started:sequence", *why, "")
        );
        assert!(!ran(&member) && !member.path("state/tokens/t").exists());
        fs::write(member.path("exit"), "0").unwrap();
        fs::write(member.path("data"), "7\n").unwrap();
        assert_eq!(only_if(&member, "t", "7", &[]).outcome, "exited:0", "the same token may start when it is right");
    }
}

#[test]
fn an_answer_that_is_cut_starts_nothing() {
    let member = member("");
    // What it prints by then is what is expected; the rest of the number is still to come.
    let sequence = member.script("printf 7; (until test -e DIR/go; do sleep 0.02; done; printf 1) &");
    let look = ["--if-sequence", "7", "--sequence-deadline", "10", "--sequence-args", "3"];
    let all = [&["--token", "t", "--uid", UID, "--deadline", "20"], &look[..]].concat();
    let touch = member.path("ran");
    let frame = frame_of(
        member.ask("exec", &all, &["sh", "-c", &sequence, "touch", touch.to_str().unwrap()]).output().unwrap(),
    );
    fs::write(member.path("go"), "").unwrap();
    assert_eq!((frame.outcome.as_str(), frame.stderr.as_str()), ("not-started:sequence", "sequence was cut\n"));
    assert!(!touch.exists());
}

#[test]
fn a_sequence_that_hangs_is_ended_at_its_own_deadline() {
    let member = member("7\n");
    fs::write(member.path("hold"), "").unwrap();
    let short = ["--sequence-deadline", "0.3", "--deadline", "20"];
    let frame = only_if(&member, "t", "7", &short);
    assert_eq!(
        (frame.outcome.as_str(), frame.stderr.as_str()),
        ("not-started:sequence", "sequence unknown: deadline\n")
    );
    // The command's deadline counts too.
    let frame = only_if(&member, "t", "7", &["--deadline", "0.3"]);
    assert_eq!(frame.outcome, "not-started:deadline");
    assert!(!ran(&member));
    assert_eq!(member.sh("next", "true").outcome, "exited:0", "nobody is busy");
}

#[test]
fn nothing_comes_between_the_look_and_its_act() {
    let member = member("7\n");
    fs::write(member.path("hold"), "").unwrap();
    let client = begin(&member, "first", "7", &["--if-status", "7"], "echo command >> DIR/order");
    eventually("it looks", || member.lines_of("order") == ["sequence"]);
    assert_eq!(member.sh("second", "echo second >> DIR/order").outcome, "not-started:busy");
    assert_eq!(member.settle("first").outcome, "running", "it may start any moment: not void");
    assert_eq!(member.status().outcome, "unknown:quiet", "a sequence command runs beside no poll");
    fs::remove_file(member.path("hold")).unwrap();
    assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "exited:0");
    assert_eq!(member.lines_of("order"), ["sequence", "command"]);
    assert_eq!(member.status().outcome, "exited:7", "and polls go on");
}

#[test]
fn polls_go_on_beside_the_command_itself() {
    let member = member("7\n");
    let client = begin(&member, "t", "7", &[], "echo command >> DIR/order; until test -e DIR/go; do sleep 0.02; done");
    eventually("it runs", || ran(&member));
    assert_eq!(member.status().outcome, "exited:7");
    fs::write(member.path("go"), "").unwrap();
    assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "exited:0");
}

#[test]
fn in_the_wrong_role_the_sequence_is_not_even_asked() {
    let member = member("7\n");
    member.says(8);
    assert_eq!(only_if(&member, "t", "7", &["--if-status", "7"]).outcome, "not-started:role");
    assert_eq!(member.lines_of("order").len(), 0);
}

#[test]
fn sigterm_while_it_looks_means_not_started() {
    let mut member = member("7\n");
    fs::write(member.path("hold"), "").unwrap();
    let client = begin(&member, "t", "7", &[], "echo command >> DIR/order");
    eventually("it looks", || member.lines_of("order").len() == 1);
    member.terminate();
    assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "not-started:shutting-down");
    assert_eq!(member.ended().0, Some(0));
    assert!(!ran(&member) && !member.path("state/tokens/t").exists());
}

#[test]
fn every_status_says_what_this_runner_can_do() {
    let member = member("7\n");
    let features = Some("if-sequence,env".to_owned());
    assert_eq!(member.status().features, features);
    let output = member.ask("exec", &["--token", "t", "--uid", UID, "--deadline", "20"], &["true"]).output().unwrap();
    assert_eq!(following(&output).unwrap().features, features);
}
