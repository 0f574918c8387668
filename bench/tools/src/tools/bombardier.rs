//! bombardier, with its default client fasthttp. If a Host is set, Go's own client (`--http1`) is used, since
//! fasthttp would connect to that host.
//!
//! A rate is a limit over all connections. It reports statuses by their hundreds, so a single expected status
//! can be recognized only if no others of its hundred occur.

use super::{asked, classify};
use crate::abilities::{Abilities, RateSupport, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Length, Request};
use crate::tool::Adapter;
use crate::tools::json;
use serde::Deserialize;
use std::collections::BTreeMap;
use tollgate_lab_record::{Distribution, LoadResult, Verification};

pub(crate) struct Bombardier;

const NAME: &str = "bombardier";
const BODY: &str = "body";

#[derive(Deserialize)]
struct Told {
    result: Results,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    time_taken_seconds: f64,
    req1xx: u64,
    req2xx: u64,
    req3xx: u64,
    req4xx: u64,
    req5xx: u64,
    others: u64,
    #[serde(default)]
    errors: Vec<Failed>,
    latency: Latency,
}

#[derive(Deserialize)]
struct Failed {
    description: String,
    count: u64,
}

/// In microseconds.
#[derive(Deserialize)]
struct Latency {
    mean: f64,
    stddev: f64,
    max: f64,
    #[serde(default)]
    percentiles: BTreeMap<String, f64>,
}

impl Adapter for Bombardier {
    fn abilities(&self) -> Abilities {
        Abilities { rate: RateSupport::Limit, ..USUAL }
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let mut call = Invocation::new(NAME);
        call.args(["--print", "result", "--format", "json", "--latencies"]);
        call.args(["--connections".to_owned(), request.connections.to_string()]);
        match request.length {
            Length::Time(time) => call.args(["--duration".to_owned(), format!("{}ms", time.as_millis())]),
            Length::Count(requests) => call.args(["--requests".to_owned(), requests.to_string()]),
        };
        if let Some(rate) = request.model.rps() {
            if rate.fract() != 0.0 {
                let reason = format!("takes a whole number of requests a second, not {rate}");
                return Err(Refused { tool: NAME, reason });
            }
            call.args(["--rate".to_owned(), rate.to_string()]);
        }
        call.args(["--timeout".to_owned(), format!("{}ms", request.timeout.as_millis())]);
        if request.headers.iter().any(|header| header.value_of("host").is_some()) {
            call.args(["--http1"]);
            if !request.keep_alive {
                call.args(["--disableKeepAlives"]);
            }
        }
        call.args(["--method", &request.method]).each("--header", request.lines_with_close());
        if !request.body.is_empty() {
            call.args(["--body-file", BODY]).file(BODY, request.body.clone());
        }
        call.args(request.urls.iter().cloned());
        call.env.push(("GOMAXPROCS".into(), request.threads.to_string()));
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let Told { result: reported } = json::read(NAME, "on its standard output", &output.stdout, output)?;
        let mut result = asked(NAME, request, output);
        result.seconds = reported.time_taken_seconds;
        let hundreds = [reported.req1xx, reported.req2xx, reported.req3xx, reported.req4xx, reported.req5xx];
        let expected = usize::from(request.status.unwrap_or(200) / 100).saturating_sub(1);
        for (at, count) in hundreds.into_iter().enumerate() {
            let sum = if at == expected { &mut result.ok } else { &mut result.failures.status };
            *sum = sum.saturating_add(count);
        }
        if request.status.is_some() {
            result.verification = Verification::Presence;
        }
        let mut named = 0u64;
        for failed in &reported.errors {
            classify(&mut result.failures, &failed.description, failed.count);
            named = named.saturating_add(failed.count);
        }
        result.failures.read = result.failures.read.saturating_add(reported.others.saturating_sub(named));
        let all = hundreds.iter().fold(reported.others, |sum, count| sum.saturating_add(*count));
        result.sent = Some(all);
        if all > 0 {
            let mut percentiles: Vec<(f64, f64)> = reported
                .latency
                .percentiles
                .iter()
                .filter_map(|(at, us)| Some((at.parse().ok()?, *us)))
                .collect();
            percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
            result.service_time = Some(Distribution {
                count: all,
                mean_us: reported.latency.mean,
                stdev_us: Some(reported.latency.stddev),
                max_us: Some(reported.latency.max),
                percentiles,
                ..Distribution::default()
            });
        }
        Ok(result)
    }
}
