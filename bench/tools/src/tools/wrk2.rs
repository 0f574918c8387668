//! wrk2, which the user builds under the name `wrk2`.
//!
//! It always has a rate. Its "recorded" times start when a request was due, its "uncorrected" ones
//! (`--u_latency`) when it left. It calibrates itself for the first 10 seconds and discards the times of that
//! span, though not the requests.

use super::{asked, count_good_and_errors, wrk};
use crate::abilities::{Abilities, RateSupport, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::Request;
use crate::text::{after, count, number, time_us};
use crate::tool::Adapter;
use tollgate_lab_record::{Distribution, Failures, LoadResult};

pub(crate) struct Wrk2;

const NAME: &str = "wrk2";

impl Adapter for Wrk2 {
    fn abilities(&self) -> Abilities {
        Abilities { rate: RateSupport::Corrected, closed: false, count: false, step_ms: 1000, ..USUAL }
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let rate = request.model.rps().unwrap_or_default();
        if rate.fract() != 0.0 {
            return Err(Refused {
                tool: NAME,
                reason: format!("takes a whole number of requests a second, not {rate}"),
            });
        }
        let mut call = wrk::command(NAME, request, "");
        call.args.splice(3..3, [format!("-R{rate}"), "--u_latency".into()]);
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let text = output.stdout.as_str();
        let missing = |what: &str| Misunderstood::new(NAME, what, output);
        let sum = text
            .lines()
            .map(str::trim)
            .find(|line| line.contains(" requests in ") && line.ends_with(" read"));
        let sum = sum.ok_or_else(|| missing("a line '... requests in ..., ... read'"))?;
        let complete = count(sum).ok_or_else(|| missing("a number before 'requests in'"))?;
        let rate =
            after(text, "Requests/sec:").and_then(number).ok_or_else(|| missing("a line 'Requests/sec:'"))?;
        let rounded =
            sum.split_once(" requests in ").and_then(|(_, rest)| rest.split(',').next()).and_then(time_us);
        let rounded = rounded.ok_or_else(|| missing("a time after 'requests in'"))?;
        let mut result = asked(NAME, request, output);
        result.connections = wrk::opened(request);
        // The rate has more digits than the time.
        result.seconds = if rate > 0.0 && complete > 0 { complete as f64 / rate } else { rounded / 1e6 };
        let mut failures = Failures::default();
        if let Some(line) = after(text, "Socket errors:") {
            // "connect 0, read 0, write 0, timeout 0": each number follows its word.
            let of = |word: &str| line.split_once(word).and_then(|(_, rest)| count(rest.trim_start()));
            let all = of("connect").zip(of("read")).zip(of("write").zip(of("timeout")));
            let ((connect, read), (write, timeout)) = all.ok_or_else(|| {
                missing("'connect', 'read', 'write' and 'timeout' with numbers after 'Socket errors:'")
            })?;
            failures = Failures { connect, read, write, timeout, ..failures };
        }
        let errors = after(text, "Non-2xx or 3xx responses:").map_or(Some(0), count);
        let errors = errors.ok_or_else(|| missing("a number after 'Non-2xx or 3xx responses:'"))?;
        let good = complete.saturating_sub(errors).saturating_sub(failures.timeout);
        count_good_and_errors(&mut result, request, good, errors);
        result.failures = Failures { status: result.failures.status, ..failures };
        result.response_time = distribution(text, "Recorded Latency");
        result.service_time = distribution(text, "Uncorrected Latency");
        if result.response_time.is_none() && complete > 0 {
            return Err(missing(
                "a table 'Latency Distribution (HdrHistogram - Recorded Latency)' with its total count",
            ));
        }
        Ok(result)
    }
}

/// Parses one of its two tables with the lines of figures at its end; `None` if the table is empty.
fn distribution(text: &str, which: &str) -> Option<Distribution> {
    let heading = format!("Latency Distribution (HdrHistogram - {which}");
    let (_, table) = text.split_once(&heading)?;
    let percent = |line: &str| {
        let (percent, time) = line.trim().split_once('%')?;
        Some((number(percent)?, time_us(time)?))
    };
    let percentiles: Vec<(f64, f64)> = table.lines().skip(1).map_while(percent).collect();
    let figure = |label: &str| {
        let line = table.lines().find(|line| line.starts_with("#[") && line.contains(label))?;
        let (_, rest) = line.split_once(label)?;
        Some(rest.trim_start_matches([' ', '=']))
    };
    let count = figure("Total count").and_then(count)?;
    let ms = |label: &str| figure(label).and_then(number).map(|ms| ms * 1e3);
    (count > 0).then_some(())?;
    Some(Distribution {
        count,
        mean_us: ms("Mean")?,
        stdev_us: ms("StdDeviation"),
        min_us: None,
        max_us: ms("Max"),
        percentiles: percentiles.into_iter().filter(|(at, _)| *at < 100.0).collect(),
        histogram: None,
    })
}
