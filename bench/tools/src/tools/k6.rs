//! k6, with our script.
//!
//! A virtual user is a connection. A rate is k6's constant arrival rate: it starts requests when they are due
//! as long as a user is free, and drops them otherwise; `sent` is how many left. Its time is from sending the
//! request to the last byte of the response. The script classifies failures by k6's error codes; the summary
//! has no statuses.

use super::{asked, json};
use crate::abilities::{Abilities, RateSupport, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Header, Length, Request};
use crate::tool::Adapter;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read;
use tollgate_lab_record::{Distribution, Failures, LoadResult};

pub(crate) struct K6;

const NAME: &str = "k6";
const SCRIPT: &str = "load.js";
const SUMMARY: &str = "summary.json";
const BODY: &str = "body";

/// Error codes: 1050 is a timeout, 1100-1199 names, 1200-1219 connecting, 1300-1399 TLS.
const SCRIPT_END: &str = r#"
const request = lab.body ? open('body', 'b') : null;
const kinds = {};
for (const kind of ['ok', 'status', 'timeout', 'connect', 'read']) {
  kinds[kind] = new Counter('lab_' + kind);
}
function kind(response) {
  const code = response.error_code;
  if (response.status > 0) {
    const good = lab.status ? response.status === lab.status : response.status >= 200 && response.status < 300;
    return good ? 'ok' : 'status';
  }
  if (code === 1050) return 'timeout';
  return (code >= 1100 && code < 1220) || (code >= 1300 && code < 1400) ? 'connect' : 'read';
}
let turn = 0;
export default function () {
  const url = lab.urls[turn++ % lab.urls.length];
  kinds[kind(http.request(lab.method, url, request, lab.params))].add(1);
}
export function handleSummary(data) {
  return { 'summary.json': JSON.stringify(data) };
}
"#;

#[derive(Deserialize)]
struct Told {
    state: State,
    metrics: BTreeMap<String, Metric>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    test_run_duration_ms: f64,
}

#[derive(Deserialize)]
struct Metric {
    values: BTreeMap<String, f64>,
}

impl Adapter for K6 {
    fn abilities(&self) -> Abilities {
        Abilities { rate: RateSupport::Open, several_urls: true, verbatim_headers: false, ..USUAL }
    }

    fn version_args(&self) -> &'static [&'static str] {
        &["version"]
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let connections = request.connections;
        let scenario = match (request.model.rps(), request.length) {
            (None, Length::Time(time)) => {
                let time = format!("{}ms", time.as_millis());
                json!({"executor": "constant-vus", "vus": connections, "duration": time, "gracefulStop": "0s"})
            }
            (None, Length::Count(requests)) => {
                json!({"executor": "shared-iterations", "vus": connections, "iterations": requests, "maxDuration": "24h"})
            }
            // Both must be whole numbers, hence milli-requests in 1000 s.
            (Some(rate), Length::Time(time)) => json!({
                "executor": "constant-arrival-rate", "rate": (rate * 1e3).round() as u64, "timeUnit": "1000s",
                "duration": format!("{}ms", time.as_millis()), "preAllocatedVUs": connections, "maxVUs": connections,
            }),
            (Some(_), Length::Count(_)) => {
                let reason = "ends a rate after a time, not after a number of requests: give seconds".into();
                return Err(Refused { tool: NAME, reason });
            }
        };
        let options = json!({
            "scenarios": {"load": scenario},
            "discardResponseBodies": true,
            "noConnectionReuse": !request.keep_alive,
            "summaryTrendStats": ["avg", "min", "max", "count", "p(50)", "p(75)", "p(90)", "p(95)", "p(99)", "p(99.9)", "p(99.99)"],
        });
        let mut headers = serde_json::Map::new();
        for header in &request.headers {
            let Header::Field { name, value } = header else { continue };
            if headers.insert(name.clone(), json!(value)).is_some() {
                let reason = format!("sends a header once, and {name} is there twice");
                return Err(Refused { tool: NAME, reason });
            }
        }
        let lab = json!({
            "urls": request.urls, "method": request.method, "status": request.status, "body": !request.body.is_empty(),
            "params": {"headers": headers, "timeout": request.timeout.as_millis() as u64, "redirects": 0},
        });
        let mut call = Invocation::new(NAME);
        let mut script = "import http from 'k6/http';\nimport { Counter } from 'k6/metrics';\n".to_owned();
        script.push_str(&format!("export const options = {options};\nconst lab = {lab};\n{SCRIPT_END}"));
        // Disables its control port, which a second k6 would use too, and the usage report to its makers.
        call.args(["run", "--quiet", "--no-color", "--no-usage-report", "--address", "", SCRIPT])
            .file(SCRIPT, script);
        if !request.body.is_empty() {
            call.file(BODY, request.body.clone());
        }
        call.env.push(("GOMAXPROCS".into(), request.threads.to_string()));
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let mut text = String::new();
        let read = output.open(SUMMARY).and_then(|mut file| file.read_to_string(&mut text));
        read.map_err(|error| {
            Misunderstood::new(NAME, format!("the file {SUMMARY} from our script ({error})"), output)
        })?;
        let reported: Told = json::read(NAME, &format!("in the file {SUMMARY}"), &text, output)?;
        // A counter that was never incremented is missing.
        let value = |metric: &str, value: &str| {
            reported.metrics.get(metric).and_then(|metric| metric.values.get(value)).copied()
        };
        let count = |metric: &str| value(metric, "count").unwrap_or(0.0) as u64;
        let mut result = asked(NAME, request, output);
        result.seconds = reported.state.test_run_duration_ms / 1e3;
        let sent = value("http_reqs", "count");
        let sent = sent.ok_or_else(|| {
            Misunderstood::new(NAME, format!("a count of 'http_reqs' in {SUMMARY}"), output)
        })?;
        result.sent = Some(sent as u64);
        result.ok = count("lab_ok");
        result.failures = Failures {
            status: count("lab_status"),
            timeout: count("lab_timeout"),
            connect: count("lab_connect"),
            read: count("lab_read"),
            ..Failures::default()
        };
        let time = |stat: &str| value("http_req_duration", stat).map(|ms| ms * 1e3);
        if let Some(mean_us) = time("avg") {
            let percentiles = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
            result.service_time = Some(Distribution {
                count: time("count").map_or(0, |count| (count / 1e3) as u64),
                mean_us,
                min_us: time("min"),
                max_us: time("max"),
                percentiles: percentiles
                    .iter()
                    .filter_map(|at| Some((*at, time(&format!("p({at})"))?)))
                    .collect(),
                ..Distribution::default()
            });
        }
        Ok(result)
    }
}
