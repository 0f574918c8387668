//! oha.
//!
//! With a rate it runs with `--latency-correction`: times start when the request was due. The adapter makes
//! it wait for the requests in flight at the end; otherwise oha would abort them and count them as errors.
//! Its times include only requests that got a response.

use super::{asked, classify, json};
use crate::abilities::{Abilities, RateSupport, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Length, Request};
use crate::tool::Adapter;
use serde::Deserialize;
use std::collections::BTreeMap;
use tollgate_lab_record::{Distribution, LoadResult};

pub(crate) struct Oha;

const NAME: &str = "oha";
const BODY: &str = "body";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    summary: Summary,
    latency_percentiles: BTreeMap<String, Option<f64>>,
    status_code_distribution: BTreeMap<String, u64>,
    error_distribution: BTreeMap<String, u64>,
}

/// In seconds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    total: f64,
    slowest: Option<f64>,
    fastest: Option<f64>,
    average: Option<f64>,
    total_data: Option<u64>,
}

impl Adapter for Oha {
    fn abilities(&self) -> Abilities {
        Abilities { rate: RateSupport::Corrected, ..USUAL }
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let mut call = Invocation::new(NAME);
        call.args(["--no-tui", "--output-format", "json", "--disable-compression", "-w"]);
        call.args([
            "--worker-threads".to_owned(),
            request.threads.to_string(),
            "-c".into(),
            request.connections.to_string(),
        ]);
        match request.length {
            Length::Time(time) => call.args(["-z".to_owned(), format!("{}ms", time.as_millis())]),
            Length::Count(requests) => call.args(["-n".to_owned(), requests.to_string()]),
        };
        if let Some(rate) = request.model.rps() {
            if rate.fract() != 0.0 {
                let reason = format!("takes a whole number of requests a second, not {rate}");
                return Err(Refused { tool: NAME, reason });
            }
            call.args(["-q".to_owned(), rate.to_string(), "--latency-correction".into()]);
        }
        let timeout = format!("{}ms", request.timeout.as_millis());
        call.args(["-t", &timeout, "--connect-timeout", &timeout, "-m", &request.method]);
        if !request.keep_alive {
            call.args(["--disable-keepalive"]);
        }
        for header in &request.headers {
            match header.value_of("host") {
                Some(host) => call.args(["--host".to_owned(), host.to_owned()]),
                None => call.args(["-H".to_owned(), header.line()]),
            };
        }
        if !request.body.is_empty() {
            call.args(["-D", BODY]).file(BODY, request.body.clone());
        }
        call.args(request.urls.iter().cloned());
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let reported: Told = json::read(NAME, "on its standard output", &output.stdout, output)?;
        let mut result = asked(NAME, request, output);
        result.seconds = reported.summary.total;
        json::statuses(&mut result, request, &reported.status_code_distribution);
        for (words, count) in &reported.error_distribution {
            classify(&mut result.failures, words, *count);
        }
        let responses = result.statuses.values().fold(0u64, |sum, count| sum.saturating_add(*count));
        result.sent = Some(responses.saturating_add(
            reported.error_distribution.values().fold(0, |sum, count| count.saturating_add(sum)),
        ));
        result.body_bytes = reported.summary.total_data;
        let us = |seconds: f64| seconds * 1e6;
        if let Some(mean) = reported.summary.average {
            let mut percentiles: Vec<(f64, f64)> = reported
                .latency_percentiles
                .iter()
                .filter_map(|(name, seconds)| Some((name.strip_prefix('p')?.parse().ok()?, us((*seconds)?))))
                .collect();
            percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
            let times = Distribution {
                count: responses,
                mean_us: us(mean),
                min_us: reported.summary.fastest.map(us),
                max_us: reported.summary.slowest.map(us),
                percentiles,
                ..Distribution::default()
            };
            match request.model.rps() {
                Some(_) => result.response_time = Some(times),
                None => result.service_time = Some(times),
            }
        }
        Ok(result)
    }
}
