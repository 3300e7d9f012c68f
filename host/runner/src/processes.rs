//! The other processes of this container: evidence that no process of the application is left.
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A running process of this PID namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The ID of the process, in the PID namespace of this container.
    pub pid: i32,
    /// The ID of its parent.
    pub parent: i32,
    /// The ID of its process group.
    pub group: i32,
}

/// Every running process except this one and its clients (same executable). `None` if `/proc` cannot be read.
pub fn others() -> Option<Vec<Process>> {
    let me = i32::try_from(std::process::id()).ok()?;
    let ours = fs::metadata("/proc/self/exe").ok().map(|exe| (exe.dev(), exe.ino()));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process that ends meanwhile does not count.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some(process) = read_stat(pid, &stat).filter(|process| process.pid != me) else { continue };
        let exe = fs::metadata(format!("/proc/{pid}/exe")).ok().map(|exe| (exe.dev(), exe.ino()));
        if ours.is_none() || exe != ours {
            found.push(process);
        }
    }
    Some(found)
}

/// The number of processes besides this one, its clients and the given process groups. If it cannot be determined the result is `u32::MAX`,
/// because 0 is evidence and must never be a guess.
///
/// The groups are read after the processes, so that a group that began meanwhile is excluded.
pub fn count(groups: impl FnOnce() -> Vec<Option<i32>>) -> u32 {
    let Some(processes) = others() else { return u32::MAX };
    let groups = groups();
    let left = processes.iter().filter(|process| !groups.contains(&Some(process.group))).count();
    u32::try_from(left).unwrap_or(u32::MAX)
}

/// The processes that the shutdown has to end, without the given process groups: as PID 1 all, otherwise the descendants of this process.
pub fn subjects(except: &[Option<i32>]) -> Vec<Pid> {
    let processes = others().unwrap_or_default();
    let me = i32::try_from(std::process::id()).unwrap_or_default();
    let parents: BTreeMap<i32, i32> = processes.iter().map(|process| (process.pid, process.parent)).collect();
    let descends = |mut pid: i32| {
        // Limited by the number of processes, in case IDs were reused meanwhile.
        for _ in 0..=parents.len() {
            match parents.get(&pid) {
                Some(parent) if *parent == me => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    processes
        .iter()
        .filter(|process| !except.contains(&Some(process.group)) && (me == 1 || descends(process.pid)))
        .filter_map(|process| Pid::from_raw(process.pid))
        .collect()
}

/// Parses `/proc/PID/stat`; `None` for a process that has ended. A zombie with other running threads has not.
fn read_stat(pid: i32, stat: &str) -> Option<Process> {
    // The name in brackets may contain anything, brackets too.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let threads: u32 = fields.nth(14)?.parse().ok()?;
    let dead = matches!(state, "Z" | "X" | "x") && threads <= 1;
    (!dead).then_some(Process { pid, parent, group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_disguise_a_process() {
        let stat = "42 (a) Z 9 9 ) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 100 0 0";
        assert_eq!(read_stat(42, stat), Some(Process { pid: 42, parent: 1, group: 7 }));
    }

    #[test]
    fn a_zombie_is_dead_unless_a_thread_of_it_runs() {
        let stat = |threads| format!("42 (a) Z 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 100 0 0");
        assert_eq!(read_stat(42, &stat(1)), None);
        assert!(read_stat(42, &stat(2)).is_some());
    }
}
