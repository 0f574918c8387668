//! Reads `rate_limit`.

use std::time::Duration;

use super::by::by;
use super::cost::{cost, exempt, scope};
use super::redis;
use super::shared::limit_name;
use crate::model::{Cost, Rate, RateLimit};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{ScalarError, quantity};
use crate::spec::RATE_LIMIT;
use crate::tree::Node;

/// Maximum time for a bucket to fill. A longer one is the business of a quota.
const PERIOD_MAX: Duration = Duration::from_secs(366 * 86_400);

pub(super) fn rate_limit(reader: &mut Reader, field: Field<'_>) -> Option<Vec<RateLimit>> {
    if one_or_many(field.node).is_empty() {
        reader.missing(field.at, "`rate_limit` is an empty list".to_owned(), &field.key.shape);
    }
    let limits = reader.bounded_items(field.node, "`rate_limit`").iter();
    Some(limits.filter_map(|node| limit(reader, node)).collect())
}

fn limit(reader: &mut Reader, node: &Node) -> Option<RateLimit> {
    let fields = reader.fields(node, &RATE_LIMIT)?;
    let by = by(reader, &fields);
    let mut out = RateLimit {
        name: limit_name(reader, &fields),
        rate: Rate { count: 1, period: Duration::from_secs(1) },
        burst: 0,
        by,
        cost: Cost::default(),
        exempt: exempt(reader, &fields),
        scope: scope(reader, &fields),
        keys: RateLimit::KEYS,
        headers: false,
        status: None,
        dry_run: false,
        redis: redis::redis(reader, &fields),
        lease: 1,
    };
    reader.number_into(fields.get("lease"), &mut out.lease);
    if let (Some(field), None) = (fields.get("lease"), fields.get("redis")) {
        let problem = Problem::error(field.at, "`lease` needs `redis`");
        reader.problems.push(problem.help("a limit without `redis` needs no lease"));
    }
    reader.number_into(fields.get("keys"), &mut out.keys);
    reader.number_into(fields.get("burst"), &mut out.burst);
    reader.switch(fields.get("headers"), &mut out.headers);
    out.status = reader.number(fields.get("status")).flatten().and_then(|status| u16::try_from(status).ok());
    reader.switch(fields.get("dry_run"), &mut out.dry_run);
    out.rate = reader.field(fields.get("rate")?, rate)?;
    if out.burst == 0 {
        out.burst = out.rate.count;
    }
    out.cost = cost(reader, &fields, out.burst, "`burst`");
    let full = out.rate.period.as_secs_f64() * out.burst as f64 / out.rate.count as f64;
    if let Some(field) = fields.get("burst").filter(|_| full > PERIOD_MAX.as_secs_f64()) {
        let problem =
            Problem::error(field.node.at, "at this rate the burst takes more than a year to refill");
        reader.problems.push(problem.help("a smaller `burst`, or the policy `quota`"));
    }
    Some(out)
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
