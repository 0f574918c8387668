//! Reads `limits`, `queue`, `adaptive` and `pool`.

use crate::model::{Adaptive, Caps, Pool, Queue};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::spec::{ADAPTIVE, POOL, QUEUE, UPSTREAM_LIMITS};

pub(super) fn pool(reader: &mut Reader, field: Field<'_>) -> Pool {
    let mut out = Pool::default();
    let Some(fields) = reader.fields(field.node, &POOL) else { return out };
    reader.number_into(fields.get("max_idle"), &mut out.max_idle);
    reader.duration_into(fields.get("idle_timeout"), &mut out.idle_timeout);
    reader.optional_into(fields.get("max_requests"), &mut out.max_requests);
    reader.duration_into(fields.get("max_age"), &mut out.max_age);
    reader.number_into(fields.get("warm"), &mut out.warm);
    if let Some(field) = fields.get("warm").filter(|_| out.warm > out.max_idle) {
        let problem = Problem::warning(field.at, "`warm` is above `max_idle`");
        let problem = problem.help("raise `max_idle`, or lower `warm`");
        let most = fields.get("max_idle").map(|most| (most.at, "`max_idle` is here"));
        reader.problems.push(match most {
            Some((at, why)) => problem.related(at, why),
            None => problem,
        });
    }
    out
}

pub(super) fn caps(reader: &mut Reader, field: Field<'_>) -> Caps {
    let mut out = Caps::default();
    let Some(fields) = reader.fields(field.node, &UPSTREAM_LIMITS) else { return out };
    reader.optional_into(fields.get("connections"), &mut out.connections);
    reader.optional_into(fields.get("endpoint_connections"), &mut out.endpoint_connections);
    reader.optional_into(fields.get("requests"), &mut out.requests);
    reader.optional_into(fields.get("retries"), &mut out.retries);
    if let (Some(all), Some(one)) = (out.connections, out.endpoint_connections)
        && one > all
        && let (Some(all), Some(one)) = (fields.get("connections"), fields.get("endpoint_connections"))
    {
        let problem = Problem::warning(one.at, "`endpoint_connections` is above `connections`");
        reader.problems.push(
            problem
                .help("`connections` is reached first, so this limit has no effect")
                .related(all.at, "`connections` is here"),
        );
    }
    out
}

pub(super) fn queue(reader: &mut Reader, field: Field<'_>) -> Queue {
    let mut out = Queue::default();
    let Some(setting) = reader.setting(field, &QUEUE) else { return out };
    if !setting.on() {
        out.size = 0;
    }
    if let Some(fields) = setting.fields() {
        reader.number_into(fields.get("size"), &mut out.size);
        reader.time_into(fields.get("timeout"), &mut out.timeout);
    }
    out
}

pub(super) fn adaptive(reader: &mut Reader, field: Field<'_>) -> Option<Adaptive> {
    let setting = reader.setting(field, &ADAPTIVE)?;
    let mut out = setting.on().then(Adaptive::default)?;
    let Some(fields) = setting.fields() else { return Some(out) };
    reader.number_into(fields.get("min"), &mut out.min);
    reader.number_into(fields.get("max"), &mut out.max);
    reader.time_into(fields.get("interval"), &mut out.interval);
    reader.time_into(fields.get("probe"), &mut out.probe);
    reader.number_into(fields.get("tolerance"), &mut out.tolerance);
    if out.min > out.max {
        above(reader, fields, "min", "max");
    }
    if out.interval > out.probe {
        above(reader, fields, "interval", "probe");
    }
    Some(out)
}

/// Reports a lower bound that exceeds its upper bound; either may be a default. The message does not repeat
/// the values, because one may come from a variable.
pub(super) fn above(reader: &mut Reader, fields: &Fields<'_>, low: &str, high: &str) {
    let (one, other) = (fields.get(low), fields.get(high));
    let Some(at) = one.or(other).map(|field| field.node.at) else { return };
    let problem = Problem::error(at, format!("`{low}` is above `{high}`"));
    let default = |name: &str| {
        let default = fields.key(name).and_then(|key| key.default).unwrap_or_default();
        format!("`{name}` was not given: its default is `{default}`")
    };
    reader.problems.push(match (one, other) {
        (Some(_), Some(other)) => problem.related(other.at, format!("`{high}` is here")),
        (Some(_), None) => problem.help(default(high)),
        (None, _) => problem.help(default(low)),
    });
}
