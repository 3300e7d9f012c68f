//! The orderly end: everything that SIGTERM sets off, inside the grace.
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

/// Whether the end has begun, for everyone who must notice.
#[derive(Debug)]
pub struct Shutdown {
    began: OnceLock<Instant>,
    grace: Duration,
    signal: PipeReader,
    hold: Mutex<Option<PipeWriter>>,
}

impl Shutdown {
    /// Not yet.
    pub fn new(grace: Duration) -> io::Result<Shutdown> {
        let (signal, hold) = io::pipe()?;
        Ok(Shutdown { began: OnceLock::new(), grace, signal, hold: Mutex::new(Some(hold)) })
    }

    /// Begins the end; again is nothing.
    pub fn begin(&self) {
        self.began.get_or_init(Instant::now);
        // Closing the pipe wakes everyone who polls its other end.
        lock(&self.hold).take();
    }

    /// When it began.
    pub fn began(&self) -> Option<Instant> {
        self.began.get().copied()
    }

    /// When a running command is killed: half of the grace is left for `stop`.
    pub fn command_limit(&self) -> Option<Instant> {
        self.began().map(|began| began + self.grace / 2)
    }

    /// Becomes readable when it begins.
    pub fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// Blocks until it begins.
    pub fn wait(&self) {
        while self.began().is_none() {
            let _ = poll(&mut [PollFd::from_borrowed_fd(self.signal(), PollFlags::IN)], None);
        }
    }
}

/// The group's `stop`.
#[derive(Debug)]
pub struct Stop {
    /// Its argv; empty when there is none.
    pub argv: Vec<OsString>,
    /// Its timeout.
    pub timeout: Duration,
}

/// Ends the command, stops the application, ends what is left.
pub fn carry_out(shutdown: &Shutdown, desk: &Desk, children: &Children, stop: &Stop) {
    let began = shutdown.began().unwrap_or_else(Instant::now);
    let end = began + shutdown.grace;
    // Kept back so that what `stop` leaves still gets TERM and a moment before KILL.
    let reserve = (shutdown.grace / 5).min(Duration::from_secs(5));
    log("asked to end: no new tokens");
    desk.close(began + shutdown.grace / 2 + AFTER_KILL);
    if !stop.argv.is_empty() {
        let deadline = (Instant::now() + stop.timeout).min(end.checked_sub(reserve).unwrap_or(end));
        let order = Order { argv: &stop.argv, purpose: Purpose::Command, deadline, shutdown: None, to_log: true };
        let ran = command::run(children, &order);
        log(&format!("stop: {}", ran.outcome));
    }
    end_everyone(children, end.checked_sub(reserve / 2).unwrap_or(end));
}

/// TERM to all, KILL at the limit to those who stayed; the kernel does the rest when PID 1 ends. Status polls and
/// probes go on, for the operator may still ask, and are not waited for.
fn end_everyone(children: &Children, limit: Instant) {
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
