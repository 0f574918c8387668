//! The counters of a system's own workers: how clients and requests are spread over them, and what passes between
//! them.
//!
//! A description names the metrics (`workers` of `system.yaml`), which are read from the admin listener that the
//! feature `statistics` opens. The kernel cannot tell them: workers that are threads of one process share its
//! sockets.

use crate::error::SystemError;
use crate::setting::Setting;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest wait for the metrics. A worker at its limit may serve them, too.
const LIMIT: Duration = Duration::from_secs(2);

/// The longest answer, in bytes.
const LONGEST: u64 = 16 << 20;

/// The metrics of a system's workers, in Prometheus' text format.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerMetrics {
    /// The path on `admin_port`.
    pub path: String,
    /// A gauge of open client connections, with one series for each worker.
    pub connections: String,
    /// A counter of requests, or of accepted connections, with one series for each worker.
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
    /// Requests of each worker so far; empty if the system does not count them.
    pub requests: Vec<u64>,
    /// What passed between workers so far, by its short name.
    pub between: BTreeMap<String, u64>,
}

impl WorkerMetrics {
    /// Reads the counters of a system that runs with this setting.
    ///
    /// # Errors
    /// If the admin listener does not answer with these metrics.
    pub fn read(&self, name: &str, setting: &Setting) -> Result<WorkerReading, SystemError> {
        let url = format!("http://{}:{}{}", setting.listen.host, setting.admin_port, self.path);
        let wrong = |what: &dyn std::fmt::Display| SystemError::new(name, format!("{url}: {what}"));
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(LIMIT))
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(0)
            .build();
        let mut answer = config.new_agent().get(&url).call().map_err(|error| wrong(&error))?;
        let text =
            answer.body_mut().with_config().limit(LONGEST).read_to_string().map_err(|error| wrong(&error))?;
        let reading = self.parse(&text);
        if reading.connections.is_empty() {
            return Err(wrong(&format!("no series of {}", self.connections)));
        }
        Ok(reading)
    }

    fn parse(&self, text: &str) -> WorkerReading {
        WorkerReading {
            connections: series(text, &self.connections),
            requests: self.requests.as_deref().map(|metric| series(text, metric)).unwrap_or_default(),
            between: self
                .between
                .iter()
                .map(|(short, metric)| (short.clone(), series(text, metric).iter().sum()))
                .collect(),
        }
    }
}

impl WorkerReading {
    /// Returns the counts since `earlier`. The connections are those of the moment with more of them: a
    /// generator closes its own as soon as it has finished.
    pub fn since(&self, earlier: &Self) -> Self {
        let fuller = if self.connections.iter().sum::<u64>() > earlier.connections.iter().sum() {
            self
        } else {
            earlier
        };
        let mut since =
            Self { connections: fuller.connections.clone(), requests: Vec::new(), between: BTreeMap::new() };
        for (at, now) in self.requests.iter().enumerate() {
            let before = earlier.requests.get(at).copied().unwrap_or_default();
            since.requests.push(now.saturating_sub(before));
        }
        for (name, now) in &self.between {
            let before = earlier.between.get(name).copied().unwrap_or_default();
            since.between.insert(name.clone(), now.saturating_sub(before));
        }
        since
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
    use std::io::{Read, Write};
    use std::net::TcpListener;

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
        let read = metrics().parse(TEXT);
        assert_eq!((read.connections, read.requests), (vec![17, 15], vec![1_200, 800]));
        let between: Vec<(&str, u64)> =
            read.between.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(between, [("messages", 12), ("moved", 7), ("none", 0)]);
        assert_eq!(series(TEXT, "strange"), []);
        let fewer: WorkerMetrics = serde_saphyr::from_str("{path: /, connections: open}").unwrap();
        assert!(fewer.parse(TEXT).requests.is_empty());
    }

    #[test]
    fn counts_are_those_of_the_interval_and_connections_those_of_the_fuller_end() {
        let at = |connections: &[u64], requests: &[u64], messages: u64| WorkerReading {
            connections: connections.to_vec(),
            requests: requests.to_vec(),
            between: [("messages".to_owned(), messages)].into(),
        };
        let since = at(&[0, 1], &[150, 90], 7).since(&at(&[8, 8], &[100, 90], 5));
        assert_eq!(since, at(&[8, 8], &[50, 0], 2));
        let restarted = at(&[9, 9], &[3], 0).since(&at(&[8, 8], &[100, 90], 5));
        assert_eq!(restarted, at(&[9, 9], &[0], 0), "a worker that began again is no failure");
    }

    #[test]
    fn the_admin_listener_is_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1_024];
            let length = stream.read(&mut asked).unwrap();
            // In chunks, as Envoy answers.
            let half = TEXT.len() / 2;
            write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            for part in [&TEXT[..half], &TEXT[half..], ""] {
                write!(stream, "{:x}\r\n{part}\r\n", part.len()).unwrap();
            }
            String::from_utf8_lossy(&asked[..length]).into_owned()
        });
        let setting = Setting::new(1, port, 1, std::path::PathBuf::new());
        let read = metrics().read("any", &setting).unwrap();
        assert_eq!(read, metrics().parse(TEXT));
        assert!(server.join().unwrap().starts_with("GET /metrics HTTP/1.1\r\n"));
        let error = metrics().read("any", &setting).unwrap_err().to_string();
        assert!(error.contains(&port.to_string()), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_reader(text in "(open|served)?[ {}\"a-z0-9.eE+-]{0,30}\n?") {
            let _ = metrics().parse(&text);
        }
    }
}
