//! `concurrency`.

use tollgate_config as config;
use tollgate_policy::{Concurrency, ConcurrencyRules};

use super::by::by;

pub(super) fn concurrency(limits: &[config::Concurrency]) -> ConcurrencyRules {
    let one = |limit: &config::Concurrency| Concurrency {
        limit: limit.limit,
        by: by(&limit.by),
        dry_run: limit.dry_run,
    };
    ConcurrencyRules { limits: limits.iter().map(one).collect() }
}
