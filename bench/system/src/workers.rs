//! The counters of a system's own workers: how clients and requests are spread over them, and what passes between
//! them.
//!
//! A description names the metrics (`workers` of `system.yaml`), which are read from the admin listener that the
//! feature `statistics` opens. The kernel cannot tell them: workers that are threads of one process share its
//! sockets.

use crate::setting::Setting;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The metrics of a system's workers, in Prometheus' text format.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerMetrics {
    /// The path on `admin_port`.
    pub path: String,
    /// A gauge of open client connections, with one series for each worker.
    pub connections: String,
    /// A counter of accepted client connections, with one series for each worker.
    #[serde(default)]
    pub accepted: Option<String>,
    /// A counter of requests, with one series for each worker.
    #[serde(default)]
    pub requests: Option<String>,
    /// Counters of what one worker does for another, by a short name.
    #[serde(default)]
    pub between: BTreeMap<String, String>,
}

/// The values of [`WorkerMetrics`] at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReading {
    /// Open client connections of each worker.
    pub connections: Vec<u64>,
    /// Client connections that each worker accepted so far; empty if the system does not count them.
    pub accepted: Vec<u64>,
    /// Requests of each worker so far; empty if the system does not count them.
    pub requests: Vec<u64>,
    /// Counts of messages between workers so far, by short name.
    pub between: BTreeMap<String, u64>,
}

impl WorkerMetrics {
    /// Returns the address of the metrics of a system that runs with this setting.
    pub fn url(&self, setting: &Setting) -> String {
        format!("http://{}:{}{}", setting.listen.host, setting.admin_port, self.path)
    }

    /// Reads the metrics; `None` if the connections are not among them.
    pub fn parse(&self, text: &str) -> Option<WorkerReading> {
        let connections = series(text, &self.connections);
        let between =
            self.between.iter().map(|(short, metric)| (short.clone(), series(text, metric).iter().sum()));
        (!connections.is_empty()).then(|| WorkerReading {
            connections,
            accepted: self.accepted.as_deref().map(|metric| series(text, metric)).unwrap_or_default(),
            requests: self.requests.as_deref().map(|metric| series(text, metric)).unwrap_or_default(),
            between: between.collect(),
        })
    }
}

impl WorkerReading {
    /// Returns the counts since `earlier`. Of the open connections, the larger of both readings counts, because a
    /// generator closes its connections as soon as it has finished.
    pub fn since(&self, earlier: &Self) -> Self {
        let is_fuller = self.connections.iter().sum::<u64>() > earlier.connections.iter().sum::<u64>();
        let increase = |now: &[u64], before: &[u64]| -> Vec<u64> {
            let before = before.iter().chain(std::iter::repeat(&0));
            now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
        };
        let between = self.between.iter().map(|(name, now)| {
            let before = earlier.between.get(name).copied().unwrap_or_default();
            (name.clone(), now.saturating_sub(before))
        });
        Self {
            connections: if is_fuller { self } else { earlier }.connections.clone(),
            accepted: increase(&self.accepted, &earlier.accepted),
            requests: increase(&self.requests, &earlier.requests),
            between: between.collect(),
        }
    }
}

/// Returns the values of a metric's series, in the order of the text. Counters and gauges of whole things only:
/// fractions are cut off, and what is no number from 0 on is left out.
fn series(text: &str, metric: &str) -> Vec<u64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(metric)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            // Otherwise the name of this series is longer.
            None => rest.strip_prefix(' ')?,
        };
        let number: f64 = value.split_whitespace().next()?.parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number as u64)
    };
    text.lines().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
# HELP open Client connections, by worker.
# TYPE open gauge
open{worker=\"0\"} 17
open{worker=\"1\"} 15
open_total 900
served{worker=\"0\",note=\"a } b\"} 1.2e3 1700000000
served{worker=\"1\"} 800
moved{upstream=\"a\"} 3
moved{upstream=\"b\"} 4
messages 12
strange NaN
";

    fn metrics() -> WorkerMetrics {
        serde_saphyr::from_str(
            "{path: /metrics, connections: open, requests: served, between: {messages: messages, moved: moved, none: no}}",
        )
        .unwrap()
    }

    #[test]
    fn series_are_those_of_the_metric_alone() {
        let read = metrics().parse(TEXT).unwrap();
        assert_eq!((read.connections, read.requests), (vec![17, 15], vec![1_200, 800]));
        let between: Vec<(&str, u64)> =
            read.between.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(between, [("messages", 12), ("moved", 7), ("none", 0)]);
        assert_eq!(series(TEXT, "strange"), []);
        let fewer: WorkerMetrics = serde_saphyr::from_str("{path: /, connections: open}").unwrap();
        assert!(fewer.parse(TEXT).unwrap().requests.is_empty());
        assert_eq!(fewer.parse("another 1"), None);
        let setting = Setting::new(1, 9_911, 1, std::path::PathBuf::new());
        assert_eq!(metrics().url(&setting), "http://127.0.0.1:9911/metrics");
    }

    #[test]
    fn counts_are_those_of_the_interval_and_connections_those_of_the_fuller_end() {
        let at = |connections: &[u64], requests: &[u64], messages: u64| WorkerReading {
            connections: connections.to_vec(),
            accepted: Vec::new(),
            requests: requests.to_vec(),
            between: [("messages".to_owned(), messages)].into(),
        };
        let since = at(&[0, 1], &[150, 90], 7).since(&at(&[8, 8], &[100, 90], 5));
        assert_eq!(since, at(&[8, 8], &[50, 0], 2));
        let restarted = at(&[9, 9], &[3], 0).since(&at(&[8, 8], &[100, 90], 5));
        assert_eq!(restarted, at(&[9, 9], &[0], 0), "a worker that began again is no failure");
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_reader(text in "(open|served)?[ {}\"a-z0-9.eE+-]{0,30}\n?") {
            let _ = metrics().parse(&text);
        }
    }
}
