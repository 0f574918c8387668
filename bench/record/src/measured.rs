//! What came of it: trials, ceilings, verdicts.

use crate::evidence::Evidence;
use crate::load::LoadResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// CPU a verified response, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// In user mode.
    pub user_us: f64,
    /// In the kernel.
    pub system_us: f64,
}

impl Cost {
    /// Both.
    pub fn total_us(self) -> f64 {
        self.user_us + self.system_us
    }
}

/// Whether a trial's figures may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Status {
    /// They may.
    Good,
    /// They may not; the reason is for people.
    Bad {
        /// What was wrong: errors, a rate that was not kept, a system that died.
        reason: String,
    },
}

/// One system under one load, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// [`crate::Cell::id`].
    pub cell: String,
    /// [`crate::SystemUsed::name`]; the second arm of an A/A control ends in `#2`.
    pub system: String,
    /// From 1.
    pub round: u32,
    /// Place in the round's random order, from 1.
    pub turn: u32,
    /// Seconds since the study's start.
    pub at: f64,
    /// What the generator saw; `None` when it did not come to an end.
    pub load: Option<LoadResult>,
    /// What the kernel saw.
    pub evidence: Evidence,
    /// CPU of the system a verified response; `None` for a direct run or without responses.
    pub cost: Option<Cost>,
    /// Seconds of warm-up before it.
    pub warm_up: f64,
    /// Whether the figures may be used.
    pub status: Status,
}

impl Trial {
    /// Whether its figures may be used.
    pub fn is_good(&self) -> bool {
        self.status == Status::Good
    }
}

/// What the generator reaches without a gateway, on the same cores, before a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// [`crate::Cell::id`].
    pub cell: String,
    /// From 1.
    pub round: u32,
    /// Requests a second, straight to the origin.
    pub rps: f64,
    /// CPU of the generator a request.
    pub generator_us: f64,
    /// CPU of the origin a request.
    pub origin_us: f64,
}

/// What the origin received from a system for one and the same request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// [`crate::SystemUsed::name`].
    pub system: String,
    /// Title of the section with whose settings it was asked.
    #[serde(default)]
    pub section: String,
    /// `HTTP/1.0` or `HTTP/1.1`.
    pub version: String,
    /// Header lines in order, values of `host`, ports and ids as sent.
    pub headers: Vec<(String, String)>,
    /// Connections that the origin saw for the probe's requests.
    pub connections: u64,
    /// Requests of the probe.
    pub requests: u64,
    /// Differences from the request as the client sent it and from the other systems, for people.
    pub differences: Vec<String>,
}

/// Who limits a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The offered rate was kept and nobody was at its limit: the figures are the system's toll.
    Nothing,
    /// Every core that the system may use was busy.
    Gateway,
    /// One thread of the system was busy while others were not.
    HotWorker,
    /// The origin was at its limit.
    Origin,
    /// The generator was at its limit.
    Generator,
    /// The system's CPU quota held it back.
    Quota,
    /// A limit on connections held it back: listen queue, ports, files, a cap.
    Connections,
    /// The link between generator and system, when the study put a slow one there.
    Link,
    /// Errors or unexpected answers: the figures are not comparable.
    Errors,
    /// Nobody was seen at a limit and yet the rate was not reached: not attributed.
    Invalid,
}

impl VerdictKind {
    /// As tables write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Gateway => "gateway",
            Self::HotWorker => "one hot worker",
            Self::Origin => "origin",
            Self::Generator => "generator",
            Self::Quota => "CPU quota",
            Self::Connections => "connection limit",
            Self::Link => "link",
            Self::Errors => "errors",
            Self::Invalid => "invalid",
        }
    }

    /// Whether the throughput and cost of such a cell may be printed as figures of the system.
    pub fn has_figures(self) -> bool {
        !matches!(self, Self::Errors | Self::Invalid)
    }
}

/// One observation behind a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// For people: "core 1 was 99 % busy, 64 % of it wrk".
    pub text: String,
}

/// An estimate with its 95 % interval, low to high.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The estimate.
    pub estimate: f64,
    /// Lower end; equal to the estimate when there are too few rounds for an interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Rounds behind it.
    pub rounds: u32,
}

/// What a cell says about a system, over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// [`crate::Cell::id`].
    pub cell: String,
    /// [`crate::SystemUsed::name`].
    pub system: String,
    /// Who limits it.
    pub kind: VerdictKind,
    /// What was seen.
    pub findings: Vec<Finding>,
    /// The same system against itself in this cell: the ratio of the A/A control's CPU cost and its interval.
    pub control: Option<Summary>,
    /// Ratios of the system to others in the same rounds, by "figure/system": `cpu/nginx`, `rps/direct`, `p99/haproxy`.
    pub ratios: BTreeMap<String, Summary>,
}
