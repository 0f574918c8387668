//! Compiles `rate_limit`. A limit without a name is named after its key.

use tollgate_config as config;
use tollgate_config::Problem;
use tollgate_policy::{RateLimit, RateLimitRules, SharedRate};

use super::by::by;
use super::cost::{cost, exempt};
use super::redis::redis;
use super::shared::unused;

pub(super) fn rate_limit(limits: &[config::RateLimit], problems: &mut Vec<Problem>) -> RateLimitRules {
    let mut out: Vec<RateLimit> = Vec::new();
    for limit in limits {
        let by = by(&limit.by);
        let name = limit.name.clone();
        let taken = |name: &str| out.iter().any(|other| other.name == name);
        let name = name.unwrap_or_else(|| unused(&by.to_string(), taken));
        out.push(RateLimit {
            name,
            count: limit.rate.count,
            period: limit.rate.period,
            burst: limit.burst,
            by,
            cost: cost(&limit.cost, limit.burst),
            exempt: exempt(&limit.exempt),
            scope: limit.scope.clone(),
            keys: limit.keys,
            headers: limit.headers,
            status: limit.status,
            dry_run: limit.dry_run,
            shared: limit
                .redis
                .as_ref()
                .map(|rule| SharedRate { redis: redis(rule, problems), lease: limit.lease }),
        });
    }
    RateLimitRules { limits: out }
}
