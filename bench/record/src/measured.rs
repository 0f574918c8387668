//! The results of a measurement: trials, ceilings, verdicts.

use crate::evidence::Evidence;
use crate::kind::VerdictKind;
use crate::load::LoadResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// CPU time for each verified response, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// In user mode.
    pub user_us: f64,
    /// In the kernel.
    pub system_us: f64,
}

impl Cost {
    /// Returns the sum of both.
    pub fn total_us(self) -> f64 {
        self.user_us + self.system_us
    }
}

/// Whether a trial's figures may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Status {
    /// They may be used.
    Good,
    /// They may not be used.
    Bad {
        /// The reason, for people: errors, a rate that was not kept, a system that died.
        reason: String,
    },
}

/// One measurement of one system under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// [`crate::Cell::id`].
    pub cell: String,
    /// [`crate::SystemUsed::name`]; the second arm of an A/A control ends in `#2`.
    pub system: String,
    /// The round, from 1; 0 for the trace of a warm-up, which is not a measurement.
    pub round: u32,
    /// The position in the round's random order, from 1.
    pub turn: u32,
    /// Seconds since the start of the study.
    pub at: f64,
    /// The generator's result; `None` if the generator failed.
    pub load: Option<LoadResult>,
    /// The kernel's counters.
    pub evidence: Evidence,
    /// CPU time of the system for each verified response; `None` for a direct run, without responses, or at
    /// an offered rate that was not kept.
    pub cost: Option<Cost>,
    /// Seconds of warm-up before the trial.
    pub warm_up: f64,
    /// Whether the figures may be used.
    pub status: Status,
}

impl Trial {
    /// Returns whether its figures may be used.
    pub fn is_good(&self) -> bool {
        self.status == Status::Good
    }
}

/// The direct ceiling: what the generator reaches before a round without a gateway, on the same cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// [`crate::Cell::id`].
    pub cell: String,
    /// The round, from 1.
    pub round: u32,
    /// Requests per second, directly to the origin.
    pub rps: f64,
    /// CPU time of the generator for each request.
    pub generator_us: f64,
    /// CPU time of the origin for each request.
    pub origin_us: f64,
}

/// The request that the origin received from a system; every system gets the same one to forward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// [`crate::SystemUsed::name`].
    pub system: String,
    /// The title of the section whose settings were used.
    #[serde(default)]
    pub section: String,
    /// `HTTP/1.0` or `HTTP/1.1`.
    pub version: String,
    /// Header lines in order; the values of `host`, ports and ids are as sent.
    pub headers: Vec<(String, String)>,
    /// Connections that the origin accepted for the probe's requests.
    pub connections: u64,
    /// Requests of the probe.
    pub requests: u64,
    /// Header lines of the response to such a request, as the client received them; empty if they were not
    /// recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response: Vec<(String, String)>,
    /// Differences of requests and responses from a direct run and from the other systems, for people.
    pub differences: Vec<String>,
}

/// One observation behind a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// A sentence for people: "core 1 was 99 % busy, 64 % of it wrk".
    pub text: String,
}

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The estimate.
    pub estimate: f64,
    /// The lower end; equal to the estimate if there are too few rounds for an interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The number of rounds behind it.
    pub rounds: u32,
}

/// The verdict on a system in a cell, over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// [`crate::Cell::id`].
    pub cell: String,
    /// [`crate::SystemUsed::name`].
    pub system: String,
    /// The limiting component.
    pub kind: VerdictKind,
    /// The evidence.
    pub findings: Vec<Finding>,
    /// The A/A control of this cell: the ratio of the CPU costs of two copies of one system, with its
    /// interval.
    pub control: Option<Summary>,
    /// Ratios of the system to others in the same rounds, by "figure/system": `cpu/nginx`, `rps/direct`,
    /// `p99/haproxy`.
    pub ratios: BTreeMap<String, Summary>,
}
