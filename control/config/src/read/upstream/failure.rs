//! Reads `retry`, `hedge` and `breaker`.

use std::time::Duration;

use crate::model::{Breaker, GRPC_CODES, Hedge, Retry, RetryOn};
use crate::problem::Problem;
use crate::read::draft::PerTryTimeout;
use crate::read::matching;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{ScalarError, quantity, status};
use crate::sections::above;
use crate::spec::{BREAKER, HEDGE, HEDGE_AFTER, RETRY, Shape};
use crate::suggest;
use crate::tree::{NodeKind, Scalar};

/// Reads `retry` of an upstream or a route.
pub(in crate::read) fn retry(reader: &mut Reader, field: Field<'_>) -> Retry {
    let mut out = Retry::default();
    let open = field.node.scalar().filter(|scalar| scalar.written.is_none());
    if let Some(number) = open.and_then(Scalar::number) {
        // A bare number is ambiguous: gateways differ on whether it includes the first attempt.
        let message = format!("`retry: {number}` is ambiguous");
        let problem = Problem::error(field.node.at, message).expected(field.key.shape.expected());
        let all = number.saturating_add(1);
        reader.problems.push(
            problem.help(format!("write `{{attempts: {all}}}` for the first attempt and {number} more")),
        );
        return out;
    }
    let Some(setting) = reader.setting(field, &RETRY) else { return out };
    if !setting.on() {
        out.attempts = 1;
    }
    let Some(fields) = setting.fields() else { return out };
    reader.number_into(fields.get("attempts"), &mut out.attempts);
    if let Some(field) = fields.get("on") {
        out.on = on(reader, field);
    }
    if let Some(field) = fields.get("methods") {
        out.methods = matching::methods(reader, field);
    }
    reader.duration_into(fields.get("per_try"), &mut out.per_try);
    reader.time_into(fields.get("backoff"), &mut out.backoff);
    reader.time_into(fields.get("backoff_max"), &mut out.backoff_max);
    reader.number_into(fields.get("budget"), &mut out.budget);
    reader.number_into(fields.get("budget_min"), &mut out.budget_min);
    if out.backoff > out.backoff_max {
        above(reader, fields, "backoff", "backoff_max");
    }
    idle(reader, fields, &out);
    out
}

/// Warns of settings without effect because no request is retried.
fn idle(reader: &mut Reader, fields: &Fields<'_>, retry: &Retry) {
    if retry.attempts == 1 {
        // Not `methods`: they also apply to a request that was sent on a stale idle connection.
        let given = ["on", "backoff", "backoff_max", "budget", "budget_min"];
        if let Some(field) = given.iter().find_map(|name| fields.get(name)) {
            let message = format!("`{}` has no effect with one attempt", field.key.name);
            let problem = Problem::warning(field.at, message).help("`attempts` includes the first one");
            let attempts = fields.get("attempts").map(|attempts| attempts.at);
            reader.problems.push(problem.related(attempts.unwrap_or(field.at), "one attempt"));
        }
    } else if retry.budget.is_zero() && retry.budget_min == 0 {
        let at = fields.get("budget").or_else(|| fields.get("budget_min")).map(|field| field.at);
        let problem = Problem::warning(at.unwrap_or_default(), "this budget allows no retries");
        reader.problems.push(problem.help("write `retry: off` if that is intended"));
    }
}

/// A single retry condition.
enum RetryCondition {
    ConnectFailure,
    Reset,
    Timeout,
    Statuses(u16, u16),
    Grpc(u8),
}

fn on(reader: &mut Reader, field: Field<'_>) -> RetryOn {
    let mut out = RetryOn { connect_failure: false, reset: false, ..RetryOn::default() };
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let items = reader.bounded_items(field.node, "`on`");
    if items.is_empty() {
        let problem = Problem::error(field.node.at, "`on` is an empty list").expected(one.expected());
        reader.problems.push(problem.help("write `retry: off` for no retries"));
    }
    for item in items {
        match reader.parsed(item, "a condition", one, condition) {
            None => {}
            Some(RetryCondition::ConnectFailure) => out.connect_failure = true,
            Some(RetryCondition::Reset) => out.reset = true,
            Some(RetryCondition::Timeout) => out.timeout = true,
            Some(RetryCondition::Statuses(first, last)) => out.statuses.extend(first..=last),
            Some(RetryCondition::Grpc(code)) => out.grpc.push(code),
        }
    }
    out.grpc.sort_unstable();
    out.grpc.dedup();
    out.statuses.sort_unstable();
    out.statuses.dedup();
    out
}

fn condition(text: &str) -> Result<RetryCondition, ScalarError> {
    let plain = text.to_ascii_lowercase().replace('-', "_");
    let no = || ScalarError::new("{} is not a retry condition");
    match plain.as_str() {
        "connect_failure" if text == plain => Ok(RetryCondition::ConnectFailure),
        "reset" => Ok(RetryCondition::Reset),
        "timeout" => Ok(RetryCondition::Timeout),
        "gateway_error" | "gateway_errors" => Err(no().help("write `502, 503, 504`")),
        "error" | "connection_error" => Err(no().help("write `connect_failure, reset`")),
        "connect" | "conn_failure" | "refused" => Err(no().help("write `connect_failure`")),
        "refused_stream" | "reset_before_request" | "connection_reset" => Err(no().help("write `reset`")),
        "retriable_4xx" => Err(no().help("write `409`")),
        "non_idempotent" => Err(no().help("name the methods: `methods: [POST]`")),
        "server_error" => Err(no().help("write `5xx`")),
        "ok" => Err(no().help("a successful call is not retried")),
        "canceled" => Err(no().suggest("did you mean `cancelled`?".to_owned())),
        _ if let Some(at) = GRPC_CODES.iter().position(|code| *code == text) => {
            Ok(RetryCondition::Grpc(at as u8 + 1))
        }
        _ if text.starts_with("http_") => {
            Err(no().suggest(format!("write `{}`", text.trim_start_matches("http_"))))
        }
        _ if text.starts_with(|c: char| c.is_ascii_digit()) => {
            let (first, last) = status::range(text)?;
            if first < 400 || last > 599 {
                return Err(
                    ScalarError::new("{} is not a failure").help("statuses from 400 to 599 can be retried")
                );
            }
            Ok(RetryCondition::Statuses(first, last))
        }
        _ => Err(
            match suggest::nearest(
                &plain,
                ["connect_failure", "reset", "timeout"].into_iter().chain(GRPC_CODES),
            ) {
                Some(near) => no().suggest(format!("did you mean `{near}`?")),
                None => no(),
            },
        ),
    }
}

pub(super) fn hedge(reader: &mut Reader, field: Field<'_>) -> Option<Hedge> {
    if matches!(field.node.kind, NodeKind::Map(_)) {
        let fields = reader.fields(field.node, &HEDGE)?;
        let mut after = Duration::ZERO;
        reader.time_into(fields.get("after"), &mut after);
        let methods = fields.get("methods").map(|field| matching::methods(reader, field));
        return Some(Hedge { after, methods: methods.unwrap_or_default() });
    }
    let switch = field.node.scalar().and_then(Scalar::switch);
    if switch == Some(false) {
        return None;
    }
    let Shape::Time { min, max, .. } = HEDGE_AFTER else { return None };
    let after = reader.field(field, |text| match switch {
        Some(_) => Err(ScalarError::new("{} is not a time: write the delay of the second attempt")),
        None => quantity::time(text, min, max),
    })?;
    Some(Hedge { after, methods: Vec::new() })
}

pub(super) fn breaker(reader: &mut Reader, field: Field<'_>) -> Option<Breaker> {
    let setting = reader.setting(field, &BREAKER)?;
    let mut out = setting.on().then(Breaker::default)?;
    let Some(fields) = setting.fields() else { return Some(out) };
    reader.number_into(fields.get("failures"), &mut out.failures);
    reader.number_into(fields.get("slow"), &mut out.slow);
    reader.duration_into(fields.get("slow_after"), &mut out.slow_after);
    reader.time_into(fields.get("window"), &mut out.window);
    reader.number_into(fields.get("minimum"), &mut out.minimum);
    reader.time_into(fields.get("open"), &mut out.open);
    reader.number_into(fields.get("probes"), &mut out.probes);
    if let Some(field) = fields.get("slow").filter(|_| out.slow_after.is_none()) {
        let problem = Problem::warning(field.at, "`slow` has no effect without `slow_after`");
        reader.problems.push(problem.help("define slow calls: `slow_after: 1s`"));
    }
    Some(out)
}

/// Returns the `per_try` of an upstream or a route.
pub(in crate::read) fn wait(
    fields: &Fields<'_>,
    per_try: Option<Duration>,
    total: Option<Option<Duration>>,
) -> Option<PerTryTimeout> {
    let at = fields.get("retry")?.node.entry("per_try")?.at;
    Some(PerTryTimeout { at, per_try: per_try?, total })
}

/// Returns a warning for each `per_try` that is not shorter than the timeout of the whole exchange, and so
/// never takes effect.
pub(crate) fn check_per_try(per_try_timeouts: &[PerTryTimeout], gateway: Option<Duration>) -> Vec<Problem> {
    let vain = per_try_timeouts.iter().filter(|wait| {
        let total = wait.total.unwrap_or(gateway);
        total.is_some_and(|total| wait.per_try >= total)
    });
    vain.map(|wait| {
        let problem =
            Problem::warning(wait.at, "`per_try` has no effect: `timeouts.total` ends the exchange first");
        problem.help("make it shorter than `timeouts.total`, with time for the next attempt")
    })
    .collect()
}
