//! `--env`: a command has variables of its own beside those of its container (D6).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod common;
use common::*;
use std::fs;

/// Prints variables as they are. Their names are such as nobody else sets: a member has the variables of the test.
const PRINT: &[&str] = &["sh", "-c", "printf '%s|%s|%s' \"$TEST_MEMBERS\" \"$TEST_EMPTY\" \"${PATH:+path}\""];

// D6: values are words, and no shell reads them.
#[test]
fn a_command_has_the_variables_that_it_is_given() {
    let member = Member::start(&[]);
    let value = "db-0=http://db-0:2380,$(id) `id` 'ü'";
    let options = ["--env", &format!("TEST_MEMBERS={value}"), "--env", "TEST_EMPTY="];
    let frame = member.exec_with("t", &options, PRINT);
    assert_eq!((frame.outcome.as_str(), frame.stdout), ("exited:0", format!("{value}||path")));
    assert_eq!(member.exec_with("u", &[], PRINT).stdout, "||path", "the next one has its own");
    let twice = member.exec_with("v", &["--env", "TEST_MEMBERS=a", "--env", "TEST_MEMBERS=b"], PRINT);
    assert_eq!(twice.stdout, "b||path");
}

// D6: the sequence command that goes before the start has them, too.
#[test]
fn the_sequence_command_has_them_too() {
    let member = Member::with_status(&[]);
    fs::write(member.path("data"), "7\n").unwrap();
    let sequence = member.script("echo \"sequence $TEST_MEMBERS\" >> DIR/seen; cat DIR/data");
    let command = member.script("echo \"command $TEST_MEMBERS\" >> DIR/seen");
    let look = ["--if-sequence", "7", "--sequence-deadline", "10", "--sequence-args", "3", "--env", "TEST_MEMBERS=x"];
    let frame = member.exec_with("t", &look, &["sh", "-c", &sequence, "sh", "-c", &command]);
    assert_eq!(frame.outcome, "exited:0");
    assert_eq!(member.lines_of("seen"), ["sequence x", "command x"]);
}

// D6: what is no variable is refused before anything runs.
#[test]
fn what_is_no_variable_is_refused() {
    let member = Member::start(&[]);
    for word in ["TEST_MEMBERS", "=x", ""] {
        let all = ["--token", "t", "--uid", UID, "--deadline", "20", "--env", word];
        let output = member.ask("exec", &all, &["touch", member.path("ran").to_str().unwrap()]).output().unwrap();
        assert!(!output.status.success() && !member.path("ran").exists(), "{word}: {output:?}");
    }
}
