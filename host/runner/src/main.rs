//! `tanist-run`: PID 1 of a member's container.
//!
//! # Promises
//! 1. **A token starts at most once, ever.** Before argv starts, its token is on disk (file and directory synced); asked again,
//!    whoever asks gets the result, or `interrupted` when the container restarted in between. A token that was settled before it
//!    was started is void for as long as the pod lives.
//! 2. **A lost stream changes nothing.** The exec'd client only asks and prints; PID 1 runs the command, one at a time.
//! 3. **An answer is whole or it is none**: lengths and an end mark ([`frame`]). `exited` is said only of a command that ended by
//!    itself and was reaped; what was killed by us is `unknown`, for it may have left daemons.
//! 4. **Nothing here hangs for ever on the application**: deadlines end process groups, output is bounded, daemons that keep a
//!    pipe do not hold up an answer, a hung status poll is killed and none follows until it is reaped.
//! 5. **The end is orderly**: on SIGTERM (or the image's own stop signal) the running command ends, `stop` runs, everyone else gets TERM, then KILL.
//! 6. **No rights of its own**: no shell, no argv in any file or log, no connection to anything but this pod (the readiness probe that the
//!    pod template brought); socket and records belong to PID 1's user alone.
//! 7. **A last look and its act are one step.** `exec --if-status 7,0` runs a status poll of its own when its token has taken the
//!    desk, and starts argv only if that poll exits with one of these codes. Nothing else starts in between; only the application
//!    itself can still change. With `--quiet-status` no other poll comes between the two either. `exec --if-sequence 7` runs the sequence
//!    command after that, in the same turn and beside no poll, and starts argv only if it exits 0 and prints that position, whole.
//!
//! `not-started` is about the request that got it: `busy`, `role`, `sequence`, `deadline`, `shutting-down` and the like leave the token
//! unused, and only `settle` makes that final. `role` says on stderr what the poll said, in one line: `status exited 8`, or
//! `status unknown: deadline`; `sequence` does so too: `sequence printed another position`. `tokens-full` is for good: this pod has used up
//! its tokens. While it looks, `settle` says `running`, and the deadline counts. A token that is known gets its
//! answer without a look, whatever its condition.
//!
//! The state directory should be one of its own inside the volume, so that it is created private.
//!
//! What readiness says over HTTP is a hint; evidence is what `settle` and `status` say when asked.
//!
//! # Where output goes
//! A command's output up to its end is its answer and is in no log. Daemons should log to `/proc/1/fd/1`, PID 1's stdout, which is the
//! container's log; what a daemon writes to its command's own stdout or stderr after the answer is carried there too.
//! `stop` writes to the log directly.
mod args;
mod children;
mod client;
mod command;
mod desk;
mod frame;
mod http;
mod limits;
mod listen;
mod probe;
mod processes;
mod serve;
mod shutdown;
mod status;
mod tokens;
mod wire;

use args::Command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

fn main() -> ExitCode {
    let more = std::env::var(args::OPTIONS).ok();
    let command = match args::parse(std::env::args_os().skip(1), std::env::var("TANIST_POD_UID").ok(), more.as_deref())
    {
        Ok(command) => command,
        Err(mistake) => {
            log(&format!("{mistake}\n{}", args::USAGE));
            return ExitCode::from(2);
        }
    };
    let result = match command {
        Command::Install(destination) => client::install(&destination),
        Command::Serve(args) => serve::serve(*args),
        Command::Ask(args) => client::ask(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// One line for the container's log. Unlike `eprintln!` it does not panic when the log is gone, and it is dropped when nobody
/// reads the log: neither may keep us from answering or from stopping the application.
fn log(line: &str) {
    let mut stderr = std::io::stderr();
    let writable = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&Timespec::default()));
    if writable.is_ok_and(|ready| ready > 0) {
        let _ = stderr.write_all(format!("tanist-run: {line}\n").as_bytes());
    }
}

/// A thread that panicked leaves consistent data here: every critical section is a few assignments.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change, but not longer than until then; callers look again in any case.
fn wait_until<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, until: Instant) -> MutexGuard<'a, T> {
    let timeout = until.saturating_duration_since(Instant::now());
    condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}
