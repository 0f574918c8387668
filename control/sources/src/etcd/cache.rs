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
use tollgate_config::file_access::{self, NamedFile, Unread};
use tollgate_etcd::Entry;

/// How long changes are collected before they are written: a burst of a hundred changes a second takes few
/// writes.
const GATHER: Duration = Duration::from_millis(200);
/// Bound of the file, in bytes.
const LARGEST: usize = 1 << 30;
/// Version of the file format.
const FORMAT: u64 = 1;

/// The state in force: the revision, and the documents with their revisions.
pub(super) type Snapshot = (u64, Vec<(Arc<Document>, u64)>);

/// Writes the cache file. Dropping it writes the last snapshot that is still pending.
#[derive(Debug)]
pub(super) struct Cache {
    snapshots: Option<Sender<Snapshot>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u64,
    prefix: String,
    revision: u64,
    documents: Vec<KeptDocument>,
}

#[derive(Serialize, Deserialize)]
struct KeptDocument {
    kind: String,
    name: String,
    revision: u64,
    value: Value,
}

impl Cache {
    /// Starts the thread that writes snapshots to this file.
    pub fn start(path: PathBuf, prefix: String) -> io::Result<Self> {
        let (snapshots, given) = channel();
        let thread = std::thread::Builder::new()
            .name("etcd-cache".to_owned())
            .spawn(move || keep(&path, &prefix, &given))?;
        Ok(Self { snapshots: Some(snapshots), thread: Some(thread) })
    }

    /// Queues a snapshot to be written.
    pub fn keep(&self, snapshot: Snapshot) {
        if let Some(snapshots) = &self.snapshots {
            let _ = snapshots.send(snapshot);
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.snapshots = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn keep(path: &Path, prefix: &str, given: &Receiver<Snapshot>) {
    let mut failed = false;
    while let Ok(mut snapshot) = given.recv() {
        // Collect until the time is over, or the sender is dropped.
        let end = std::time::Instant::now() + GATHER;
        while let Ok(later) = given.recv_timeout(end.saturating_duration_since(std::time::Instant::now())) {
            snapshot = later;
        }
        match write(path, prefix, snapshot) {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                // `eprintln!` panics if stderr is closed, and this crate may not depend on the crate that has
                // `notice!`.
                let path = path.display();
                let told = format!("warning: etcd: the last good state cannot be kept in {path}: {error}\n");
                let _ = io::stderr().write_all(told.as_bytes());
            }
            Err(_) => {}
        }
    }
}

/// Writes a temporary file, then renames it, so that a crash leaves the old or the new state. Only the owner
/// may read the file, because it can hold secrets.
fn write(path: &Path, prefix: &str, (revision, documents): Snapshot) -> io::Result<()> {
    let documents = documents.iter().map(|(document, revision)| KeptDocument {
        kind: document.kind.name.to_owned(),
        name: document.name.clone(),
        revision: *revision,
        value: Value::clone(&document.value),
    });
    let kept = Kept { format: FORMAT, prefix: prefix.to_owned(), revision, documents: documents.collect() };
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let mut out = BufWriter::new(file);
    serde_json::to_writer(&mut out, &kept)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    drop(out);
    std::fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Reads the file, if it exists and has this prefix. Returns the revision, and the entries as etcd would
/// report them.
pub(super) fn read(path: &Path, prefix: &str) -> Result<Option<(u64, Vec<Entry>)>, String> {
    let bytes = match file_access::read(&NamedFile::from(path), LARGEST) {
        Ok(bytes) => bytes,
        Err(Unread::Missing) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let kept: Kept =
        serde_json::from_slice(&bytes).map_err(|error| format!("it is no such file: {error}"))?;
    if kept.format != FORMAT {
        return Err(format!("its format is {}, not {FORMAT}", kept.format));
    }
    if kept.prefix != prefix {
        return Err(format!("it is of the prefix {}, not {prefix}", kept.prefix));
    }
    let entries = kept.documents.into_iter().map(|document| Entry {
        key: format!("{}/{}", document.kind, document.name),
        value: Some(document.value.to_string().into_bytes()),
        revision: document.revision,
    });
    Ok(Some((kept.revision, entries.collect())))
}
