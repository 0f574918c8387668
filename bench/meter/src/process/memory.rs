//! The memory of a process tree.

use super::procfs::number_after;
use super::tree::{Subject, process_ids};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The memory of a process tree in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident set in KiB; a page that two processes of the tree share counts twice (`VmRSS`).
    pub rss_kib: u64,
    /// Proportional set in KiB: shared pages are divided among their users. `None` if it may not be read, as
    /// for processes of other users.
    pub pss_kib: Option<u64>,
    /// Sum of each process's peak resident set since its start or the last [`reset_peak`], in KiB (`VmHWM`).
    /// Ended processes are not included.
    pub peak_kib: u64,
}

impl Memory {
    /// Reads the subject's current memory.
    ///
    /// For the proportional set, the kernel walks the page tables with the subject's memory map locked. Read
    /// it at the ends of a trial, not during it.
    pub fn read(subject: impl Into<Subject>) -> Self {
        let mut sum = Self { pss_kib: Some(0), ..Self::default() };
        for pid in process_ids(subject) {
            let status = read(pid, "status");
            // A zombie or a kernel thread has no memory and no such lines.
            let Some(rss) = number_after(&status, "VmRSS:") else { continue };
            sum.rss_kib += rss;
            sum.peak_kib += number_after(&status, "VmHWM:").unwrap_or(rss);
            let pss = number_after(&read(pid, "smaps_rollup"), "Pss:");
            sum.pss_kib = sum.pss_kib.zip(pss).map(|(sum, pss)| sum + pss);
        }
        sum
    }

    /// Returns the fairest single figure in KiB: the proportional set if known, otherwise the resident set.
    pub fn own_kib(&self) -> u64 {
        self.pss_kib.unwrap_or(self.rss_kib)
    }
}

/// Resets the peak resident set of each process to its current one (`proc(5)`, `clear_refs`, value 5).
///
/// # Errors
/// If a running process may not be reset because it belongs to another user. Its peak then still counts from
/// its start.
pub fn reset_peak(subject: impl Into<Subject>) -> Result<(), Error> {
    for pid in process_ids(subject) {
        let path = format!("/proc/{pid}/clear_refs");
        if let Err(error) = fs::write(&path, "5")
            && error.kind() == std::io::ErrorKind::PermissionDenied
        {
            return Err(Error::file(Path::new(&path), error));
        }
    }
    Ok(())
}

fn read(pid: u32, file: &str) -> String {
    fs::read(format!("/proc/{pid}/{file}"))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_shows_and_its_peak_can_be_forgotten() {
        const KIB: usize = 64 * 1024;
        let me = Subject::Process(std::process::id());
        let before = Memory::read(me);
        let block = std::hint::black_box(vec![1u8; KIB * 1024]);
        let full = Memory::read(me);
        assert!(full.rss_kib >= before.rss_kib + KIB as u64 / 2, "{before:?} {full:?}");
        assert!(full.peak_kib >= full.rss_kib);
        assert!(full.own_kib() > 0 && full.own_kib() <= full.rss_kib + 1_024, "{full:?}");
        drop(block);
        reset_peak(me).unwrap();
        let after = Memory::read(me);
        assert!(after.peak_kib + KIB as u64 / 2 < full.peak_kib, "{full:?} {after:?}");
    }

    #[test]
    fn nobody_has_no_memory() {
        let nobody = Memory::read(99_999_999);
        assert_eq!(nobody, Memory { rss_kib: 0, pss_kib: Some(0), peak_kib: 0 });
        assert!(reset_peak(99_999_999).is_ok());
    }
}
