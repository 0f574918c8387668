//! Reads what a process tree has used so far.
//!
//! Cost, measured on a virtual machine with Linux 6.18: about 15 us for each thread of the subject (three
//! small files) and 4 us for each process of the machine. A tree of 50 threads on a machine with 110
//! processes takes 1.1 ms.

use super::procfs::{number_after, parse_schedstat, parse_stat};
use super::tree::{Subject, stats};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The CPU time and context switches of a process tree up to one moment.
///
/// A single snapshot is of no use; [`Snapshot::since`] returns what was used between two.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) processes: BTreeMap<u32, Process>,
}

/// A process at the time of a snapshot; times in ticks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) start: u64,
    /// Time of this process, including its ended threads.
    pub(crate) own: Ticks,
    /// Time of children that ended and were waited for.
    pub(crate) reaped: Ticks,
    pub(crate) threads: BTreeMap<u32, Thread>,
}

/// A thread at the time of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) start: u64,
    /// `None` if the kernel keeps no schedstat.
    pub(crate) nanos: Option<u64>,
    pub(crate) ticks: Ticks,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

/// User and system time in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub(crate) user: u64,
    pub(crate) system: u64,
}

impl Snapshot {
    /// Reads what the subject has used so far. A process id means its whole tree.
    ///
    /// A subject that has exited yields an empty snapshot. An ended child that was not waited for (a zombie) is still
    /// read.
    pub fn take(subject: impl Into<Subject>) -> Self {
        Self::read(subject.into())
    }

    fn read(subject: Subject) -> Self {
        let alone = matches!(subject, Subject::Process(_));
        let read = |(pid, stat): (u32, super::procfs::Stat)| {
            let process = Process {
                start: stat.start,
                own: Ticks { user: stat.user, system: stat.system },
                reaped: if alone {
                    Ticks::default()
                } else {
                    Ticks { user: stat.reaped_user, system: stat.reaped_system }
                },
                threads: threads(pid),
            };
            (pid, process)
        };
        Self { at: Instant::now(), processes: stats(subject).into_iter().map(read).collect() }
    }

    /// Returns how many processes the subject had.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Returns how many threads the subject's processes had in total.
    pub fn threads(&self) -> usize {
        self.processes.values().map(|process| process.threads.len()).sum()
    }
}

fn threads(pid: u32) -> BTreeMap<u32, Thread> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| Some((task.file_name().to_str()?.parse::<u32>().ok()?, thread(&task.path())?)))
        .collect()
}

fn thread(task: &Path) -> Option<Thread> {
    let read =
        |file: &str| fs::read(task.join(file)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let stat = parse_stat(&read("stat").ok()?)?;
    let status = read("status").unwrap_or_default();
    Some(Thread {
        name: stat.name,
        start: stat.start,
        nanos: read("schedstat").ok().as_deref().and_then(parse_schedstat),
        ticks: Ticks { user: stat.user, system: stat.system },
        voluntary: number_after(&status, "voluntary_ctxt_switches:").unwrap_or(0),
        involuntary: number_after(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0),
    })
}
