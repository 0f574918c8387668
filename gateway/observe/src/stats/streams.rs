//! Counts the TCP connections and UDP sessions of each layer 4 stream, and writes their metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::counter::Counter;
use super::histogram::{Histogram, HistogramSnapshot};
use super::page::Exporter;
use super::snapshot::REASONS;
use crate::Reason;

/// Number of streams with counts of their own, in each worker. Further streams are counted together as `other`, so
/// that a scrape has a bounded size.
const NAMED_MAX: usize = 1_000;
const OTHER: &str = "other";

/// One worker's counts of one stream. Only the worker's thread writes them.
#[derive(Debug)]
pub struct StreamCounts {
    begun: Counter,
    ended: [Counter; REASONS],
    bytes_in: Counter,
    bytes_out: Counter,
    datagrams_in: Counter,
    datagrams_out: Counter,
    dropped: [Counter; DatagramDrop::ALL.len()],
    duration: Histogram,
}

/// Why a datagram was not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramDrop {
    /// No stream takes it, or the stream drops it.
    NoStream,
    /// A bound on sessions is reached.
    SessionLimit,
    /// The client reached the limit of bytes that it may send before the endpoint answers.
    Unanswered,
    /// The endpoint reached the limit of bytes that it may send before the client answers.
    Unconfirmed,
    /// The send queue was full, or the datagram is too long.
    NotSent,
}

impl DatagramDrop {
    /// Every variant, in the order of the metric.
    pub const ALL: [Self; 5] =
        [Self::NoStream, Self::SessionLimit, Self::Unanswered, Self::Unconfirmed, Self::NotSent];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoStream => "no_stream",
            Self::SessionLimit => "session_limit",
            Self::Unanswered => "unanswered",
            Self::Unconfirmed => "unconfirmed",
            Self::NotSent => "not_sent",
        }
    }
}

impl Default for StreamCounts {
    fn default() -> Self {
        Self {
            begun: Counter::default(),
            ended: std::array::from_fn(|_| Counter::default()),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            datagrams_in: Counter::default(),
            datagrams_out: Counter::default(),
            dropped: Default::default(),
            duration: Histogram::default(),
        }
    }
}

impl StreamCounts {
    /// Counts a connection or session that the stream took.
    pub fn begun(&self) {
        self.begun.increment();
    }

    /// Counts the end of a connection or session.
    pub fn ended(&self, reason: Reason, duration: Duration) {
        self.ended[reason as usize].increment();
        self.duration.observe(duration);
    }

    /// Counts bytes from the client, and bytes to the client.
    #[inline]
    pub fn moved(&self, bytes_in: u64, bytes_out: u64) {
        self.bytes_in.add(bytes_in);
        self.bytes_out.add(bytes_out);
    }

    /// Counts datagrams from clients, and datagrams to clients.
    #[inline]
    pub fn datagrams(&self, datagrams_in: u64, datagrams_out: u64) {
        self.datagrams_in.add(datagrams_in);
        self.datagrams_out.add(datagrams_out);
    }

    /// Counts a datagram that was not passed on.
    pub fn dropped(&self, why: DatagramDrop) {
        self.dropped[why as usize].increment();
    }

    fn add_to(&self, sum: &mut StreamSnapshot) {
        sum.begun += self.begun.get();
        for (sum, count) in sum.ended.iter_mut().zip(&self.ended) {
            *sum += count.get();
        }
        sum.bytes = [sum.bytes[0] + self.bytes_in.get(), sum.bytes[1] + self.bytes_out.get()];
        sum.datagrams =
            [sum.datagrams[0] + self.datagrams_in.get(), sum.datagrams[1] + self.datagrams_out.get()];
        for (sum, count) in sum.dropped.iter_mut().zip(&self.dropped) {
            *sum += count.get();
        }
        self.duration.add_to(&mut sum.duration);
    }
}

/// One worker's counts of all streams, by name.
#[derive(Debug, Default)]
pub(super) struct WorkerStreams(Mutex<BTreeMap<Arc<str>, Arc<StreamCounts>>>);

impl WorkerStreams {
    /// Returns the counts of a stream. Called when a worker first uses a stream of a plan: it takes a lock.
    pub(super) fn counts(&self, name: &str) -> Arc<StreamCounts> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(name) {
            return counts.clone();
        }
        let name = if known.len() >= NAMED_MAX { OTHER } else { name };
        known.entry(name.into()).or_default().clone()
    }

    pub(super) fn add_to(&self, sum: &mut StreamsSnapshot) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, counts) in &*known {
            counts.add_to(sum.entry(name.clone()).or_default());
        }
    }
}

/// The counts of all streams at one moment, by name.
pub type StreamsSnapshot = BTreeMap<Arc<str>, StreamSnapshot>;

/// The counts of a stream at one moment, added up over the workers.
#[derive(Clone, Debug)]
pub struct StreamSnapshot {
    /// Connections and sessions that it took.
    pub begun: u64,
    /// Connections and sessions that ended, by reason, in the order of [`Reason::ALL`].
    pub ended: [u64; REASONS],
    /// Bytes from clients, and bytes to clients.
    pub bytes: [u64; 2],
    /// Datagrams from clients, and datagrams to clients.
    pub datagrams: [u64; 2],
    /// Datagrams that were not passed on, in the order of [`DatagramDrop::ALL`].
    pub dropped: [u64; DatagramDrop::ALL.len()],
    /// Durations of whole connections and sessions.
    pub duration: HistogramSnapshot,
}

impl Default for StreamSnapshot {
    fn default() -> Self {
        Self {
            begun: 0,
            ended: [0; REASONS],
            bytes: [0; 2],
            datagrams: [0; 2],
            dropped: [0; DatagramDrop::ALL.len()],
            duration: HistogramSnapshot::default(),
        }
    }
}

impl StreamSnapshot {
    /// Returns how many connections or sessions are open.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.begun.saturating_sub(self.ended.iter().sum())
    }
}

/// Writes the families of streams.
pub(super) fn encode(streams: &StreamsSnapshot, page: &mut Exporter<'_>) -> fmt::Result {
    let mut family = page.counter(
        "tollgate_streams_total",
        "Finished connections and sessions of layer 4, by stream and reason.",
    )?;
    for (name, stream) in streams {
        for (reason, count) in Reason::ALL.iter().zip(stream.ended) {
            // From 0, so that `rate` sees the first one.
            if count > 0 || *reason == Reason::None {
                family.add(&[("stream", name), ("reason", reason.as_str())], count)?;
            }
        }
    }
    let mut family =
        page.gauge("tollgate_streams_active", "Open connections and sessions of layer 4, by stream.")?;
    for (name, stream) in streams {
        family.add(&[("stream", name)], stream.active())?;
    }
    let mut family = page.counter(
        "tollgate_stream_bytes_total",
        "Bytes that streams received from clients (in) and sent to them (out).",
    )?;
    for (name, stream) in streams {
        for (direction, bytes) in ["in", "out"].iter().zip(stream.bytes) {
            family.add(&[("stream", name), ("direction", direction)], bytes)?;
        }
    }
    let is_udp =
        |stream: &&StreamSnapshot| stream.datagrams != [0; 2] || stream.dropped.iter().any(|it| *it > 0);
    let mut family = page.counter(
        "tollgate_stream_datagrams_total",
        "Datagrams that streams received from clients (in) and sent to them (out).",
    )?;
    for (name, stream) in streams.iter().filter(|(_, stream)| is_udp(stream)) {
        for (direction, count) in ["in", "out"].iter().zip(stream.datagrams) {
            family.add(&[("stream", name), ("direction", direction)], count)?;
        }
    }
    let mut family = page.counter(
        "tollgate_stream_datagrams_dropped_total",
        "Datagrams that streams did not pass on, by cause.",
    )?;
    for (name, stream) in streams.iter().filter(|(_, stream)| is_udp(stream)) {
        for (why, count) in DatagramDrop::ALL.iter().zip(stream.dropped) {
            family.add(&[("stream", name), ("cause", why.as_str())], count)?;
        }
    }
    let mut family = page.histogram(
        "tollgate_stream_duration_seconds",
        "Duration of connections and sessions of layer 4, by stream.",
    )?;
    for (name, stream) in streams {
        family.add(&[("stream", name)], &stream.duration)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exposition, Registry};

    #[test]
    fn workers_add_up_and_names_are_bounded() {
        let registry = Registry::new(true);
        let workers = [registry.worker(), registry.worker()];
        for worker in &workers {
            let counts = worker.stream("db");
            counts.begun();
            counts.begun();
            counts.moved(7, 9);
            counts.ended(Reason::None, Duration::from_secs(1));
        }
        workers[0].stream("dns").datagrams(3, 2);
        workers[0].stream("dns").dropped(DatagramDrop::Unanswered);
        for number in 0..2 * NAMED_MAX {
            workers[1].stream(&format!("s{number}")).begun();
        }
        let snapshot = registry.snapshot();
        assert!(snapshot.streams.len() <= NAMED_MAX + 2);
        let text = registry.render_as(Exposition::Text);
        for line in [
            "tollgate_streams_total{stream=\"db\",reason=\"-\"} 2",
            "tollgate_streams_active{stream=\"db\"} 2",
            "tollgate_stream_bytes_total{stream=\"db\",direction=\"in\"} 14",
            "tollgate_stream_bytes_total{stream=\"db\",direction=\"out\"} 18",
            "tollgate_stream_datagrams_total{stream=\"dns\",direction=\"in\"} 3",
            "tollgate_stream_datagrams_dropped_total{stream=\"dns\",cause=\"unanswered\"} 1",
            "tollgate_stream_duration_seconds_count{stream=\"db\"} 2",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }
}
