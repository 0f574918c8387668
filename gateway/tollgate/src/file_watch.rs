//! Detects changes of files, which are then loaded again.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tollgate_config::file_access;

use crate::blocking_files::run_file_job;

/// How often files are checked. They are polled because inotify watches the entries of a directory. It
/// reports nothing when a mounted volume replaces a link above it, as Kubernetes does with secrets.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The identity of a file's contents: device, inode, size, and times of change. `None`: it does not exist.
type FileStamp = Option<(u64, u64, u64, [i64; 4])>;

/// Polls files for changes. No check runs on the control thread, since a disk may hang.
#[derive(Debug, Default)]
pub struct FileWatch {
    paths: Vec<PathBuf>,
    /// Their stamps at the last load and at the last check. Empty until a check has finished.
    loaded: Vec<FileStamp>,
    last: Vec<FileStamp>,
    check: Option<JoinHandle<Vec<FileStamp>>>,
}

impl FileWatch {
    /// Watches these files, which were just loaded; an empty list stops watching. If the list is the same,
    /// changes since the last check still count. Otherwise waits for a first check, a few seconds at most.
    pub async fn watch_files(&mut self, paths: Vec<PathBuf>) {
        if paths == self.paths {
            return;
        }
        let first = paths.clone();
        // If the disk hangs, the first check that finishes replaces this one.
        let loaded = run_file_job(move || Ok(stamps(&first))).await.unwrap_or_default();
        *self = Self { paths, last: loaded.clone(), loaded, check: None };
    }

    /// Waits until a file has changed and then stayed the same for one check, since a writer may not have
    /// finished.
    pub async fn changed(&mut self) {
        if self.paths.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let check = match &mut self.check {
                Some(check) => check,
                None => self.check.insert(tokio::spawn(check_files(self.paths.clone()))),
            };
            let stamps_now = check.await.unwrap_or_default();
            self.check = None;
            if stamps_now.len() != self.paths.len() {
                // No thread was free for the check, because others wait for a disk.
                continue;
            }
            let settled = stamps_now == self.last;
            self.last = stamps_now;
            if self.loaded.is_empty() {
                self.loaded.clone_from(&self.last);
            }
            if settled && self.last != self.loaded {
                self.loaded.clone_from(&self.last);
                return;
            }
        }
    }
}

/// Checks the files after a pause. Returns nothing if that is not possible.
async fn check_files(paths: Vec<PathBuf>) -> Vec<FileStamp> {
    sleep(CHECK_INTERVAL).await;
    let (done, stamps_now) = oneshot::channel();
    match file_access::start(move || drop(done.send(stamps(&paths)))) {
        Ok(()) => stamps_now.await.unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<FileStamp> {
    let stamp = |path: &PathBuf| {
        let it = metadata(path).ok()?;
        Some((it.dev(), it.ino(), it.size(), [it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec()]))
    };
    paths.iter().map(stamp).collect()
}
