//! The readiness probe of the pod template, carried out here: ready is what our status calls ready and that probe too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod common;
use common::*;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

const FAST: [&str; 4] = ["--probe-period", "0.1", "--probe-timeout", "5"];

fn probed(probe: &[&str]) -> Member {
    Member::with_status(&[&FAST[..], probe].concat())
}

fn exec_probe(script: &str, more: &[&str]) -> Member {
    probed(&[&["--probe-exec-arg", "sh", "--probe-exec-arg", "-c", "--probe-exec-arg", script], more].concat())
}

#[test]
fn ready_needs_both() {
    let member = exec_probe("test -e DIR/fine", &[]);
    eventually("7 is read", || member.get("/ready").1.contains("code=7"));
    assert!(member.get("/ready").1.starts_with("not-ready code=7 expect=stopped"));
    assert!(member.get("/ready").1.ends_with(" probe=failing\n"));
    fs::write(member.path("fine"), "").unwrap();
    eventually("both are good", || member.ready() == 200);
    assert!(member.get("/ready").1.ends_with(" probe=good\n"));
    // The death of the application does not wait for the probe, whose file is still there.
    member.says(9);
    eventually("the status says no", || member.ready() == 503);
    assert!(member.get("/ready").1.ends_with(" probe=good\n"));
    member.says(7);
    eventually("good again", || member.ready() == 200);
    fs::remove_file(member.path("fine")).unwrap();
    eventually("the probe says no", || member.ready() == 503);
}

#[test]
fn thresholds_count_tries_in_a_row() {
    let member =
        exec_probe("echo try >> DIR/tries; test -e DIR/fine", &["--probe-success", "3", "--probe-failure", "4"]);
    eventually("7 is read", || member.get("/ready").1.contains("code=7"));
    let tries = || member.lines_of("tries").len();
    for (fine, most, ready) in [(true, 3, 200), (false, 4, 503)] {
        // One that is noted already may look after the change.
        let before = tries();
        match fine {
            true => fs::write(member.path("fine"), "").unwrap(),
            false => fs::remove_file(member.path("fine")).unwrap(),
        }
        eventually("it turns", || member.ready() == ready);
        assert!(tries() >= before + most - 1, "{} tries", tries() - before);
    }
}

#[test]
fn it_waits_for_its_initial_delay() {
    let member = exec_probe("echo try >> DIR/tries", &["--probe-delay", "600"]);
    // A whole round of polls passes, and readiness without the probe would be there.
    eventually("7 is read", || member.get("/ready").1.contains("code=7"));
    assert_eq!((member.ready(), member.lines_of("tries").len()), (503, 0));
}

#[test]
fn a_probe_that_hangs_fails_and_is_killed() {
    let member = exec_probe("echo $$ >> DIR/pids; exec sleep 600", &["--probe-timeout", "0.3", "--probe-failure", "1"]);
    eventually("the second try", || member.lines_of("pids").len() >= 2);
    assert!(!alive(&member.lines_of("pids")[0]));
    assert_eq!(member.ready(), 503);
}

/// Answers every request with this; what was asked comes out of the channel.
fn server(address: IpAddr, answer: &'static str) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, asked) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap_or(0);
            let _ = stream.write_all(answer.as_bytes());
            let _ = tell.send(String::from_utf8_lossy(&request[..length]).into_owned());
        }
    });
    (port, asked)
}

#[test]
fn http_asks_as_the_template_says() {
    let (port, asked) = server(Ipv4Addr::LOCALHOST.into(), "HTTP/1.1 204 No Content\r\n\r\n");
    let port = port.to_string();
    let member =
        probed(&["--probe-http-port", &port, "--probe-http-path", "/up?x=1", "--probe-http-header", "X-Who: me"]);
    eventually("ready", || member.ready() == 200);
    let request = asked.recv().unwrap();
    assert!(request.starts_with("GET /up?x=1 HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains(&format!("\r\nHost: 127.0.0.1:{port}\r\n")) && request.contains("\r\nX-Who: me\r\n"),
        "{request}"
    );
    let (port, asked) = server(Ipv4Addr::LOCALHOST.into(), "HTTP/1.1 500 No\r\n\r\n");
    let member = probed(&[
        "--probe-http-port",
        &port.to_string(),
        "--probe-http-path",
        "/",
        "--probe-http-header",
        "host: here",
    ]);
    for _ in 0..4 {
        let request = asked.recv().unwrap();
        assert_eq!(request.to_lowercase().matches("\r\nhost: ").count(), 1, "{request}");
    }
    eventually("7 is read", || member.get("/ready").1.contains("code=7"));
    assert_eq!(member.ready(), 503);
}

#[test]
fn tcp_needs_only_to_be_accepted() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let member = probed(&["--probe-tcp-port", &port.to_string(), "--probe-failure", "1"]);
    eventually("7 is read", || member.get("/ready").1.contains("code=7"));
    assert_eq!(member.ready(), 503);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    eventually("accepted", || member.ready() == 200);
    drop(listener);
    eventually("refused", || member.ready() == 503);
}

/// Whether this machine has the IPv6 loopback address; says so if not.
fn has_ipv6() -> bool {
    let has = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        eprintln!("there is no ::1 here: only the fallback is tried");
    }
    has
}

#[test]
fn an_application_may_listen_on_ipv6_alone() {
    if !has_ipv6() {
        return;
    }
    let (port, _asked) = server(Ipv6Addr::LOCALHOST.into(), "HTTP/1.1 200 OK\r\n\r\n");
    let member = probed(&["--probe-http-port", &port.to_string(), "--probe-http-path", "/"]);
    eventually("ready", || member.ready() == 200);
}

#[test]
fn readiness_is_served_in_both_families() {
    for all in ["0.0.0.0:0", "[::]:0"] {
        let member =
            Member::start(&["--listen", all, "--status-arg", "sh", "--status-arg", "-c", "--status-arg", "exit 7"]);
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, member.port)).is_ok(), "{all}");
        if has_ipv6() {
            assert!(TcpStream::connect((Ipv6Addr::LOCALHOST, member.port)).is_ok(), "{all}");
        }
    }
}

/// The address of a pod that has IPv6 alone.
const POD_IP: &str = "fd00::1";

/// Set for the process that is in such a pod's network.
const INSIDE: &str = "TANIST_TEST_WITHOUT_IPV4";

/// Who may make a network: root, or anybody who may be root in a namespace of his own.
const WAYS: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];

/// A program in a network of its own, where not even the loopback interface has an IPv4 address.
fn without_ipv4(way: &[&str], program: impl AsRef<OsStr>) -> Command {
    let network = format!("ip link set lo up && ip -4 address flush dev lo && ip -6 address add {POD_IP} dev lo nodad");
    let mut command = Command::new("unshare");
    command.args(way).args(["sh", "-c", &format!("{network} && exec \"$@\""), "sh"]).arg(program);
    command
}

// As in an IPv6-only cluster. The test starts itself once more, in such a network.
#[test]
fn a_pod_needs_no_ipv4() {
    if std::env::var_os(INSIDE).is_some() {
        return is_ready_without_ipv4();
    }
    let works = |way: &&&[&str]| without_ipv4(way, "true").output().is_ok_and(|output| output.status.success());
    // What is not tried is not shown: the other tests of IPv6 may find no address for it here, this one makes its own.
    let way = WAYS
        .iter()
        .find(works)
        .expect("this test needs unshare, ip and a kernel with IPv6, to make a network of its own");
    let mut inside = without_ipv4(way, std::env::current_exe().unwrap());
    inside.args(["--exact", "a_pod_needs_no_ipv4", "--nocapture"]).env(INSIDE, "1").env("TANIST_POD_IP", POD_IP);
    let output = inside.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    // To find no test of that name would be a success, too.
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn is_ready_without_ipv4() {
    let own: Ipv6Addr = POD_IP.parse().unwrap();
    assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).is_err(), "there is IPv4");
    // The application listens on the loopback address, or on that of the pod alone.
    for address in [Ipv6Addr::LOCALHOST, own] {
        let (port, _asked) = server(address.into(), "HTTP/1.1 200 OK\r\n\r\n");
        let port = port.to_string();
        let status = ["--status-arg", "sh", "--status-arg", "-c", "--status-arg", "exit 7"];
        let probe = ["--probe-http-port", port.as_str(), "--probe-http-path", "/"];
        // As in all templates.
        let listen = ["--listen", "0.0.0.0:0"];
        let member = Member::start(&[&FAST[..], &listen, &status, &probe].concat());
        // As the kubelet asks: at the pod's address.
        eventually("ready", || {
            let mut said = String::new();
            let mut stream = TcpStream::connect((own, member.port)).unwrap();
            let asked = stream.write_all(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n");
            let _ = asked.and_then(|()| stream.read_to_string(&mut said));
            said.starts_with("HTTP/1.1 200 ")
        });
    }
}

#[test]
fn mistakes_in_a_probe_are_named_before_anything_starts() {
    for probe in [
        &["--probe-tcp-port", "0"][..],
        &["--probe-tcp-port", "1", "--probe-exec-arg", "true"],
        &["--probe-http-port", "80", "--probe-http-path", "up"],
        &["--probe-http-port", "80", "--probe-http-path", "/", "--probe-http-header", "a: b\r\nc: d"],
        &["--probe-tcp-port", "1", "--probe-failure", "0"],
    ] {
        let mut command = std::process::Command::new(BIN);
        let output = command.args(["serve", "--state", "/nowhere", "--uid", UID]).args(probe).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{probe:?}");
    }
    let mut command = std::process::Command::new(BIN);
    let command = command.args(["serve", "--state", "/nowhere", "--uid", UID]);
    let output = command.env("TANIST_RUN_OPTIONS", "--probe-tcp-port\n0").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "options come from the environment too");
}
