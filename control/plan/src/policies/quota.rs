//! Compiles `quota`. A quota without a name is named after its key.

use tollgate_config as config;
use tollgate_config::Problem;
use tollgate_policy::{Period, Quota, QuotaRules};

use super::by::by;
use super::cost::{cost, exempt};
use super::redis::redis;
use super::shared::unused;

pub(super) fn quota(quotas: &[config::Quota], problems: &mut Vec<Problem>) -> QuotaRules {
    let mut out: Vec<Quota> = Vec::new();
    for quota in quotas {
        let by = by(&quota.by);
        let taken = |name: &str| out.iter().any(|other| other.name == name);
        out.push(Quota {
            name: quota.name.clone().unwrap_or_else(|| unused(&by.to_string(), taken)),
            limit: quota.limit,
            per: match quota.per {
                config::Period::Day => Period::Day,
                config::Period::Month => Period::Month,
            },
            by,
            cost: cost(&quota.cost, quota.limit),
            exempt: exempt(&quota.exempt),
            scope: quota.scope.clone(),
            keys: quota.keys,
            headers: quota.headers,
            status: quota.status,
            dry_run: quota.dry_run,
            redis: quota.redis.as_ref().map(|rule| redis(rule, problems)),
        });
    }
    QuotaRules { quotas: out }
}
