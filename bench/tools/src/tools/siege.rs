//! siege.
//!
//! Its settings file decides more than its options. As Debian ships it, siege closes every connection,
//! fetches the resources of a page, follows redirects and stops after 1024 failures; the adapter writes its
//! own file. A connection is a thread. siege measures each request in clock ticks of 10 ms: the sum over many
//! requests is right, a single time is not. The mean is therefore taken from its "concurrency" (sum of times
//! / elapsed time), and times below a tick are left out. The only reasons for failures are the messages that
//! it prints as they happen.

use super::{asked, count_good_and_errors, json};
use crate::abilities::{Abilities, Choice, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Length, Request};
use crate::tool::Adapter;
use serde::Deserialize;
use tollgate_lab_record::{Distribution, Failures, LoadResult};

pub(crate) struct Siege;

const NAME: &str = "siege";
const SETTINGS: &str = "siegerc";
const URLS: &str = "urls";
const BODY: &str = "body";

#[derive(Deserialize)]
struct Told {
    transactions: u64,
    elapsed_time: f64,
    concurrency: f64,
    successful_transactions: u64,
    failed_transactions: u64,
    longest_transaction: f64,
}

impl Adapter for Siege {
    fn abilities(&self) -> Abilities {
        Abilities {
            step_ms: 1000,
            several_urls: true,
            threads: Choice::Connections,
            methods: &["GET", "POST"],
            ..USUAL
        }
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let mut call = Invocation::new(NAME);
        call.args(["-R", SETTINGS, "-b", "-c"]).args([request.connections.to_string()]);
        match request.length {
            Length::Time(time) => call.args(["-t".to_owned(), format!("{}S", time.as_secs())]),
            Length::Count(requests) => {
                let each = requests / u64::from(request.connections);
                if each * u64::from(request.connections) != requests {
                    let reason = format!(
                        "gives each connection as many requests: {requests} is no multiple of {}",
                        request.connections
                    );
                    return Err(Refused { tool: NAME, reason });
                }
                call.args(["-r".to_owned(), each.to_string()])
            }
        };
        for header in &request.headers {
            match header.value_of("content-type") {
                Some(kind) => call.args(["--content-type".to_owned(), kind.to_owned()]),
                None => call.args(["-H".to_owned(), header.line()]),
            };
        }
        let urls: Vec<String> = if request.method == "POST" {
            call.file(BODY, request.body.clone());
            request.urls.iter().map(|url| format!("{url} POST <{BODY}")).collect()
        } else {
            request.urls.clone()
        };
        match &urls[..] {
            [one] => _ = call.args([one.clone()]),
            several => _ = call.args(["-f", URLS]).file(URLS, several.join("\n") + "\n"),
        }
        call.file(SETTINGS, settings(request));
        // It writes its defaults and cookies below the home folder.
        call.env.push(("HOME".into(), ".".into()));
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let reported: Told = json::read(NAME, "on its standard output", &output.stdout, output)?;
        if reported.elapsed_time <= 0.0 {
            let expected = "an \"elapsed_time\" of at least 0.01 seconds: give it more to do";
            return Err(Misunderstood::new(NAME, expected, output));
        }
        let mut result = asked(NAME, request, output);
        result.seconds = reported.elapsed_time;
        result.sent = Some(reported.transactions.saturating_add(reported.failed_transactions));
        let mut failures = Failures::default();
        for line in output.stderr.lines().filter(|line| line.contains("socket:")) {
            let kind = if line.contains("unable to connect") {
                &mut failures.connect
            } else if line.contains("write") {
                &mut failures.write
            } else if line.contains("timed out") {
                &mut failures.timeout
            } else {
                &mut failures.read
            };
            *kind += 1;
        }
        let errors = reported
            .failed_transactions
            .saturating_sub(failures.total())
            .saturating_add(reported.transactions.saturating_sub(reported.successful_transactions));
        count_good_and_errors(&mut result, request, reported.successful_transactions, errors);
        result.failures = Failures { status: result.failures.status, ..failures };
        if reported.transactions > 0 && reported.concurrency > 0.0 {
            result.service_time = Some(Distribution {
                count: reported.transactions,
                mean_us: reported.concurrency * reported.elapsed_time * 1e6 / reported.transactions as f64,
                max_us: Some(reported.longest_transaction * 1e6).filter(|time| *time > 0.0),
                ..Distribution::default()
            });
        }
        Ok(result)
    }
}

fn settings(request: &Request) -> String {
    let connection = if request.keep_alive { "keep-alive" } else { "close" };
    let Request { connections, timeout, .. } = request;
    format!(
        "connection = {connection}\nlimit = {connections}\ntimeout = {}\nparser = false\nfollow-location = false\n\
         failures = 1000000000\naccept-encoding = identity\nprotocol = HTTP/1.1\nchunked = true\ncache = false\n\
         verbose = false\ncolor = off\njson_output = true\nlogging = false\n",
        timeout.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_settings_say_what_to_do_with_connections() {
        let mut request = Request::new("http://127.0.0.1/ping", 16, Length::Time(Duration::from_secs(60)));
        request.threads = 16;
        let call = Siege.command(&request).unwrap();
        assert_eq!(call.line().join(" "), "siege -R siegerc -b -c 16 -t 60S http://127.0.0.1/ping");
        let text = |call: &Invocation| String::from_utf8(call.files.last().unwrap().1.clone()).unwrap();
        assert!(text(&call).contains("connection = keep-alive\nlimit = 16\n"));
        request.keep_alive = false;
        assert!(text(&Siege.command(&request).unwrap()).contains("connection = close\n"));
        request.length = Length::Count(33);
        assert!(Siege.command(&request).unwrap_err().reason.contains("33 is no multiple of 16"));
    }
}
