//! Polls the application's status: never two at once, none while a quiet command runs.
use crate::children::{Children, Purpose, read_exit};
use crate::command::{self, Order};
use crate::frame::{Frame, Outcome};
use crate::limits::{LOOK_AGAIN, POLLS_FAILED, STIRRED};
use crate::{lock, wait_until};
use std::ffi::OsString;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The poller and what it last learned.
#[derive(Debug)]
pub struct Poller {
    argv: Vec<OsString>,
    interval: Duration,
    timeout: Duration,
    children: Arc<Children>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Number of polls that ever began.
    begun: u64,
    /// A poll runs, or hangs in the kernel.
    running: bool,
    /// Someone waits for a poll that begins from now on.
    wanted: bool,
    /// Quiet commands that run or wait to run.
    quiet: u32,
    /// The quiet command that waits to run wants one poll of its own before.
    exempt: bool,
    /// When the last poll began.
    began: Instant,
    /// When the next one is due.
    next: Instant,
    /// An orphan ended beside the poll that runs.
    stirred: bool,
    /// The poll that runs was brought on like that, so the orphan may have been its own: it brings on no other.
    echo: bool,
    /// The last poll that ended, with its number.
    last: Option<(u64, Frame)>,
    standing: Option<Standing>,
    failed: u32,
}

/// The answer that stands.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The code of the status command.
    pub code: u8,
    /// When the poll that said so began.
    pub at: Instant,
}

impl Poller {
    /// A poller that has not begun.
    pub fn new(argv: Vec<OsString>, interval: Duration, timeout: Duration, children: Arc<Children>) -> Poller {
        let state = State {
            begun: 0,
            running: false,
            wanted: false,
            quiet: 0,
            exempt: false,
            began: Instant::now(),
            next: Instant::now(),
            stirred: false,
            echo: false,
            last: None,
            standing: None,
            failed: 0,
        };
        Poller { argv, interval, timeout, children, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Whether there is anything to poll.
    pub fn can_poll(&self) -> bool {
        !self.argv.is_empty()
    }

    /// Polls for ever.
    pub fn run(&self) {
        if !self.can_poll() {
            return;
        }
        loop {
            let (number, wanted) = self.wait_for_turn();
            let at = Instant::now();
            let order = Order {
                argv: &self.argv,
                purpose: Purpose::Poll,
                deadline: at + self.timeout,
                shutdown: None,
                to_log: false,
            };
            let ran = command::run(&self.children, &order);
            // Counting walks /proc: only for those who ask.
            let processes = if wanted { self.children.count_others(ran.group) } else { 0 };
            let frame = Frame {
                token: "-".into(),
                outcome: ran.outcome,
                stdout: ran.stdout.kept,
                stderr: ran.stderr.kept,
                cut: ran.stdout.cut || ran.stderr.cut,
                processes,
            };
            let code = match frame.outcome {
                Outcome::Exited(code @ (0 | 7 | 8 | 9 | 10)) if !ran.by_signal => Some(code),
                _ => None,
            };
            self.publish(number, at, frame, code, ran.unreaped.is_some());
            if let Some(exit) = ran.unreaped {
                self.wait_for_reaping(&exit);
            }
        }
    }

    fn wait_for_turn(&self) -> (u64, bool) {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            let due = state.quiet == 0 && (state.wanted || now >= state.next);
            if due || state.exempt {
                state.exempt = false;
                state.begun += 1;
                state.began = now;
                state.running = true;
                return (state.begun, std::mem::take(&mut state.wanted));
            }
            // Quiet ends with a notification; the timeout is only for the interval.
            let until = if state.quiet > 0 { now + self.interval } else { state.next };
            state = wait_until(&self.changed, state, until);
        }
    }

    fn publish(&self, number: u64, at: Instant, frame: Frame, code: Option<u8>, still_running: bool) {
        let mut state = lock(&self.state);
        match code {
            Some(code) => {
                state.standing = Some(Standing { code, at });
                state.failed = 0;
            }
            None => {
                state.failed = state.failed.saturating_add(1);
                if state.failed >= POLLS_FAILED {
                    state.standing = None;
                }
            }
        }
        state.last = Some((number, frame));
        state.running = still_running;
        let echo = std::mem::take(&mut state.stirred) && !state.echo;
        state.next = if echo { state.began + self.distance() } else { Instant::now() + self.interval };
        state.echo = echo;
        self.changed.notify_all();
    }

    /// None follows a hung poll until it is reaped.
    fn wait_for_reaping(&self, exit: &std::io::PipeReader) {
        read_exit(exit);
        lock(&self.state).running = false;
        self.changed.notify_all();
    }

    /// The result of a poll that begins after this call; within a quiet time of the asker's own it is the only one. `None` when the
    /// asker gave up.
    pub fn fresh(&self, within: Option<&Quiet<'_>>, gave_up: &dyn Fn() -> bool) -> Option<Frame> {
        let unknown = |reason: &'static str| {
            Some(Frame::bare("-", Outcome::Unknown(reason.into()), self.children.count_others(None)))
        };
        if !self.can_poll() {
            let outcome = Outcome::NotStarted("no-status-command".into());
            return Some(Frame::bare("-", outcome, self.children.count_others(None)));
        }
        // A poll that runs already, then ours; each with the time to be killed.
        let limit = Instant::now() + (self.timeout + crate::limits::AFTER_KILL) * 2 + Duration::from_secs(5);
        let mut state = lock(&self.state);
        let before = state.begun;
        loop {
            if let Some((number, frame)) = &state.last
                && *number > before
            {
                return Some(frame.clone());
            }
            // Ours may run already; the quiet command waits for it too.
            let ours_runs = state.running && state.begun > before;
            if state.quiet > 0 && !ours_runs && within.is_none() {
                drop(state);
                return unknown("quiet");
            }
            if Instant::now() >= limit {
                drop(state);
                return unknown("stuck");
            }
            if gave_up() {
                return None;
            }
            let asked = if within.is_some() { state.exempt } else { state.wanted };
            if state.begun == before && !asked {
                match within {
                    Some(_) => state.exempt = true,
                    None => state.wanted = true,
                }
                self.changed.notify_all();
            }
            state = wait_until(&self.changed, state, limit.min(Instant::now() + LOOK_AGAIN));
        }
    }

    /// No polls begin from now until the guard is dropped, but the guard's own.
    pub fn quiet(&self) -> Quiet<'_> {
        lock(&self.state).quiet += 1;
        self.changed.notify_all();
        Quiet(self)
    }

    /// Polls at once: something has just changed.
    pub fn hurry(&self) {
        lock(&self.state).next = Instant::now();
        self.changed.notify_all();
    }

    /// Polls soon: a process that nobody waits for ended, and that may have been the application. Polls brought on like this keep a distance,
    /// for an application that ends takes many processes along.
    pub fn stir(&self) {
        let mut state = lock(&self.state);
        if state.running {
            state.stirred = true;
        } else {
            state.next = state.next.min(state.began + self.distance());
            self.changed.notify_all();
        }
    }

    fn distance(&self) -> Duration {
        self.interval / STIRRED
    }

    /// The answer that stands. A poll that hangs in the kernel counts like those that would have failed meanwhile.
    pub fn standing(&self) -> Option<Standing> {
        let state = lock(&self.state);
        let hangs = state.running && state.began.elapsed() > (self.interval + self.timeout) * POLLS_FAILED;
        state.standing.filter(|_| !hangs)
    }
}

/// Holds back status polls.
#[derive(Debug)]
pub struct Quiet<'a>(&'a Poller);

impl Quiet<'_> {
    /// Waits for the poll that still runs; whether it has ended by then.
    pub fn begins(&self, until: Instant) -> bool {
        let mut state = lock(&self.0.state);
        while state.running && Instant::now() < until {
            state = wait_until(&self.0.changed, state, until);
        }
        !state.running
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.quiet = state.quiet.saturating_sub(1);
        // Its asker gave up; it must not run beside the next one's command.
        state.exempt = false;
        self.0.changed.notify_all();
    }
}
