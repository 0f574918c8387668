//! The audit log: a file with one line of JSON for each change requested over the admin listener, and for
//! refused credentials.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use serde_json::Value;
use tokio::sync::oneshot;
use tollgate_config::file_access::{self, OPERATION_TIMEOUT};
use tollgate_net::component;
use tracing::warn;

/// How long one line may take to be written. The answer to the client waits for it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens the file for one line at a time, so that it can be moved at any moment. A named pipe without a
/// reader gives an error at once.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags.bits() as i32).open(path)
}

/// Creates the file if it does not exist. Blocks for as long as the file system takes.
///
/// # Errors
/// Returns a readable reason why the file cannot be written.
pub fn check(path: Option<&Path>) -> io::Result<()> {
    let Some(path) = path else { return Ok(()) };
    open(path).map(drop).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => "its directory does not exist".to_owned(),
            ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        let message = format!("cannot open the audit log {}: {advice}", path.display());
        io::Error::new(error.kind(), message)
    })
}

/// Adds a line. The change has already been made, so a full or stalled disk causes a warning, not an error.
pub async fn write(path: PathBuf, record: Value) {
    let line = format!("{record}\n");
    let (done, written) = oneshot::channel();
    let (file, text) = (path.clone(), line.clone());
    let job = move || drop(done.send(add(&file, text.as_bytes())));
    let result = match file_access::start(job) {
        Ok(()) => match tokio::time::timeout(OPERATION_TIMEOUT, written).await {
            Ok(Ok(result)) => result.map_err(|error| error.to_string()),
            Ok(Err(_)) => Err("it could not be written".to_owned()),
            Err(_) => Err(file_access::Stalled::Silent.to_string()),
        },
        Err(stalled) => Err(stalled.to_string()),
    };
    if let Err(error) = result {
        let (path, line) = (path.display(), line.trim_end());
        warn!(target: component::ADMIN, "audit log {path}: {error}; the line is: {line}");
    }
}

/// Writes a line, in one call if possible. Lines of two processes then do not mix (open(2), O_APPEND).
fn add(path: &Path, mut line: &[u8]) -> io::Result<()> {
    let mut file = open(path)?;
    let end = Instant::now() + WRITE_TIMEOUT;
    while !line.is_empty() {
        match file.write(line) {
            Ok(count) => line = &line[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The file is a pipe whose reader is slow.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(ErrorKind::TimedOut.into());
                }
                let left =
                    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
                poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&left))?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
