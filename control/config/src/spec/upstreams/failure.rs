//! The keys of failure handling: `retry`, `hedge`, `breaker`.

use std::time::Duration;

use super::super::{Choice, KeySpec, SectionSpec, Shape, Text};

/// Names of `retry` in other gateways.
pub(crate) const RETRY_ALSO: &[&str] = &[
    "retries",
    "retry_policy",
    "retry_on",
    "attempts",
    "num_retries",
    "proxy_next_upstream",
    "proxy_next_upstream_tries",
];

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

static METHOD_SHAPE: Shape = Shape::Text(&METHOD);
static ON_SHAPE: Shape = Shape::AnyOf(&[
    Shape::Word(&["connect_failure", "reset", "timeout"]),
    Shape::Text(&STATUS),
    Shape::Text(&CODE),
]);

pub(crate) static RETRY: SectionSpec = SectionSpec {
    name: "retry",
    noun: "`retry`",
    doc: "Retry rules. The gateway never retries after it has sent body bytes that it cannot replay, nor \
          after the client has received a part of a response.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "attempts",
            "Maximum number of attempts, including the first; 1: no retries.",
            Shape::Count { min: 1, max: 16, off: false },
        )
        .default("2")
        .aliases(&["tries", "max_attempts", "retries", "num_retries", "count", "max"]),
        KeySpec::new(
            "on",
            "Failures that are retried: no connection could be opened, it broke before the response's head, \
            the head did not arrive in time, a status, or a gRPC code.",
            Shape::OneOrMany(&ON_SHAPE),
        )
        .default("[connect_failure, reset]")
        .aliases(&[
            "retry_on",
            "when",
            "conditions",
            "status",
            "statuses",
            "codes",
            "retriable_status_codes",
        ]),
        KeySpec::new(
            "methods",
            "Methods that are retried even if the endpoint may have acted on the request. Default: the \
            idempotent ones. A request of which the endpoint has received nothing may always be retried.",
            Shape::OneOrMany(&METHOD_SHAPE),
        )
        .aliases(&["method", "retriable_methods"]),
        KeySpec::new(
            "per_try",
            "Time from the start of an attempt to its response's head.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(86_400), off: true },
        )
        .default("off")
        .aliases(&["per_try_timeout", "timeout", "try_timeout", "perTryTimeout"]),
        KeySpec::new(
            "backoff",
            "Wait before the first retry; doubled each time, with full jitter.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(60), off: false },
        )
        .default("25ms")
        .aliases(&["base_interval", "initial_interval", "initialInterval", "delay", "wait"]),
        KeySpec::new(
            "backoff_max",
            "Maximum wait.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(600), off: false },
        )
        .default("250ms")
        .aliases(&["max_interval", "max_backoff"]),
        KeySpec::new(
            "budget",
            "Maximum number of retries, as a percentage of the requests of the last 10 s.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("20%")
        .aliases(&["retry_budget", "budget_percent", "ratio"]),
        KeySpec::new(
            "budget_min",
            "Retries per second that the budget always allows.",
            Shape::Count { min: 0, max: 1_000_000, off: false },
        )
        .default("3")
        .aliases(&["min_retries_per_second", "min_retry_concurrency", "min"]),
    ],
};

/// The short form of `hedge`.
pub(crate) const HEDGE_AFTER: Shape =
    Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(3600), off: false };

pub(crate) static HEDGE: SectionSpec = SectionSpec {
    name: "hedge",
    noun: "`hedge`",
    doc: "A second attempt at another endpoint while the first has not responded; the first response wins. \
          Only for requests that have arrived completely, and within the retry budget.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "after",
            "Time to the first attempt's response head after which the second attempt starts.",
            HEDGE_AFTER,
        )
        .required()
        .aliases(&["delay", "timeout", "wait"]),
        KeySpec::new(
            "methods",
            "Methods whose requests may reach two endpoints at a time. Default: the safe ones (GET, HEAD, \
            OPTIONS, TRACE).",
            Shape::OneOrMany(&METHOD_SHAPE),
        )
        .aliases(&["method"]),
    ],
};

pub(crate) static BREAKER: SectionSpec = SectionSpec {
    name: "breaker",
    noun: "`breaker`",
    doc: "A circuit breaker. It opens if too large a share of calls fails or is slow; requests then get 503 \
          at once, and after a time a few calls probe the upstream. The mapping itself switches it on.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "failures",
            "Percentage of failed calls (no answer, or 5xx) at which it opens.",
            Shape::Percent { min: 1, max: 100, off: false },
        )
        .default("50%")
        .aliases(&["failure_rate", "failure_rate_threshold", "error_rate", "errors", "threshold"]),
        KeySpec::new(
            "slow",
            "Percentage of slow calls at which it opens.",
            Shape::Percent { min: 1, max: 100, off: false },
        )
        .default("100%")
        .aliases(&["slow_rate", "slow_call_rate_threshold", "slow_calls"]),
        KeySpec::new(
            "slow_after",
            "Time to the response's head from which a call counts as slow.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(3600), off: true },
        )
        .default("off")
        .aliases(&["slow_call_duration_threshold", "slow_call", "latency"]),
        KeySpec::new(
            "window",
            "The time over which calls are counted.",
            Shape::Time { min: Duration::from_millis(100), max: Duration::from_secs(3600), off: false },
        )
        .default("10s")
        .aliases(&["sliding_window_size", "interval", "check_period"]),
        KeySpec::new(
            "minimum",
            "Minimum number of calls in the window for it to open.",
            Shape::Count { min: 1, max: 1_000_000, off: false },
        )
        .default("20")
        .aliases(&["min_calls", "minimum_number_of_calls", "min_requests", "request_volume"]),
        KeySpec::new(
            "open",
            "How long it stays open before it admits probe calls.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(3600), off: false },
        )
        .default("5s")
        .aliases(&[
            "wait_duration_in_open_state",
            "open_for",
            "sleep_window",
            "fallback_duration",
            "timeout",
        ]),
        KeySpec::new(
            "probes",
            "Number of probe calls. It closes if their ratios are good, and otherwise opens again.",
            Shape::Count { min: 1, max: 1000, off: false },
        )
        .default("3")
        .aliases(&[
            "half_open",
            "permitted_number_of_calls_in_half_open_state",
            "trials",
            "recovery",
        ]),
    ],
};
