//! The settings of `fault`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::Percent;
use tollgate_config::section::{Fields, KeySpec, Problem, Reader, ScalarError, Section, header};

use super::FaultRules;
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};

/// Delays or fails requests on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "fault", noun = "`fault`", check = check)]
pub(crate) struct FaultSettings {
    /// Requests that get this status without being forwarded.
    #[key(also = ["error", "fail", "status"])]
    abort: Option<FaultAbort>,
    /// Requests that are delayed.
    #[key(also = ["latency", "sleep"])]
    delay: Option<FaultDelay>,
    /// Restricts the policy to requests with this header, and with this value if there is one.
    #[key(
        expected = "a header such as `X-Fault`, or with a value, `X-Fault: yes`",
        pattern = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+(:.*)?$", parse = header_condition,
        also = ["headers", "if", "match", "when"],
    )]
    header: Option<(String, Option<String>)>,
}

/// Requests that get this status without being forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(noun = "`delay`")]
struct FaultDelay {
    /// Length of the delay.
    #[key(time = "1ms"..="5m", required, also = ["duration", "fixed_delay", "delay"])]
    time: Duration,
    /// Percentage of these requests.
    #[key(percent = 0..=100, default = "100%", also = ["percentage", "share"])]
    percent: Percent,
}

impl PolicyConfig for FaultSettings {
    const KEY: KeySpec = policy_key::<Self>("fault", "Delays or fails requests on purpose.").aliases(&[
        "fault_injection",
        "fault-injection",
        "faults",
        "chaos",
    ]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(FaultRules {
            abort: self.abort.map(|abort| (abort.status, abort.percent)),
            delay: self.delay.map(|delay| (delay.time, delay.percent)),
            header: self.header.clone(),
        })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, _: &mut FaultSettings) {
    if fields.get("abort").is_none() && fields.get("delay").is_none() {
        let problem = Problem::error(fields.at, "`fault` has neither `abort` nor `delay`: it does nothing");
        reader.problems.push(problem.expected("one of them, or both"));
    }
}

fn header_condition(text: &str) -> Result<(String, Option<String>), ScalarError> {
    match text.split_once(':') {
        Some((name, value)) => Ok((header::name(name)?, Some(header::value(value.trim())?))),
        None => Ok((header::name(text)?, None)),
    }
}
