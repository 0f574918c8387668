//! hey.
//!
//! It prints times in steps of 0.1 ms, and cannot report its version. A rate is a limit for each worker:
//! ticks that a worker misses while it waits are lost. The adapter disables redirects and compression.

use super::{asked, classify, count_statuses};
use crate::abilities::{Abilities, RateSupport, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Length, Request};
use crate::text::{after, count, number};
use crate::tool::Adapter;
use std::collections::BTreeMap;
use tollgate_lab_record::{Distribution, LoadResult};

pub(crate) struct Hey;

const NAME: &str = "hey";
const BODY: &str = "body";

impl Adapter for Hey {
    fn abilities(&self) -> Abilities {
        Abilities {
            rate: RateSupport::Limit,
            step_ms: 1000,
            methods: &["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"],
            verbatim_headers: false,
            ..USUAL
        }
    }

    fn version_args(&self) -> &'static [&'static str] {
        &[]
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let connections = u64::from(request.connections);
        let mut call = Invocation::new(NAME);
        call.args(["-cpus".to_owned(), request.threads.to_string(), "-c".into(), connections.to_string()]);
        match request.length {
            Length::Time(time) => call.args(["-z".to_owned(), format!("{}s", time.as_secs())]),
            Length::Count(requests) if !requests.is_multiple_of(connections) => {
                let reason =
                    format!("gives each worker as many requests: {requests} is no multiple of {connections}");
                return Err(Refused { tool: NAME, reason });
            }
            Length::Count(requests) => call.args(["-n".to_owned(), requests.to_string()]),
        };
        if let Some(rate) = request.model.rps() {
            call.args(["-q".to_owned(), (rate / connections as f64).to_string()]);
        }
        call.args([
            "-t".to_owned(),
            request.timeout.as_secs().to_string(),
            "-m".into(),
            request.method.clone(),
        ]);
        call.args(["-disable-compression", "-disable-redirects"]);
        if !request.keep_alive {
            call.args(["-disable-keepalive"]);
        }
        for header in &request.headers {
            if let Some(host) = header.value_of("host") {
                call.args(["-host", host]);
            } else if let Some(kind) = header.value_of("content-type") {
                call.args(["-T", kind]);
            } else {
                call.args(["-H".to_owned(), header.line()]);
            }
        }
        if !request.body.is_empty() {
            call.args(["-D", BODY]).file(BODY, request.body.clone());
        }
        call.args(request.urls.iter().cloned());
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let text = output.stdout.as_str();
        let missing = |what: String| Misunderstood::new(NAME, what, output);
        let seconds = |label: &str| {
            let number = after(text, label).and_then(number);
            number.ok_or_else(|| missing(format!("a line '{label}' with seconds")))
        };
        let mut result = asked(NAME, request, output);
        result.seconds = seconds("Total:")?;
        let mut statuses = BTreeMap::new();
        for (status, rest) in listed(text, "Status code distribution:") {
            let status = status.parse().map_err(|_| missing("a status in [ ]".into()))?;
            let responses =
                count(rest).ok_or_else(|| missing(format!("a number of responses after [{status}]")))?;
            statuses.insert(status, responses);
        }
        count_statuses(&mut result, request, statuses);
        for (times, words) in listed(text, "Error distribution:") {
            let times = times.parse().map_err(|_| missing("a number of errors in [ ]".into()))?;
            classify(&mut result.failures, words, times);
        }
        let responses = result.statuses.values().fold(0u64, |sum, count| sum.saturating_add(*count));
        result.body_bytes = after(text, "Total data:").and_then(count);
        if responses > 0 {
            result.service_time = Some(Distribution {
                count: responses,
                mean_us: seconds("Average:")? * 1e6,
                min_us: Some(seconds("Fastest:")? * 1e6).filter(|time| *time > 0.0),
                max_us: Some(seconds("Slowest:")? * 1e6),
                percentiles: text.lines().filter_map(percentile).collect(),
                ..Distribution::default()
            });
        } else if result.failures.total() == 0 {
            return Err(missing("'Status code distribution:' or 'Error distribution:' with a line".into()));
        }
        Ok(result)
    }
}

/// Returns the lines `[a] b` after a heading, up to the first line of another form.
fn listed<'a>(text: &'a str, heading: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let after = text.lines().skip_while(move |line| line.trim() != heading).skip(1);
    after.map_while(|line| line.trim().strip_prefix('[')?.split_once(']')).map(|(a, b)| (a, b.trim()))
}

/// Parses `99% in 0.0085 secs`.
fn percentile(line: &str) -> Option<(f64, f64)> {
    let (percent, rest) = line.trim().split_once("% in ")?;
    let percentile: f64 = percent.parse().ok()?;
    let us = number(rest)? * 1e6;
    // It prints missing percentiles as 0% in 0 s.
    (percentile > 0.0 && us > 0.0).then_some((percentile, us))
}
