//! A file with the last valid state of a source. A separate thread writes it, so that no change waits for the disk.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use tracing::warn;

/// How long changes are collected before a write, so that a burst of a hundred changes a second costs few writes.
const WRITE_DELAY: Duration = Duration::from_millis(200);

/// Writes states of the type `S` to a file. Dropping it writes the last state that is still pending.
pub struct StateFile<S> {
    states: Option<Sender<S>>,
    thread: Option<JoinHandle<()>>,
}

// States can hold secrets.
impl<S> fmt::Debug for StateFile<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateFile").finish_non_exhaustive()
    }
}

impl<S: Serialize + Send + 'static> StateFile<S> {
    /// Starts the thread that writes states to this file. `source` is the name of the source in the log and in the
    /// thread's name.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(path: PathBuf, source: &'static str) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name(format!("{source}-cache"))
            .spawn(move || write_states(&path, source, &receiver))?;
        Ok(Self { states: Some(sender), thread: Some(thread) })
    }

    /// Queues a state to be written.
    pub fn queue(&self, state: S) {
        if let Some(states) = &self.states {
            // The receiver lives until this sender is dropped.
            let _ = states.send(state);
        }
    }
}

impl<S> Drop for StateFile<S> {
    fn drop(&mut self) {
        self.states = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_states<S: Serialize>(path: &Path, source: &'static str, states: &Receiver<S>) {
    let mut failed = false;
    while let Ok(mut state) = states.recv() {
        // Collect until the delay is over, or the sender is dropped.
        let end = Instant::now() + WRITE_DELAY;
        while let Ok(later) = states.recv_timeout(end.saturating_duration_since(Instant::now())) {
            state = later;
        }
        match write_state(path, &state) {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                warn!(
                    target: "gateway",
                    "{source}: the last good state cannot be kept in {}: {error}", path.display()
                );
            }
            Err(_) => {}
        }
    }
}

/// Writes a temporary file, then renames it, so that a crash leaves the old or the new state. It is on disk when this
/// returns. Only the owner may read the file, because it can hold secrets.
///
/// # Errors
/// The file system refuses a call. The file may still have the old state.
pub fn write_state<S: Serialize>(path: &Path, state: &S) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let mut out = BufWriter::new(file);
    serde_json::to_writer(&mut out, state)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    drop(out);
    std::fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_last_state_is_written_for_the_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.json");
        let file = StateFile::start(path.clone(), "test").expect("a thread");
        (0..100).for_each(|number| file.queue(number));
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).expect("written"), "99");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 1);
    }
}
