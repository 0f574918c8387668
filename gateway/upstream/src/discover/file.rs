//! Endpoints from a file that others write.
//!
//! No file operation runs on the control thread: a file system that does not answer fails this look-up and blocks nothing else.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate_plan::file_access::{self, NamedFile, PATIENCE, Stalled};
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
    file: NamedFile,
    /// The state that was read last; `None`: nothing was read yet.
    read: Option<Stamp>,
    /// An operation that did not end in time. The next one waits for its end, so that a file system that does not answer
    /// holds one thread for this file.
    late: Option<oneshot::Receiver<()>>,
}

/// What tells one state of a file from another. A file renamed into place is another inode, one that is written in
/// place another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    Missing,
    File { device: u64, inode: u64, size: u64, changed: (i64, i64) },
}

impl File {
    pub(super) fn new(file: &NamedFile) -> Self {
        Self { file: file.clone(), read: None, late: None }
    }

    /// Runs a job with the file on a thread that may block.
    async fn with<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&NamedFile) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        if let Some(late) = &mut self.late {
            // An error means that it has ended too.
            let _ = late.await;
            self.late = None;
        }
        let (done, answer) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let file = self.file.clone();
        let failed = |stalled: Stalled| Failure::Other(format!("cannot read the file: {stalled}"));
        file_access::start(move || {
            // The look-up may have ended.
            let _ = done.send(job(&file));
            let _ = ended.send(());
        })
        .map_err(failed)?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(failed(Stalled::Broken)),
            Err(_) => {
                self.late = Some(end);
                Err(failed(Stalled::Silent))
            }
        }
    }

    async fn stamp(&mut self) -> Result<Stamp, Failure> {
        self.with(|file| {
            let Ok(metadata) = file.path.metadata() else { return Stamp::Missing };
            Stamp::File {
                device: metadata.dev(),
                inode: metadata.ino(),
                size: metadata.size(),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            }
        })
        .await
    }

    /// Waits for a state that has not been read, and that has stood still between two looks: whoever writes in place
    /// has a moment in which half of the list is a list.
    async fn changed(&mut self) -> Result<Stamp, Failure> {
        let mut before = None;
        loop {
            let now = self.stamp().await?;
            if self.read != Some(now) && before == Some(now) {
                return Ok(now);
            }
            before = Some(now);
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Source for File {
    async fn next(&mut self) -> Result<Vec<Endpoint>, Failure> {
        // The first read does not wait: there are no endpoints yet, and an incomplete list is read again.
        let looked = if self.read.is_none() { self.stamp().await } else { self.changed().await };
        let stamp = match looked {
            Ok(stamp) => stamp,
            Err(failure) => {
                // Without a free thread the failure comes at once.
                tokio::time::sleep(LOOK).await;
                return Err(failure);
            }
        };
        let read = self.with(read_endpoints).await?;
        self.read = Some(stamp);
        read.map_err(Failure::Other)
    }
}
