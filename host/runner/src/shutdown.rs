//! The orderly shutdown after SIGTERM, within the grace period.
use crate::children::{Children, Purpose};
use crate::command::{self, Order};
use crate::desk::Desk;
use crate::limits::{AFTER_KILL, LOOK_AGAIN};
use crate::{lock, log, processes};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, kill_process};
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Whether and when the shutdown has begun; other threads can wait for it.
#[derive(Debug)]
pub struct Shutdown {
    began: OnceLock<Instant>,
    grace: Duration,
    signal: PipeReader,
    hold: Mutex<Option<PipeWriter>>,
}

impl Shutdown {
    /// A shutdown that has not begun.
    pub fn new(grace: Duration) -> io::Result<Shutdown> {
        let (signal, hold) = io::pipe()?;
        Ok(Shutdown { began: OnceLock::new(), grace, signal, hold: Mutex::new(Some(hold)) })
    }

    /// Begins the shutdown; a second call has no effect.
    pub fn begin(&self) {
        self.began.get_or_init(Instant::now);
        // Closing the pipe wakes all threads that poll its other end.
        lock(&self.hold).take();
    }

    /// When it began. `None`: it has not.
    pub fn began(&self) -> Option<Instant> {
        self.began.get().copied()
    }

    /// When a running command is killed: half of the grace period is left for `stop`. `None`: the shutdown has not begun.
    pub fn command_limit(&self) -> Option<Instant> {
        self.began().map(|began| began + self.grace / 2)
    }

    /// A file descriptor that becomes readable when the shutdown begins.
    pub fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// Blocks until the shutdown begins.
    pub fn wait(&self) {
        while self.began().is_none() {
            let _ = poll(&mut [PollFd::from_borrowed_fd(self.signal(), PollFlags::IN)], None);
        }
    }
}

/// The group's `stop` command.
#[derive(Debug)]
pub struct Stop {
    /// Its argv; empty if there is none.
    pub argv: Vec<OsString>,
    /// How long it may run.
    pub timeout: Duration,
}

/// Ends the running command, runs `stop`, and ends all processes that are left.
pub fn carry_out(shutdown: &Shutdown, desk: &Desk, children: &Children, stop: &Stop) {
    let began = shutdown.began().unwrap_or_else(Instant::now);
    let end = began + shutdown.grace;
    // This time is reserved so that processes that `stop` leaves get TERM and some time before KILL.
    let reserve = (shutdown.grace / 5).min(Duration::from_secs(5));
    log("shutdown: no new tokens are accepted");
    desk.close(began + shutdown.grace / 2 + AFTER_KILL);
    if !stop.argv.is_empty() {
        let deadline = (Instant::now() + stop.timeout).min(end.checked_sub(reserve).unwrap_or(end));
        let order =
            Order { argv: &stop.argv, env: &[], purpose: Purpose::Command, deadline, shutdown: None, to_log: true };
        let ran = command::run(children, &order);
        log(&format!("stop: {}", ran.outcome));
    }
    end_all(children, end.checked_sub(reserve / 2).unwrap_or(end));
}

/// Sends TERM to all processes and KILL at the limit to those that are left; the kernel ends the rest with PID 1. Status polls and probes go on,
/// because the operator may still ask, and are not waited for.
fn end_all(children: &Children, limit: Instant) {
    let left = || processes::subjects(&children.looking());
    for process in left() {
        let _ = kill_process(process, Signal::TERM);
    }
    while Instant::now() < limit && !left().is_empty() {
        std::thread::sleep(LOOK_AGAIN);
    }
    for process in processes::subjects(&[]) {
        let _ = kill_process(process, Signal::KILL);
    }
}
