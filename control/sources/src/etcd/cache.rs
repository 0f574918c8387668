//! The cache file with the last valid state.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_config::Document;
use tollgate_config::file_access::{self, NamedFile, ReadError};
use tollgate_documents::{Compact, StateFile};
use tollgate_etcd::EtcdEntry;

/// Bound of the file, in bytes.
const FILE_MAX_BYTES: usize = 1 << 30;
/// Version of the file format.
const FORMAT_VERSION: u64 = 1;

/// The state in force: the revision, and the documents with their revisions.
pub(super) type CachedState = (u64, Vec<(Arc<Document>, u64)>);

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
    value: Compact,
}

/// Writes the cache file.
#[derive(Debug)]
pub(super) struct CacheWriter {
    file: StateFile<CacheFile>,
    prefix: String,
}

impl CacheWriter {
    /// Starts to write states to this file.
    pub fn start(path: PathBuf, prefix: String) -> io::Result<Self> {
        Ok(Self { file: StateFile::start(path, "etcd")?, prefix })
    }

    /// Queues a state to be written.
    pub fn queue(&self, (revision, documents): CachedState) {
        let documents = documents.into_iter().map(|(document, revision)| CachedDocument {
            kind: document.kind.name.to_owned(),
            name: document.name.clone(),
            revision,
            value: Compact::from(document.content.clone()),
        });
        self.file.queue(CacheFile {
            format: FORMAT_VERSION,
            prefix: self.prefix.clone(),
            revision,
            documents: documents.collect(),
        });
    }
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
        value: Some(document.value.text().as_bytes().to_vec()),
        revision: document.revision,
    });
    Ok(Some((contents.revision, entries.collect())))
}
