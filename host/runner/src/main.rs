//! `tanist-run`: PID 1 of a member's container.
//!
//! # Promises
//! 1. **A token starts at most once, ever.** Before argv starts, its token is on disk (file and directory synced). A repeated request
//!    gets the result, or `interrupted` if the container restarted in between. A token that was settled before it was started is void
//!    as long as the pod exists.
//! 2. **A lost stream changes nothing.** The client that is executed in the container only asks and prints; PID 1 runs the command, one
//!    at a time.
//! 3. **An answer is complete or it does not count**: it has lengths and an end mark ([`tanist_protocol::frame`]). `exited` means that
//!    the command ended by itself and was reaped; a command that the runner killed is `unknown`, because it may have left daemons.
//! 4. **The runner never hangs on the application**: deadlines end process groups, output is limited, daemons that keep a pipe open do not
//!    delay an answer, and after a status poll that hangs no other one starts until it is killed and reaped.
//! 5. **The shutdown is orderly**: on SIGTERM (or the image's own stop signal) the running command is ended, `stop` runs, all other
//!    processes get TERM, then KILL.
//! 6. **The runner needs no rights**: no shell, no argv in any file or log, no connection except to this pod (for the readiness probe of
//!    the pod template); only PID 1's user can use the socket and the records.
//! 7. **The last check and the start are one step.** `exec --if-status 7,0` runs its own status poll when no other command can start any
//!    more, and starts argv only if that poll exits with one of these codes. Only the application itself can still change in between. With
//!    `--quiet-status` no other poll runs between the two either. `exec --if-sequence 7` then runs the sequence command, without a poll
//!    beside it, and starts argv only if it exits 0 and prints exactly that position.
//!
//! `not-started` is about one request: `busy`, `role`, `sequence`, `deadline`, `shutting-down` and the like leave the token unused, and
//! only `settle` makes that final. With `role` and `sequence` one line on stderr has the cause: `status exited 8`, `status unknown:
//! deadline`, `sequence printed another position`. `tokens-full` is final: this pod has used up its tokens. During the check `settle`
//! answers `running`, and the deadline counts. A token that was used before gets its answer without a check.
//!
//! The state directory should be a directory of its own inside the volume, so that it is created private.
//!
//! Readiness over HTTP is a hint; the answers of `settle` and `status` are evidence.
//!
//! # Where output goes
//! A command's output up to its end is part of its answer and not in the log. Daemons should log to `/proc/1/fd/1`, PID 1's stdout, which is
//! the container's log. What a daemon writes to its command's own stdout or stderr after the answer is copied there too. `stop` writes to
//! the log directly.
mod args;
mod children;
mod client;
mod command;
mod desk;
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
use tanist_protocol::place;

fn main() -> ExitCode {
    let more = std::env::var(place::OPTIONS).ok();
    let pod_uid = std::env::var(place::POD_UID).ok();
    let command = match args::parse(std::env::args_os().skip(1), pod_uid, more.as_deref()) {
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

/// Writes one line to the container's log. Unlike `eprintln!` it does not panic when the log is gone, and it drops the line when the log is
/// not read: neither may delay an answer or the stop of the application.
fn log(line: &str) {
    let mut stderr = std::io::stderr();
    let writable = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&Timespec::default()));
    if writable.is_ok_and(|ready| ready > 0) {
        let _ = stderr.write_all(format!("tanist-run: {line}\n").as_bytes());
    }
}

/// Locks a mutex even if a thread panicked while it held it: the data is consistent, because every critical section is a few assignments.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification, at most until the given time; callers check their condition again in both cases.
fn wait_until<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, until: Instant) -> MutexGuard<'a, T> {
    let timeout = until.saturating_duration_since(Instant::now());
    condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}
