//! The cache file with the last valid state. A separate thread writes it, so that no change waits for it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_config::Document;
use tollgate_config::file_access::{self, NamedFile, ReadError};
use tollgate_etcd::EtcdEntry;
use tracing::warn;

/// How long changes are collected before they are written: a burst of a hundred changes a second takes few
/// writes.
const WRITE_DELAY: Duration = Duration::from_millis(200);
/// Bound of the file, in bytes.
const FILE_MAX_BYTES: usize = 1 << 30;
/// Version of the file format.
const FORMAT_VERSION: u64 = 1;

/// The state in force: the revision, and the documents with their revisions.
pub(super) type CachedState = (u64, Vec<(Arc<Document>, u64)>);

/// Writes the cache file. Dropping it writes the last snapshot that is still pending.
#[derive(Debug)]
pub(super) struct CacheWriter {
    snapshots: Option<Sender<CachedState>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Serialize, Deserialize)]
struct CacheFile {
    format: u64,
    prefix: String,
    revision: u64,
    documents: Vec<CachedDocument>,
}

#[derive(Serialize, Deserialize)]
struct CachedDocument {
    kind: String,
    name: String,
    revision: u64,
    value: Value,
}

impl CacheWriter {
    /// Starts the thread that writes snapshots to this file.
    pub fn start(path: PathBuf, prefix: String) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("etcd-cache".to_owned())
            .spawn(move || write_snapshots(&path, &prefix, &receiver))?;
        Ok(Self { snapshots: Some(sender), thread: Some(thread) })
    }

    /// Queues a snapshot to be written.
    pub fn queue(&self, snapshot: CachedState) {
        if let Some(snapshots) = &self.snapshots {
            let _ = snapshots.send(snapshot);
        }
    }
}

impl Drop for CacheWriter {
    fn drop(&mut self) {
        self.snapshots = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_snapshots(path: &Path, prefix: &str, snapshots: &Receiver<CachedState>) {
    let mut failed = false;
    while let Ok(mut snapshot) = snapshots.recv() {
        // Collect until the time is over, or the sender is dropped.
        let end = std::time::Instant::now() + WRITE_DELAY;
        while let Ok(later) = snapshots.recv_timeout(end.saturating_duration_since(std::time::Instant::now()))
        {
            snapshot = later;
        }
        match write(path, prefix, snapshot) {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                let path = path.display();
                warn!(target: "etcd", "etcd: the last good state cannot be kept in {path}: {error}");
            }
            Err(_) => {}
        }
    }
}

/// Writes a temporary file, then renames it, so that a crash leaves the old or the new state. Only the owner
/// may read the file, because it can hold secrets.
fn write(path: &Path, prefix: &str, (revision, documents): CachedState) -> io::Result<()> {
    let documents = documents.iter().map(|(document, revision)| CachedDocument {
        kind: document.kind.name.to_owned(),
        name: document.name.clone(),
        revision: *revision,
        value: Value::clone(&document.value),
    });
    let contents = CacheFile {
        format: FORMAT_VERSION,
        prefix: prefix.to_owned(),
        revision,
        documents: documents.collect(),
    };
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let mut out = BufWriter::new(file);
    serde_json::to_writer(&mut out, &contents)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    drop(out);
    std::fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Reads the file, if it exists and has this prefix. Returns the revision, and the entries as etcd would
/// report them.
pub(super) fn read(path: &Path, prefix: &str) -> Result<Option<(u64, Vec<EtcdEntry>)>, String> {
    let bytes = match file_access::read(&NamedFile::from(path), FILE_MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(ReadError::Missing) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let contents: CacheFile =
        serde_json::from_slice(&bytes).map_err(|error| format!("it is no such file: {error}"))?;
    if contents.format != FORMAT_VERSION {
        return Err(format!("its format is {}, not {FORMAT_VERSION}", contents.format));
    }
    if contents.prefix != prefix {
        return Err(format!("it is of the prefix {}, not {prefix}", contents.prefix));
    }
    let entries = contents.documents.into_iter().map(|document| EtcdEntry {
        key: format!("{}/{}", document.kind, document.name),
        value: Some(document.value.to_string().into_bytes()),
        revision: document.revision,
    });
    Ok(Some((contents.revision, entries.collect())))
}
