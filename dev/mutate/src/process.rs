//! Programs with an end: each has a process group of its own, a bound for the processor and one for the clock.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};

/// Groups that run. Whoever interrupts this process ends these, too.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// How long a program may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of the processor, for each of its processes. This one counts, because what runs only when nothing else does may wait for hours.
    pub processor: Duration,
    /// Of the clock, for what waits for ever.
    pub clock: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exited with code 0.
    Passed,
    /// In another way.
    Failed,
    /// It used up so much time.
    Endless(Duration),
}

/// Why nothing is known of its end.
#[derive(Debug, thiserror::Error)]
pub enum Run {
    /// It cannot be started or waited for.
    #[error("failed to run {0}")]
    Program(String, #[source] io::Error),
    /// Somebody ended it.
    #[error("signal {0} ended the tests")]
    Signal(i32),
}

/// Runs a program to its end and returns what it printed. What it left behind in its group is ended.
///
/// # Errors
/// Nothing is known of how it would have ended.
pub fn run(command: &mut Command, limits: Limits) -> Result<(End, String), Run> {
    let program = command.get_program().display().to_string();
    let failed = |error| Run::Program(program.clone(), error);
    // No pipe: a process that was left behind would keep it open.
    let mut output = tempfile::tempfile().map_err(failed)?;
    let (out, err) = (output.try_clone().map_err(failed)?, output.try_clone().map_err(failed)?);
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    let pid = Pid::from_child(&child);
    lock().insert(pid.as_raw_pid());
    let seconds = limits.processor.as_secs();
    // At the first one it gets a signal that tells it from others.
    let limit = Rlimit { current: Some(seconds), maximum: Some(seconds.saturating_add(5)) };
    // An error: it has ended.
    let _ = prlimit(Some(pid), Resource::Cpu, limit);
    let waited = wait(&mut child, limits.clock);
    let _ = kill_process_group(pid, Signal::KILL);
    lock().remove(&pid.as_raw_pid());
    let status = match waited.map_err(failed)? {
        Some(status) => status,
        None => {
            child.wait().map_err(failed)?;
            return Ok((End::Endless(limits.clock), read(&mut output).map_err(failed)?));
        }
    };
    let said = read(&mut output).map_err(failed)?;
    let end = match status.signal().map(|signal| (signal, Signal::from_named_raw(signal))) {
        Some((_, Some(Signal::XCPU))) => End::Endless(limits.processor),
        Some((signal, Some(Signal::INT | Signal::TERM | Signal::HUP | Signal::KILL))) => {
            return Err(Run::Signal(signal));
        }
        _ if status.success() => End::Passed,
        _ => End::Failed,
    };
    Ok((end, said))
}

/// Ends everything that runs.
pub fn end_all() {
    for group in lock().iter().filter_map(|group| Pid::from_raw(*group)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn lock() -> std::sync::MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Its status; none when it took longer.
fn wait(child: &mut Child, longest: Duration) -> io::Result<Option<std::process::ExitStatus>> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() >= longest {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn read(output: &mut std::fs::File) -> io::Result<String> {
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limits: Limits) -> (End, String) {
        run(Command::new("sh").args(["-c", script]), limits).unwrap()
    }

    const LONG: Limits = Limits { processor: Duration::from_secs(900), clock: Duration::from_secs(900) };

    #[test]
    fn the_end_and_the_output_are_known() {
        assert_eq!(shell("echo a; echo b >&2", LONG), (End::Passed, "a\nb\n".into()));
        assert_eq!(shell("echo a; exit 3", LONG), (End::Failed, "a\n".into()));
        assert_eq!(shell("kill -ABRT $$", LONG).0, End::Failed);
    }

    #[test]
    fn what_was_ended_by_somebody_says_nothing() {
        let ended = run(Command::new("sh").args(["-c", "kill -TERM $$"]), LONG);
        assert!(matches!(ended, Err(Run::Signal(15))), "{ended:?}");
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let short = Duration::from_secs(1);
        assert_eq!(shell("while :; do :; done", Limits { processor: short, ..LONG }).0, End::Endless(short));
        // On a busy machine the shell needs some of it to say what it started.
        let clock = Duration::from_secs(5);
        let (end, said) = shell("echo a; sleep 1000 & echo $!; wait", Limits { clock, ..LONG });
        assert_eq!(end, End::Endless(clock));
        // With everything that it started.
        let sleeper = said.lines().nth(1).unwrap().to_owned();
        let state = || std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        while !(state().is_empty() || state().contains(") Z ")) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_is_left_behind_is_not_waited_for() {
        assert_eq!(shell("sleep 1000 & echo a", LONG), (End::Passed, "a\n".into()));
    }
}
