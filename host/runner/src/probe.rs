//! The readiness probe of the pod template, carried out as a kubelet would.
//!
//! A container has only one readiness probe, and readiness shows the death of an application within seconds. So the operator replaces a probe of
//! the pod template by the runner's and passes it to the runner: the container is ready if both the status and that probe say so.
//!
//! Differences from a kubelet: loopback addresses are tried before the pod's address; redirects are not followed, they count as success; and
//! output is dropped.
use crate::children::{Children, Purpose, read_exit};
use crate::command::{self, Order};
use crate::limits::PROBE_BYTES;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tanist_protocol::outcome::Outcome;

/// The check of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A command in this container: exit code 0 is success.
    Exec(Vec<OsString>),
    /// A GET request: 200 to 399 is success.
    Http {
        /// The port to which the request goes.
        port: u16,
        /// The path, from the slash.
        path: String,
        /// The headers, each as `Name: value`.
        headers: Vec<String>,
    },
    /// A connection to this port: success if it is accepted.
    Tcp(u16),
}

/// A probe's settings, named as in a pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is tried at each check: a command, a GET request or a connection.
    pub check: Check,
    /// The time from the start of this process to the first check.
    pub delay: Duration,
    /// The time from the beginning of a check to that of the next one.
    pub period: Duration,
    /// How long a check may take.
    pub timeout: Duration,
    /// Successes in a row after which the probe is good.
    pub success: u32,
    /// Failures in a row after which the probe is failing.
    pub failure: u32,
    /// The pod's own address. Absent: not known.
    pub address: Option<IpAddr>,
}

/// The probe and its result.
#[derive(Debug)]
pub struct Probe {
    plan: Plan,
    children: Arc<Children>,
    good: AtomicBool,
}

impl Probe {
    /// A probe that is not good before its first successes.
    pub fn new(plan: Plan, children: Arc<Children>) -> Probe {
        Probe { plan, children, good: AtomicBool::new(false) }
    }

    /// The current result.
    pub fn is_good(&self) -> bool {
        self.good.load(Ordering::SeqCst)
    }

    /// Checks forever, one check at a time.
    pub fn run(&self) {
        sleep(self.plan.delay);
        let (mut passed, mut failed) = (0_u32, 0_u32);
        loop {
            let began = Instant::now();
            if self.passes(began + self.plan.timeout) {
                (passed, failed) = (passed.saturating_add(1), 0);
            } else {
                (passed, failed) = (0, failed.saturating_add(1));
            }
            if passed >= self.plan.success {
                self.good.store(true, Ordering::SeqCst);
            } else if failed >= self.plan.failure {
                self.good.store(false, Ordering::SeqCst);
            }
            sleep(self.plan.period.saturating_sub(began.elapsed()));
        }
    }

    fn passes(&self, deadline: Instant) -> bool {
        match &self.plan.check {
            Check::Exec(argv) => self.exits_well(argv, deadline),
            Check::Tcp(port) => self.connect(*port, deadline).is_some(),
            Check::Http { port, path, headers } => {
                self.connect(*port, deadline).and_then(|stream| get(stream, path, headers, deadline)).is_some()
            }
        }
    }

    fn exits_well(&self, argv: &[OsString], deadline: Instant) -> bool {
        let order = Order { argv, env: &[], purpose: Purpose::Probe, deadline, shutdown: None, to_log: false };
        let ran = command::run(&self.children, &order);
        if let Some(exit) = ran.unreaped {
            // It hangs in the kernel. No check follows until it is reaped, so the result is not good meanwhile.
            self.good.store(false, Ordering::SeqCst);
            read_exit(&exit);
        }
        ran.outcome == Outcome::Exited(0)
    }

    /// Connects to the first address of this pod that accepts.
    fn connect(&self, port: u16, deadline: Instant) -> Option<TcpStream> {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        loopback.into_iter().chain(self.plan.address).find_map(|address| {
            let left = left(deadline)?;
            TcpStream::connect_timeout(&SocketAddr::new(address, port), left).ok()
        })
    }
}

/// The time that is left; `None` if there is none.
fn left(deadline: Instant) -> Option<Duration> {
    Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

/// Sends a GET request. `None`: it failed.
fn get(mut stream: TcpStream, path: &str, headers: &[String], deadline: Instant) -> Option<()> {
    let named = |name: &str| {
        headers.iter().any(|header| header.split(':').next().is_some_and(|n| n.eq_ignore_ascii_case(name)))
    };
    let mut request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    let host = format!("Host: {}", stream.peer_addr().ok()?);
    let own = [("host", host.as_str()), ("user-agent", "User-Agent: kube-probe/tanist-run"), ("accept", "Accept: */*")];
    let own = own.into_iter().filter(|(name, _)| !named(name)).map(|(_, line)| line);
    for line in own.chain(headers.iter().map(String::as_str)) {
        request.push_str(line);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    stream.set_write_timeout(Some(left(deadline)?)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    let mut buffer = [0; 256];
    // The status is in the first line.
    while !answer.contains(&b'\n') && answer.len() < PROBE_BYTES {
        stream.set_read_timeout(Some(left(deadline)?)).ok()?;
        match stream.read(&mut buffer).ok()? {
            0 => break,
            length => answer.extend_from_slice(buffer.get(..length)?),
        }
    }
    succeeded(&answer).then_some(())
}

/// Whether the first line of an answer is a whole one that says success.
fn succeeded(answer: &[u8]) -> bool {
    let Some(line) = answer.iter().position(|b| *b == b'\n').and_then(|end| answer.get(..end)) else { return false };
    let mut words = line.split(|b| b.is_ascii_whitespace());
    let version = words.next().is_some_and(|word| word.starts_with(b"HTTP/1."));
    let code = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse::<u16>().ok());
    version && code.is_some_and(|code| (200..400).contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_first_line_with_a_good_code_is_success() {
        for good in ["HTTP/1.1 200 OK\r\n", "HTTP/1.0 399\r\nmore", "HTTP/1.1 301 Moved\n"] {
            assert!(succeeded(good.as_bytes()), "{good}");
        }
        for bad in
            ["", "HTTP/1.1 200 OK", "HTTP/1.1 199 x\n", "HTTP/1.1 400 x\n", "HTTP/1.1 x\n", "SSH-2.0 200\n", "\n"]
        {
            assert!(!succeeded(bad.as_bytes()), "{bad}");
        }
    }
}
