//! Polls the application's status: never two polls at once, and none while a quiet command runs.
use crate::children::{Children, Purpose, read_exit};
use crate::command::{self, Order};
use crate::limits::{LOOK_AGAIN, POLLS_FAILED, STIRRED};
use crate::{lock, wait_until};
use std::ffi::OsString;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tanist_protocol::frame::{Frame, NO_TOKEN};
use tanist_protocol::outcome::Outcome;
use tanist_protocol::why::Word;

/// The poller and its latest results.
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
    /// The number of polls that have begun so far.
    begun: u64,
    /// A poll runs, or hangs in the kernel.
    running: bool,
    /// A client waits for a poll that begins from now on.
    requested: bool,
    /// The number of quiet commands that run or wait to run.
    quiet: u32,
    /// The quiet command that waits to run needs one poll before.
    exempt: bool,
    /// When the last poll began.
    began: Instant,
    /// When the next poll is due.
    next: Instant,
    /// An orphan ended while the present poll ran.
    stirred: bool,
    /// The present poll was started early because an orphan ended. An orphan that ends now may be its own, so it does not start another early poll.
    echo: bool,
    /// The last poll that ended, with its number.
    last: Option<(u64, Frame)>,
    standing: Option<Standing>,
    failed: u32,
}

/// The current status.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The exit code of the status command.
    pub code: u8,
    /// When the poll with this result began.
    pub at: Instant,
}

impl Poller {
    /// A poller that has not begun.
    pub fn new(argv: Vec<OsString>, interval: Duration, timeout: Duration, children: Arc<Children>) -> Poller {
        let state = State {
            begun: 0,
            running: false,
            requested: false,
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

    /// Whether there is a status command.
    pub fn can_poll(&self) -> bool {
        !self.argv.is_empty()
    }

    /// Polls until this process ends. Returns at once if there is no status command.
    pub fn run(&self) {
        if !self.can_poll() {
            return;
        }
        loop {
            let (number, requested) = self.wait_for_turn();
            let at = Instant::now();
            let order = Order {
                argv: &self.argv,
                env: &[],
                purpose: Purpose::Poll,
                deadline: at + self.timeout,
                shutdown: None,
                to_log: false,
            };
            let ran = command::run(&self.children, &order);
            // Counting reads all of /proc, so it is only done for a client.
            let processes = if requested { self.children.count_others(ran.group) } else { 0 };
            let frame = Frame {
                token: NO_TOKEN.into(),
                outcome: ran.outcome,
                stdout: ran.stdout.kept,
                stderr: ran.stderr.kept,
                cut: ran.stdout.cut || ran.stderr.cut,
                processes,
                running: None,
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
            let due = state.quiet == 0 && (state.requested || now >= state.next);
            if due || state.exempt {
                state.exempt = false;
                state.begun += 1;
                state.began = now;
                state.running = true;
                return (state.begun, std::mem::take(&mut state.requested));
            }
            // The end of quiet is notified; the timeout is only for the interval.
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
        state.next = if echo { state.began + self.early_pause() } else { Instant::now() + self.interval };
        state.echo = echo;
        self.changed.notify_all();
    }

    /// Waits until a poll that hangs was reaped, so that no other poll starts before.
    fn wait_for_reaping(&self, exit: &std::io::PipeReader) {
        read_exit(exit);
        lock(&self.state).running = false;
        self.changed.notify_all();
    }

    /// The result of a poll that begins after this call. With `within`, the quiet time of the caller, it is the only poll in that time. `None`: the
    /// caller gave up.
    pub fn fresh(&self, within: Option<&Quiet<'_>>, gave_up: &dyn Fn() -> bool) -> Option<Frame> {
        let unknown =
            |why: Word| Some(Frame::bare(NO_TOKEN, Outcome::Unknown(why.into()), self.children.count_others(None)));
        if !self.can_poll() {
            let outcome = Outcome::NotStarted(Word::NoStatusCommand.into());
            return Some(Frame::bare(NO_TOKEN, outcome, self.children.count_others(None)));
        }
        // First the poll that may be running, then the new one, each with the time to kill it.
        let limit = Instant::now() + (self.timeout + crate::limits::AFTER_KILL) * 2 + Duration::from_secs(5);
        let mut state = lock(&self.state);
        let before = state.begun;
        loop {
            if let Some((number, frame)) = &state.last
                && *number > before
            {
                return Some(frame.clone());
            }
            // The new poll may be running already; the quiet command waits for it too.
            let ours_runs = state.running && state.begun > before;
            if state.quiet > 0 && !ours_runs && within.is_none() {
                drop(state);
                return unknown(Word::Quiet);
            }
            if Instant::now() >= limit {
                drop(state);
                return unknown(Word::Stuck);
            }
            if gave_up() {
                return None;
            }
            let asked = if within.is_some() { state.exempt } else { state.requested };
            if state.begun == before && !asked {
                match within {
                    Some(_) => state.exempt = true,
                    None => state.requested = true,
                }
                self.changed.notify_all();
            }
            state = wait_until(&self.changed, state, limit.min(Instant::now() + LOOK_AGAIN));
        }
    }

    /// From now until the guard is dropped no poll begins, except one that the guard's owner requests.
    pub fn quiet(&self) -> Quiet<'_> {
        lock(&self.state).quiet += 1;
        self.changed.notify_all();
        Quiet(self)
    }

    /// Polls at once, because the status may just have changed.
    pub fn hurry(&self) {
        lock(&self.state).next = Instant::now();
        self.changed.notify_all();
    }

    /// Polls soon, because an orphaned process ended that may have been the application. Such polls have a pause between them, because many
    /// processes of an application may end at the same time.
    pub fn stir(&self) {
        let mut state = lock(&self.state);
        if state.running {
            state.stirred = true;
        } else {
            state.next = state.next.min(state.began + self.early_pause());
            self.changed.notify_all();
        }
    }

    fn early_pause(&self) -> Duration {
        self.interval / STIRRED
    }

    /// The current status. `None`: unknown. A poll that hangs in the kernel counts as the failed polls that there would have been meanwhile.
    pub fn standing(&self) -> Option<Standing> {
        let state = lock(&self.state);
        let hangs = state.running && state.began.elapsed() > (self.interval + self.timeout) * POLLS_FAILED;
        state.standing.filter(|_| !hangs)
    }
}

/// A guard: while it exists no status poll begins.
#[derive(Debug)]
pub struct Quiet<'a>(&'a Poller);

impl Quiet<'_> {
    /// Waits for a poll that still runs. Returns whether it has ended by the given time.
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
        // If a poll was requested and not begun, its owner gave up; it must not run beside the next command.
        state.exempt = false;
        self.0.changed.notify_all();
    }
}
