//! A thread that reads process trees, cores and connections at a fixed interval while a trial runs.
//!
//! What a sample costs is told at [`Sampler::start`]. Pin the sampler to the load's core, so that the system under test
//! does not pay for it.

use crate::error::Error;
use crate::machine::{CoreShare, CoreTimes};
use crate::network::{ConnectionCount, ConnectionTally, End, Opened};
use crate::process::{Snapshot, Subject, resident_kib};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What to sample, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Time between samples. One second is fine for all but short trials.
    pub interval: Duration,
    /// The process trees, in the order in which samples name them.
    pub subjects: Vec<Subject>,
    /// The connections to count: mostly [`End::Local`] with the origin's port.
    pub connections: Option<End>,
    /// Cores for the sampler itself; none: where the calling thread may run.
    pub cores: Vec<usize>,
}

impl Default for Watch {
    /// Nothing, once a second.
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), subjects: Vec::new(), connections: None, cores: Vec::new() }
    }
}

/// What was read at one moment. CPU figures are of the time since the sample before, or since the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, ms after the start.
    pub at_ms: u64,
    /// The process trees, in the order of [`Watch::subjects`].
    pub trees: Vec<TreeSample>,
    /// The cores.
    pub cores: Vec<CoreShare>,
    /// Connections now.
    pub connections: Option<ConnectionCount>,
}

/// A process tree in a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeSample {
    /// CPU time in cores (1.0: one core all the time), from ticks of 10 ms: good to 1 % in a second.
    pub cores: f64,
    /// Resident set now, KiB.
    pub rss_kib: u64,
    /// Processes now.
    pub processes: u32,
}

/// All samples of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// The samples in order of time, one at least. A last one is taken at the stop, unless less than half an interval
    /// has passed since the one before.
    pub samples: Vec<Sample>,
    /// Connections opened and their peak, if they were watched.
    pub opened: Option<Opened>,
}

impl Series {
    /// The largest resident set of the subject with this index at one sample, KiB.
    pub fn peak_rss_kib(&self, subject: usize) -> Option<u64> {
        self.samples.iter().filter_map(|sample| sample.trees.get(subject)).map(|tree| tree.rss_kib).max()
    }
}

/// A running sampler; dropped, it stops and what it saw is lost.
#[derive(Debug)]
pub struct Sampler {
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Series>>,
}

impl Sampler {
    /// Starts the thread.
    ///
    /// A sample costs 4 us for each subject and process of the machine and, if connections are watched, 1 ms and 1.2 us
    /// for each socket of anybody, in TIME_WAIT too: 2 ms on a small machine, 25 ms with 20,000 sockets, so at one sample
    /// a second 0.2 % to 2.5 % of one core.
    ///
    /// # Errors
    /// When the interval is below 10 ms (ticks tell nothing there), or the system refuses another thread.
    pub fn start(watch: Watch) -> Result<Self, Error> {
        if watch.interval < Duration::from_millis(10) {
            return Err(Error::Lacking(format!(
                "a sampling interval must be 10 ms or more, the unit of the kernel's CPU times; {:?} is less",
                watch.interval
            )));
        }
        let (stop, stopped) = channel();
        let reader = Reader::begin(watch);
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .spawn(move || {
                reader.pin();
                reader.run(&stopped)
            })
            .map_err(|error| Error::System("starting the sampler's thread".into(), error))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Reads once more, stops and returns all.
    ///
    /// # Errors
    /// When the sampler's thread panicked.
    pub fn stop(mut self) -> Result<Series, Error> {
        self.end().unwrap_or_else(|| Err(Error::Lacking("the sampler was stopped before".into())))
    }

    fn end(&mut self) -> Option<Result<Series, Error>> {
        drop(self.stop.take());
        let thread = self.thread.take()?;
        Some(
            thread
                .join()
                .map_err(|_| Error::Lacking("the sampler's thread panicked; its samples are lost".into())),
        )
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// What the thread keeps between samples.
struct Reader {
    watch: Watch,
    start: Instant,
    snapshots: Vec<Snapshot>,
    cores: CoreTimes,
    tally: Option<ConnectionTally>,
    series: Series,
}

impl Reader {
    /// Reads the state to compare with before anything else happens in the trial, so on the caller's thread.
    fn begin(watch: Watch) -> Self {
        Self {
            start: Instant::now(),
            snapshots: watch.subjects.iter().map(|subject| Snapshot::take_light(*subject)).collect(),
            cores: CoreTimes::read(),
            tally: watch.connections.map(ConnectionTally::begin),
            series: Series::default(),
            watch,
        }
    }

    fn pin(&self) {
        let mut set = CpuSet::new();
        self.watch.cores.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.set(*core));
        if set.count() > 0 {
            // Where this fails the sampler runs anywhere, which costs little.
            let _ = sched_setaffinity(None, &set);
        }
    }

    fn run(mut self, stopped: &Receiver<()>) -> Series {
        let mut due = self.start + self.watch.interval;
        loop {
            let answer = stopped.recv_timeout(due.saturating_duration_since(Instant::now()));
            let stopping = answer != Err(RecvTimeoutError::Timeout);
            // CPU shares of a fraction of the interval would be mostly rounding: the rest at the stop is left out.
            if stopping && !self.series.samples.is_empty() && Instant::now() + self.watch.interval / 2 < due {
                self.tally.as_mut().map(ConnectionTally::read);
            } else {
                self.sample();
            }
            if stopping {
                self.series.opened = self.tally.as_ref().map(ConnectionTally::opened);
                return self.series;
            }
            // A sample that is late is not followed by a burst.
            while due <= Instant::now() {
                due += self.watch.interval;
            }
        }
    }

    fn sample(&mut self) {
        let at_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let trees = self.watch.subjects.iter().zip(&mut self.snapshots).map(|(subject, before)| {
            let now = Snapshot::take_light(*subject);
            let used = now.since(before);
            let tree = TreeSample {
                cores: used.cores(),
                rss_kib: resident_kib(now.processes.keys().copied()),
                processes: u32::try_from(now.processes()).unwrap_or(u32::MAX),
            };
            *before = now;
            tree
        });
        let trees = trees.collect();
        let now = CoreTimes::read();
        let cores = now.since(&self.cores);
        self.cores = now;
        let connections = self.tally.as_mut().map(ConnectionTally::read);
        self.series.samples.push(Sample { at_ms, trees, cores, connections });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_series_has_trees_cores_and_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let me = Subject::Process(std::process::id());
        let watch = Watch {
            interval: Duration::from_millis(20),
            subjects: vec![me, Subject::Tree(99_999_999)],
            connections: Some(End::Local(address.port())),
            cores: vec![0],
        };
        let sampler = Sampler::start(watch).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let series = sampler.stop().unwrap();
        assert!(series.samples.is_sorted_by(|a, b| a.at_ms <= b.at_ms));
        let last = series.samples.last().unwrap();
        assert!(last.trees[0].rss_kib > 0 && last.trees[0].processes == 1, "{last:?}");
        assert_eq!(last.trees[1], TreeSample::default());
        assert!(last.connections.is_some());
        assert_eq!(series.opened.unwrap().peak.established, 1);
        assert_eq!(series.opened.unwrap().at_least, 1);
        assert_eq!(series.peak_rss_kib(1), Some(0));
        assert_eq!(series.peak_rss_kib(2), None);
        assert!(series.samples.iter().any(|sample| !sample.cores.is_empty()));
        let text = serde_json::to_string(&series.samples).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Sample>>(&text).unwrap().len(), series.samples.len());
    }

    #[test]
    fn a_sampler_stops_at_once_with_one_sample_at_least() {
        let begin = Instant::now();
        let series = Sampler::start(Watch { interval: Duration::from_secs(3_600), ..Watch::default() });
        assert_eq!(series.unwrap().stop().unwrap().samples.len(), 1);
        drop(Sampler::start(Watch { interval: Duration::from_secs(3_600), ..Watch::default() }).unwrap());
        assert!(begin.elapsed() < Duration::from_secs(1_800));
    }

    #[test]
    fn an_interval_of_nothing_is_refused() {
        let error = Sampler::start(Watch { interval: Duration::ZERO, ..Watch::default() }).unwrap_err();
        assert!(error.to_string().contains("10 ms or more"), "{error}");
    }
}
