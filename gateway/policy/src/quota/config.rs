//! The settings of `quota`.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate_config::At;
use tollgate_config::section::{Field, Fields, KeySpec, Reader, Section, Shape, Value, Word};

use super::{Period, Quota, QuotaRules};
use crate::Planned;
use crate::counting::{Counting, LIMIT_NAME, limit_name, limits, name_by_key};
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::redis::RedisSettings;

/// The quotas, in the order written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QuotaSettings(Vec<QuotaLimit>);

/// Limits requests per calendar day or month, in UTC. With several quotas, a request must pass every one.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "quota", noun = "`quota`", check = check)]
struct QuotaLimit {
    /// Maximum number of requests.
    #[key(count = 1..=1_000_000_000_000, required, also = ["count", "requests", "max", "amount"])]
    limit: u64,
    /// The period: from midnight to midnight, or from the first of a month to the first of the next, in UTC.
    #[key(required, also = ["period", "interval", "time_window", "window", "unit"])]
    per: PeriodWord,
    #[key(flatten)]
    counting: Counting,
    /// Maximum number of remembered keys; all further keys share one counter.
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
    #[key(default = off, also = ["shadow", "shadow_mode", "enforce", "report_only"])]
    dry_run: bool,
    /// Name that clients see. Default: the key in `by`.
    #[key(text = LIMIT_NAME, parse = limit_name, also = ["id", "policy"])]
    name: Option<String>,
    /// The Redis or Valkey that counts for several gateways.
    #[key(also = ["shared", "store", "valkey", "backend", "storage"])]
    redis: Option<RedisSettings>,
}

/// `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
enum PeriodWord {
    Day,
    Month,
}

impl Value for QuotaSettings {
    const SHAPE: Shape = {
        const ONE: &Shape = &Shape::Section(QuotaLimit::SPEC);
        Shape::OneOrMany(ONE)
    };

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        Some(Self(limits(reader, field)))
    }
}

impl PolicyConfig for QuotaSettings {
    const KEY: KeySpec = policy_key::<Self>("quota", "Limits requests per calendar day or month (429).")
        .aliases(&["quotas", "limit_count"]);

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let mut quotas: Vec<Quota> = Vec::new();
        for quota in &self.0 {
            let counting = &quota.counting;
            let taken = |name: &str| quotas.iter().any(|other| other.name == name);
            quotas.push(Quota {
                name: quota.name.clone().unwrap_or_else(|| name_by_key(&counting.by, taken)),
                limit: quota.limit,
                per: match quota.per {
                    PeriodWord::Day => Period::Day,
                    PeriodWord::Month => Period::Month,
                },
                by: counting.by.clone(),
                cost: counting.cost.compile(quota.limit),
                exempt: counting.exempt.compile(),
                scope: counting.scope.clone(),
                keys: quota.keys,
                headers: quota.headers,
                status: Some(quota.status),
                dry_run: quota.dry_run,
                redis: quota.redis.as_ref().map(|redis| redis.compile(compilation.problems)),
            });
        }
        Arc::new(QuotaRules { quotas })
    }

    fn sockets(&self) -> Vec<(At, PathBuf)> {
        self.0.iter().filter_map(|quota| quota.redis.as_ref()?.socket()).collect()
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, quota: &mut QuotaLimit) {
    quota.counting.cost.check(reader, fields, quota.limit, "`limit`");
}
