//! Status: it is polled, asked anew on request and paused on request; and readiness follows from it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod common;
use common::*;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;
use std::time::{Duration, Instant};

/// A status command that notes its begin and end, waits for as long as the file `slow` says and while there is a file `held`, and exits with `code`.
const NOTED: &str = "echo begin >> DIR/polls; sleep $(cat DIR/slow 2>/dev/null || echo 0); \
    while test -e DIR/held; do touch DIR/holds; sleep 0.02; done; echo end >> DIR/polls; exit $(cat DIR/code || echo 8)";

fn noted(interval: &str, timeout: &str) -> Member {
    let mut options = vec!["--listen", "127.0.0.1:0", "--status-interval", interval, "--status-timeout", timeout];
    for argument in ["sh", "-c", NOTED] {
        options.extend(["--status-arg", argument]);
    }
    Member::start(&options)
}

fn exec(member: &Member, token: &str, deadline: &str, script: &str) -> Output {
    let options = ["--token", token, "--uid", UID, "--deadline", deadline];
    member.ask("exec", &options, &["sh", "-c", &member.script(script)]).output().unwrap()
}

#[test]
fn the_status_that_came_of_a_command_follows_its_answer() {
    // A poll that hangs would be ended after ten minutes.
    let member = Member::with_status(&["--status-timeout", "600"]);
    // A client waits for the status for 2 s, and a slow machine may need more: then the same is run again under another token.
    let mut tries = 0;
    let mut followed = |script: &str| loop {
        tries += 1;
        let began = Instant::now();
        let output = exec(&member, &format!("t{tries}"), "20", script);
        let took = began.elapsed();
        assert_eq!(frame_of(output.clone()).outcome, "exited:0");
        if let Some(status) = following(&output) {
            break (status, took);
        }
        assert!(tries < 15, "no status follows");
    };
    // Its own poll, and never what an earlier one said.
    for code in [8, 0, 8] {
        assert_eq!(followed(&format!("echo {code} > DIR/code")).0.outcome, format!("exited:{code}"));
    }
    // How old it is at most can be said by who asked, however long the answer is under way.
    let (status, took) = followed("sleep 0.3");
    let after = u128::from(status.after.unwrap());
    assert!((300..=took.as_millis()).contains(&after), "{after} ms of {took:?}");
    // A command that was not tried changed nothing, and a status that does not answer delays nothing for long.
    assert_eq!(
        status_after(
            &member.ask("exec", &["--token", "x", "--uid", "other", "--deadline", "1"], &["true"]).output().unwrap()
        ),
        None
    );
    let began = Instant::now();
    assert_eq!(status_after(&exec(&member, "hung", "20", "rm DIR/code; mkfifo DIR/code")), None);
    assert!(began.elapsed() < Duration::from_secs(100), "the poll is waited for: {:?}", began.elapsed());
    // What still waits at the pipe would outlive its member. Opened for both, a pipe waits for nobody.
    fs::hard_link(member.path("code"), member.path("pipe")).unwrap();
    member.says(7);
    let mut pipe = fs::OpenOptions::new().read(true).write(true).open(member.path("pipe")).unwrap();
    pipe.write_all(b"7").unwrap();
}

#[test]
fn who_asks_again_for_a_command_gets_a_new_status() {
    let member = Member::with_status(&[]);
    // Only the first question runs it. A client waits for the status for 2 s: a slow machine may need another question.
    let status = || {
        let mut status = None;
        eventually("a status follows", || {
            let output = exec(&member, "late", "10", "echo 9 > DIR/code; sleep 60");
            assert_eq!(frame_of(output.clone()).outcome, "unknown:deadline");
            status = status_after(&output);
            status.is_some()
        });
        status.unwrap()
    };
    assert_eq!(status(), "exited:9", "also a command that its deadline ended may have changed something");
    member.says(0);
    assert_eq!(status(), "exited:0", "asked again, it looks again");
}

#[test]
fn an_application_that_ends_is_noticed_long_before_the_next_poll() {
    // Nobody would wait 40 s for the next poll here.
    let member = noted("40", "5");
    member.says(8);
    eventually("8 is read", || member.get("/status").1.starts_with("{\"code\":8,"));
    let daemon =
        "setsid sh -c 'echo $$ > DIR/pid; exec sleep 60' >/dev/null 2>&1 </dev/null & until [ -s DIR/pid ]; do :; done";
    let options = ["--token", "start", "--uid", UID, "--deadline", "5"];
    assert_eq!(
        frame_of(member.ask("exec", &options, &["sh", "-c", &member.script(daemon)]).output().unwrap()).outcome,
        "exited:0"
    );
    member.says(7);
    let end = "kill -9 $(cat DIR/pid)";
    let killed = std::process::Command::new("sh").args(["-c", &member.script(end)]).status().unwrap();
    assert!(killed.success());
    eventually("7 is read", || member.get("/status").1.starts_with("{\"code\":7,"));
}

#[test]
fn a_status_command_that_leaves_orphans_does_not_bring_itself_on() {
    // The orphan is reaped, and that is noticed, while its poll still runs: otherwise it would rightly bring the next one on.
    let orphan = "echo begin >> DIR/polls; orphan=$(sh -c 'sleep 0.1 > /dev/null 2>&1 & echo $!'); \
        while kill -0 $orphan 2> /dev/null; do sleep 0.02; done; sleep 0.4; exit $(cat DIR/code)";
    let mut options = vec!["--listen", "127.0.0.1:0", "--status-interval", "2", "--status-timeout", "60"];
    for argument in ["sh", "-c", orphan] {
        options.extend(["--status-arg", argument]);
    }
    let began = Instant::now();
    let member = Member::start(&options);
    member.says(8);
    // Every second of them at most is brought on, half a second after the one before; the others come 2 s after its end.
    eventually("five polls", || member.lines_of("polls").len() >= 5);
    assert!(began.elapsed() >= Duration::from_secs(4), "five polls within {:?}", began.elapsed());
}

#[test]
fn the_status_command_is_polled_and_its_code_stands() {
    let member = Member::with_status(&[]);
    eventually("7 is read", || member.get("/status").1.starts_with("{\"code\":7,"));
    member.says(8);
    eventually("8 is read", || member.get("/status").1.starts_with("{\"code\":8,"));
    // Polls come all the time, so soon one is less than a second old.
    let said = (200, "{\"code\":8,\"expect\":\"stopped\",\"busy\":false,\"age\":0}\n".to_owned());
    eventually("a status of this moment", || member.get("/status") == said);
}

#[test]
fn asking_for_status_begins_a_new_poll_and_joins_no_older_one() {
    let member = noted("60", "5");
    eventually("the first poll", || member.lines_of("polls").len() == 2);
    fs::write(member.path("slow"), "0.7").unwrap();
    fs::write(member.path("code"), "0").unwrap();
    // This poll runs when the next question comes, which must not get its answer.
    let older = member.ask("status", &["--uid", UID], &[]).spawn().unwrap();
    eventually("the older poll", || member.lines_of("polls").len() == 3);
    fs::write(member.path("code"), "8").unwrap();
    let fresh = member.status();
    assert_eq!((fresh.token.as_str(), fresh.outcome.as_str()), ("-", "exited:8"));
    assert_eq!(member.lines_of("polls"), ["begin", "end", "begin", "end", "begin", "end"]);
    drop(older.wait_with_output());
}

#[test]
fn the_frame_of_a_status_carries_its_output() {
    let member =
        Member::start(&["--status-arg", "sh", "--status-arg", "-c", "--status-arg", "echo why; echo err >&2; exit 9"]);
    let frame = member.status();
    assert_eq!((frame.outcome.as_str(), frame.stdout.as_str(), frame.stderr.as_str()), ("exited:9", "why\n", "err\n"));
    assert_eq!(Member::start(&[]).status().outcome, "not-started:no-status-command");
    assert_eq!(Member::start(&["--status-arg", "/no/such"]).status().outcome, "not-started:no-such-file");
}

#[test]
fn a_hung_status_is_killed_and_polls_never_overlap() {
    let member = noted("0.1", "0.4");
    fs::write(member.path("slow"), "600").unwrap();
    eventually("one hangs", || member.lines_of("polls").last().is_some_and(|line| line == "begin"));
    assert_eq!(member.status().outcome, "unknown:deadline");
    fs::write(member.path("polls"), "").unwrap();
    // Every poll leads a process group of its own. A fork of a killed shell looks like a shell and is the runner's child too until it
    // has died, but it leads none.
    let parent = member.pid().to_string();
    let is_poll = |stat: &str| {
        stat.rsplit_once(") ").is_some_and(|(name, fields)| {
            let fields: Vec<&str> = fields.split(' ').collect();
            let leads = name.split(' ').next() == fields.get(2).copied();
            name.ends_with("(sh") && leads && fields.first() != Some(&"Z") && fields.get(1) == Some(&parent.as_str())
        })
    };
    // One that ended while the list was read is not counted beside the one after it: all that were seen are looked at again.
    let running = || {
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path().join("stat"));
        let runs = |stat: &std::path::PathBuf| fs::read_to_string(stat).is_ok_and(|stat| is_poll(&stat));
        let seen: Vec<_> = processes.filter(runs).collect();
        seen.into_iter().filter(runs).count()
    };
    let mut most = 0;
    eventually("polls go on after hung ones", || {
        most = running().max(most);
        member.lines_of("polls").len() >= 5
    });
    assert_eq!(most, 1, "one poll at a time");
    fs::write(member.path("slow"), "0").unwrap();
    eventually("it recovers", || member.status().outcome == "exited:8");
}

#[test]
fn askers_and_the_interval_together_never_make_two_polls_at_once() {
    let member = noted("0.05", "5");
    fs::write(member.path("slow"), "0.1").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..4).for_each(|_| assert_eq!(member.status().outcome, "exited:8")));
        }
    });
    let polls = member.lines_of("polls");
    assert!(polls.chunks(2).filter(|pair| pair.len() == 2).all(|pair| pair == ["begin", "end"]), "{polls:?}");
}

#[test]
fn the_last_answer_stands_until_three_polls_failed_in_a_row() {
    let member = noted("0.6", "60");
    eventually("8 stands", || member.get("/status").1.contains("\"code\":8"));
    // Exits with a code that says nothing; the file tells how often. The one that is held until then is the first of them: it notes only its end.
    fs::write(member.path("held"), "").unwrap();
    eventually("a poll is held", || member.path("holds").exists());
    fs::write(member.path("code"), "1").unwrap();
    fs::write(member.path("polls"), "").unwrap();
    fs::remove_file(member.path("held")).unwrap();
    let count = |word: &str| member.lines_of("polls").iter().filter(|line| *line == word).count();
    eventually("the third has begun", || {
        let said = member.get("/status").1;
        let third = count("begin") > 1;
        // What was said before the third began rests on two that failed.
        assert!(third || said.contains("\"code\":8"), "{said}");
        third
    });
    eventually("three failed", || count("end") >= 3);
    eventually("unknown", || member.get("/status").1.contains("\"code\":null"));
    fs::write(member.path("code"), "8").unwrap();
    eventually("known again", || member.get("/status").1.contains("\"code\":8"));
}

#[test]
fn a_quiet_command_waits_for_the_running_poll_and_none_runs_beside_it() {
    let member = noted("0.05", "5");
    fs::write(member.path("slow"), "0.3").unwrap();
    eventually("a slow poll runs", || {
        std::thread::sleep(Duration::from_millis(100));
        member.lines_of("polls").last().is_some_and(|line| line == "begin")
    });
    let script = "echo command >> DIR/polls; until test -e DIR/go; do sleep 0.05; done; echo over >> DIR/polls";
    let client = member.begin_sh("t", &["--quiet-status"], script);
    eventually("it runs", || member.lines_of("polls").contains(&"command".to_owned()));
    // A question in the meantime gets the reason why there is no answer, at once.
    for _ in 0..20 {
        assert_eq!(member.status().outcome, "unknown:quiet");
    }
    fs::write(member.path("go"), "").unwrap();
    assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "exited:0");
    eventually("polls go on", || member.lines_of("polls").last().is_some_and(|line| line == "end"));
    let polls = member.lines_of("polls");
    let at = polls.iter().position(|line| line == "command").unwrap();
    assert!(at > 0 && polls[at - 1] == "end", "the running poll was not awaited: {polls:?}");
    assert_eq!(polls[at + 1], "over", "{polls:?}");
    assert_eq!(member.status().outcome, "exited:8");
}

#[test]
fn a_quiet_command_whose_deadline_passes_before_it_may_start_is_not_started() {
    let member = noted("0.05", "300");
    fs::write(member.path("held"), "").unwrap();
    eventually("a poll is held", || member.path("holds").exists());
    let options = ["--token", "t", "--uid", UID, "--deadline", "0.2", "--quiet-status"];
    let frame =
        frame_of(member.ask("exec", &options, &["touch", member.path("ran").to_str().unwrap()]).output().unwrap());
    assert_eq!(frame.outcome, "not-started:deadline");
    assert!(!member.path("ran").exists());
    fs::remove_file(member.path("held")).unwrap();
    eventually("polls go on", || member.status().outcome == "exited:8");
}

#[test]
fn without_quiet_status_polls_go_on_beside_a_command() {
    let member = noted("0.05", "5");
    let client = member.begin_sh("t", &[], "until test -e DIR/go; do sleep 0.05; done");
    let before = member.lines_of("polls").len();
    eventually("polls go on", || member.lines_of("polls").len() > before + 4);
    assert_eq!(member.status().outcome, "exited:8");
    fs::write(member.path("go"), "").unwrap();
    client.wait_with_output().unwrap();
}

// S32: an operator that has lost its record learns that a command runs. One that ends while the status is read counts too: it may have taken effect just after the
// status command looked.
#[test]
fn a_status_says_which_command_runs() {
    let member = noted("60", "5");
    assert_eq!(member.status().running, None);
    let client = member.begin_sh("seed-1-n", &[], "until test -e DIR/go; do sleep 0.05; done");
    eventually("it runs", || member.status().running.as_deref() == Some("seed-1-n"));
    let polls = member.lines_of("polls").len();
    fs::write(member.path("slow"), "1").unwrap();
    let asked = member.ask("status", &["--uid", UID], &[]).spawn().unwrap();
    eventually("a poll begins", || member.lines_of("polls").len() == polls + 1);
    fs::write(member.path("go"), "").unwrap();
    assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "exited:0");
    let during = frame_of(asked.wait_with_output().unwrap());
    assert_eq!((during.outcome.as_str(), during.running.as_deref()), ("exited:8", Some("seed-1-n")));
    fs::write(member.path("slow"), "0").unwrap();
    assert_eq!(member.status().running, None);
}

#[test]
fn readiness_follows_expectation_and_status() {
    let mut member = Member::with_status(&[]);
    eventually("stopped as expected", || member.ready() == 200);
    // It runs although no command started it.
    member.says(8);
    eventually("unexpected primary", || member.ready() == 503);
    member.says(7);
    eventually("stopped again", || member.ready() == 200);

    let start = "echo 10 > DIR/code; until test -e DIR/go; do sleep 0.05; done; echo 8 > DIR/code";
    let client = member.begin_sh("start", &["--expect", "running"], start);
    let (code, body) = member.get("/ready");
    assert_eq!((code, body.split(' ').next()), (503, Some("changing")));
    assert!(member.get("/status").1.contains("\"busy\":true"));
    fs::write(member.path("go"), "").unwrap();
    assert_eq!(frame_of(client.wait_with_output().unwrap()).outcome, "exited:0");
    eventually("primary", || member.ready() == 200);
    assert!(member.get("/ready").1.starts_with("ready code=8 expect=running age="));
    for (code, ready) in [(0, 200), (9, 503), (8, 200), (10, 503), (0, 200), (7, 503), (8, 200)] {
        member.says(code);
        eventually(&format!("{code} means {ready}"), || member.get("/ready").1.contains(&format!("code={code} ")));
        assert_eq!(member.ready(), ready, "{code}");
    }
    // A command that fails leaves the expectation as it was.
    member.exec_with("fails", &["--expect", "stopped"], &["false"]);
    assert_eq!(member.ready(), 200);
    // A new incarnation expects nothing to run.
    member.kill();
    member.begin();
    eventually("8 is read", || member.get("/ready").1.contains("code=8 expect=stopped"));
    assert_eq!(member.ready(), 503);
    member.exec_with("runs", &["--expect", "running"], &["true"]);
    eventually("running", || member.ready() == 200);
    member.exec_with("stops", &["--expect", "stopped"], &["true"]);
    assert_eq!(member.ready(), 503);
    member.says(7);
    eventually("stopped", || member.ready() == 200);
}

#[test]
fn without_a_status_yet_nothing_is_ready() {
    let member = noted("0.1", "5");
    fs::write(member.path("slow"), "60").unwrap();
    let bare = Member::start(&["--listen", "127.0.0.1:0"]);
    assert_eq!(bare.get("/ready"), (503, "not-ready code=unknown expect=stopped age=none\n".into()));
    assert_eq!(bare.get("/status").1, "{\"code\":null,\"expect\":\"stopped\",\"busy\":false,\"age\":null}\n");
}

#[test]
fn hostile_http_neither_stops_nor_fills_the_responder() {
    let member = Member::with_status(&[]);
    eventually("ready", || member.ready() == 200);
    let before = member.memory_kb();
    let idle: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(("127.0.0.1", member.port)).unwrap()).collect();
    assert_eq!(member.ready(), 200, "an answer at all: each idle one has its time");
    drop(idle);
    let end_after = |bytes: &[u8]| {
        let mut endless = TcpStream::connect(("127.0.0.1", member.port)).unwrap();
        let began = Instant::now();
        endless.write_all(bytes).unwrap();
        let _ = endless.read(&mut [0; 1]);
        began.elapsed()
    };
    let time = end_after(b"x");
    let fastest = (0..20).map(|_| end_after(&[b'x'; 4096])).min().unwrap();
    assert!(fastest < time, "too many bytes end it before the time does: {fastest:?} and {time:?}");
    for request in ["POST /ready HTTP/1.1\r\n\r\n", "GET /etc/passwd HTTP/1.1\r\n\r\n", "\r\n\r\n", "GET\r\n\r\n"] {
        let text = member.http(request);
        assert!(text.starts_with("HTTP/1.1 40"), "{request:?}: {text}");
    }
    assert_eq!(member.ready(), 200);
    assert!(member.memory_kb() < before + 2048);
}
