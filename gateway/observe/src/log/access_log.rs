//! Starts, reopens and closes the access logs. One writer thread serves each target; each worker formats its
//! lines in a sink of its own and hands over whole buffers.

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::filter::LogFilter;
use super::format::Format;
use super::sink::{LogBuffer, LogSink};
use super::syslog::SyslogTarget;
use super::template::Template;
use super::writer::{LogCounts, Output, Writer, WriterMessage};
use crate::Record;

/// Bound of buffers that wait for one writer, over all sinks.
const QUEUE_MAX_BUFFERS: usize = 1024;

/// The format and target of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Destination of the lines.
    pub target: LogTarget,
    /// Format of a line.
    pub format: LogFormat,
}

/// A further receiver of every line of the log, in addition to its target. The writer thread calls it, so it
/// must not block.
pub trait LineTarget: Debug + Send + Sync {
    /// Accepts a line, which is a JSON object, if there is room for it. Returns whether there was room.
    fn take(&self, line: &[u8]) -> bool;

    /// Announces that no more lines follow. Waits a bounded time until the accepted lines are sent.
    fn end(&self);

    /// Returns the number of lines that were accepted and then lost.
    fn dropped(&self) -> u64;
}

/// Destination of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// No destination: sinks do nothing, and no thread is started.
    Off,
    /// The process's standard output.
    Stdout,
    /// This file, which is created if needed; lines are appended. A named pipe works if a process reads it.
    File(PathBuf),
    /// A syslog server.
    Syslog(SyslogTarget),
}

impl LogTarget {
    fn open(&self) -> io::Result<Output> {
        match self {
            LogTarget::Off => Err(io::ErrorKind::Unsupported.into()),
            LogTarget::Stdout => Output::stdout(),
            LogTarget::File(path) => Output::file(path.clone())
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            LogTarget::Syslog(target) => Ok(Output::syslog(target.clone())),
        }
    }
}

/// Format of a log line.
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
    fn compile(&self, fields: &[(String, String)]) -> io::Result<Format> {
        Ok(match self {
            LogFormat::Combined => Format::Combined,
            LogFormat::Json => Format::json(fields),
            LogFormat::Template(source) => Format::Template(
                Template::compile(source)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
            ),
        })
    }
}

/// One of the gateway's access logs.
#[derive(Clone, Debug)]
pub struct Log {
    /// Format and target.
    pub config: LogConfig,
    /// Identifies the log in the configuration of routes.
    pub key: u64,
    /// Whether it receives the lines of routes that name no logs.
    pub is_default: bool,
    /// Additional fields of a JSON line: each key, and the name of its value.
    pub fields: Vec<(String, String)>,
    /// A line is written for an exchange that at least one of these keeps; empty: for every exchange.
    pub filter: Vec<LogFilter>,
    /// Additional receiver of the same lines, in JSON.
    pub line_target: Option<Arc<dyn LineTarget>>,
}

impl From<LogConfig> for Log {
    fn from(config: LogConfig) -> Self {
        Self { config, key: 0, is_default: true, fields: Vec::new(), filter: Vec::new(), line_target: None }
    }
}

/// The format of a log's lines, and which exchanges get one.
#[derive(Debug)]
pub(super) struct LogRules {
    pub(super) format: Format,
    pub(super) key: u64,
    pub(super) is_default: bool,
    filter: Vec<LogFilter>,
}

impl LogRules {
    /// Returns whether the log is selected: by its key in `only`, or without `only` by being a default log.
    #[inline]
    pub(super) fn is_for(&self, only: Option<&[u64]>) -> bool {
        match only {
            None => self.is_default,
            Some(keys) => keys.contains(&self.key),
        }
    }

    /// Returns whether an exchange gets a line. `random` is the state of a xorshift generator.
    #[inline]
    pub(super) fn keeps(&self, record: &Record<'_>, random: &mut u32) -> bool {
        let mut half = || {
            *random ^= *random << 13;
            *random ^= *random >> 17;
            *random ^= *random << 5;
            u64::from(*random)
        };
        let mut draw = || half() << 32 | half();
        self.filter.is_empty() || self.filter.iter().any(|filter| filter.keeps(record, &mut draw))
    }
}

/// The access logs of the process.
#[derive(Debug)]
pub struct AccessLog {
    logs: Vec<RunningLog>,
    writers: Vec<WriterThread>,
}

/// A log, and the index of its writer. Logs with the same target share a writer.
#[derive(Debug)]
struct RunningLog {
    rules: Arc<LogRules>,
    writer: usize,
}

/// The thread of a writer.
#[derive(Debug)]
struct WriterThread {
    /// `None`: the lines go to a [`LineTarget`].
    target: Option<LogTarget>,
    queue: SyncSender<WriterMessage>,
    counts: Arc<LogCounts>,
    /// Disconnected after the writer ends.
    ended: Mutex<Receiver<()>>,
}

impl AccessLog {
    /// Opens the target of one log and starts its writer.
    ///
    /// # Errors
    /// See [`start_all`](Self::start_all).
    pub fn start(config: LogConfig) -> io::Result<AccessLog> {
        Self::start_all(vec![config.into()])
    }

    /// Opens the targets and starts one writer thread for each.
    ///
    /// # Errors
    /// Fails if a file cannot be opened, a template does not compile (`InvalidInput`), or a thread cannot be
    /// started.
    pub fn start_all(logs: Vec<Log>) -> io::Result<AccessLog> {
        let mut all = AccessLog { logs: Vec::new(), writers: Vec::new() };
        for Log { config, key, is_default, fields, filter, line_target } in logs {
            let format = config.format.compile(&fields)?;
            let rules = |format| Arc::new(LogRules { format, key, is_default, filter: filter.clone() });
            if config.target != LogTarget::Off {
                let known =
                    all.writers.iter().position(|writer| writer.target.as_ref() == Some(&config.target));
                let writer = match known {
                    Some(writer) => writer,
                    None => {
                        let output = config.target.open()?;
                        all.run(Some(config.target), output, Arc::default())?
                    }
                };
                all.logs.push(RunningLog { rules: rules(format), writer });
            }
            if let Some(line_target) = line_target {
                let counts = Arc::new(LogCounts::for_line_target(line_target.clone()));
                let writer = all.run(None, Output::line_target(line_target), counts)?;
                all.logs.push(RunningLog { rules: rules(Format::json(&fields)), writer });
            }
        }
        Ok(all)
    }

    /// Starts a writer and returns its index.
    fn run(
        &mut self,
        target: Option<LogTarget>,
        output: Output,
        counts: Arc<LogCounts>,
    ) -> io::Result<usize> {
        let (queue, messages) = sync_channel(QUEUE_MAX_BUFFERS);
        let (alive, ended) = sync_channel(0);
        let writer = Writer { queue: messages, output, counts: counts.clone() };
        thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            let _alive = alive;
            writer.run();
        })?;
        self.writers.push(WriterThread { target, queue, counts, ended: Mutex::new(ended) });
        Ok(self.writers.len() - 1)
    }

    /// Creates a sink for one worker.
    #[must_use]
    pub fn sink(&self) -> LogSink {
        let lines = self.logs.iter().map(|log| {
            let writer = &self.writers[log.writer];
            LogBuffer::new(log.rules.clone(), writer.queue.clone(), writer.counts.clone())
        });
        LogSink::new(lines.collect())
    }

    /// Reopens the paths of files after a rotation. Lines that workers hand over from now on go to the new
    /// files. If a path cannot be opened, the old file is kept. Never waits.
    pub fn reopen(&self) {
        for writer in &self.writers {
            writer.counts.reopen.store(true, Ordering::Relaxed);
            // If the queue is full, the writer sees the flag at the next message.
            let _ = writer.queue.try_send(WriterMessage::Wake);
        }
    }

    /// Returns the lines dropped since the start, because a target failed or a writer was too far behind.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.writers.iter().map(|writer| writer.counts.dropped()).sum()
    }

    /// Returns the lines written since the start.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.writers.iter().map(|writer| writer.counts.written()).sum()
    }

    /// Returns the problem of a target whose last write or opening failed; `None`: all targets work.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.writers.iter().find_map(|writer| writer.counts.problem())
    }

    /// Ends the writers after they have written all buffers that sinks handed over (flush or drop the sinks
    /// first). Waits up to `deadline`. Returns whether everything was written; if not, a target is stuck.
    ///
    /// Later lines are dropped and counted.
    pub fn close(&self, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        let asked: Vec<bool> = self.writers.iter().map(|writer| writer.ask_to_close(end)).collect();
        let ended: Vec<bool> = self.writers.iter().map(|writer| writer.has_ended(end)).collect();
        asked.iter().chain(&ended).all(|done| *done)
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = Arc<LogCounts>> {
        self.writers.iter().map(|writer| writer.counts.clone())
    }
}

impl WriterThread {
    /// Asks the writer to end. Returns whether the message fitted into the queue before `end`.
    fn ask_to_close(&self, end: Instant) -> bool {
        let mut message = WriterMessage::Close;
        loop {
            match self.queue.try_send(message) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => return true,
                Err(TrySendError::Full(_)) if Instant::now() >= end => return false,
                Err(TrySendError::Full(back)) => {
                    message = back;
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    /// Waits for the writer to end. Returns whether it did so before `end`.
    fn has_ended(&self, end: Instant) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever sent: the only possible event is that the writer drops its half.
        let wait = end.saturating_duration_since(Instant::now());
        matches!(ended.recv_timeout(wait), Err(RecvTimeoutError::Disconnected))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    use super::*;
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
            assert!(Instant::now() < end, "waited too long: {what}");
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
    fn routes_choose_their_logs_and_filters_choose_lines() {
        let folder = tempfile::tempdir().unwrap();
        let [all, own, shared] = ["all", "own", "shared"].map(|name| folder.path().join(name));
        let log = |path: &Path, key, is_default, format: &str, filter: Vec<LogFilter>| Log {
            key,
            filter,
            ..Log {
                is_default,
                ..LogConfig {
                    target: LogTarget::File(path.to_owned()),
                    format: LogFormat::Template(format.to_owned()),
                }
                .into()
            }
        };
        let errors = LogFilter { statuses: vec![(500, 599)], ..LogFilter::default() };
        let logs = AccessLog::start_all(vec![
            log(&all, 1, true, "all {status}", vec![]),
            log(&shared, 2, true, "error {status}", vec![errors]),
            log(&own, 3, false, "own {status}", vec![]),
            log(&shared, 4, false, "shared {status}", vec![]),
        ])
        .unwrap();
        let mut sink = logs.sink();
        sink.record(&status(200));
        sink.record(&status(502));
        sink.record_in(&status(201), Some(&[3, 4]));
        sink.record_in(&status(202), Some(&[]));
        // No such log exists any more: the default logs take the line.
        sink.record_in(&status(203), Some(&[9]));
        assert!(
            sink.takes(None) && sink.takes(Some(&[3])) && sink.takes(Some(&[9])) && !sink.takes(Some(&[]))
        );
        drop(sink);
        assert!(logs.close(LONG));
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(text(&all), "all 200\nall 502\nall 203\n");
        assert_eq!(text(&own), "own 201\n");
        assert_eq!(text(&shared), "error 502\nshared 201\n");
        assert_eq!((logs.written(), logs.dropped()), (6, 0));
    }

    #[test]
    fn a_log_that_cannot_start_reports_why() {
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

        // The reader wakes up. It receives every line that was not dropped, each one whole.
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
