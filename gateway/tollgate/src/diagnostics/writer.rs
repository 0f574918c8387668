//! The queue of lines, and the thread that writes them.
//!
//! A thread that reports an event only adds a line to the queue, so neither a worker nor the control thread
//! waits for a pipe whose reader is slow, or for a disk. The queue is bounded; lines beyond the bound, and
//! lines that cannot be written, are counted and lost.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tollgate_config::DiagnosticOutput;

use super::{destination, line};

/// The most bytes that wait to be written.
const QUEUE_MAX_BYTES: usize = 1 << 20;
/// The most bytes of one write, except for a longer line. A pipe takes them undivided (`PIPE_BUF`, pipe(7)),
/// so lines of two processes do not mix.
const WRITE_MAX_BYTES: usize = 4096;

/// An open output.
#[derive(Debug)]
pub enum LineSink {
    Stderr,
    Stdout,
    File { path: PathBuf, file: File },
}

/// Opens an output. May wait for a file system.
///
/// # Errors
/// Returns a readable reason why the file cannot be opened.
pub fn open(output: &DiagnosticOutput) -> io::Result<LineSink> {
    match output {
        DiagnosticOutput::Stderr => Ok(LineSink::Stderr),
        DiagnosticOutput::Stdout => Ok(LineSink::Stdout),
        DiagnosticOutput::File(path) => match open_file(path) {
            Ok(file) => Ok(LineSink::File { path: path.clone(), file }),
            Err(error) => {
                let advice = match error.kind() {
                    io::ErrorKind::NotFound => "its directory does not exist".to_owned(),
                    io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                    io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
                    _ => error.to_string(),
                };
                let message = format!("cannot open the log {}: {advice}", path.display());
                Err(io::Error::new(error.kind(), message))
            }
        },
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    // Non-blocking: a named pipe without a reader is refused at once.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(flags.bits() as i32).open(path)
}

impl LineSink {
    /// Writes all bytes, however long that takes.
    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        let (error, output) = (io::stderr(), io::stdout());
        let fd: BorrowedFd<'_> = match self {
            Self::Stderr => error.as_fd(),
            Self::Stdout => output.as_fd(),
            Self::File { file, .. } => file.as_fd(),
        };
        while !bytes.is_empty() {
            match rustix::io::write(fd, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Opens a file again. If that fails, the open one stays in use.
    fn reopen(&mut self) {
        if let Self::File { path, file } = self
            && let Ok(again) = open_file(path)
        {
            *file = again;
        }
    }
}

/// The writer of one output.
#[derive(Debug)]
pub struct DiagnosticsWriter {
    queue: Mutex<PendingLines>,
    /// Signals every change of the queue.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PendingLines {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that were lost and are not reported yet.
    lost: u64,
    lost_in_total: u64,
    must_reopen: bool,
    is_writing: bool,
    is_closed: bool,
}

impl PendingLines {
    fn lose(&mut self, lines: u64) {
        self.lost += lines;
        self.lost_in_total += lines;
    }
}

impl DiagnosticsWriter {
    /// Starts the thread that writes to this output.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(sink: LineSink) -> io::Result<Arc<Self>> {
        let writer = Arc::new(Self { queue: Mutex::default(), changed: Condvar::new() });
        let this = writer.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || this.run(sink))?;
        Ok(writer)
    }

    fn lock(&self) -> MutexGuard<'_, PendingLines> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a line, or loses it if the queue is full.
    pub fn push(&self, line: String) {
        let mut queue = self.lock();
        if queue.bytes + line.len() > QUEUE_MAX_BYTES {
            return queue.lose(1);
        }
        queue.bytes += line.len();
        queue.lines.push_back(line);
        drop(queue);
        self.changed.notify_all();
    }

    /// Returns how many lines were lost.
    pub fn lost_in_total(&self) -> u64 {
        self.lock().lost_in_total
    }

    /// Opens the file again before the next line.
    pub fn reopen(&self) {
        self.lock().must_reopen = true;
        self.changed.notify_all();
    }

    /// Ends the thread once it has written the lines so far.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until the lines so far are written, but at most for `bound`.
    pub fn flush(&self, bound: Duration) {
        let end = Instant::now() + bound;
        let mut queue = self.lock();
        while !queue.lines.is_empty() || queue.is_writing {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn run(&self, mut sink: LineSink) {
        let mut queue = self.lock();
        loop {
            if std::mem::take(&mut queue.must_reopen) {
                drop(queue);
                sink.reopen();
                queue = self.lock();
            }
            let Some(first) = queue.lines.pop_front() else {
                if queue.is_closed {
                    return;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (mut lines, mut text) = (1, first);
            queue.bytes -= text.len();
            while let Some(next) =
                queue.lines.front().filter(|next| text.len() + next.len() <= WRITE_MAX_BYTES)
            {
                text.push_str(next);
                lines += 1;
                let length = next.len();
                queue.bytes -= length;
                queue.lines.pop_front();
            }
            let lost = std::mem::take(&mut queue.lost);
            queue.is_writing = true;
            drop(queue);
            if lost > 0 {
                let destination = destination();
                text.push_str(&line::lost_line(lost, destination.format, destination.is_timed));
            }
            let written = sink.write_all(text.as_bytes());
            queue = self.lock();
            if written.is_err() {
                queue.lose(lines);
                queue.lost += lost;
            }
            queue.is_writing = false;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn to_file(path: &Path) -> Arc<DiagnosticsWriter> {
        DiagnosticsWriter::start(open(&DiagnosticOutput::File(path.to_owned())).expect("it opens"))
            .expect("a thread")
    }

    #[test]
    fn lines_arrive_in_order_and_files_are_reopened() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, moved) = (directory.path().join("a.log"), directory.path().join("b.log"));
        let writer = to_file(&path);
        let lines = |from: usize| (from..from + 1000).map(|n| format!("line {n}\n"));
        lines(0).for_each(|line| writer.push(line));
        writer.flush(LONG);
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), lines(0).collect::<String>());
        std::fs::rename(&path, &moved).expect("moved");
        writer.reopen();
        lines(1000).for_each(|line| writer.push(line));
        writer.flush(LONG);
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), lines(1000).collect::<String>());
        assert_eq!(writer.lost_in_total(), 0);
        writer.close();
    }

    #[test]
    fn an_output_that_takes_nothing_loses_lines_only() {
        let writer = to_file(Path::new("/dev/full"));
        writer.push("lost\n".to_owned());
        writer.flush(LONG);
        assert_eq!(writer.lost_in_total(), 1);
        writer.close();
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::from(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
        let reader = OpenOptions::new().read(true).write(true).open(&pipe).expect("both ends");
        let writer = to_file(&pipe);
        // More than the pipe and the queue hold.
        (0..4000).for_each(|_| writer.push(format!("{}\n", "x".repeat(999))));
        writer.flush(Duration::from_millis(1));
        assert!(writer.lost_in_total() > 1000, "{}", writer.lost_in_total());
        writer.close();
        drop(reader);
    }

    #[test]
    fn a_file_that_cannot_be_opened_has_a_reason() {
        for (path, reason) in [("/none/a.log", "its directory does not exist"), ("/", "it is a directory")] {
            let error = open(&DiagnosticOutput::File(path.into())).expect_err(path).to_string();
            assert_eq!(error, format!("cannot open the log {path}: {reason}"));
        }
    }
}
