//! The writer thread of a log target. It receives buffers from the sinks and writes them to a file, standard
//! output, a [`LineTarget`] or a syslog server. It alone waits for a slow target; workers never do.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use super::access_log::LineTarget;
use super::syslog::{Syslog, SyslogTarget};

/// Minimum time between two attempts to reopen a failed file.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which waiting messages are sent to a syslog server again.
const SYSLOG_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Time limit for the waiting messages to a syslog server when the writer ends.
const SYSLOG_FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// How long one poll waits for a full pipe.
const PIPE_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Requests of sinks and of the log's owner to the writer.
pub(super) enum WriterMessage {
    Lines(Batch),
    /// Look at the flags.
    Wake,
    /// Write the messages that were queued before this one, and end.
    Close,
}

/// A buffer on its way to the target. Dropping it counts its unwritten lines as dropped, so none is lost
/// uncounted in a queue without a reader.
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    /// Lines that are neither written nor counted as dropped.
    pub(super) lines: u64,
    pub(super) counts: Arc<LogCounts>,
    /// Returns the empty buffer to its sink.
    pub(super) return_to: SyncSender<Vec<u8>>,
    /// Number of the sink's buffers in the queue.
    pub(super) queued: Arc<AtomicUsize>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.counts.drop_lines(self.lines);
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counters of a log, and flags between its owner and the writer.
#[derive(Debug, Default)]
pub(crate) struct LogCounts {
    written: AtomicU64,
    dropped: AtomicU64,
    pub(super) reopen: AtomicBool,
    problem: Mutex<Option<String>>,
    /// The receiver of the lines, which counts its own losses.
    line_target: Option<Arc<dyn LineTarget>>,
}

impl LogCounts {
    /// Creates the counters of a log whose lines go to a [`LineTarget`].
    pub(super) fn for_line_target(line_target: Arc<dyn LineTarget>) -> Self {
        Self { line_target: Some(line_target), ..Self::default() }
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn dropped(&self) -> u64 {
        let line_target = self.line_target.as_ref().map_or(0, |line_target| line_target.dropped());
        self.dropped.load(Ordering::Relaxed) + line_target
    }

    /// Counts dropped lines. Sinks and the writer both call it, but never for a request that is served: an
    /// ordinary atomic add suffices.
    pub(super) fn drop_lines(&self, lines: u64) {
        if lines > 0 {
            self.dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn add_written(&self, lines: u64) {
        self.written.fetch_add(lines, Ordering::Release);
    }

    pub(super) fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

/// The target of the lines.
pub(super) struct Output {
    file: Option<File>,
    /// `None`: the process's standard output, which cannot be reopened.
    path: Option<PathBuf>,
    /// Whether the last write ended inside a line.
    torn: bool,
    /// Whether reopening the path failed: `file` is then the old file, which a rotation has moved.
    outdated: bool,
    failed_at: Option<Instant>,
    /// The receiver of every line; `file` is then `None`.
    line_target: Option<Arc<dyn LineTarget>>,
    /// The server that receives every line; `file` is then `None`.
    syslog: Option<Syslog>,
}

impl Output {
    pub(super) fn stdout() -> io::Result<Output> {
        // Not through `io::stdout()`, whose line buffer would write each line separately.
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Output::new(file, None))
    }

    pub(super) fn file(path: PathBuf) -> io::Result<Output> {
        Ok(Output::new(open(&path)?, Some(path)))
    }

    fn new(file: File, path: Option<PathBuf>) -> Output {
        Output { file: Some(file), path, ..Output::none() }
    }

    pub(super) fn line_target(target: Arc<dyn LineTarget>) -> Output {
        Output { line_target: Some(target), ..Output::none() }
    }

    pub(super) fn syslog(target: SyslogTarget) -> Output {
        Output { syslog: Some(Syslog::new(target)), ..Output::none() }
    }

    fn none() -> Output {
        Output {
            file: None,
            path: None,
            torn: false,
            outdated: false,
            failed_at: None,
            line_target: None,
            syslog: None,
        }
    }
}

fn open(path: &PathBuf) -> io::Result<File> {
    // Non-blocking: opening a named pipe without a reader fails at once, and the writer can poll a full pipe.
    OpenOptions::new().append(true).create(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
}

pub(super) struct Writer {
    pub(super) queue: Receiver<WriterMessage>,
    pub(super) output: Output,
    pub(super) counts: Arc<LogCounts>,
}

impl Writer {
    /// Writes until a `Close` message, or until the log and all sinks are dropped.
    pub(super) fn run(mut self) {
        while let Some(message) = self.next() {
            if self.counts.reopen.swap(false, Ordering::Relaxed) {
                self.reopen();
            }
            match message {
                WriterMessage::Lines(batch) => self.take(batch),
                WriterMessage::Wake => {}
                WriterMessage::Close => break,
            }
        }
        while let Ok(message) = self.queue.try_recv() {
            if let WriterMessage::Lines(batch) = message {
                self.take(batch);
            }
        }
        if let Some(line_target) = &self.output.line_target {
            line_target.end();
        }
        if let Some(syslog) = &mut self.output.syslog {
            syslog.finish(SYSLOG_FINISH_TIMEOUT, &self.counts);
        }
    }

    /// Waits for the next message, and sends pending syslog messages until then. `None`: every sender is
    /// dropped.
    fn next(&mut self) -> Option<WriterMessage> {
        loop {
            let Some(syslog) = self.output.syslog.as_mut().filter(|syslog| syslog.waits()) else {
                return self.queue.recv().ok();
            };
            match self.queue.recv_timeout(SYSLOG_RETRY_INTERVAL) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => syslog.flush(&self.counts),
            }
        }
    }

    fn take(&mut self, mut batch: Batch) {
        let mut written = 0;
        if let Some(syslog) = &mut self.output.syslog {
            // The syslog queue counts its lines itself, because they may wait for the server.
            batch.lines = 0;
            batch.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(|line| {
                syslog.take(line, &self.counts);
            });
            syslog.flush(&self.counts);
        } else {
            written = self.write(&batch.bytes).min(batch.lines);
        }
        // A buffer that one long line enlarged is freed, and so is one for which the sink has no room.
        if batch.bytes.capacity() <= super::sink::BUFFER_BYTES {
            let mut empty = std::mem::take(&mut batch.bytes);
            empty.clear();
            let _ = batch.return_to.try_send(empty);
        }
        // Count last: a caller that sees the lines counted also finds the buffer returned.
        batch.lines -= written;
        self.counts.written.fetch_add(written, Ordering::Release);
    }

    /// Writes a buffer. Returns how many whole lines were written.
    fn write(&mut self, bytes: &[u8]) -> u64 {
        if let Some(line_target) = &self.output.line_target {
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            return lines.filter(|line| line_target.take(line)).count() as u64;
        }
        self.reopen_if_due();
        let Some(file) = &mut self.output.file else { return 0 };
        let mut done = 0;
        let result = if self.output.torn { write_all(file, b"\n", &mut 0) } else { Ok(()) };
        let result = result.and_then(|()| {
            self.output.torn = false;
            write_all(file, bytes, &mut done)
        });
        match result {
            Ok(()) => {
                if !self.output.outdated && self.output.failed_at.take().is_some() {
                    self.counts.set_problem(None);
                }
            }
            Err(error) => {
                self.output.torn |= done > 0 && bytes[done - 1] != b'\n';
                self.failed(&error);
                // A full disk may soon have room again, and the descriptor is still valid; any other error
                // requires a new descriptor.
                if self.output.path.is_some() && error.kind() != ErrorKind::StorageFull {
                    self.output.file = None;
                }
            }
        }
        bytes[..done].iter().filter(|&&byte| byte == b'\n').count() as u64
    }

    /// Reopens a failed file if the last attempt is long enough ago.
    fn reopen_if_due(&mut self) {
        let waited = self.output.failed_at.is_none_or(|at| at.elapsed() >= REOPEN_INTERVAL);
        if (self.output.file.is_none() || self.output.outdated) && waited {
            self.reopen();
        }
    }

    /// Reopens the path: after a rotation, this is a new file. If that fails, the old file stays in use.
    fn reopen(&mut self) {
        let Some(path) = &self.output.path else { return };
        match open(path) {
            Ok(file) => {
                // An empty file does not contain the torn line.
                self.output.torn &= file.metadata().is_ok_and(|metadata| metadata.len() > 0);
                self.output.file = Some(file);
                self.output.outdated = false;
            }
            Err(error) => {
                self.output.outdated = true;
                self.failed(&error);
            }
        }
    }

    fn failed(&mut self, error: &io::Error) {
        self.output.failed_at = Some(Instant::now());
        let place = match &self.output.path {
            Some(path) => path.display().to_string(),
            None => "standard output".to_owned(),
        };
        self.counts.set_problem(Some(format!("{place}: {error}")));
    }
}

/// Like `Write::write_all`, but reports in `done` how much was written, and waits for a full pipe. Only this
/// thread waits: workers continue to fill their own buffers, then drop lines and count them.
fn write_all(file: &mut File, bytes: &[u8], done: &mut usize) -> io::Result<()> {
    while *done < bytes.len() {
        match file.write(&bytes[*done..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => *done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&PIPE_WAIT));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn writer(path: &std::path::Path) -> Writer {
        let (_, queue) = sync_channel(0);
        Writer { queue, output: Output::file(path.to_owned()).unwrap(), counts: Arc::default() }
    }

    #[test]
    fn after_a_torn_line_the_next_starts_afresh() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut writer = writer(&path);
        writer.output.file.as_mut().unwrap().write_all(b"one\ntw").unwrap();
        writer.output.torn = true;
        assert_eq!(writer.write(b"three\nfour\n"), 2);
        assert_eq!(writer.write(b"five\n"), 1);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntw\nthree\nfour\nfive\n");

        // The same file, reopened, still holds the torn line; a new file does not.
        writer.output.torn = true;
        writer.reopen();
        assert!(writer.output.torn);
        std::fs::remove_file(&path).unwrap();
        writer.reopen();
        assert!(!writer.output.torn);
    }

    #[test]
    fn a_file_that_failed_is_opened_again_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folder/log");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let mut writer = writer(&path);
        writer.output.file = Some(File::open(&path).unwrap());
        assert_eq!(writer.write(b"lost\n"), 0, "it is open for reading only");
        assert!(writer.output.file.is_none() && writer.counts.problem().is_some());
        assert_eq!(writer.write(b"too soon\n"), 0);
        writer.output.failed_at = Instant::now().checked_sub(REOPEN_INTERVAL);
        assert_eq!(writer.write(b"back\n"), 1);
        assert_eq!(writer.counts.problem(), None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "back\n");
    }

    #[test]
    fn a_rotation_that_fails_keeps_the_old_file_and_tries_again() {
        let folder = tempfile::tempdir().unwrap();
        let (live, old) = (folder.path().join("live"), folder.path().join("old"));
        std::fs::create_dir(&live).unwrap();
        let mut writer = writer(&live.join("log"));
        std::fs::rename(&live, &old).unwrap();
        writer.reopen();
        assert_eq!(writer.write(b"one\n"), 1);
        assert!(writer.counts.problem().unwrap().contains("live/log"));
        std::fs::create_dir(&live).unwrap();
        writer.output.failed_at = Instant::now().checked_sub(REOPEN_INTERVAL);
        assert_eq!(writer.write(b"two\n"), 1);
        assert_eq!(writer.counts.problem(), None);
        assert_eq!(std::fs::read_to_string(old.join("log")).unwrap(), "one\n");
        assert_eq!(std::fs::read_to_string(live.join("log")).unwrap(), "two\n");
    }
}
