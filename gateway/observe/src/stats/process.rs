//! Figures that the kernel reports about this process.

use std::fs;
use std::time::Duration;

use crate::process_cpu_time;

/// Units of CPU time and of the start in `/proc` per second, on all platforms of Linux (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// The process's own figures; unreadable ones are absent.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) cpu: Duration,
    pub(super) resident_bytes: Option<u64>,
    pub(super) virtual_bytes: Option<u64>,
    pub(super) open_fds: Option<u64>,
    /// The limit of open descriptors; absent if there is none.
    pub(super) max_fds: Option<u64>,
    /// Start of the process, in seconds since 1970.
    pub(super) started: Option<f64>,
    /// CPU time of each worker, by its number.
    pub(super) workers: Vec<(String, Duration)>,
}

impl Process {
    pub(super) fn read() -> Process {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Process {
            cpu: process_cpu_time(),
            resident_bytes: resident_bytes(&status),
            virtual_bytes: bytes(&status, "VmSize:"),
            open_fds: open_fds(),
            max_fds: fs::read_to_string("/proc/self/limits").ok().and_then(|limits| max_fds(&limits)),
            started: started(),
            workers: workers(),
        }
    }
}

/// Returns resident memory in bytes, from the text of `/proc/PID/status`.
pub(crate) fn resident_bytes(status: &str) -> Option<u64> {
    bytes(status, "VmRSS:")
}

fn bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    // The unit is always kB, and means 1024 bytes (proc(5)).
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn open_fds() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    // One of them is the descriptor that reads the directory.
    Some((entries.count() as u64).saturating_sub(1))
}

/// Returns the soft limit of open files, from the text of `/proc/PID/limits`.
fn max_fds(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the fields of `/proc/PID/stat` after the name of the program or thread, which may hold anything. The first
/// is the third of proc(5).
fn fields(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    Some(stat.get(stat.rfind(')')? + 1..)?.split_whitespace())
}

fn started() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: u64 = fields(&stat)?.nth(22 - 3)?.parse().ok()?;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let booted: u64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(booted as f64 + ticks as f64 / TICKS_PER_SECOND as f64)
}

/// Returns the CPU time of the threads that are called `worker-N`, in the order of their numbers.
fn workers() -> Vec<(String, Duration)> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let one = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let name = stat.get(stat.find('(')? + 1..stat.rfind(')')?)?;
        let number = name.strip_prefix("worker-")?.to_owned();
        let mut times = fields(&stat)?.skip(14 - 3);
        let (user, system): (u64, u64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
        let spent = Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND);
        Some((number.parse::<u32>().ok()?, number, spent))
    };
    let mut all: Vec<_> = tasks.filter_map(one).collect();
    all.sort_by_key(|(number, ..)| *number);
    all.into_iter().map(|(_, number, spent)| (number, spent)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn this_process_has_memory_and_files() {
        let before = open_fds().unwrap();
        let file = fs::File::open("/proc/self/status").unwrap();
        assert!(open_fds().unwrap() > 0 && before > 0);
        drop(file);
        let process = Process::read();
        let resident = process.resident_bytes.unwrap();
        assert!(resident > 64 * 1024 && process.virtual_bytes.unwrap() > resident);
        assert!(process.max_fds.is_none_or(|most| most >= before));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - process.started.unwrap();
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }

    #[test]
    fn the_limit_of_descriptors() {
        let limits = |files: &str| {
            format!("Max core file size  0  unlimited  bytes\nMax open files  {files}  files\n")
        };
        assert_eq!(max_fds(&limits("1024  524288")), Some(1024));
        assert_eq!(max_fds(&limits("unlimited  unlimited")), None);
    }

    #[test]
    fn the_time_of_a_worker() {
        let worker = std::thread::Builder::new().name("worker-7".to_owned());
        worker
            .spawn(|| assert_eq!(workers().iter().filter(|(name, _)| name == "7").count(), 1))
            .unwrap()
            .join()
            .unwrap();
    }
}
