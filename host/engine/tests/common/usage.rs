//! Memory and time of this process, as the kernel has them.

use std::fs;

/// Bytes that are resident.
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// The largest number of bytes that were resident since [`peak_from_now`].
pub fn peak() -> u64 {
    status("VmHWM:")
}

/// Forgets the peak so far, and returns what is resident.
pub fn peak_from_now() -> u64 {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    resident()
}

/// Milliseconds that this thread had a processor: other load on the machine does not count.
pub fn busy() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1_000_000
}

fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}
