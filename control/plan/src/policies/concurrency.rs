//! Compiles `concurrency`.

use tollgate_config as config;
use tollgate_policy::{Concurrency, ConcurrencyRules};

use super::by::by;
use super::cost::{cost, exempt};

pub(super) fn concurrency(limits: &[config::Concurrency]) -> ConcurrencyRules {
    let one = |limit: &config::Concurrency| Concurrency {
        limit: limit.limit,
        by: by(&limit.by),
        cost: cost(&limit.cost, limit.limit),
        exempt: exempt(&limit.exempt),
        scope: limit.scope.clone(),
        status: limit.status,
        dry_run: limit.dry_run,
    };
    ConcurrencyRules { limits: limits.iter().map(one).collect() }
}
