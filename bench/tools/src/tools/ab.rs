//! ab (ApacheBench).
//!
//! It always sends HTTP/1.0, with `Connection: Keep-Alive` under `-k`. `-l` prevents it from counting a body
//! of another length as a failure: such a response may also have an error status and would be counted twice.
//! `-r` makes it continue after a broken connection. Percentiles come from `-e`, in microseconds, since its
//! table has whole milliseconds. Its mean is "Time per request (mean)": connections x time / requests, the
//! figure that is usually quoted from ab.

use super::{asked, count_good_and_errors};
use crate::abilities::{Abilities, Choice, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Header, HttpVersion, Length, Request};
use crate::text::{after, count, number};
use crate::tool::Adapter;
use std::io::Read;
use tollgate_lab_record::{Distribution, Failures, LoadResult};

pub(crate) struct Ab;

const NAME: &str = "ab";
const PERCENTILES: &str = "percentiles.csv";
const BODY: &str = "body";

/// Even with a time limit, ab needs a number of requests and allocates 40 bytes for each; this is more than
/// it can send.
const MOST_A_SECOND: u64 = 500_000;

impl Adapter for Ab {
    fn abilities(&self) -> Abilities {
        Abilities {
            step_ms: 1000,
            version: HttpVersion::Http10,
            threads: Choice::One,
            methods: &["GET", "HEAD", "POST", "PUT"],
            ..USUAL
        }
    }

    fn version_args(&self) -> &'static [&'static str] {
        &["-V"]
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        let mut call = Invocation::new(NAME);
        call.args(["-q", "-r", "-l", "-e", PERCENTILES, "-s"]).args([request.timeout.as_secs().to_string()]);
        match request.length {
            Length::Count(requests) => call.args(["-n".to_owned(), requests.to_string()]),
            Length::Time(time) => {
                let most = time.as_secs().saturating_mul(MOST_A_SECOND);
                call.args(["-t".to_owned(), time.as_secs().to_string(), "-n".into(), most.to_string()])
            }
        };
        call.args(["-c".to_owned(), request.connections.to_string()]);
        if request.keep_alive {
            call.args(["-k"]);
        }
        match request.method.as_str() {
            "HEAD" => _ = call.args(["-i"]),
            "POST" => _ = call.args(["-p", BODY]).file(BODY, request.body.clone()),
            "PUT" => _ = call.args(["-u", BODY]).file(BODY, request.body.clone()),
            _ => {}
        }
        for header in &request.headers {
            // ab sends its own content type in addition to one given with -H.
            match header.value_of("content-type") {
                Some(kind) => call.args(["-T", kind]),
                None => call.args(["-H".to_owned(), Header::line(header)]),
            };
        }
        call.args(request.urls.iter().map(|url| with_path(url)));
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let text = output.stdout.as_str();
        let missing =
            |label: &str| Misunderstood::new(NAME, format!("a line '{label}' with a number"), output);
        let figure = |label: &str| after(text, label).and_then(number).ok_or_else(|| missing(label));
        let whole = |label: &str| after(text, label).and_then(count).ok_or_else(|| missing(label));
        let mut result = asked(NAME, request, output);
        let complete = whole("Complete requests:")?;
        let rate = figure("Requests per second:")?;
        let time = figure("Time taken for tests:")?;
        // The rate has more digits than the time.
        result.seconds = if rate > 0.0 && complete > 0 { complete as f64 / rate } else { time };
        let failed = whole("Failed requests:")?;
        let kinds = after(text, "(Connect:");
        let kind = |label: &str| {
            kinds.and_then(|line| line.split_once(label)).and_then(|(_, rest)| count(rest.trim()))
        };
        let (connect, receive, length, exceptions) = match (failed, kinds) {
            (0, _) | (_, None) => (0, failed, 0, 0),
            (_, Some(line)) => (
                count(line).ok_or_else(|| missing("(Connect:"))?,
                kind("Receive:").ok_or_else(|| missing("Receive:"))?,
                kind("Length:").ok_or_else(|| missing("Length:"))?,
                kind("Exceptions:").ok_or_else(|| missing("Exceptions:"))?,
            ),
        };
        // A broken or refused connection counts as an exception, as a receive error, or as both.
        let broken = receive.saturating_add(exceptions);
        let read = broken.min(complete.saturating_sub(connect).saturating_sub(length));
        let status = after(text, "Non-2xx responses:")
            .map_or(Some(0), count)
            .ok_or_else(|| missing("Non-2xx responses:"))?;
        let good = complete
            .saturating_sub(status)
            .saturating_sub(connect)
            .saturating_sub(length)
            .saturating_sub(read);
        count_good_and_errors(&mut result, request, good, status);
        result.failures = Failures { connect, read, length, ..result.failures };
        result.body_bytes = Some(whole("HTML transferred:")?);
        // With -k, it reports how many responses used a connection that stayed open.
        result.keep_alive = after(text, "Keep-Alive requests:").and_then(count).is_some_and(|kept| kept > 0);
        if complete > 0 {
            result.service_time = Some(distribution(text, output, complete, figure("Time per request:")?)?);
        }
        Ok(result)
    }
}

/// Adds a path to a URL without one, which ab does not accept.
fn with_path(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    if host.contains('/') { url.to_owned() } else { format!("{url}/") }
}

fn distribution(
    text: &str,
    output: &Output,
    complete: u64,
    mean_ms: f64,
) -> Result<Distribution, Misunderstood> {
    let expected = format!("the file {PERCENTILES} with a line for each percent and its milliseconds");
    let missing = || Misunderstood::new(NAME, expected.clone(), output);
    let mut csv = String::new();
    output.open(PERCENTILES).and_then(|mut file| file.read_to_string(&mut csv)).map_err(|_| missing())?;
    let mut percentiles = Vec::new();
    for line in csv.lines().skip(1) {
        let (percent, ms) = line.split_once(',').ok_or_else(missing)?;
        percentiles.push((number(percent).ok_or_else(missing)?, number(ms).ok_or_else(missing)? * 1e3));
    }
    let edge = |at: f64| percentiles.iter().find(|(percent, _)| *percent == at).map(|(_, us)| *us);
    let (min_us, max_us) = (edge(0.0), edge(100.0));
    // With few requests, ab reads the last percentiles from beyond the end of its list.
    percentiles.retain(|(at, _)| *at > 0.0 && 0.5 + complete as f64 * at / 100.0 < complete as f64);
    if max_us.is_none() {
        return Err(missing());
    }
    // "Total: min mean [+/-sd] median max" in milliseconds; 0.0 is a deviation below the resolution.
    let total = after(text, "Total:").unwrap_or_default();
    let stdev = total.split_ascii_whitespace().nth(2).and_then(number).filter(|ms| *ms > 0.0);
    Ok(Distribution {
        count: complete,
        mean_us: mean_ms * 1e3,
        stdev_us: stdev.map(|ms| ms * 1e3),
        min_us,
        max_us,
        percentiles,
        histogram: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn request(length: Length) -> Request {
        Request {
            version: HttpVersion::Http10,
            keep_alive: false,
            ..Request::new("http://127.0.0.1:8", 200, length)
        }
    }

    #[test]
    fn as_the_gateways_study_was_published() {
        let call = Ab.command(&request(Length::Count(10_000))).unwrap();
        assert_eq!(
            call.line().join(" "),
            "ab -q -r -l -e percentiles.csv -s 10 -n 10000 -c 200 http://127.0.0.1:8/"
        );
    }

    #[test]
    fn a_time_needs_a_number_of_requests_after_it_and_a_body_its_type() {
        let mut request = request(Length::Time(Duration::from_secs(2)));
        request.method = "POST".into();
        request.body = b"x".to_vec();
        request.keep_alive = true;
        request.headers = vec![Header::new("Content-Type", "text/x"), Header::new("Host", "h")];
        let call = Ab.command(&request).unwrap();
        assert_eq!(
            call.line().join(" "),
            "ab -q -r -l -e percentiles.csv -s 10 -t 2 -n 1000000 -c 200 -k -p body -T text/x -H Host: h http://127.0.0.1:8/"
        );
        assert_eq!(call.files, [("body".to_owned(), b"x".to_vec())]);
    }
}
