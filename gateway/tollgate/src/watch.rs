//! Files that are loaded anew when they change.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

/// How often the files are looked at. Looked at rather than watched: inotify tells of a folder's entries, and says
/// nothing when a mounted volume swaps a link above it, as Kubernetes does with secrets.
const LOOK: Duration = Duration::from_secs(1);

/// What can be seen of a file from outside: which one it is, how long, and when it changed. `None`: it is not there.
type Stamp = Option<(u64, u64, u64, [i64; 4])>;

/// Looks at files from time to time.
#[derive(Debug)]
pub struct Watch {
    paths: Vec<PathBuf>,
    /// What they looked like when they were loaded last, and at the last look.
    loaded: Vec<Stamp>,
    last: Vec<Stamp>,
    looking: Option<JoinHandle<Vec<Stamp>>>,
}

impl Watch {
    /// Watches these files from now on; none: none.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let loaded = stamps(&paths);
        Self { paths, last: loaded.clone(), loaded, looking: None }
    }

    /// Watches others, which were just loaded. What has changed of a file since the last look counts as changed.
    pub fn follow(&mut self, paths: Vec<PathBuf>) {
        if paths != self.paths {
            *self = Self::new(paths);
        }
    }

    /// Waits until a file has changed, and then stayed as it is for a moment: somebody may be writing.
    pub async fn changed(&mut self) {
        if self.paths.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let looking = match &mut self.looking {
                Some(looking) => looking,
                None => {
                    let paths = self.paths.clone();
                    self.looking.insert(tokio::spawn(async move {
                        sleep(LOOK).await;
                        // A disk that hangs must not keep this thread.
                        spawn_blocking(move || stamps(&paths)).await.unwrap_or_default()
                    }))
                }
            };
            let seen = looking.await.unwrap_or_default();
            self.looking = None;
            if seen.len() != self.paths.len() {
                continue;
            }
            let settled = seen == self.last;
            self.last = seen;
            if settled && self.last != self.loaded {
                self.loaded.clone_from(&self.last);
                return;
            }
        }
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let it = metadata(path).ok()?;
        Some((it.dev(), it.ino(), it.size(), [it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec()]))
    };
    paths.iter().map(stamp).collect()
}
