//! `rate_limit`.

use tollgate_config as config;
use tollgate_policy::{RateLimit, RateLimitRules, SharedRate};

use super::by::by;
use super::redis::redis;

pub(super) fn rate_limit(limits: &[config::RateLimit]) -> RateLimitRules {
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
            keys: limit.keys,
            headers: limit.headers,
            dry_run: limit.dry_run,
            shared: limit.redis.as_ref().map(|rule| SharedRate { redis: redis(rule), lease: limit.lease }),
        });
    }
    RateLimitRules { limits: out }
}

/// A name that is not taken. What cannot stand in the field that tells it is left out.
pub(super) fn unused(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let fits = |c: &char| c.is_ascii_graphic() && !"\"\\".contains(*c) || *c == ' ';
    let name: String = name.chars().filter(fits).collect();
    let numbered = (2..).map(|number| format!("{name} {number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(name)
}
