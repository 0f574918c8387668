//! vegeta.
//!
//! At a rate, its requests leave when they are due, if a worker is free. The laboratory starts one worker for each
//! connection. A time starts when the request really leaves. Without a rate, all workers send as fast as they get
//! responses. It writes each result to a file, from which the report is made after the load.

use super::{asked, json};
use crate::abilities::{Abilities, RateSupport, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Length, Request};
use crate::tool::Adapter;
use serde::Deserialize;
use std::collections::BTreeMap;
use tollgate_lab_record::{Distribution, LoadResult};

pub(crate) struct Vegeta;

const NAME: &str = "vegeta";
const RESULTS: &str = "results.bin";
const BODY: &str = "body";

#[derive(Deserialize)]
struct Told {
    latencies: Latencies,
    /// Nanoseconds from the first request to the last.
    duration: u64,
    /// Nanoseconds from the last request to its response.
    wait: u64,
    requests: u64,
    status_codes: BTreeMap<String, u64>,
    errors: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Latencies {
    mean: f64,
    max: f64,
    min: f64,
    #[serde(rename = "50th")]
    p50: f64,
    #[serde(rename = "90th")]
    p90: f64,
    #[serde(rename = "95th")]
    p95: f64,
    #[serde(rename = "99th")]
    p99: f64,
}

impl Adapter for Vegeta {
    fn abilities(&self) -> Abilities {
        Abilities { rate: RateSupport::Open, several_urls: true, ..USUAL }
    }

    fn version_args(&self) -> &'static [&'static str] {
        &["-version"]
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let (rate, time) = match (request.model.rps(), request.length) {
            (Some(rate), Length::Time(time)) => (rate, time.as_nanos()),
            // It sends rate x time requests.
            (Some(rate), Length::Count(requests)) => (rate, (requests as f64 / rate * 1e9).round() as u128),
            (None, Length::Time(time)) => (0.0, time.as_nanos()),
            (None, Length::Count(_)) => {
                let reason = "ends a closed loop only after a time: give seconds, or a rate".into();
                return Err(Refused { tool: NAME, reason });
            }
        };
        let connections = request.connections.to_string();
        let mut call = Invocation::new(NAME);
        // It accepts no fractions, hence milli-requests in 1000 s.
        let rate = if rate > 0.0 { format!("{:.0}/1000s", rate * 1e3) } else { "0".into() };
        call.args(["-cpus".to_owned(), request.threads.to_string(), "attack".into()]);
        call.args([
            format!("-rate={rate}"),
            format!("-duration={time}ns"),
            format!("-timeout={}ms", request.timeout.as_millis()),
        ]);
        for option in ["workers", "max-workers", "connections", "max-connections"] {
            call.args([format!("-{option}={connections}")]);
        }
        call.args([
            format!("-keepalive={}", request.keep_alive),
            "-redirects=-1".into(),
            "-max-body=0".into(),
        ]);
        call.args(["-http2=false".to_owned(), format!("-output={RESULTS}")]);
        for header in &request.headers {
            call.args([format!("-header={}", header.line())]);
        }
        if !request.body.is_empty() {
            call.args([format!("-body={BODY}")]).file(BODY, request.body.clone());
        }
        let targets = request.urls.iter().map(|url| format!("{} {url}\n", request.method));
        call.stdin = targets.collect::<String>().into_bytes();
        call.then = ["report", "-type=json", RESULTS].map(str::to_owned).to_vec();
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let reported: Told = json::read(NAME, "on its standard output", &output.stdout, output)?;
        let mut result = asked(NAME, request, output);
        result.seconds = reported.duration.saturating_add(reported.wait) as f64 / 1e9;
        result.sent = Some(reported.requests);
        let without = json::statuses(&mut result, request, &reported.status_codes);
        let errors = reported.errors.unwrap_or_default();
        // A status beyond 399 is listed among the errors too, as "503 Service Unavailable".
        let broken = errors.iter().map(String::as_str).filter(|words| !is_status(words));
        if without > 0 {
            json::classify_together(&mut result.failures, broken, without);
        }
        let Latencies { mean, max, min, p50, p90, p95, p99 } = reported.latencies;
        if reported.requests > 0 {
            result.service_time = Some(Distribution {
                count: reported.requests,
                mean_us: mean / 1e3,
                min_us: Some(min / 1e3),
                max_us: Some(max / 1e3),
                percentiles: [(50.0, p50), (90.0, p90), (95.0, p95), (99.0, p99)]
                    .map(|(at, ns)| (at, ns / 1e3))
                    .to_vec(),
                ..Distribution::default()
            });
        }
        Ok(result)
    }
}

fn is_status(words: &str) -> bool {
    let (status, rest) = words.split_at_checked(3).unwrap_or((words, ""));
    status.bytes().all(|byte| byte.is_ascii_digit()) && (rest.is_empty() || rest.starts_with(' '))
}
