//! The settings of `concurrency`.

use std::sync::Arc;

use tollgate_config::section::{Field, Fields, KeySpec, Problem, Reader, Section, Shape, Value};

use super::{Concurrency, ConcurrencyRules};
use crate::Planned;
use crate::counting::{Counting, limits};
use crate::policy_config::{Compilation, PolicyConfig, policy_key};

/// The limits, in the order written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConcurrencySettings(Vec<ConcurrencyLimit>);

/// Limits concurrent requests, each from its head to the end of its response. With several limits, a request must
/// pass every one.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "concurrency", noun = "`concurrency`", check = check)]
struct ConcurrencyLimit {
    /// Maximum number of requests.
    #[key(
        count = 1..=1_000_000_000, required,
        also = ["amount", "max", "conn", "connections", "requests", "count"],
    )]
    limit: u64,
    #[key(flatten)]
    counting: Counting,
    /// Status of rejected requests.
    #[key(
        count = 400..=599, default = 429,
        also = ["rejected_code", "limit_req_status", "limit_conn_status", "deny_status", "status_code"],
    )]
    status: u16,
    /// Whether the limit rejects nothing and only logs what it would reject.
    #[key(default = off, also = ["shadow", "shadow_mode", "enforce", "report_only"])]
    dry_run: bool,
}

impl Value for ConcurrencySettings {
    const SHAPE: Shape = {
        const ONE: &Shape = &Shape::Section(ConcurrencyLimit::SPEC);
        Shape::OneOrMany(ONE)
    };

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        Some(Self(limits(reader, field)))
    }
}

impl PolicyConfig for ConcurrencySettings {
    const KEY: KeySpec = policy_key::<Self>("concurrency", "Limits concurrent requests (429).").aliases(&[
        "in_flight_req",
        "inFlightReq",
        "limit_conn",
        "limit-conn",
        "max_concurrent_requests",
    ]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let one = |limit: &ConcurrencyLimit| Concurrency {
            limit: limit.limit,
            by: limit.counting.by.clone(),
            cost: limit.counting.cost.compile(limit.limit),
            exempt: limit.counting.exempt.compile(),
            scope: limit.counting.scope.clone(),
            status: Some(limit.status),
            dry_run: limit.dry_run,
        };
        Arc::new(ConcurrencyRules { limits: self.0.iter().map(one).collect() })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, limit: &mut ConcurrencyLimit) {
    limit.counting.cost.check(reader, fields, limit.limit, "`limit`");
    if let (Some(field), true) = (fields.get("cost"), limit.counting.cost.is_from_response()) {
        let problem =
            Problem::error(field.at, "the cost of a concurrent request must be known when it starts");
        reader.problems.push(problem.help("`response_header` is for `rate_limit` and `quota`"));
    }
}
