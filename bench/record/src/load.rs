//! The result of a load generator, in one form for every tool.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;

/// How requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LoadModel {
    /// Each connection sends its next request when the last response has arrived: as fast as the system
    /// responds.
    Closed,
    /// A fixed number of requests per second over all connections, evenly spaced, independent of the
    /// responses.
    Constant {
        /// Requests per second.
        rps: f64,
    },
    /// Requests with exponentially distributed gaps, from a seed.
    Poisson {
        /// Requests per second on average.
        rps: f64,
    },
}

impl LoadModel {
    /// Returns the offered rate in requests per second; `None` for a closed loop.
    pub fn rps(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Constant { rps } | Self::Poisson { rps } => Some(rps),
        }
    }
}

/// How closely the tool verified each response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verification {
    /// Status, length and hash of the body.
    Full,
    /// The status of each response.
    Status,
    /// Only whether there was a response.
    Presence,
}

/// Requests without the expected response, by kind of failure; each request counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Failures {
    /// A connection could not be opened.
    pub connect: u64,
    /// The connection ended or broke before the response was complete.
    pub read: u64,
    /// The request could not be written.
    pub write: u64,
    /// No complete response within the tool's time limit.
    pub timeout: u64,
    /// Another status than expected (than 2xx if none was given).
    pub status: u64,
    /// A body of another length.
    pub length: u64,
    /// A body with other bytes.
    pub body: u64,
    /// Bytes that are not an HTTP response.
    pub protocol: u64,
}

impl Failures {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        // Destructured by name, so that the compiler reports a new kind that is missing here.
        let Self { connect, read, write, timeout, status, length, body, protocol } = other;
        self.connect += connect;
        self.read += read;
        self.write += write;
        self.timeout += timeout;
        self.status += status;
        self.length += length;
        self.body += body;
        self.protocol += protocol;
    }

    /// Returns the sum of all kinds.
    pub fn total(&self) -> u64 {
        self.connect
            + self.read
            + self.write
            + self.timeout
            + self.status
            + self.length
            + self.body
            + self.protocol
    }
}

/// The distribution of many times, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The number of times.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Standard deviation; `None` if the tool does not report it.
    pub stdev_us: Option<f64>,
    /// Minimum; `None` if the tool does not report it.
    pub min_us: Option<f64>,
    /// Maximum; `None` if the tool does not report it.
    pub max_us: Option<f64>,
    /// Percentiles (0-100) in ascending order, each with its time.
    pub percentiles: Vec<(f64, f64)>,
    /// The whole histogram: HdrHistogram V2, deflated, base64, of nanoseconds. `None` if the tool reports
    /// percentiles only; such distributions cannot be merged.
    pub histogram: Option<String>,
}

impl Distribution {
    /// Returns the time at a percentile of the list (within 0.0005 of it).
    pub fn percentile(&self, wanted: f64) -> Option<f64> {
        self.percentiles.iter().find(|(at, _)| (at - wanted).abs() < 0.000_5).map(|(_, time)| *time)
    }
}

/// One second of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Seconds from the start of the run to the start of the window.
    pub start: f64,
    /// Length in seconds.
    pub seconds: f64,
    /// Verified responses.
    pub ok: u64,
    /// Failed requests.
    pub failed: u64,
    /// 99th percentile of response time within the window.
    pub p99_us: Option<f64>,
}

/// The result of one run of a load generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadResult {
    /// `builtin`, `wrk`, `ab`...
    pub tool: String,
    /// The version as the tool reports it.
    pub tool_version: String,
    /// The command line, program first.
    pub command: Vec<String>,
    /// Threads of the generator.
    pub threads: u32,
    /// Connections that were really open at once (wrk opens a multiple of its threads).
    pub connections: u32,
    /// Whether connections were reused for several requests.
    pub keep_alive: bool,
    /// How requests were sent.
    pub model: LoadModel,
    /// How closely each response was verified.
    pub verification: Verification,
    /// Measured time in seconds, by the tool's clock.
    pub seconds: f64,
    /// Requests sent; `None` if the tool does not report it.
    pub sent: Option<u64>,
    /// Responses that passed the verification.
    pub ok: u64,
    /// The other requests, by kind of failure.
    pub failures: Failures,
    /// Responses by status; empty if the tool does not report it.
    #[serde(deserialize_with = "by_status")]
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of response bodies, if the tool counts them.
    pub body_bytes: Option<u64>,
    /// Connections opened during the whole run, if the tool counts them.
    pub connections_opened: Option<u64>,
    /// From the intended send time to the last byte of the response: free of coordinated omission. `None` for
    /// a closed loop, which has no intended time, and for tools that do not report it. The built-in generator
    /// includes requests that got no whole response, with the time for which they were held.
    pub response_time: Option<Distribution>,
    /// From the real send time (the first byte written) to the last byte. It does not show delays in which
    /// the generator itself waited.
    pub service_time: Option<Distribution>,
    /// From the intended to the real send time: the lag of the generator itself.
    pub send_lag: Option<Distribution>,
    /// The run by the second, if the tool reports it.
    pub windows: Vec<Window>,
}

/// Deserializes a map with numeric keys. JSON keys are strings, and within a tagged enum serde no longer
/// knows that they came from JSON, so it would refuse them.
fn by_status<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u16, u64>, D::Error> {
    let texts = BTreeMap::<String, u64>::deserialize(from)?;
    let number = |text: String| {
        text.parse().map_err(|_| de::Error::custom(format!("expected a status such as 200, found {text:?}")))
    };
    texts.into_iter().map(|(status, count)| Ok((number(status)?, count))).collect()
}

impl LoadResult {
    /// Returns the verified responses per second.
    pub fn rps(&self) -> f64 {
        if self.seconds > 0.0 { self.ok as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the offered rate, if there is one, and the share of it that was answered.
    pub fn answered(&self) -> Option<(f64, f64)> {
        self.model.rps().map(|offered| (offered, self.rps() / offered))
    }

    /// Returns whether a rate was offered and kept: at least 99 % of it was answered in time.
    pub fn keeps_its_rate(&self) -> bool {
        self.answered().is_some_and(|(_, share)| share >= 0.99)
    }

    /// Returns the latency that a report shows first: the corrected one if it is known.
    pub fn latency(&self) -> Option<&Distribution> {
        self.response_time.as_ref().or(self.service_time.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_percentiles() {
        let times = Distribution { percentiles: vec![(50.0, 100.0), (99.9, 900.0)], ..Default::default() };
        assert_eq!(times.percentile(99.9), Some(900.0));
        assert_eq!(times.percentile(99.0), None);
        assert_eq!(LoadModel::Constant { rps: 5.0 }.rps(), Some(5.0));
        assert_eq!(LoadModel::Closed.rps(), None);
    }

    #[test]
    fn failures_add_up_and_a_new_kind_is_an_error() {
        let failures = Failures { connect: 1, timeout: 2, protocol: 4, ..Default::default() };
        assert_eq!(failures.total(), 7);
        assert!(serde_json::from_str::<Failures>(r#"{"connect":1,"weather":1}"#).is_err());
    }
}
