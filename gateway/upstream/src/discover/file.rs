//! Endpoints from a file that others write.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_plan::{Endpoint, read_endpoints};

use super::{Failure, Source};

/// How often the file is looked at. A look is one system call.
const LOOK: Duration = Duration::from_millis(250);

/// A list of endpoints in a file, read again when it changes.
///
/// Looked at rather than watched: inotify tells of a directory's entries, and says nothing when a mounted volume swaps
/// what a symbolic link leads to (Kubernetes' ConfigMaps), nor on a network file system. A look costs 4 system calls a
/// second and sees all of these.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    /// The state that was read last; `None`: nothing was read yet.
    read: Option<Stamp>,
}

/// What tells one state of a file from another. A file renamed into place is another inode, one that is written in
/// place another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    Missing,
    File { device: u64, inode: u64, size: u64, changed: (i64, i64) },
}

impl File {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: None }
    }

    fn stamp(&self) -> Stamp {
        let Ok(metadata) = self.path.metadata() else { return Stamp::Missing };
        Stamp::File {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Waits for a state that has not been read, and that has stood still between two looks: whoever writes in place
    /// has a moment in which half of the list is a list.
    async fn changed(&self) -> Stamp {
        let mut before = None;
        loop {
            let now = self.stamp();
            if self.read != Some(now) && before == Some(now) {
                return now;
            }
            before = Some(now);
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Source for File {
    async fn next(&mut self) -> Result<Vec<Endpoint>, Failure> {
        // At the start there is nothing to go on with meanwhile: half a list is read again anyway.
        let stamp = if self.read.is_none() { self.stamp() } else { self.changed().await };
        self.read = Some(stamp);
        read_endpoints(&self.path).map_err(Failure::Other)
    }
}
