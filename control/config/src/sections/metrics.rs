//! `metrics`: statistics of requests, and how many names they have.

use crate::section::Section;

/// Statistics of routes and upstreams.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "metrics", switch, off = |metrics| metrics.enabled = false)]
pub struct Metrics {
    /// Whether statistics are kept. Default true.
    #[key(skip = true)]
    pub enabled: bool,
    /// Number of routes with figures of their own: those with traffic. The others share the name `other`.
    #[key(count = 1..=50_000, default = 1000, also = ["max_routes", "route_limit", "series", "cardinality"])]
    pub routes: u32,
    /// Number of upstreams with figures of their own: those with traffic. The others share the name `other`.
    #[key(count = 1..=50_000, default = 1000, also = ["max_upstreams", "upstream_limit"])]
    pub upstreams: u32,
}
