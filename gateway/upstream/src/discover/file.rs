//! Discovery by a file that another program writes.
//!
//! No file operation runs on the control thread. A file system that does not answer fails this lookup and
//! blocks nothing else.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate_plan::file_access::{self, NamedFile, OPERATION_TIMEOUT, Stalled};
use tollgate_plan::{Endpoint, read_endpoints};

use super::{EndpointSource, LookupError};

/// Time between two looks at the file. A look is one system call.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A list of endpoints in a file, which is read again when it changes.
///
/// The file is polled, not watched. inotify reports only the entries of a directory. It reports nothing on a
/// network file system, or if a mounted volume changes the target of a symbolic link (as Kubernetes does for
/// ConfigMaps). Polling costs 4 system calls a second and notices all of these.
#[derive(Debug)]
pub(super) struct FileSource {
    file: NamedFile,
    /// The state that was read last; `None` before the first read.
    read: Option<FileVersion>,
    /// An operation that did not end in time. The next operation waits for its end, so a file system that
    /// does not answer holds at most one thread for this file.
    unfinished: Option<oneshot::Receiver<()>>,
}

/// Identifies a state of the file. A file renamed into place has another inode, a file written in place
/// another change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileVersion {
    Missing,
    FileSource { device: u64, inode: u64, size: u64, changed: (i64, i64) },
}

impl FileSource {
    pub(super) fn new(file: &NamedFile) -> Self {
        Self { file: file.clone(), read: None, unfinished: None }
    }

    /// Runs a job with the file on a thread that may block.
    async fn run_job<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&NamedFile) -> T + Send + 'static,
    ) -> Result<T, LookupError> {
        if let Some(unfinished) = &mut self.unfinished {
            // An error also means that the operation is over.
            let _ = unfinished.await;
            self.unfinished = None;
        }
        let (done, answer) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let file = self.file.clone();
        let failed = |stalled: Stalled| LookupError::Other(format!("cannot read the file: {stalled}"));
        file_access::start(move || {
            // The lookup may have been aborted.
            let _ = done.send(job(&file));
            let _ = ended.send(());
        })
        .map_err(failed)?;
        match tokio::time::timeout(OPERATION_TIMEOUT, answer).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(failed(Stalled::Broken)),
            Err(_) => {
                self.unfinished = Some(end);
                Err(failed(Stalled::Silent))
            }
        }
    }

    async fn stamp(&mut self) -> Result<FileVersion, LookupError> {
        self.run_job(|file| {
            let Ok(metadata) = file.path.metadata() else { return FileVersion::Missing };
            FileVersion::FileSource {
                device: metadata.dev(),
                inode: metadata.ino(),
                size: metadata.size(),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            }
        })
        .await
    }

    /// Waits for a state that was not read yet and that did not change between two looks. While a program
    /// writes the file in place, half of the list is a valid list for a moment.
    async fn wait_for_change(&mut self) -> Result<FileVersion, LookupError> {
        let mut before = None;
        loop {
            let now = self.stamp().await?;
            if self.read != Some(now) && before == Some(now) {
                return Ok(now);
            }
            before = Some(now);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl EndpointSource for FileSource {
    async fn next(&mut self) -> Result<Vec<Endpoint>, LookupError> {
        // The first read does not wait: there are no endpoints yet, and an incomplete list is read again
        // later.
        let looked = if self.read.is_none() { self.stamp().await } else { self.wait_for_change().await };
        let stamp = match looked {
            Ok(stamp) => stamp,
            Err(failure) => {
                // If no thread is free, the failure comes at once.
                tokio::time::sleep(POLL_INTERVAL).await;
                return Err(failure);
            }
        };
        let read = self.run_job(read_endpoints).await?;
        self.read = Some(stamp);
        read.map_err(LookupError::Other)
    }
}
