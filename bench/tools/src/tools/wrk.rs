//! wrk.
//!
//! Our script runs only after the load and prints what wrk's table rounds: whole microseconds with their
//! counts, so that runs can be merged. These times have two peculiarities. A time above wrk's timeout is left
//! out and counted as a timeout; we add it with the length of the timeout. wrk adds times that it assumes it
//! missed (its own correction, from the average interval of a connection), so there may be more times than
//! responses. The time starts when a request is written.
//!
//! Statuses from 400 up are errors; it treats all others as success.

use super::{asked, count_good_and_errors};
use crate::abilities::{Abilities, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{Length, Request};
use crate::times::Times;
use crate::tool::Adapter;
use std::fmt::Write;
use tollgate_lab_record::{Failures, LoadResult};

pub(crate) struct Wrk;

const NAME: &str = "wrk";
const SCRIPT: &str = "lab.lua";

const AT_END: &str = r#"
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format("lab-summary %d %d %d %d %d %d %d %d\n", summary.duration, summary.requests, summary.bytes,
    errors.connect, errors.read, errors.write, errors.timeout, errors.status))
  io.write("lab-times")
  for at = 1, #latency do
    local us, count = latency(at)
    io.write(string.format(" %d:%d", us, count))
  end
  io.write("\n")
end
"#;

impl Adapter for Wrk {
    fn abilities(&self) -> Abilities {
        Abilities { count: false, step_ms: 1000, ..USUAL }
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        Ok(command(NAME, request, AT_END))
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let missing = |what: &str| Misunderstood::new(NAME, what, output);
        let line = |label: &str| output.stdout.lines().find_map(|line| line.strip_prefix(label));
        let figures: Option<Vec<u64>> = line("lab-summary ")
            .and_then(|line| line.split(' ').map(|figure| figure.parse().ok()).collect::<Option<Vec<_>>>());
        let Some(&[duration, complete, _, connect, read, write, timeout, status]) = figures.as_deref() else {
            return Err(missing(
                "a line 'lab-summary' with 8 whole numbers, which our script prints at the end",
            ));
        };
        let mut times = line("lab-times")
            .and_then(times)
            .ok_or_else(|| missing("a line 'lab-times' with pairs of time and count, from our script"))?;
        // wrk leaves a late response out of its times; it was held for the timeout at least.
        if timeout > 0 {
            times.add(u64::try_from(request.timeout.as_micros()).unwrap_or(u64::MAX), timeout);
        }
        let mut result = asked(NAME, request, output);
        result.connections = opened(request);
        result.seconds = duration as f64 / 1e6;
        // A late response is included in the complete ones, and may be an error as well: it is subtracted
        // once.
        let good = complete.saturating_sub(status).saturating_sub(timeout);
        count_good_and_errors(&mut result, request, good, status);
        result.failures = Failures { connect, read, write, timeout, ..result.failures };
        result.service_time = times.distribution();
        Ok(result)
    }
}

fn times(line: &str) -> Option<Times> {
    let mut times = Times::default();
    for pair in line.split_ascii_whitespace() {
        let (us, count) = pair.split_once(':')?;
        times.add(us.parse().ok()?, count.parse().ok()?);
    }
    Some(times)
}

/// Returns the connections that wrk really opens: the same number in each thread, without the remainder.
pub(super) fn opened(request: &Request) -> u32 {
    request.connections / request.threads.max(1) * request.threads
}

/// Returns the command line, which wrk and wrk2 share.
pub(super) fn command(name: &'static str, request: &Request, at_end: &str) -> Invocation {
    let mut call = Invocation::new(name);
    call.args([format!("-t{}", request.threads), format!("-c{}", request.connections)]);
    if let Length::Time(time) = request.length {
        call.args([format!("-d{}s", time.as_secs())]);
    }
    call.args(["--latency".to_owned(), "--timeout".into(), format!("{}s", request.timeout.as_secs())]);
    call.each("-H", request.lines_with_close());
    let mut script = String::new();
    if request.method != "GET" {
        // Writing to a string cannot fail.
        let _ = writeln!(script, "wrk.method = \"{}\"", request.method);
    }
    if !request.body.is_empty() {
        let _ = writeln!(script, "wrk.body = \"{}\"", lua(&request.body));
    }
    script.push_str(at_end);
    if !script.is_empty() {
        call.args(["-s", SCRIPT]).file(SCRIPT, script);
    }
    call.args(request.urls.iter().cloned());
    call
}

/// Escapes bytes for a Lua string.
fn lua(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "\\{byte:03}");
            }
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Header;
    use std::time::Duration;

    #[test]
    fn headers_have_their_space_or_go_as_they_stand() {
        let mut request = Request::new("http://127.0.0.1/", 50, Length::Time(Duration::from_secs(30)));
        request.threads = 8;
        request.headers = vec![Header::new("Host", "a.example"), Header::Verbatim("Connection:Close".into())];
        let call = Wrk.command(&request).unwrap();
        assert_eq!(
            call.line().join(" "),
            "wrk -t8 -c50 -d30s --latency --timeout 10s -H Host: a.example -H Connection:Close -s lab.lua http://127.0.0.1/"
        );
        assert_eq!(opened(&request), 48);
        request.headers.clear();
        request.keep_alive = false;
        assert!(Wrk.command(&request).unwrap().args.contains(&"Connection: close".to_owned()));
    }

    #[test]
    fn a_body_is_the_same_bytes_in_lua() {
        assert_eq!(lua(b"a\"b\\c\n\xff0"), "a\\\"b\\\\c\\010\\2550");
    }
}
