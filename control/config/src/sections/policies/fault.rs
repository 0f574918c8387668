//! `fault`: delays or fails requests on purpose.

use std::time::Duration;

use crate::model::Percent;
use crate::scalar::field as header;
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Value};

/// Delays or fails requests on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(check = check)]
pub struct Fault {
    /// Requests that get this status without being forwarded.
    #[key(shape = <FaultAbort as Value>::SHAPE, read = abort, also = ["error", "fail", "status"])]
    pub abort: Option<(u16, Percent)>,
    /// Requests that are delayed.
    #[key(shape = <FaultDelay as Value>::SHAPE, read = delay, also = ["latency", "sleep"])]
    pub delay: Option<(Duration, Percent)>,
    /// Restricts the policy to requests with this header, and with this value if there is one.
    #[key(
        expected = "a header such as `X-Fault`, or with a value, `X-Fault: yes`",
        pattern = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+(:.*)?$", parse = header_condition, also = ["headers", "if", "match", "when"]
    )]
    pub header: Option<(String, Option<String>)>,
}

/// Requests that get this status without being forwarded.
#[derive(Clone, Debug, Section)]
#[section(noun = "`abort`")]
struct FaultAbort {
    /// 200 to 599.
    #[key(count = 200..=599, required, also = ["http_status", "code"])]
    status: u16,
    /// Percentage of these requests.
    #[key(percent = 0..=100, default = "100%", also = ["percentage", "share"])]
    percent: Percent,
}

/// Requests that are delayed.
#[derive(Clone, Debug, Section)]
#[section(noun = "`delay`")]
struct FaultDelay {
    /// Length of the delay.
    #[key(time = "1ms"..="5m", required, also = ["duration", "fixed_delay", "delay"])]
    time: Duration,
    /// Percentage of these requests.
    #[key(percent = 0..=100, default = "100%", also = ["percentage", "share"])]
    percent: Percent,
}

fn abort(reader: &mut Reader, field: Field<'_>) -> Option<(u16, Percent)> {
    let FaultAbort { status, percent } = reader.section(field)?;
    Some((status, percent))
}

fn delay(reader: &mut Reader, field: Field<'_>) -> Option<(Duration, Percent)> {
    let FaultDelay { time, percent } = reader.section(field)?;
    Some((time, percent))
}

fn header_condition(text: &str) -> Result<(String, Option<String>), ScalarError> {
    match text.split_once(':') {
        Some((name, value)) => Ok((header::name(name)?, Some(header::value(value.trim())?))),
        None => Ok((header::name(text)?, None)),
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, _: &mut Fault) {
    if fields.get("abort").is_none() && fields.get("delay").is_none() {
        let message = "`fault` has neither `abort` nor `delay`: it does nothing";
        reader.problems.push(Problem::error(fields.at, message).expected("one of them, or both"));
    }
}
