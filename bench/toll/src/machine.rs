//! The ground a run stands on: two cores, tools, free ports, scratch space.

use crate::failure::Failure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which cores do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// The server under test, alone.
    pub target: usize,
    /// Origin, load generator and this program.
    pub load: usize,
}

impl Cores {
    /// Two of the cores this process may use, siblings of one physical core only if there is no other pair.
    pub fn choose() -> Result<Self, Failure> {
        let allowed =
            sched_getaffinity(None).map_err(|error| Failure::System("CPU affinity".into(), error.into()))?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        let siblings = |core: usize| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"))
                .map(|list| parse_cpu_list(&list))
                .unwrap_or_default()
        };
        pick(&cores, siblings).ok_or_else(|| {
            Failure::Lacking(format!(
                "the benchmark needs 2 CPU cores (one for the server under test, one for origin and generator); \
                 this process may use {}",
                cores.len()
            ))
        })
    }

    /// Moves this process, and what it starts unpinned, to the load core.
    pub fn leave_target_alone(self) -> Result<(), Failure> {
        let mut set = CpuSet::new();
        set.set(self.load);
        sched_setaffinity(None, &set).map_err(|error| Failure::System("CPU affinity".into(), error.into()))
    }
}

fn pick(cores: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Option<Cores> {
    let (&target, rest) = cores.split_first()?;
    let shared = siblings(target);
    let load = rest.iter().find(|core| !shared.contains(core)).or(rest.first())?;
    Some(Cores { target, load: *load })
}

/// Reads the kernel's list form, such as `0-2,8`.
fn parse_cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse().ok()?..=high.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// The programs a run may use, each found or not.
#[derive(Debug, Clone)]
pub struct Tools {
    /// Peer and origin.
    pub nginx: Option<PathBuf>,
    /// Peer.
    pub haproxy: Option<PathBuf>,
    /// Generator at a fixed rate.
    pub h2load: Option<PathBuf>,
    /// Generator with a connection a request.
    pub wrk: Option<PathBuf>,
}

impl Tools {
    /// Looks along `PATH` and in the system's directories, which an ordinary user's `PATH` may lack.
    pub fn find() -> Self {
        Self { nginx: which("nginx"), haproxy: which("haproxy"), h2load: which("h2load"), wrk: which("wrk") }
    }

    /// Debian packages of the programs that were not found.
    pub fn missing_packages(&self) -> Vec<&'static str> {
        [
            (&self.nginx, "nginx"),
            (&self.haproxy, "haproxy"),
            (&self.h2load, "nghttp2-client"),
            (&self.wrk, "wrk"),
        ]
        .into_iter()
        .filter(|(found, _)| found.is_none())
        .map(|(_, package)| package)
        .collect()
    }
}

/// Finds a program.
pub fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The first line a program prints about its version, on either stream; empty when it says nothing.
pub fn version(program: &Path, argument: &str) -> String {
    let Ok(output) = Command::new(program).arg(argument).output() else { return String::new() };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned()
}

/// A folder of this run's own, gone when dropped. In memory where the system has `/dev/shm`, so that no disk
/// disturbs the figures.
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// Creates the folder; `purpose` keeps those of one process apart.
    pub fn create(purpose: &str) -> Result<Self, Failure> {
        let name = format!("{SCRATCH}{purpose}-{}", std::process::id());
        let memory = Path::new("/dev/shm");
        remove_orphans(memory);
        let in_memory = memory.join(&name);
        if fs::create_dir(&in_memory).is_ok() {
            return Ok(Self { root: in_memory });
        }
        let root = std::env::temp_dir().join(name);
        fs::create_dir(&root).map_err(|error| Failure::file(&root, error))?;
        Ok(Self { root })
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.root
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// What every scratch folder's name begins with; its creator's process id ends it.
const SCRATCH: &str = "tollgate-bench-";

/// Removes what runs left that were killed outright.
fn remove_orphans(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(SCRATCH))
            .and_then(|name| name.rsplit('-').next());
        if owner.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Ports nobody listens on, one for each server of a run.
///
/// They lie below the range that the kernel takes client ports from (32768 and up), so that no client connection of
/// the load can sit on one.
pub fn free_ports(count: usize) -> Result<Vec<u16>, Failure> {
    let first = 20_000 + (std::process::id() % 900) as u16 * 10;
    let ports: Vec<u16> = (first..32_000).filter(|port| is_free(*port)).take(count).collect();
    if ports.len() == count {
        Ok(ports)
    } else {
        Err(Failure::Lacking(format!("{count} free ports on 127.0.0.1 between {first} and 32000")))
    }
}

/// Whether a server could listen on this port now.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Raises the soft limit on open files to the hard one, for this process and its children; returns the limit.
pub fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

/// The CPU's name as the kernel tells it.
pub fn cpu_name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines().find_map(|line| line.strip_prefix("model name")).map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |rest| rest.trim_start_matches([':', '\t', ' ']).to_owned(),
    )
}

/// The kernel's release.
pub fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Load average over the last minute: how busy others keep the machine.
pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(parse_cpu_list("3"), [3]);
        assert_eq!(parse_cpu_list(""), [0usize; 0]);
    }

    #[test]
    fn another_physical_core_is_preferred() {
        assert_eq!(pick(&[0, 1, 2, 3], |_| vec![0, 1]), Some(Cores { target: 0, load: 2 }));
        assert_eq!(pick(&[4, 6], |_| vec![4]), Some(Cores { target: 4, load: 6 }));
        assert_eq!(pick(&[0, 1], |_| vec![0, 1]), Some(Cores { target: 0, load: 1 }));
        assert_eq!(pick(&[0], |_| vec![0]), None);
        assert_eq!(pick(&[], |_| vec![]), None);
    }

    #[test]
    fn free_ports_are_distinct_and_free() {
        let ports = free_ports(3).unwrap();
        assert_eq!(ports.len(), 3);
        assert!(ports[0] < ports[1] && ports[1] < ports[2] && ports[2] < 32_768);
    }

    #[test]
    fn programs_are_found_or_not() {
        assert!(which("sh").is_some());
        assert!(which("no-such-program-here").is_none());
    }

    #[test]
    fn folders_of_runs_that_are_gone_are_removed_and_no_others() {
        let scratch = Scratch::create("orphans-test").unwrap();
        // Process ids end at 2^22 (`proc(5)`, pid_max), so nobody has this one.
        let orphan = scratch.path().join("tollgate-bench-run-99999999");
        let mine = scratch.path().join(format!("tollgate-bench-run-{}", std::process::id()));
        let other = scratch.path().join("someone-else-99999999");
        for folder in [&orphan, &mine, &other] {
            fs::create_dir(folder).unwrap();
        }
        remove_orphans(scratch.path());
        assert!(!orphan.exists() && mine.exists() && other.exists());
    }

    #[test]
    fn scratch_space_goes_away() {
        let scratch = Scratch::create("scratch-test").unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("x"), "y").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
