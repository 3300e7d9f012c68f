//! A token starts at most once, whatever is lost, repeated, restarted or late.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod common;
use common::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

#[test]
fn a_command_is_answered_with_its_code_and_output() {
    let member = Member::start(&[]);
    let frame = member.sh("t1", "echo out; echo err >&2; exit 3");
    assert_eq!((frame.token.as_str(), frame.outcome.as_str()), ("t1", "exited:3"));
    assert_eq!((frame.stdout.as_str(), frame.stderr.as_str(), frame.cut), ("out\n", "err\n", false));
    assert_eq!(member.sh("t2", "kill -9 $$").outcome, "exited:137");
}

#[test]
fn asking_again_answers_and_does_not_repeat() {
    let mut member = Member::start(&[]);
    let first = member.sh("t", "echo ran | tee -a DIR/ran");
    assert_eq!(member.sh("t", "echo ran | tee -a DIR/ran"), first);
    assert_eq!(member.settle("t"), first);
    // The result outlives the container, and even another argv under that token is not run.
    member.kill();
    member.begin();
    assert_eq!(member.sh("t", "echo other >> DIR/ran"), first);
    assert_eq!(member.lines_of("ran"), ["ran"]);
}

#[test]
fn asking_again_while_it_runs_waits_for_the_one_run() {
    let member = Member::start(&[]);
    let first = member.begin_sh("t", &[], "echo ran >> DIR/ran; until test -e DIR/go; do sleep 0.05; done; echo done");
    let second = member.begin_sh("t", &[], "echo ran >> DIR/ran");
    assert_eq!(member.settle("t").outcome, "running");
    fs::write(member.path("go"), "").unwrap();
    let first = frame_of(first.wait_with_output().unwrap());
    assert_eq!((first.outcome.as_str(), first.stdout.as_str()), ("exited:0", "done\n"));
    assert_eq!(frame_of(second.wait_with_output().unwrap()), first);
    assert_eq!(member.lines_of("ran"), ["ran"]);
}

#[test]
fn a_lost_client_changes_nothing() {
    let member = Member::start(&[]);
    let mut client = member.begin_sh("t", &[], "until test -e DIR/go; do sleep 0.05; done; echo done; exit 4");
    client.kill().unwrap();
    client.wait().unwrap();
    assert_eq!(member.settle("t").outcome, "running");
    fs::write(member.path("go"), "").unwrap();
    eventually("its end", || member.settle("t").outcome == "exited:4");
    assert_eq!(member.settle("t").stdout, "done\n");
}

#[test]
fn a_client_whose_output_is_closed_says_so_and_changes_nothing() {
    let member = Member::start(&[]);
    let mut client =
        member.ask("exec", &["--token", "t", "--uid", UID, "--deadline", "5"], &["sh", "-c", "sleep 0.3; exit 5"]);
    let mut client = client.stdout(Stdio::piped()).spawn().unwrap();
    drop(client.stdout.take());
    assert_eq!(client.wait().unwrap().code(), Some(1));
    assert_eq!(member.settle("t").outcome, "exited:5");
}

#[test]
fn another_pods_uid_is_refused_everywhere() {
    let member = Member::start(&["--status-arg", "true"]);
    let ask = |verb, options: &[&str]| {
        frame_of(member.ask(verb, options, &["touch", member.path("ran").to_str().unwrap()]).output().unwrap())
    };
    assert_eq!(ask("exec", &["--token", "t", "--uid", "other", "--deadline", "5"]).outcome, "not-started:wrong-uid");
    // In the pod it was meant for it may have run: nothing is settled, nothing voided.
    assert_eq!(ask("settle", &["--token", "t", "--uid", "other"]).outcome, "unknown:wrong-uid");
    assert_eq!(ask("status", &["--uid", "other"]).outcome, "not-started:wrong-uid");
    assert!(!member.path("ran").exists());
    assert_eq!(member.sh("t", "true").outcome, "exited:0");
}

#[test]
fn a_second_command_finds_it_busy_and_may_come_again() {
    let member = Member::start(&[]);
    let first = member.begin_sh("first", &[], "until test -e DIR/go; do sleep 0.05; done");
    let busy = member.sh("second", "echo ran >> DIR/ran");
    assert_eq!((busy.outcome.as_str(), busy.stderr.as_str()), ("not-started:busy", "busy: first\n"));
    assert_eq!(member.lines_of("ran").len(), 0);
    fs::write(member.path("go"), "").unwrap();
    assert_eq!(frame_of(first.wait_with_output().unwrap()).outcome, "exited:0");
    // After the first answer no command is running.
    assert_eq!(member.sh("second", "echo ran >> DIR/ran").outcome, "exited:0");
}

#[test]
fn a_settled_token_is_void_for_ever_and_a_late_exec_of_it_is_refused() {
    let mut member = Member::start(&[]);
    assert_eq!(member.settle("late").outcome, "void");
    assert_eq!(member.sh("late", "echo ran >> DIR/ran").outcome, "not-started:void");
    member.kill();
    member.begin();
    assert_eq!(member.sh("late", "echo ran >> DIR/ran").outcome, "not-started:void");
    assert_eq!(member.settle("late").outcome, "void");
    assert!(!member.path("ran").exists());
}

#[test]
fn a_void_that_many_others_followed_is_still_refused() {
    let member = Member::start(&[]);
    assert_eq!(member.settle("late").outcome, "void");
    for n in 0..260 {
        member.settle(&format!("t{n}"));
    }
    assert!(!member.path("state/tokens/late").exists(), "not pruned yet: the test proves nothing");
    assert_eq!(member.sh("late", "echo ran >> DIR/ran").outcome, "not-started:void");
}

#[test]
fn when_no_token_can_be_remembered_any_more_none_starts() {
    let mut member = Member::start(&[]);
    assert_eq!(member.sh("known", "echo ran >> DIR/ran; exit 3").outcome, "exited:3");
    assert_eq!(member.settle("void").outcome, "void");
    member.kill();
    // As many as there may be; none of them is a hash of ours.
    let hashes = fs::File::create(member.path("state/retired.hashes")).unwrap();
    hashes.set_len(4 * 1024 * 1024 * 8).unwrap();
    member.begin();
    for token in ["new", "newer"] {
        assert_eq!(member.sh(token, "echo ran >> DIR/ran").outcome, "not-started:tokens-full");
        assert_eq!(member.settle(token).outcome, "void", "it can never start here");
    }
    assert_eq!(member.sh("known", "echo ran >> DIR/ran").outcome, "exited:3");
    assert_eq!(member.settle("void").outcome, "void");
    assert_eq!(member.lines_of("ran"), ["ran"]);
    assert_eq!(fs::read_dir(member.path("state/tokens")).unwrap().count(), 2, "what is void here takes no room");
    assert_eq!(fs::metadata(member.path("state/retired.hashes")).unwrap().len(), 4 * 1024 * 1024 * 8);
}

#[test]
fn what_an_earlier_runner_retired_never_starts_again() {
    let mut member = Member::start(&[]);
    member.kill();
    fs::write(member.path("state/retired"), "\nseed-1-a used\n\nseed-2-b void\n").unwrap();
    member.begin();
    assert_eq!(member.sh("seed-1-a", "echo ran >> DIR/ran").outcome, "unknown:forgotten");
    assert_eq!(member.sh("seed-2-b", "echo ran >> DIR/ran").outcome, "not-started:void");
    assert!(!member.path("ran").exists());
}

#[test]
fn a_command_that_the_container_did_not_survive_is_interrupted() {
    let mut member = Member::start(&[]);
    let client = member.begin_sh("t", &[], "echo ran >> DIR/ran; until test -e DIR/go; do sleep 0.05; done");
    eventually("it ran", || member.lines_of("ran").len() == 1);
    member.kill();
    assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "unknown:no-answer");
    fs::write(member.path("go"), "").unwrap();
    member.begin();
    assert_eq!(member.settle("t").outcome, "interrupted");
    assert_eq!(member.sh("t", "echo ran >> DIR/ran").outcome, "interrupted");
    assert_eq!(member.lines_of("ran"), ["ran"]);
}

#[test]
fn without_a_runner_only_an_unused_token_counts_as_not_started() {
    let mut member = Member::start(&["--status-arg", "true"]);
    member.sh("used", "true");
    member.kill();
    assert_eq!(member.sh("unused", "true").outcome, "not-started:no-runner");
    assert_eq!(member.sh("used", "true").outcome, "unknown:no-runner");
    assert_eq!(member.settle("unused").outcome, "unknown:no-runner");
    assert_eq!(member.status().outcome, "not-started:no-runner");
}

#[test]
fn what_cannot_be_executed_is_not_started() {
    let member = Member::start(&[]);
    fs::write(member.path("plain"), "x").unwrap();
    let plain = member.path("plain");
    let run = |token, program: &str| member.exec_with(token, &[], &[program]).outcome;
    assert_eq!(run("a", "/no/such/file"), "not-started:no-such-file");
    assert_eq!(run("b", "no-such-program-in-path"), "not-started:no-such-file");
    assert_eq!(run("c", plain.to_str().unwrap()), "not-started:permission-denied");
    // No shell is ever asked to make sense of a text file.
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run("d", plain.to_str().unwrap()), "not-started:spawn-failed");
    assert_eq!(run("a", "true"), "not-started:no-such-file");
}

#[test]
fn argv_items_pass_as_they_are() {
    let member = Member::start(&[]);
    let items = ["-rf", "$(id)", "`id`", "a b", "", "--", "*", "grün", "line\nbreak", "'\"\\", &"x".repeat(63)];
    let argv = [&["sh", "-c", r#"printf '<%s>' "$@""#, "sh"], &items[..]].concat();
    let expected: String = items.iter().map(|item| format!("<{item}>")).collect();
    assert_eq!(member.exec_with("-rf", &[], &argv).stdout, expected);
}

#[test]
fn no_argv_and_no_environment_reaches_a_state_file_or_the_log() {
    let secret = "s3cr3t-in-argv";
    let mut member = Member::start(&["--grace", "1", "--stop-arg", "true", "--stop-arg", secret]);
    member.exec_with("done", &[], &["true", secret]);
    member.exec_with("missing", &[], &["/no/such/file", secret]);
    let client = member
        .ask("exec", &["--token", "runs", "--uid", UID, "--deadline", "20"], &["sh", "-c", "sleep 5", secret])
        .spawn();
    eventually("it starts", || member.path("state/tokens/runs").exists());
    let found = |dir: &std::path::Path| {
        let mut texts = Vec::new();
        for entry in walk(dir) {
            texts.extend(fs::read(entry).unwrap_or_default());
        }
        String::from_utf8_lossy(&texts).contains(secret)
    };
    assert!(!found(&member.path("state")));
    member.terminate();
    let mut log = String::new();
    loop {
        let line = member.log_line("");
        log.push_str(&line);
        if line.contains("ended") {
            break;
        }
    }
    assert!(!log.contains(secret), "{log}");
    assert!(!found(&member.path("state")));
    member.ended();
    client.unwrap().wait().unwrap();
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(dir)
        .unwrap()
        .flatten()
        .flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

#[test]
fn socket_and_records_belong_to_the_runners_user_alone() {
    let member = Member::start(&[]);
    member.sh("t", "true");
    for name in ["state", "state/socket", "state/tokens", "state/tokens/t"] {
        let mode = fs::metadata(member.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} {mode:o}");
    }
}

#[test]
fn two_runners_never_share_a_state_directory() {
    let member = Member::start(&[]);
    let second = member.serve_command().output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another tanist-run"));
    assert_eq!(member.sh("t", "true").outcome, "exited:0");
}

#[test]
fn half_a_request_starts_nothing_and_does_not_block_others() {
    use std::io::Write;
    let member = Member::start(&[]);
    let mut half = std::os::unix::net::UnixStream::connect(member.path("state/socket")).unwrap();
    half.write_all(b"\0\0\0\x40exec\0t\0pod-uid-1\0").unwrap();
    assert_eq!(member.sh("other", "true").outcome, "exited:0");
    assert_eq!(half.write(b"t").unwrap(), 1, "the half of a request is still waited for");
    drop(half);
    assert_eq!(member.settle("t").outcome, "void");
}

#[test]
fn a_record_that_cannot_be_written_means_not_started() {
    let member = Member::start(&[]);
    // Root writes anywhere, so the directory has to be gone.
    fs::remove_dir_all(member.path("state/scratch")).unwrap();
    assert_eq!(member.sh("t", "echo ran >> DIR/ran").outcome, "not-started:storage");
    assert_eq!(member.settle("u").outcome, "unknown:storage");
    assert!(!member.path("ran").exists());
}

#[test]
fn a_result_that_cannot_be_written_is_still_answered_again() {
    let member = Member::start(&[]);
    assert_eq!(member.sh("t", "rm -r DIR/state/scratch; exit 6").outcome, "exited:6");
    assert_eq!(member.sh("t", "exit 0").outcome, "exited:6");
    assert_eq!(member.settle("t").outcome, "exited:6");
}

#[test]
fn install_copies_a_working_executable() {
    let member = Member::start(&[]);
    let copy = member.path("copy");
    fs::write(&copy, "old").unwrap();
    assert!(std::process::Command::new(BIN).arg("install").arg(&copy).status().unwrap().success());
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::read(&copy).unwrap(), fs::read(BIN).unwrap());
    let left: Vec<_> = fs::read_dir(&member.dir).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}
