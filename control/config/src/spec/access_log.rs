//! The keys of access logs.

use std::time::Duration;

use super::{Choice, KeySpec, SectionSpec, Shape, Text};
use crate::section::Value;
use crate::sections::Collector;

static LOG_TARGET: Text = Text {
    expected: "`stdout`, the path of a file such as `/var/log/tollgate/access.log`, or a syslog server such as \
               `syslog+udp://127.0.0.1:514`, `syslog+tcp://127.0.0.1:601` or `syslog+unix:/dev/log`",
    pattern: Some(r"^stdout$|[./]"),
    loose: false,
};
static LOG_FORMAT: Text = Text {
    expected: "`combined`, `json`, or a text with fields such as `{client} {status} {header.x-tenant} {total_ms}`",
    pattern: Some(r"^(combined|json)$|[{ ]"),
    loose: false,
};

/// Form of `access_log` of the gateway or of a route.
pub(crate) const ACCESS_LOG_SHAPE: Shape = Shape::AnyOf(&[
    Shape::Off,
    Shape::Text(&LOG_TARGET),
    Shape::Section(&ACCESS_LOG),
    Shape::ListOf(&ONE_LOG_SHAPE),
]);
static ONE_LOG_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&LOG_TARGET), Shape::Section(&ACCESS_LOG)]);

static LOG_FIELD: Text = Text {
    expected: "a field such as `header.x-tenant`, `response_header.x-cache`, `cookie.session` or `sni`",
    pattern: Some(r"^[a-z_]+(\.[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$"),
    loose: false,
};
static LOG_FIELD_SHAPE: Shape = Shape::Text(&LOG_FIELD);

static APP_NAME: Text = Text {
    expected: "a name of up to 48 visible ASCII characters, such as `tollgate`",
    pattern: Some(r"^[!-~]{1,48}$"),
    loose: false,
};

/// The syslog facilities, indexed by their codes (RFC 5424, table 1).
pub(crate) const SYSLOG_FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

/// The syslog severities, indexed by their codes (RFC 5424, table 2).
pub(crate) const SYSLOG_SEVERITIES: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

static STATUS_RANGE: Text = Text {
    expected: "a status, a class of them or a range, such as `404`, `5xx` or `500-599`",
    pattern: Some(r"^[1-5]([0-9]{2}|xx|XX)( *- *[1-5][0-9]{2})?$"),
    loose: true,
};
pub(crate) static STATUS_RANGE_SHAPE: Shape = Shape::Text(&STATUS_RANGE);

static SHARE: Text = Text {
    expected: "a percentage from 0 to 100, such as `1%` or `0.1%`",
    pattern: Some(r"^[0-9]{1,3}(\.[0-9]+)? *%?$"),
    loose: true,
};

pub(crate) static LOG_FILTER: SectionSpec = SectionSpec {
    name: "log_filter",
    noun: "a filter",
    doc: "Conditions that must all hold for an exchange to be logged.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("status", "The status of the answer.", Shape::OneOrMany(&STATUS_RANGE_SHAPE))
            .aliases(&["statuses", "code", "codes", "status_codes"]),
        KeySpec::new(
            "min_duration",
            "The exchange took at least this long.",
            Shape::Time { min: Duration::ZERO, max: Duration::from_secs(86_400), off: false },
        )
        .aliases(&["duration", "slower_than", "min_time"]),
        KeySpec::new(
            "sample",
            "Percentage of the exchanges that is logged; errors always are.",
            Shape::Text(&SHARE),
        )
        .aliases(&["rate", "percent", "sampling", "sample_rate"]),
    ],
};
static LOG_FILTER_SHAPE: Shape = Shape::Section(&LOG_FILTER);

pub(crate) static ACCESS_LOG: SectionSpec = SectionSpec {
    name: "access_log",
    noun: "`access_log`",
    doc: "The access log.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "to",
            "Destination of the lines.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&LOG_TARGET)]),
        )
        .required()
        .aliases(&["path", "file", "target"]),
        KeySpec::new("format", "Format of a line.", Shape::Text(&LOG_FORMAT)).default("combined"),
        KeySpec::new(
            "fields",
            "Additional fields of a JSON line: each key, and the field that supplies its value.",
            Shape::MapOf(&LOG_FIELD_SHAPE),
        )
        .aliases(&["headers", "also", "extra"]),
        KeySpec::new(
            "filter",
            "Filters. An exchange is logged if all conditions of at least one filter hold.",
            Shape::OneOrMany(&LOG_FILTER_SHAPE),
        )
        .aliases(&["filters", "if", "when", "condition"]),
        KeySpec::new(
            "facility",
            "The facility of messages to a syslog server.",
            Shape::Word(&SYSLOG_FACILITIES),
        )
        .default("local7"),
        KeySpec::new(
            "severity",
            "The severity of messages to a syslog server.",
            Shape::Word(&SYSLOG_SEVERITIES),
        )
        .default("info")
        .aliases(&["level", "priority"]),
        KeySpec::new("app_name", "Program name in messages to a syslog server.", Shape::Text(&APP_NAME))
            .default("tollgate")
            .aliases(&["tag", "program", "ident"]),
        KeySpec::new(
            "otlp",
            "An OpenTelemetry collector that also receives every line.",
            <Collector as Value>::SHAPE,
        )
        .default("off")
        .aliases(&["opentelemetry", "otel", "collector"]),
    ],
};
