//! Files that are loaded anew when they change.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tollgate_config::file_access;

use crate::aside::aside;

/// How often the files are looked at. Looked at rather than watched: inotify tells of a folder's entries, and says
/// nothing when a mounted volume swaps a link above it, as Kubernetes does with secrets.
const LOOK: Duration = Duration::from_secs(1);

/// What can be seen of a file from outside: which one it is, how long, and when it changed. `None`: it is not there.
type Stamp = Option<(u64, u64, u64, [i64; 4])>;

/// Looks at files from time to time. No look runs on the control thread: a disk may hang.
#[derive(Debug, Default)]
pub struct Watch {
    paths: Vec<PathBuf>,
    /// Their stamps when they were loaded last, and at the last look. Empty: no look has ended yet.
    loaded: Vec<Stamp>,
    last: Vec<Stamp>,
    looking: Option<JoinHandle<Vec<Stamp>>>,
}

impl Watch {
    /// Watches these files from now on, which were just loaded; none: none. What has changed of a file since the last look
    /// counts as changed. Waits for the first look at other files, a few seconds at most.
    pub async fn follow(&mut self, paths: Vec<PathBuf>) {
        if paths == self.paths {
            return;
        }
        let first = paths.clone();
        // Of a disk that hangs, the first look that ends is taken.
        let loaded = aside(move || Ok(stamps(&first))).await.unwrap_or_default();
        *self = Self { paths, last: loaded.clone(), loaded, looking: None };
    }

    /// Waits until a file has changed, and then stayed as it is for a moment: somebody may be writing.
    pub async fn changed(&mut self) {
        if self.paths.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let looking = match &mut self.looking {
                Some(looking) => looking,
                None => self.looking.insert(tokio::spawn(look(self.paths.clone()))),
            };
            let seen = looking.await.unwrap_or_default();
            self.looking = None;
            if seen.len() != self.paths.len() {
                // There was no thread for it, because others wait for a disk.
                continue;
            }
            let settled = seen == self.last;
            self.last = seen;
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

/// Looks at the files after a pause; nothing if that cannot be.
async fn look(paths: Vec<PathBuf>) -> Vec<Stamp> {
    sleep(LOOK).await;
    let (done, seen) = oneshot::channel();
    match file_access::start(move || drop(done.send(stamps(&paths)))) {
        Ok(()) => seen.await.unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let it = metadata(path).ok()?;
        Some((it.dev(), it.ino(), it.size(), [it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec()]))
    };
    paths.iter().map(stamp).collect()
}
