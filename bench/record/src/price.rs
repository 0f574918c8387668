//! What features cost: instructions counted, and the differences that an analysis draws.

use crate::measured::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Known<T> {
    /// The figure.
    Is(T),
    /// Why there is none, for people.
    Not(String),
}

impl<T> Known<T> {
    /// The figure, where there is one.
    pub fn figure(&self) -> Option<&T> {
        match self {
            Self::Is(figure) => Some(figure),
            Self::Not(_) => None,
        }
    }
}

/// Instructions of a system for one request of a cell, counted by valgrind's callgrind over all its processes while a
/// fixed sequence of requests came over one connection. A later line for the same cell and system replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// [`crate::Cell::id`].
    pub cell: String,
    /// [`crate::SystemUsed::name`].
    pub system: String,
    /// Requests that were counted; 0 where there is no figure.
    pub requests: u64,
    /// Instructions a request.
    pub each: Known<f64>,
}

/// What a feature adds to a request of one system. A later line for the same section, system and feature replaces an
/// earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The section's title.
    pub section: String,
    /// [`crate::SystemUsed::name`].
    pub system: String,
    /// The feature: the title of the cell that has it.
    pub feature: String,
    /// Whether this is the request without any feature, and its figures its whole cost instead of a difference.
    pub whole: bool,
    /// Microseconds of CPU a request.
    pub cpu_us: Known<Summary>,
    /// Microseconds of the 99th percentile of latency.
    pub p99_us: Known<Summary>,
    /// Instructions a request; counted, so that there is no interval.
    pub instructions: Known<f64>,
}
