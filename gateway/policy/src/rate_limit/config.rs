//! The settings of `rate_limit`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_config::At;
use tollgate_config::section::{
    Field, Fields, KeySpec, Problem, Reader, ScalarError, Section, Shape, Value, quantity,
};

use super::{RateLimit, RateLimitRules, SharedRate};
use crate::Planned;
use crate::counting::{Counting, LIMIT_NAME, limit_name, limits, name_by_key};
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::redis::RedisSettings;

/// Maximum time for a bucket to fill. A longer one is the business of a quota.
const PERIOD_MAX: Duration = Duration::from_secs(366 * 86_400);

/// The limits, in the order written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RateLimitSettings(Vec<RateLimitEntry>);

/// Limits requests per period. With several limits, a request must pass every one.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "rate_limit", noun = "`rate_limit`", check = check)]
struct RateLimitEntry {
    /// Number of requests per period, spread evenly.
    #[key(
        expected = "a rate such as `1000/s`, `60/m`, `500/h`, `10000/d` or `100/30s`",
        pattern = r"^[1-9][0-9]*/([1-9][0-9]*)?[smhd]$", parse = rate, required,
        also = [
            "limit", "average", "requests", "rps", "requests_per_second", "count", "per", "period", "unit",
        ],
    )]
    rate: Rate,
    /// Requests admitted at once after a pause. Default: the count of `rate`.
    #[key(count = 1..=1_000_000_000, also = ["max_tokens", "bucket_size", "capacity"])]
    burst: Option<u64>,
    #[key(flatten)]
    counting: Counting,
    /// Maximum number of remembered keys; all further keys share buckets.
    #[key(count = 64..=100_000_000, default = 100_000, also = ["max_keys", "size", "entries"])]
    keys: usize,
    /// Whether every response has the `RateLimit` fields, not only the 429.
    #[key(default = off, also = ["rate_limit_headers", "fields"])]
    headers: bool,
    /// Status of rejected requests.
    #[key(
        count = 400..=599, default = 429,
        also = ["rejected_code", "limit_req_status", "limit_conn_status", "deny_status", "status_code"],
    )]
    status: u16,
    /// Whether the limit rejects nothing and only logs what it would reject.
    #[key(
        default = off, also = ["shadow", "shadow_mode", "limit_req_dry_run", "enforce", "report_only"],
    )]
    dry_run: bool,
    /// Name that clients see. Default: the key in `by`.
    #[key(text = LIMIT_NAME, parse = limit_name, also = ["id", "policy"])]
    name: Option<String>,
    /// The Redis or Valkey that lets several gateways share the limit.
    #[key(also = ["shared", "store", "valkey", "backend", "storage", "policy_redis", "global"])]
    redis: Option<RedisSettings>,
    /// With `redis`: permits that a gateway takes at once and spends within a second; 1: it asks for each request.
    #[key(count = 1..=100_000, default = 1, also = ["batch", "batch_size", "sync_rate", "chunk"])]
    lease: u32,
}

/// Requests per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    /// At least 1.
    count: u64,
    period: Duration,
}

impl RateLimitEntry {
    fn burst(&self) -> u64 {
        self.burst.unwrap_or(self.rate.count)
    }
}

impl Value for RateLimitSettings {
    const SHAPE: Shape = {
        const ONE: &Shape = &Shape::Section(RateLimitEntry::SPEC);
        Shape::OneOrMany(ONE)
    };

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        Some(Self(limits(reader, field)))
    }
}

impl PolicyConfig for RateLimitSettings {
    const KEY: KeySpec = policy_key::<Self>("rate_limit", "Limits requests per period (429).").aliases(&[
        "ratelimit",
        "rate_limits",
        "limit_req",
        "rate-limiting",
        "throttle",
        "local_rate_limit",
        "limits",
    ]);

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let mut limits: Vec<RateLimit> = Vec::new();
        for limit in &self.0 {
            let counting = &limit.counting;
            let taken = |name: &str| limits.iter().any(|other| other.name == name);
            limits.push(RateLimit {
                name: limit.name.clone().unwrap_or_else(|| name_by_key(&counting.by, taken)),
                count: limit.rate.count,
                period: limit.rate.period,
                burst: limit.burst(),
                by: counting.by.clone(),
                cost: counting.cost.compile(limit.burst()),
                exempt: counting.exempt.compile(),
                scope: counting.scope.clone(),
                keys: limit.keys,
                headers: limit.headers,
                status: Some(limit.status),
                dry_run: limit.dry_run,
                shared: limit.redis.as_ref().map(|redis| SharedRate {
                    redis: redis.compile(compilation.problems),
                    lease: limit.lease,
                }),
            });
        }
        Arc::new(RateLimitRules { limits })
    }

    fn sockets(&self) -> Vec<(At, PathBuf)> {
        self.0.iter().filter_map(|limit| limit.redis.as_ref()?.socket()).collect()
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, limit: &mut RateLimitEntry) {
    if let (Some(field), None) = (fields.get("lease"), fields.get("redis")) {
        let problem = Problem::error(field.at, "`lease` needs `redis`");
        reader.problems.push(problem.help("a limit without `redis` needs no lease"));
    }
    limit.counting.cost.check(reader, fields, limit.burst(), "`burst`");
    let full = limit.rate.period.as_secs_f64() * limit.burst() as f64 / limit.rate.count as f64;
    if let Some(field) = fields.get("burst").filter(|_| full > PERIOD_MAX.as_secs_f64()) {
        let problem =
            Problem::error(field.node.at, "at this rate the burst takes more than a year to refill");
        reader.problems.push(problem.help("a smaller `burst`, or the policy `quota`"));
    }
}

/// Parses `1000/s`.
fn rate(text: &str) -> Result<Rate, ScalarError> {
    let Some((count, unit)) = text.split_once('/') else {
        let number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let fault = ScalarError::new("{} is not a rate");
        return Err(if number { fault.suggest(format!("write `{text}/s` for each second")) } else { fault });
    };
    let (count, unit) = (count.trim_end(), unit.trim_start());
    // `100/30s`: a whole number of units.
    let digits = unit.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let (number, unit) = unit.split_at(digits);
    let number = if number.is_empty() { 1 } else { quantity::count(number, 1, PERIOD_MAX.as_secs())? };
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "sec" | "second" | "minute" | "min" | "hour" | "day" => {
            let letter = &unit[..1];
            return Err(ScalarError::new("{} is not a rate").suggest(format!("write `{count}/{letter}`")));
        }
        _ => return Err(ScalarError::new("{} is not a rate").help("the units are `s`, `m`, `h` and `d`")),
    };
    let period = Duration::from_secs(number.saturating_mul(seconds));
    if period > PERIOD_MAX {
        return Err(ScalarError::new("{} is more than a year"));
    }
    Ok(Rate { count: quantity::count(count, 1, 10_000_000)?, period })
}
