//! Figures that the kernel reports about this process.

use std::fs;
use std::time::Duration;

use crate::process_cpu_time;

/// The process's own figures; unreadable ones are absent.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) cpu: Duration,
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_fds: Option<u64>,
}

impl Process {
    pub(super) fn read() -> Process {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Process { cpu: process_cpu_time(), resident_bytes: resident_bytes(&status), open_fds: open_fds() }
    }
}

/// Returns resident memory in bytes, from the text of `/proc/PID/status`.
pub(crate) fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    // The unit is always kB, and means 1024 bytes (proc(5)).
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn open_fds() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    // One of them is the descriptor that reads the directory.
    Some((entries.count() as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_files() {
        let before = open_fds().unwrap();
        let file = fs::File::open("/proc/self/status").unwrap();
        assert!(open_fds().unwrap() > 0 && before > 0);
        drop(file);
        assert!(Process::read().resident_bytes.unwrap() > 64 * 1024);
    }
}
