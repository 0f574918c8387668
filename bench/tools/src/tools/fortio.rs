//! fortio.
//!
//! Each connection is a goroutine that has its share of the rate and catches up after a wait, so the load at
//! a rate is not open: times start when a request really leaves. Before the load it makes one request on each
//! connection, which it does not count; without `-allow-initial-errors` it would end if one of these failed.
//! It closes a connection after an error status.

use super::{asked, json};
use crate::abilities::{Abilities, RateSupport, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Length, Request};
use crate::tool::Adapter;
use serde::Deserialize;
use std::collections::BTreeMap;
use tollgate_lab_record::{Distribution, LoadResult};

pub(crate) struct Fortio;

const NAME: &str = "fortio";
const BODY: &str = "body";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    /// In nanoseconds.
    actual_duration: u64,
    num_threads: u32,
    ret_codes: BTreeMap<String, u64>,
    socket_count: u64,
    duration_histogram: Histogram,
}

/// In seconds.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Histogram {
    count: u64,
    min: f64,
    max: f64,
    avg: f64,
    std_dev: f64,
    percentiles: Option<Vec<Percentile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Percentile {
    percentile: f64,
    value: f64,
}

impl Adapter for Fortio {
    fn abilities(&self) -> Abilities {
        Abilities { rate: RateSupport::Limit, ..USUAL }
    }

    fn version_args(&self) -> &'static [&'static str] {
        &["version"]
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let mut call = Invocation::new(NAME);
        call.args([
            "load",
            "-quiet",
            "-allow-initial-errors",
            "-log-errors=false",
            "-labels",
            "lab",
            "-json",
            "-",
        ]);
        // Buckets of 10 us at the low end; the default is 1 ms.
        call.args(["-r", "0.00001", "-p", "50,75,90,95,99,99.9,99.99"]);
        call.args([
            "-gomaxprocs".to_owned(),
            request.threads.to_string(),
            "-c".into(),
            request.connections.to_string(),
        ]);
        call.args(["-qps".to_owned(), request.model.rps().unwrap_or(0.0).to_string()]);
        match request.length {
            Length::Time(time) => call.args(["-t".to_owned(), format!("{}ms", time.as_millis())]),
            Length::Count(requests) => call.args(["-n".to_owned(), requests.to_string()]),
        };
        call.args(["-timeout".to_owned(), format!("{}ms", request.timeout.as_millis())]);
        call.args([format!("-keepalive={}", request.keep_alive), "-X".into(), request.method.clone()]);
        for header in &request.headers {
            match header.value_of("content-type") {
                Some(kind) => call.args(["-content-type".to_owned(), kind.to_owned()]),
                None => call.args(["-H".to_owned(), header.line()]),
            };
        }
        if !request.body.is_empty() {
            call.args(["-payload-file", BODY]).file(BODY, request.body.clone());
        }
        call.args(request.urls.iter().cloned());
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let reported: Told = json::read(NAME, "on its standard output", &output.stdout, output)?;
        let mut result = asked(NAME, request, output);
        result.seconds = reported.actual_duration as f64 / 1e9;
        result.connections = reported.num_threads;
        result.connections_opened = Some(reported.socket_count);
        let without = json::statuses(&mut result, request, &reported.ret_codes);
        if without > 0 {
            let words = output.stderr.lines().filter(|line| line.contains("\"level\":\"err\""));
            json::classify_together(&mut result.failures, words, without);
        }
        let Histogram { count, min, max, avg, std_dev, percentiles } = reported.duration_histogram;
        result.sent = Some(count);
        if count > 0 {
            result.service_time = Some(Distribution {
                count,
                mean_us: avg * 1e6,
                stdev_us: Some(std_dev * 1e6),
                min_us: Some(min * 1e6),
                max_us: Some(max * 1e6),
                percentiles: percentiles
                    .unwrap_or_default()
                    .iter()
                    .map(|at| (at.percentile, at.value * 1e6))
                    .collect(),
                histogram: None,
            });
        }
        Ok(result)
    }
}
