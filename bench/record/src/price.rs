//! The cost of features: counted instructions, and the differences that an analysis derives.

use crate::measured::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Known<T> {
    /// The figure.
    Is(T),
    /// The reason, for people.
    Not(String),
}

impl<T> Known<T> {
    /// Returns the figure, if there is one.
    pub fn figure(&self) -> Option<&T> {
        match self {
            Self::Is(figure) => Some(figure),
            Self::Not(_) => None,
        }
    }
}

/// The instructions of a system for one request of a cell. Valgrind's callgrind counts them over all
/// processes of the system while a fixed sequence of requests is sent over one connection. A later line for
/// the same cell and system replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// [`crate::Cell::id`].
    pub cell: String,
    /// [`crate::SystemUsed::name`].
    pub system: String,
    /// The number of requests that were counted; 0 without a figure.
    pub requests: u64,
    /// Instructions for each request.
    pub each: Known<f64>,
}

/// The cost that a feature adds to a request of one system. A later line for the same section, system and
/// feature replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The section's title.
    pub section: String,
    /// [`crate::SystemUsed::name`].
    pub system: String,
    /// The feature: the title of the cell that has it.
    pub feature: String,
    /// Whether this is the request without any feature; the figures are then its whole cost instead of a
    /// difference.
    pub whole: bool,
    /// CPU time for each request in microseconds.
    pub cpu_us: Known<Summary>,
    /// 99th percentile of latency in microseconds.
    pub p99_us: Known<Summary>,
    /// Instructions for each request; counted, so there is no interval.
    pub instructions: Known<f64>,
}
