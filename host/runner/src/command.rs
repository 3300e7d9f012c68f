//! Runs one argv with limited output and a deadline; no process can delay its end.
//!
//! stdin is `/dev/null`, working directory and environment are the container's, with what a request adds to the latter, and it has a process group of its own. Output beyond the limit is
//! read and dropped, so that it needs no memory here. After the direct child has ended, output is read for 200 ms more. If a daemon still has the
//! pipe open then, a thread goes on reading it and copies it to the container's log, because closing the pipe would kill the daemon with SIGPIPE
//! at its next line. An answer whose stdout was still open is marked as cut, because more may belong to it; for commands that start a daemon this
//! is normal.
use crate::children::{Children, Exit, Purpose, Spawned, read_exit};
use crate::limits::{AFTER_EXIT, AFTER_KILL, LOOK_AGAIN, TERM_TO_KILL};
use crate::shutdown::Shutdown;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tanist_protocol::frame::{STDERR_KEPT, STDOUT_KEPT};
use tanist_protocol::outcome::Outcome;
use tanist_protocol::why::Word;

/// How one argv is to be run.
#[derive(Debug)]
pub struct Order<'a> {
    /// The program and its arguments.
    pub argv: &'a [OsString],
    /// Environment variables beside those of this process, `KEY=VALUE`.
    pub env: &'a [OsString],
    /// The purpose of the process.
    pub purpose: Purpose,
    /// When its process group is ended.
    pub deadline: Instant,
    /// A shutdown that ends it early. Absent: none does.
    pub shutdown: Option<&'a Shutdown>,
    /// Whether output goes to the container's log instead of the answer.
    pub to_log: bool,
}

/// The result of a run.
#[derive(Debug)]
pub struct Ran {
    /// Exited, not started or unknown.
    pub outcome: Outcome,
    /// Whether a signal ended it that this process did not send.
    pub by_signal: bool,
    /// The beginning of its stdout.
    pub stdout: Bounded,
    /// The beginning of its stderr.
    pub stderr: Bounded,
    /// Its process group. Absent: it was not started.
    pub group: Option<i32>,
    /// The exit pipe of a process that could not be reaped yet, because it hangs in the kernel.
    pub unreaped: Option<PipeReader>,
    /// Pipes that other processes still have open.
    pub held: Vec<OwnedFd>,
}

/// Output up to a limit.
#[derive(Debug)]
pub struct Bounded {
    /// The bytes up to the limit.
    pub kept: Vec<u8>,
    /// Whether there was or may be more: reading stopped before the end.
    pub cut: bool,
    bound: usize,
}

impl Bounded {
    fn new(bound: usize) -> Bounded {
        Bounded { kept: Vec::new(), cut: false, bound }
    }

    fn take(&mut self, bytes: &[u8]) {
        let room = self.bound.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        self.cut |= bytes.len() > room;
    }
}

/// Runs an argv to its end, its deadline, or the shutdown.
pub fn run(children: &Children, order: &Order<'_>) -> Ran {
    let mut ran = Ran {
        outcome: Outcome::NotStarted(Word::EmptyArgv.into()),
        by_signal: false,
        stdout: Bounded::new(STDOUT_KEPT),
        stderr: Bounded::new(STDERR_KEPT),
        group: None,
        unreaped: None,
        held: Vec::new(),
    };
    let Some((program, arguments)) = order.argv.split_first() else { return ran };
    if order.shutdown.is_some_and(|shutdown| shutdown.began().is_some()) {
        ran.outcome = Outcome::NotStarted(Word::ShuttingDown.into());
        return ran;
    }
    let output = || if order.to_log { Stdio::inherit() } else { Stdio::piped() };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(output()).stderr(output());
    command.envs(order.env.iter().filter_map(variable));
    match children.spawn(&mut command, order.purpose) {
        Ok(spawned) => watch(spawned, order, &mut ran),
        Err(error) => ran.outcome = Outcome::NotStarted(spawn_reason(&error).into()),
    }
    ran
}

/// Name and value of `KEY=VALUE`. `None`: it has no name.
fn variable(word: &OsString) -> Option<(&OsStr, &OsStr)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    Some((OsStr::from_bytes(bytes.get(..at)?), OsStr::from_bytes(bytes.get(at.saturating_add(1)..)?)))
}

/// The reason of a failed start. std reports failures of exec itself, so each of these proves that argv did not run.
fn spawn_reason(error: &io::Error) -> Word {
    match error.kind() {
        ErrorKind::NotFound => Word::NoSuchFile,
        ErrorKind::PermissionDenied => Word::PermissionDenied,
        ErrorKind::ArgumentListTooLong => Word::ArgumentListTooLong,
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory => Word::NoResources,
        ErrorKind::InvalidInput => Word::BadArgument,
        _ => Word::SpawnFailed,
    }
}

/// The state of a run.
enum Phase {
    Running,
    /// TERM was sent; KILL follows at this time.
    Terminating(Instant),
    /// KILL was sent; the answer is sent at this time, reaped or not.
    Killed(Instant),
}

fn watch(spawned: Spawned, order: &Order<'_>, ran: &mut Ran) {
    let Spawned { pid, mut child, exit } = spawned;
    ran.group = Some(pid.as_raw_nonzero().get());
    let mut out = child.stdout.take().map(OwnedFd::from);
    let mut err = child.stderr.take().map(OwnedFd::from);
    for pipe in [&out, &err].into_iter().flatten() {
        // If this fails, a read could block. As it follows a poll, that only makes the 200 ms longer.
        let _ = rustix::io::ioctl_fionbio(pipe, true);
    }
    let mut phase = Phase::Running;
    let mut reason = Word::Deadline;
    let mut ended: Option<(Exit, Instant)> = None;
    loop {
        let now = Instant::now();
        // Move to the next phase if its time has come.
        match (&phase, ended) {
            (Phase::Running, Some((_, at))) if (out.is_none() && err.is_none()) || now >= at + AFTER_EXIT => break,
            (Phase::Running, Some(_)) => {}
            (Phase::Running, None) => {
                let shutdown = order.shutdown.and_then(Shutdown::command_limit);
                if shutdown.is_some() || now >= order.deadline {
                    // A poll or a probe has nothing to clean up, so a hung one is killed at once.
                    let patience = if order.purpose == Purpose::Command { TERM_TO_KILL } else { Duration::ZERO };
                    if patience > Duration::ZERO {
                        let _ = kill_process_group(pid, Signal::TERM);
                    }
                    phase = Phase::Terminating(shutdown.unwrap_or(now + patience));
                    if shutdown.is_some() {
                        reason = Word::ShuttingDown;
                    }
                }
            }
            // At the shutdown only the command itself has to end: `stop` comes next for the processes that it left.
            (Phase::Terminating(_), Some(_)) if reason == Word::ShuttingDown || group_is_empty(pid) => break,
            (Phase::Terminating(kill), _) if now >= *kill => {
                let _ = kill_process_group(pid, Signal::KILL);
                phase = Phase::Killed(now + AFTER_KILL);
            }
            (Phase::Terminating(_), _) => {}
            (Phase::Killed(_), Some(_)) => break,
            (Phase::Killed(limit), None) if now >= *limit => break,
            (Phase::Killed(_), None) => {}
        }
        let wake = match (&phase, ended) {
            (Phase::Running, Some((_, at))) => at + AFTER_EXIT,
            (Phase::Running, None) => order.deadline,
            (Phase::Terminating(_), Some(_)) => now + LOOK_AGAIN,
            (Phase::Terminating(at) | Phase::Killed(at), _) => *at,
        };
        let cancel = order.shutdown.filter(|_| matches!(phase, Phase::Running) && ended.is_none());
        wait(&mut [&mut out, &mut err], ended.is_none().then_some(&exit), cancel, wake);
        read_some(&mut out, &mut ran.stdout);
        read_some(&mut err, &mut ran.stderr);
        if ended.is_none() && readable(&exit) {
            ended = Some((read_exit(&exit), Instant::now()));
        }
    }
    read_some(&mut out, &mut ran.stdout);
    read_some(&mut err, &mut ran.stderr);
    ran.outcome = match (&phase, ended) {
        (Phase::Running, Some((exit, _))) => Outcome::Exited(exit.code),
        _ => Outcome::Unknown(reason.into()),
    };
    ran.by_signal = ended.is_some_and(|(exit, _)| exit.by_signal);
    ran.unreaped = ended.is_none().then_some(exit);
    // A process that has stdout open may still be writing the rest of the line.
    ran.stdout.cut |= out.is_some();
    ran.held = [out, err].into_iter().flatten().collect();
}

/// Whether the process group is empty. Its ID cannot be reused while a process of it exists; once it was seen empty, no signal is sent to it.
fn group_is_empty(pid: Pid) -> bool {
    test_kill_process_group(pid).is_err()
}

/// Sleeps until there is something to read, the child ended, the shutdown began, or the given time is reached.
fn wait(pipes: &mut [&mut Option<OwnedFd>], exit: Option<&PipeReader>, shutdown: Option<&Shutdown>, until: Instant) {
    let timeout = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
    let mut fds: Vec<PollFd<'_>> =
        pipes.iter().filter_map(|pipe| pipe.as_ref()).map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
    if let Some(exit) = exit {
        fds.push(PollFd::new(exit, PollFlags::IN));
    }
    if let Some(shutdown) = shutdown {
        fds.push(PollFd::from_borrowed_fd(shutdown.signal(), PollFlags::IN));
    }
    // An interrupted poll only means that the caller checks earlier.
    let _ = poll(&mut fds, timeout.as_ref());
}

/// Whether a read would not block.
pub fn readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Reads what is there, but only some of a long output, so that the deadline is checked in between. A closed pipe becomes `None`.
fn read_some(pipe: &mut Option<OwnedFd>, into: &mut Bounded) {
    let mut buffer = [0; 16 * 1024];
    for _ in 0..16 {
        let Some(fd) = pipe.as_ref() else { return };
        match rustix::io::read(fd, &mut buffer) {
            Ok(0) => *pipe = None,
            Ok(length) => into.take(buffer.get(..length).unwrap_or_default()),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return,
            Err(_) => {
                into.cut = true;
                *pipe = None;
            }
        }
    }
}

/// Copies what a daemon writes to a command's pipes into the container's log until it closes them.
pub fn carry_to_log(held: Vec<OwnedFd>) {
    for pipe in held {
        let spawned = std::thread::Builder::new().name("daemon-log".into()).spawn(move || {
            let _ = rustix::io::ioctl_fionbio(&pipe, false);
            let mut pipe = PipeReader::from(pipe);
            let mut buffer = [0; 4096];
            while let Ok(length) = pipe.read(&mut buffer) {
                if length == 0 {
                    return;
                }
                // The daemon goes on even if the log is gone.
                let _ = io::stdout().write_all(buffer.get(..length).unwrap_or_default());
                let _ = io::stdout().flush();
            }
        });
        if spawned.is_err() {
            crate::log("no thread for a daemon's output: its pipe is closed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_up_to_its_bound_exactly() {
        let mut output = Bounded::new(4);
        output.take(b"abcd");
        assert!(!output.cut);
        output.take(b"e");
        assert!(output.cut);
        assert_eq!(output.kept, b"abcd");
    }
}
