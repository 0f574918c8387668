//! The configuration under construction. The readers of all sections fill it, file by file.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::model::{At, Config};
use crate::problem::Problem;
use crate::reader::{Fields, UpstreamReference};

/// One entry of `include`.
pub(crate) struct Include {
    pub pattern: String,
    /// The pattern as written, for messages.
    pub shown: String,
    pub at: At,
}

/// A configuration under construction, from all files read so far.
#[derive(Default)]
pub(crate) struct Draft {
    pub config: Config,
    /// Names of routes, streams and upstreams, with the source position of the first use.
    pub route_names: HashMap<String, At>,
    pub stream_names: HashMap<String, At>,
    pub upstream_names: HashMap<String, At>,
    /// Source position of `routes`, empty or not.
    pub routes: Option<At>,
    /// References to upstreams in `to`.
    pub references: Vec<UpstreamReference>,
    /// Timeouts of single attempts.
    pub per_try_timeouts: Vec<PerTryTimeout>,
    /// Whether some upstreams may have been missed, for example in an unreadable file. Unknown names are then
    /// not reported.
    pub upstreams_may_be_missing: bool,
    /// Whether a part of some file is missing in its tree.
    pub is_incomplete: bool,
    /// Whether `paths` has an error.
    pub paths_unreliable: bool,
    /// Indexes of the routes whose match may differ from what was intended.
    pub unreliable_routes: HashSet<usize>,
}

/// A `per_try` to be compared with the timeout of the whole exchange.
pub(crate) struct PerTryTimeout {
    pub at: At,
    pub per_try: Duration,
    /// `timeouts.total` of the same upstream or route; `None`: not given there.
    pub total: Option<Option<Duration>>,
}

/// Returns the `per_try` of an upstream or a route.
pub(crate) fn per_try_timeout(
    fields: &Fields<'_>,
    per_try: Option<Duration>,
    total: Option<Option<Duration>>,
) -> Option<PerTryTimeout> {
    let at = fields.get("retry")?.node.entry("per_try")?.at;
    Some(PerTryTimeout { at, per_try: per_try?, total })
}

/// Returns a warning for each `per_try` that is not shorter than the timeout of the whole exchange, and so
/// never takes effect.
pub(crate) fn check_per_try(per_try_timeouts: &[PerTryTimeout], gateway: Option<Duration>) -> Vec<Problem> {
    let vain = per_try_timeouts.iter().filter(|wait| {
        let total = wait.total.unwrap_or(gateway);
        total.is_some_and(|total| wait.per_try >= total)
    });
    vain.map(|wait| {
        let problem =
            Problem::warning(wait.at, "`per_try` has no effect: `timeouts.total` ends the exchange first");
        problem.help("make it shorter than `timeouts.total`, with time for the next attempt")
    })
    .collect()
}
