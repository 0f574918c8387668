//! Starting, reopening and closing the access log.

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::format::Format;
use super::sink::{Lines, LogSink};
use super::template::Template;
use super::writer::{LogCounts, Message, Output, Writer};

/// Buffers that may wait for the writer, over all sinks.
const QUEUE: usize = 1024;

/// What the log writes, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Where the lines go.
    pub target: LogTarget,
    /// What a line looks like.
    pub format: LogFormat,
}

/// Who is told every line of the log beside its file, one by one, on the thread that writes. Taking must not wait for
/// anybody.
pub trait LineTarget: Debug + Send + Sync {
    /// Takes a line, which is a JSON object, if there is room for it; says whether there was.
    fn take(&self, line: &[u8]) -> bool;

    /// No line comes any more: waits a bounded time until those that came have left.
    fn end(&self);

    /// Lines that were taken and lost, so far.
    fn dropped(&self) -> u64;
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere: sinks do nothing, and no thread is started.
    Off,
    /// The process's standard output.
    Stdout,
    /// The end of this file, which is made if need be. A named pipe works if someone reads it.
    File(PathBuf),
}

/// What a log line looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// nginx's `combined`.
    Combined,
    /// One JSON object with every field.
    Json,
    /// Text with `{field}` in it; see [`Template`].
    Template(String),
}

impl LogFormat {
    fn compile(&self) -> io::Result<Format> {
        Ok(match self {
            LogFormat::Combined => Format::Combined,
            LogFormat::Json => Format::Json,
            LogFormat::Template(source) => Format::Template(
                Template::compile(source)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
            ),
        })
    }
}

/// The access log of the process.
#[derive(Debug)]
pub struct AccessLog {
    counts: Arc<LogCounts>,
    running: Option<Running>,
    /// What somebody else is told, line by line.
    told: Option<Box<AccessLog>>,
}

#[derive(Debug)]
struct Running {
    format: Arc<Format>,
    queue: SyncSender<Message>,
    /// Closed when the writer has ended.
    ended: Mutex<Receiver<()>>,
}

impl AccessLog {
    /// Opens the target and starts the writer thread.
    ///
    /// # Errors
    /// The file cannot be opened, the template does not compile (`InvalidInput`), or no thread can be made.
    pub fn start(config: LogConfig) -> io::Result<AccessLog> {
        let format = Arc::new(config.format.compile()?);
        let output = match config.target {
            LogTarget::Off => return Ok(AccessLog { counts: Arc::default(), running: None, told: None }),
            LogTarget::Stdout => Output::stdout()?,
            LogTarget::File(path) => {
                let shown = path.display().to_string();
                Output::file(path)
                    .map_err(|error| io::Error::new(error.kind(), format!("{shown}: {error}")))?
            }
        };
        Self::run(format, output, Arc::default())
    }

    /// With somebody who is told every line, too.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn telling(self, target: Option<Arc<dyn LineTarget>>) -> io::Result<AccessLog> {
        let Some(target) = target else { return Ok(self) };
        let counts = Arc::new(LogCounts::of(target.clone()));
        let told = Self::run(Arc::new(Format::Json), Output::told(target), counts)?;
        Ok(AccessLog { told: Some(Box::new(told)), ..self })
    }

    fn run(format: Arc<Format>, output: Output, counts: Arc<LogCounts>) -> io::Result<AccessLog> {
        let (queue, messages) = sync_channel(QUEUE);
        let (alive, ended) = sync_channel(0);
        let writer = Writer { queue: messages, output, counts: counts.clone() };
        thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            let _alive = alive;
            writer.run();
        })?;
        let running = Some(Running { format, queue, ended: Mutex::new(ended) });
        Ok(AccessLog { counts, running, told: None })
    }

    /// A sink for one worker.
    #[must_use]
    pub fn sink(&self) -> LogSink {
        let lines = |log: &AccessLog| {
            let Running { format, queue, .. } = log.running.as_ref()?;
            Some(Lines::new(format.clone(), queue.clone(), log.counts.clone()))
        };
        LogSink::new(lines(self), self.told.as_deref().and_then(lines))
    }

    /// Opens the file's path anew, after a rotation: lines that workers hand over from now on go there. If it
    /// cannot be opened the old file is kept. Never waits.
    pub fn reopen(&self) {
        if let Some(running) = &self.running {
            self.counts.reopen.store(true, Ordering::Relaxed);
            // If the queue is full, the writer sees the flag at the next message.
            let _ = running.queue.try_send(Message::Wake);
        }
    }

    /// Lines dropped since the start: the target failed, or the writer was too far behind.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counts.dropped()
    }

    /// Lines written since the start.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.counts.written()
    }

    /// What is wrong with the target, if its last write or opening failed.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.counts.problem()
    }

    /// Ends the writer when it has written what sinks had handed over (flush or drop them first), and waits
    /// for that up to `deadline`. Returns whether all of it was done; if not, the target is stuck.
    ///
    /// Lines that come later are dropped and counted.
    pub fn close(&self, deadline: Duration) -> bool {
        let told = self.told.as_ref().is_none_or(|told| told.close(deadline));
        let Some(running) = &self.running else { return told };
        let end = Instant::now() + deadline;
        let mut message = Message::Close;
        loop {
            match running.queue.try_send(message) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => break,
                Err(TrySendError::Full(_)) if Instant::now() >= end => return false,
                Err(TrySendError::Full(back)) => {
                    message = back;
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        let ended = running.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever sent: the only news is that the other end is gone.
        let wait = end.saturating_duration_since(Instant::now());
        told && matches!(ended.recv_timeout(wait), Err(std::sync::mpsc::RecvTimeoutError::Disconnected))
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = Arc<LogCounts>> {
        let told = self.told.as_ref().map(|told| told.counts.clone());
        std::iter::once(self.counts.clone()).chain(told)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    use super::*;
    use crate::Record;
    use crate::record::sample;

    const LONG: Duration = Duration::from_secs(20);

    fn to_file(path: &Path, template: &str) -> AccessLog {
        let config = LogConfig {
            target: LogTarget::File(path.to_owned()),
            format: LogFormat::Template(template.to_owned()),
        };
        AccessLog::start(config).unwrap()
    }

    fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
        let end = Instant::now() + LONG;
        while !condition() {
            assert!(Instant::now() < end, "waited in vain: {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn status(status: u16) -> Record<'static> {
        Record { status, ..sample::record() }
    }

    #[test]
    fn lines_of_all_workers_arrive_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        fs::write(&path, "before\n").unwrap();
        let log = to_file(&path, "{status} {target}");
        thread::scope(|scope| {
            for worker in 0..3 {
                let mut sink = log.sink();
                scope.spawn(move || {
                    for line in 0..5_000 {
                        sink.record(&status(200 + worker));
                        if line % 250 == 0 {
                            sink.flush();
                        }
                    }
                });
            }
        });
        assert!(log.close(LONG));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("before\n"));
        for worker in 0..3 {
            let line = format!("{} /v1/items?page=2", 200 + worker);
            assert_eq!(text.lines().filter(|found| **found == *line).count(), 5_000);
        }
        assert_eq!((log.written(), log.dropped(), log.problem()), (15_000, 0, None));
    }

    #[test]
    fn off_does_nothing() {
        let log =
            AccessLog::start(LogConfig { target: LogTarget::Off, format: LogFormat::Combined }).unwrap();
        let mut sink = log.sink();
        sink.record(&status(200));
        assert!(sink.is_empty());
        sink.flush();
        log.reopen();
        assert!(log.close(Duration::ZERO));
        assert_eq!((log.written(), log.dropped()), (0, 0));
    }

    #[test]
    fn what_cannot_start_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let target = LogTarget::File(folder.path().join("missing/access.log"));
        let error = AccessLog::start(LogConfig { target, format: LogFormat::Combined }).unwrap_err();
        assert!(error.to_string().contains("missing/access.log"));
        let format = LogFormat::Template("{colour}".to_owned());
        let error = AccessLog::start(LogConfig { target: LogTarget::Stdout, format }).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn reopening_follows_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        let log = to_file(&path, "{status}");
        let mut sink = log.sink();
        sink.record(&status(201));
        sink.flush();
        wait_for("the first line", || log.written() == 1);
        fs::rename(&path, &old).unwrap();
        sink.record(&status(202));
        sink.flush();
        wait_for("the second line", || log.written() == 2);
        log.reopen();
        wait_for("the new file", || path.exists());
        sink.record(&status(203));
        drop(sink);
        assert!(log.close(LONG));
        assert_eq!(fs::read_to_string(&old).unwrap(), "201\n202\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "203\n");
    }

    #[test]
    fn a_full_disk_drops_and_counts() {
        let log = to_file(Path::new("/dev/full"), "{status}");
        let mut sink = log.sink();
        for _ in 0..3 {
            sink.record(&status(200));
        }
        sink.flush();
        wait_for("the drops", || log.dropped() == 3);
        assert!(log.problem().unwrap().contains("/dev/full"));
        assert_eq!(log.written(), 0);
    }

    #[test]
    fn a_stuck_reader_never_stops_a_worker() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(
            AccessLog::start(LogConfig {
                target: LogTarget::File(path.clone()),
                format: LogFormat::Combined
            })
            .is_err(),
            "a pipe that nobody reads"
        );
        let mut reader = fs::OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(&path)
            .unwrap();
        let log = to_file(&path, "{status} {target}");
        let mut sink = log.sink();
        let target = [b'x'; 1_000];
        let lines = 12_000; // 12 MB: more than pipe, queue and buffer hold
        for _ in 0..lines {
            sink.record(&Record { target: &target, ..status(200) });
        }
        assert!(log.dropped() > 0);
        assert!(!log.close(Duration::from_millis(20)), "it cannot be done");

        // The reader wakes up: all that was not dropped comes, in whole lines.
        let mut text = Vec::new();
        drop(sink);
        wait_for("the rest", || {
            use std::io::Read;
            let _ = reader.read_to_end(&mut text);
            log.written() + log.dropped() == lines
        });
        let _ = io::Read::read_to_end(&mut reader, &mut text);
        assert!(text.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() == 1_005));
        assert_eq!(text.len() as u64, log.written() * 1_005);
    }

    #[test]
    fn after_closing_lines_are_counted_as_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let log = to_file(&folder.path().join("log"), "{status}");
        let mut sink = log.sink();
        assert!(log.close(LONG));
        assert!(log.close(LONG), "closing twice does no harm");
        sink.record(&status(200));
        drop(sink);
        assert_eq!((log.written(), log.dropped()), (0, 1));
    }

    #[test]
    fn a_line_longer_than_a_buffer_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = to_file(&path, "{target}");
        let mut sink = log.sink();
        let target = [0xff; 100_000];
        sink.record(&Record { target: &target, ..status(200) });
        assert!(sink.is_empty(), "it was handed over at once");
        sink.record(&Record { target: b"/next", ..status(200) });
        drop(sink);
        assert!(log.close(LONG));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.len(), 400_001 + 6);
        assert!(text.ends_with("\\xFF\n/next\n"));
    }
}
