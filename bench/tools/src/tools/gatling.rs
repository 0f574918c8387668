//! Gatling, with our simulation, which its install script compiles (`install/gatling`).
//!
//! In a closed loop there is one user for each connection. At a rate there is one user for each request, at
//! constant arrivals, and all users share the given number of connections; times start when the request
//! leaves or waits for a connection. Gatling prints whole milliseconds: a time of 0 is left out, and so is
//! the distribution if its mean is 0. Its start takes seconds, which its figures do not include.

use super::{asked, classify};
use crate::abilities::{Abilities, RateSupport, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Length, Request};
use crate::text::{after, number};
use crate::tool::Adapter;
use tollgate_lab_record::{Distribution, LoadResult};

pub(crate) struct Gatling;

const NAME: &str = "gatling";

impl Adapter for Gatling {
    fn abilities(&self) -> Abilities {
        Abilities { rate: RateSupport::Open, verbatim_headers: false, ..USUAL }
    }

    fn version_args(&self) -> &'static [&'static str] {
        &[]
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let connections = u64::from(request.connections);
        let refused = |reason: String| Err(Refused { tool: NAME, reason });
        let mut load = format!(
            "url {}\nmethod {}\nconnections {connections}\ntimeout-ms {}\n",
            request.urls.concat(),
            request.method,
            request.timeout.as_millis()
        );
        match (request.length, request.model.rps()) {
            (Length::Time(time), _) => load.push_str(&format!("time-ms {}\n", time.as_millis())),
            (Length::Count(_), Some(_)) => {
                return refused(
                    "ends a rate after a time, not after a number of requests: give seconds".into(),
                );
            }
            (Length::Count(requests), None) if requests.is_multiple_of(connections) => {
                load.push_str(&format!("requests {}\n", requests / connections));
            }
            (Length::Count(requests), None) => {
                return refused(format!(
                    "gives each connection as many requests: {requests} is no multiple of {connections}"
                ));
            }
        }
        if let Some(rate) = request.model.rps() {
            load.push_str(&format!("rate {rate}\n"));
        }
        if let Some(status) = request.status {
            load.push_str(&format!("status {status}\n"));
        }
        for line in request.lines_with_close() {
            load.push_str(&format!("header {line}\n"));
        }
        let mut call = Invocation::new(NAME);
        call.args(["--results-folder", "results"]).file("load", load);
        if !request.body.is_empty() {
            call.file("body", request.body.clone());
        }
        call.env.push(("JAVA_OPTS".into(), format!("-XX:ActiveProcessorCount={}", request.threads)));
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let missing = |what: String| Misunderstood::new(NAME, what, output);
        let text = output
            .stdout
            .split_once("---- Global Information")
            .map(|(_, rest)| rest)
            .ok_or_else(|| missing("a table '---- Global Information'".into()))?;
        let cells = |label: &str| -> Option<Vec<Option<f64>>> {
            Some(after(text, label)?.split('|').skip(1).map(figure).collect())
        };
        let [total, ok, failed] =
            cells("> request count").and_then(|cells| cells.try_into().ok()).unwrap_or_default();
        // A dash means none.
        let (Some(total), ok, failed) = (total, ok.unwrap_or(0.0), failed.unwrap_or(0.0)) else {
            return Err(missing("a line '> request count' with three numbers".into()));
        };
        let mut result = asked(NAME, request, output);
        result.seconds = after(&output.stdout, "lab-seconds")
            .and_then(number)
            .ok_or_else(|| missing("a line 'lab-seconds' from our simulation".into()))?;
        result.sent = Some(total as u64);
        result.ok = ok as u64;
        let mut named = 0u64;
        for (words, count) in
            text.split_once("---- Errors").map_or("", |(_, rest)| rest).lines().filter_map(error)
        {
            if words.starts_with("status.find") {
                result.failures.status = result.failures.status.saturating_add(count);
            } else {
                classify(&mut result.failures, words, count);
            }
            named = named.saturating_add(count);
        }
        result.failures.read = result.failures.read.saturating_add((failed as u64).saturating_sub(named));
        let time = |label: &str| {
            cells(label).and_then(|cells| *cells.first()?).filter(|ms| *ms > 0.0).map(|ms| ms * 1e3)
        };
        result.service_time = time("> mean response time (ms)").map(|mean_us| Distribution {
            count: total as u64,
            mean_us,
            stdev_us: time("> response time std deviation (ms)"),
            min_us: time("> min response time (ms)"),
            max_us: time("> max response time (ms)"),
            percentiles: [50.0, 75.0, 95.0, 99.0]
                .iter()
                .filter_map(|at| Some((*at, time(&format!("> response time {at}th percentile (ms)"))?)))
                .collect(),
            histogram: None,
        });
        Ok(result)
    }
}

/// Parses a number with commas between its thousands; `None` for the dash of an empty cell.
fn figure(cell: &str) -> Option<f64> {
    number(&cell.trim().replace(',', "")).filter(|number| *number >= 0.0)
}

/// Parses `> words   1,264   (100%)`. Words too long for a line continue below, without the `>`.
fn error(line: &str) -> Option<(&str, u64)> {
    let (rest, _) = line.strip_prefix("> ")?.rsplit_once('(')?;
    let (words, count) = rest.trim_end().rsplit_once(' ')?;
    Some((words.trim_end(), count.replace(',', "").parse().ok()?))
}
