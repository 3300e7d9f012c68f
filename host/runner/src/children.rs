//! PID 1's children: all are spawned and reaped here.
//!
//! One lock covers both "spawn and register" and "wait and notify". So no exit is lost between the two, and waiting for an adopted orphan
//! cannot take the exit of a command. Only the status poller learns that an orphan ended.
use crate::{lock, processes};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, wait};
use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

/// The purpose of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A command of the operator, or `stop`.
    Command,
    /// A status poll; its process group does not count as the application.
    Poll,
    /// The user's readiness probe; its process group does not count either.
    Probe,
}

impl Purpose {
    /// The index in [`Children::looking`] for the process group. `None`: a command, which counts.
    fn place(self) -> Option<usize> {
        match self {
            Purpose::Command => None,
            Purpose::Poll => Some(0),
            Purpose::Probe => Some(1),
        }
    }
}

/// All children that a thread waits for.
#[derive(Debug, Default)]
pub struct Children {
    watched: Mutex<BTreeMap<i32, Watch>>,
    looking: [AtomicI32; 2],
}

#[derive(Debug)]
struct Watch {
    purpose: Purpose,
    exit: PipeWriter,
}

/// A child that runs.
#[derive(Debug)]
pub struct Spawned {
    /// Its process ID, which is also the ID of its process group.
    pub pid: Pid,
    /// The handle of std, used for its pipes only; [`Children::reap`] waits for it.
    pub child: Child,
    /// Becomes readable when the child was reaped: two bytes, see [`read_exit`].
    pub exit: PipeReader,
}

impl Children {
    /// Starts a command in a process group of its own.
    pub fn spawn(&self, command: &mut Command, purpose: Purpose) -> io::Result<Spawned> {
        let (exit, notify) = io::pipe()?;
        let mut watched = lock(&self.watched);
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        if let Some(group) = purpose.place().and_then(|place| self.looking.get(place)) {
            group.store(pid.as_raw_nonzero().get(), Ordering::SeqCst);
        }
        watched.insert(pid.as_raw_nonzero().get(), Watch { purpose, exit: notify });
        Ok(Spawned { pid, child, exit })
    }

    /// Reaps all children that have ended. Returns whether an adopted one was among them, which may have been the application.
    pub fn reap(&self) -> bool {
        let mut watched = lock(&self.watched);
        let mut orphans = false;
        loop {
            let (pid, status) = match wait(WaitOptions::NOHANG) {
                Ok(Some(ended)) => ended,
                Err(Errno::INTR) => continue,
                Ok(None) | Err(_) => return orphans,
            };
            let Some(mut watch) = watched.remove(&pid.as_raw_nonzero().get()) else {
                orphans = true;
                continue;
            };
            if let Some(group) = watch.purpose.place().and_then(|place| self.looking.get(place)) {
                group.store(0, Ordering::SeqCst);
            }
            let code = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => code,
                (None, Some(signal)) => 128 + signal,
                (None, None) => 255,
            };
            let by_signal = u8::from(status.signaled());
            // Two bytes always fit into the pipe. If its reader is gone, they are not needed.
            let _ = watch.exit.write_all(&[by_signal, u8::try_from(code).unwrap_or(255)]);
        }
    }

    /// The process groups of the status poll and the probe that run now.
    pub fn looking(&self) -> [Option<i32>; 2] {
        self.looking.each_ref().map(|group| Some(group.load(Ordering::SeqCst)).filter(|group| *group != 0))
    }

    /// Counts the processes other than this one, its clients, the given group, the status poll and the probe. A poll may begin or end during the
    /// count, so its group is read before and after.
    pub fn count_others(&self, group: Option<i32>) -> u32 {
        let before = self.looking();
        processes::count(|| [&[group][..], &before, &self.looking()].concat())
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, 128+n after signal n.
    pub code: u8,
    /// Whether a signal ended it.
    pub by_signal: bool,
}

/// Reads how a child ended; blocks until it has.
pub fn read_exit(mut pipe: &PipeReader) -> Exit {
    let mut bytes = [1, 255];
    let _ = io::Read::read_exact(&mut pipe, &mut bytes);
    let [by_signal, code] = bytes;
    Exit { code, by_signal: by_signal != 0 }
}
