//! Who changed what: a line of JSON each, added to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tollgate_net::notice;

/// Opens it for a line at a time, so that it can be moved away at any moment.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Makes the file, if it is not there.
///
/// # Errors
/// Why it cannot be written, in words.
pub fn check(path: Option<&Path>) -> io::Result<()> {
    let Some(path) = path else { return Ok(()) };
    open(path).map(drop).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "its directory does not exist".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        let message = format!("cannot open the audit log {}: {advice}", path.display());
        io::Error::new(error.kind(), message)
    })
}

/// Adds a line. What it tells of has happened already, so a disk that is full is told of and stops nothing.
pub async fn write(path: PathBuf, record: Value) {
    let written = tokio::task::spawn_blocking(move || {
        let line = format!("{record}\n");
        // One call: lines of two processes do not mix (open(2), O_APPEND).
        let result = open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = result {
            notice!("warning: audit log {}: {error}; the line is: {line}", path.display());
        }
    });
    // It cannot panic.
    let _ = written.await;
}
