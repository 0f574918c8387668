//! How an upstream handles failures: `retry`, `hedge`, `breaker`.

use std::time::Duration;

use crate::model::{GRPC_CODES, Percent};
use crate::scalar::{quantity, status};
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Setting, Shape, Text, Value};
use crate::suggest;
use crate::tree::Scalar;

use super::super::methods::methods;
use super::above;

static METHOD: Text = Text {
    expected: "a method such as `PUT`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
static STATUS: Text = Text {
    expected: "a status such as `503`, or several as `5xx` or `502-504`",
    pattern: Some(r"^[4-5]([0-9]{2}|xx|[0-9]{2}-[4-5][0-9]{2})$"),
    loose: true,
};
static CODE: Text = Text {
    expected: "a gRPC code such as `unavailable`",
    pattern: Some(
        "^(cancelled|unknown|invalid_argument|deadline_exceeded|not_found|already_exists|permission_denied|\
         resource_exhausted|failed_precondition|aborted|out_of_range|unimplemented|internal|unavailable|data_loss|\
         unauthenticated)$",
    ),
    loose: false,
};
static CONDITION: Shape = Shape::AnyOf(&[
    Shape::Word(&["connect_failure", "reset", "timeout"]),
    Shape::Text(&STATUS),
    Shape::Text(&CODE),
]);

/// Names of `retry` in other gateways.
pub(crate) const RETRY_ALSO: &[&str] = &[
    "retries",
    "retry_policy",
    "retry_on",
    "attempts",
    "num_retries",
    "proxy_next_upstream",
    "proxy_next_upstream_tries",
    "proxy_next_upstream_timeout",
];

/// Retry rules. The gateway never retries after it has sent body bytes that it cannot replay, nor after the
/// client has received a part of a response.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(own_forms, check = check_retry)]
pub struct Retry {
    /// Maximum number of attempts, including the first; 1: no retries.
    #[key(
        count = 1..=16, default = 2,
        also = ["tries", "max_attempts", "retries", "num_retries", "count", "max"]
    )]
    pub attempts: u8,
    /// Failures that are retried: no connection could be opened, it broke before the response's head, the
    /// head did not arrive in time, a status, or a gRPC code.
    #[key(
        default = "[connect_failure, reset]",
        also = ["retry_on", "when", "conditions", "status", "statuses", "codes", "retriable_status_codes"]
    )]
    pub on: RetryOn,
    /// Methods that are retried even if the endpoint may have acted on the request. Default: the idempotent
    /// ones. A request of which the endpoint has received nothing may always be retried.
    #[key(
        text = METHOD, list, read = methods,
        also = ["method", "retriable_methods"]
    )]
    pub methods: Vec<String>,
    /// Time from the start of an attempt to its response's head.
    #[key(
        time = "1ms"..="1d", off, default = off,
        also = ["per_try_timeout", "timeout", "try_timeout", "perTryTimeout"]
    )]
    pub per_try: Option<Duration>,
    /// Time from the start of the first attempt after which no other attempt starts.
    #[key(
        time = "1ms"..="1d", off, default = off,
        also = ["proxy_next_upstream_timeout", "retry_timeout", "max_duration", "max_elapsed_time"]
    )]
    pub within: Option<Duration>,
    /// Wait before the first retry; doubled each time, with full jitter.
    #[key(
        time = "1ms"..="1m", default = "25ms",
        also = ["base_interval", "initial_interval", "initialInterval", "delay", "wait"]
    )]
    pub backoff: Duration,
    /// Maximum wait.
    #[key(time = "1ms"..="10m", default = "250ms", also = ["max_interval", "max_backoff"])]
    pub backoff_max: Duration,
    /// Maximum number of retries, as a percentage of the requests of the last 10 s.
    #[key(percent = 0..=100, default = "20%", also = ["retry_budget", "budget_percent", "ratio"])]
    pub budget: Percent,
    /// Retries per second that the budget always allows.
    #[key(
        count = 0..=1_000_000, default = 3,
        also = ["min_retries_per_second", "min_retry_concurrency", "min"]
    )]
    pub budget_min: u32,
}

impl Value for Retry {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Switch, Shape::Section(Retry::SPEC)]);
    const HAS_OFF: bool = true;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        let open = field.node.scalar().filter(|scalar| scalar.written.is_none());
        if let Some(number) = open.and_then(Scalar::number) {
            // A bare number is ambiguous: gateways differ on whether it includes the first attempt.
            let message = format!("`retry: {number}` is ambiguous");
            let problem = Problem::error(field.node.at, message).expected(field.key.shape.expected());
            let all = number.saturating_add(1);
            reader.problems.push(
                problem.help(format!("write `{{attempts: {all}}}` for the first attempt and {number} more")),
            );
            return None;
        }
        match reader.setting(field, Self::SPEC)? {
            Setting::Fields(fields) => Self::read_keys(reader, &fields),
            Setting::On => Some(Self::default()),
            Setting::Off => Some(Self { attempts: 1, ..Self::default() }),
        }
    }
}

fn check_retry(reader: &mut Reader, fields: &Fields<'_>, retry: &mut Retry) {
    if retry.backoff > retry.backoff_max {
        above(reader, fields, "backoff", "backoff_max");
    }
    idle(reader, fields, retry);
}

/// Warns of settings without effect because no request is retried.
fn idle(reader: &mut Reader, fields: &Fields<'_>, retry: &Retry) {
    if retry.attempts == 1 {
        // Not `methods`: they also apply to a request that was sent on a stale idle connection.
        let given = ["on", "within", "backoff", "backoff_max", "budget", "budget_min"];
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

/// The failures after which a request is retried (`on: [connect_failure, reset, timeout, 502, 503]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOn {
    /// No connection could be opened (`connect_failure`). Default true.
    pub connect_failure: bool,
    /// The connection broke before a response's head (`reset`). Default true.
    pub reset: bool,
    /// The response's head did not arrive in time (`timeout`). Default false.
    pub timeout: bool,
    /// Statuses, sorted (`502`, `5xx`). Default none.
    pub statuses: Vec<u16>,
    /// `grpc-status` of a response without a message, sorted (`unavailable` is 14). Default none.
    pub grpc: Vec<u8>,
}

impl Default for RetryOn {
    fn default() -> Self {
        Self { connect_failure: true, reset: true, timeout: false, statuses: Vec::new(), grpc: Vec::new() }
    }
}

impl Value for RetryOn {
    const SHAPE: Shape = Shape::OneOrMany(&CONDITION);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        let mut out = RetryOn { connect_failure: false, reset: false, ..RetryOn::default() };
        let items = reader.bounded_items(field.node, "`on`");
        if items.is_empty() {
            let problem =
                Problem::error(field.node.at, "`on` is an empty list").expected(CONDITION.expected());
            reader.problems.push(problem.help("write `retry: off` for no retries"));
        }
        for item in items {
            match reader.parsed(item, "a condition", &CONDITION, condition) {
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
        Some(out)
    }
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

/// A second attempt at another endpoint while the first has not responded; the first response wins. Only for
/// requests that have arrived completely, and within the retry budget.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(own_forms)]
pub struct Hedge {
    /// Time to the first attempt's response head after which the second attempt starts.
    #[key(time = "1ms"..="1h", required, also = ["delay", "timeout", "wait"])]
    pub after: Duration,
    /// Methods whose requests may reach two endpoints at a time. Default: the safe ones (GET, HEAD, OPTIONS,
    /// TRACE).
    #[key(
        text = METHOD, list, read = methods,
        also = ["method"]
    )]
    pub methods: Vec<String>,
}

/// The short form of `hedge`.
const HEDGE_AFTER: Shape = Hedge::KEYS[0].shape;

impl Value for Hedge {
    const SHAPE: Shape = Shape::AnyOf(&[HEDGE_AFTER, Shape::Off, Shape::Section(Hedge::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        let switch = field.node.scalar().and_then(Scalar::switch);
        let Shape::Time { min, max, .. } = HEDGE_AFTER else { return None };
        let after = reader.field(field, |text| match switch {
            Some(_) => Err(ScalarError::new("{} is not a time: write the delay of the second attempt")),
            None => quantity::time(text, min, max),
        })?;
        Some(Self { after, methods: Vec::new() })
    }
}

/// A circuit breaker. It opens if too large a share of calls fails or is slow; requests then get 503 at once,
/// and after a time a few calls probe the upstream. The mapping itself switches it on.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(switch, check = check_slow)]
pub struct Breaker {
    /// Percentage of failed calls (no answer, or 5xx) at which it opens.
    #[key(
        percent = 1..=100, default = "50%",
        also = ["failure_rate", "failure_rate_threshold", "error_rate", "errors", "threshold"]
    )]
    pub failures: Percent,
    /// Percentage of slow calls at which it opens.
    #[key(
        percent = 1..=100, default = "100%", also = ["slow_rate", "slow_call_rate_threshold", "slow_calls"]
    )]
    pub slow: Percent,
    /// Time to the response's head from which a call counts as slow.
    #[key(
        time = "1ms"..="1h", off, default = off,
        also = ["slow_call_duration_threshold", "slow_call", "latency"]
    )]
    pub slow_after: Option<Duration>,
    /// The time over which calls are counted.
    #[key(time = "100ms"..="1h", default = "10s", also = ["sliding_window_size", "interval", "check_period"])]
    pub window: Duration,
    /// Minimum number of calls in the window for it to open.
    #[key(
        count = 1..=1_000_000, default = 20,
        also = ["min_calls", "minimum_number_of_calls", "min_requests", "request_volume"]
    )]
    pub minimum: u32,
    /// How long it stays open before it admits probe calls.
    #[key(
        time = "1ms"..="1h", default = "5s",
        also = ["wait_duration_in_open_state", "open_for", "sleep_window", "fallback_duration", "timeout"]
    )]
    pub open: Duration,
    /// Number of probe calls. It closes if their ratios are good, and otherwise opens again.
    #[key(
        count = 1..=1000, default = 3,
        also = ["half_open", "permitted_number_of_calls_in_half_open_state", "trials", "recovery"]
    )]
    pub probes: u32,
}

fn check_slow(reader: &mut Reader, fields: &Fields<'_>, breaker: &mut Breaker) {
    if let Some(field) = fields.get("slow").filter(|_| breaker.slow_after.is_none()) {
        let problem = Problem::warning(field.at, "`slow` has no effect without `slow_after`");
        reader.problems.push(problem.help("define slow calls: `slow_after: 1s`"));
    }
}
