//! As PID 1 of a real PID namespace. Needs `unshare`, `nsenter` and the right to use them; elsewhere it fails, and says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod common;
use common::*;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `unshare` with its namespace: a failed assertion must not leave a container behind.
struct Container(Child);

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is not tried is not shown: nothing here passes by being skipped.
fn needs_namespaces() {
    let allowed = Command::new("unshare").args(["-p", "-f", "--mount-proc", "true"]).output();
    assert!(
        allowed.as_ref().is_ok_and(|output| output.status.success()),
        "these tests need the right to make a PID namespace (root, and unshare of util-linux): {allowed:?}"
    );
}

#[test]
fn as_pid_one_it_counts_reaps_stops_and_takes_everyone_along() {
    needs_namespaces();
    // Borrowed for its directory and for the client's side; its own runner is ended at once.
    let mut member = Member::start(&[]);
    member.kill();
    let status =
        member.script("sleep 0.3 > /dev/null 2>&1 & echo x >> DIR/polled; test -e DIR/app && kill -0 $(cat DIR/app) || exit 7; exit 8");
    let stop = member.script("kill $(cat DIR/app); echo stop >> DIR/stopped");
    let mut outer = Container(
        Command::new("unshare")
            .args(["-p", "-f", "--mount-proc", "--kill-child", BIN, "serve", "--uid", UID, "--grace", "10", "--state"])
            .arg(member.path("state"))
            .args(["--status-interval", "60", "--status-arg", "sh", "--status-arg", "-c", "--status-arg", &status])
            .args(["--stop-arg", "sh", "--stop-arg", "-c", "--stop-arg", &stop])
            // A probe of the template that runs all the time.
            .args([
                "--listen",
                "127.0.0.1:0",
                "--probe-timeout",
                "600",
                "--probe-exec-arg",
                "sleep",
                "--probe-exec-arg",
                "600",
            ])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut one = String::new();
    eventually("PID 1", || {
        let path = format!("/proc/{0}/task/{0}/children", outer.0.id());
        one = std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        !one.is_empty()
    });
    // Inside the namespace, as the kubelet would.
    let inside = |verb: &str, options: &[&str], argv: &[&str]| {
        let asked = member.ask(verb, options, argv);
        let command: Vec<_> = std::iter::once(asked.get_program()).chain(asked.get_args()).collect();
        let output = Command::new("nsenter").args(["-t", &one, "-p", "-m"]).args(command).output().unwrap();
        frame_of(output)
    };
    let status = || inside("status", &["--uid", UID], &[]);
    let run = |token: &str, script: &str| {
        let options = ["--token", token, "--uid", UID, "--deadline", "10"];
        inside("exec", &options, &["sh", "-c", &member.script(script)])
    };

    // What the first poll left behind is gone by then; what this one leaves is not the application either.
    eventually("the first poll", || member.lines_of("polled").len() == 1);
    eventually("what it left has ended", || children_of(one.parse().unwrap()) == ["sleep 600"]);
    let frame = status();
    assert_eq!(
        (frame.outcome.as_str(), frame.processes),
        ("exited:7", 0),
        "empty: neither PID 1, the client, the poll nor the probe counts"
    );
    let frame = run(
        "start",
        "setsid sh -c 'echo $$ > DIR/app; echo hello > /proc/1/fd/2; while :; do sleep 0.05 & wait; done' > /dev/null 2>&1 &",
    );
    assert_eq!(frame.outcome, "exited:0");
    eventually("it runs", || status().outcome == "exited:8");
    assert!(status().processes >= 1);
    // Orphans come to PID 1; none may stay as a zombie.
    run("orphans", "for n in 1 2 3 4 5; do setsid true & done");
    // What has just ended is a zombie until its parent looks, also the application's own children.
    let mut looks = 0;
    eventually("no zombie is left", || {
        looks += 1;
        run(&format!("zombies-{looks}"), "grep -l 'State:.Z' /proc/[0-9]*/status | wc -l").stdout.trim() == "0"
    });
    run("left", "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' > /dev/null 2>&1 & echo $!");

    let began = Instant::now();
    signal(one.parse().unwrap(), "TERM");
    assert_eq!(outer.0.wait().unwrap().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(60), "who ignores TERM is killed: {:?}", began.elapsed());
    assert_eq!(member.lines_of("stopped"), ["stop"]);
    assert!(!alive(&one));
}

#[test]
fn a_container_that_is_killed_interrupts_its_command() {
    needs_namespaces();
    let mut member = Member::start(&[]);
    member.kill();
    let mut outer = Container(
        Command::new("unshare")
            .args(["-p", "-f", "--mount-proc", "--kill-child", BIN, "serve", "--uid", UID, "--state"])
            .arg(member.path("state"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let client = member.begin_sh("t", &[], "echo ran >> DIR/ran; exec sleep 60");
    eventually("it ran", || member.lines_of("ran").len() == 1);
    outer.0.kill().unwrap();
    outer.0.wait().unwrap();
    assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "unknown:no-answer");
    eventually("the old one has let go", || {
        let lock = std::fs::File::open(member.path("state/lock")).unwrap();
        lock.try_lock().is_ok()
    });
    member.begin();
    assert_eq!(member.settle("t").outcome, "interrupted");
    assert_eq!(member.lines_of("ran"), ["ran"]);
}
