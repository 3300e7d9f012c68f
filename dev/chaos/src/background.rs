//! Programs that run beside the rounds: watches, whose lines are stamped, and clients. Each in a process group of its own, to be ended with all it started.
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970: nothing that Kubernetes says of itself is finer than a second.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What runs at the moment, shared with who ends it.
#[derive(Default)]
struct Slot {
    ended: bool,
    group: Option<Pid>,
}

/// A program that is started again and again, until this value is dropped.
pub struct Background {
    slot: Arc<Mutex<Slot>>,
}

impl Drop for Background {
    fn drop(&mut self) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.ended = true;
        if let Some(group) = slot.group.take() {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}

fn start(slot: &Mutex<Slot>, command: &mut Command) -> Option<Child> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.ended {
        return None;
    }
    let child = command.process_group(0).stdin(Stdio::null()).spawn().ok()?;
    slot.group = Some(Pid::from_child(&child));
    Some(child)
}

/// Returns whether it may be started again.
fn finish(slot: &Mutex<Slot>, mut child: Child) -> bool {
    let _ = child.wait();
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    slot.group = None;
    !slot.ended
}

/// A file to which lines are added, by several programs at a time.
pub fn appended(file: &Path) -> Result<File> {
    let open = OpenOptions::new().create(true).append(true).open(file);
    open.with_context(|| format!("failed to open {}", file.display()))
}

impl Background {
    /// Writes each line of a program to a file, as `MOMENT|LINE` in milliseconds. A watch ends now and then; the next one begins with all that is there.
    ///
    /// # Errors
    /// When the files cannot be opened.
    pub fn record(file: &Path, complaints: &Path, mut command: Command) -> Result<Self> {
        let (mut out, complaints) = (appended(file)?, appended(complaints)?);
        command.stdout(Stdio::piped()).stderr(complaints);
        let slot = Arc::<Mutex<Slot>>::default();
        let own = Arc::clone(&slot);
        thread::spawn(move || {
            while let Some(mut child) = start(&own, &mut command) {
                if let Some(lines) = child.stdout.take() {
                    stamp(lines, &mut out);
                }
                if !finish(&own, child) {
                    break;
                }
                thread::sleep(Duration::from_millis(200));
            }
        });
        Ok(Background { slot })
    }

    /// Adds what a program writes to a file, as it is.
    ///
    /// # Errors
    /// When the files cannot be opened.
    pub fn append(file: &Path, complaints: &Path, mut command: Command) -> Result<Self> {
        command.stdout(appended(file)?).stderr(appended(complaints)?);
        let slot = Arc::<Mutex<Slot>>::default();
        let own = Arc::clone(&slot);
        thread::spawn(move || {
            while start(&own, &mut command).is_some_and(|child| finish(&own, child)) {
                thread::sleep(Duration::from_secs(1));
            }
        });
        Ok(Background { slot })
    }

    /// Runs a program once, and says when each of its lines and its end came.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn watch(complaints: &Path, mut command: Command) -> Result<(Self, Arc<Mutex<Watched>>)> {
        command.stdout(Stdio::piped()).stderr(appended(complaints)?);
        let (slot, watched) = (Arc::<Mutex<Slot>>::default(), Arc::<Mutex<Watched>>::default());
        let (own, told) = (Arc::clone(&slot), Arc::clone(&watched));
        thread::spawn(move || {
            let Some(mut child) = start(&own, &mut command) else { return };
            if let Some(out) = child.stdout.take() {
                for _ in BufReader::new(out).lines() {
                    told.lock().unwrap_or_else(PoisonError::into_inner).found = true;
                }
            }
            let at = now();
            // One that was dismissed saw no end.
            if finish(&own, child) {
                told.lock().unwrap_or_else(PoisonError::into_inner).ended = Some(at);
            }
        });
        Ok((Background { slot }, watched))
    }
}

/// What came of a program that ran once.
#[derive(Debug, Default, Clone, Copy)]
pub struct Watched {
    /// It wrote a line.
    pub found: bool,
    /// When it ended, in milliseconds since 1970.
    pub ended: Option<u64>,
}

fn stamp(lines: impl std::io::Read, out: &mut File) {
    let mut lines = BufReader::new(lines);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        let _ = out.write_all(format!("{}|{}\n", now(), text.trim_end_matches('\n')).as_bytes());
        line.clear();
    }
}

/// The lines that a watch has written so far.
///
/// # Errors
/// When the file cannot be read.
pub fn recorded(file: &Path) -> Result<Vec<(u64, String)>> {
    let text = std::fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    // The last line may be under way.
    let whole = text.rfind('\n').map_or("", |at| text.get(..at).unwrap_or_default());
    let stamped = |line: &str| {
        let (at, said) = line.split_once('|')?;
        Some((at.parse().ok()?, said.to_owned()))
    };
    Ok(whole.lines().filter_map(stamped).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_ends_is_started_again_and_its_lines_have_moments() {
        let folder = tempfile::tempdir().unwrap();
        let (file, complaints) = (folder.path().join("lines"), folder.path().join("complaints"));
        let mut command = Command::new("echo");
        command.arg("a|b");
        let began = now();
        let watch = Background::record(&file, &complaints, command).unwrap();
        let lines = loop {
            let lines = recorded(&file).unwrap();
            if lines.len() > 1 {
                break lines;
            }
            assert!(now() - began < 10_000, "it was not started again");
            thread::sleep(Duration::from_millis(20));
        };
        drop(watch);
        assert!(lines.iter().all(|(at, said)| *at >= began && said == "a|b"), "{lines:?}");
    }

    #[test]
    fn a_witness_says_when_what_it_watched_ended_unless_it_is_dismissed() {
        let folder = tempfile::tempdir().unwrap();
        let complaints = folder.path().join("complaints");
        let mut command = Command::new("echo");
        command.arg("7");
        let (_own, watched) = Background::watch(&complaints, command).unwrap();
        let began = now();
        while watched.lock().unwrap().ended.is_none() {
            assert!(now() - began < 10_000, "its end was not seen");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(watched.lock().unwrap().found);
        let mut command = Command::new("sleep");
        command.arg("60");
        let (own, watched) = Background::watch(&complaints, command).unwrap();
        drop(own);
        thread::sleep(Duration::from_millis(300));
        assert_eq!(watched.lock().unwrap().ended, None);
    }
}
