//! One run of a load generator: start it, bound its time, and read what it counted.

use crate::cells::{Cell, Pace, Twist, many_headers};
use crate::child::Group;
use crate::configs::{MANY_ROUTES, route_path};
use crate::failure::Failure;
use crate::stats::percentile;
use crate::target::{Ground, body_path};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a POST's body.
const POST_BODY: usize = 1_024;

/// Distinct URLs asked for in the cell with many routes, spread evenly over them.
const ROUTES_ASKED: u32 = 64;

/// Latency of verified responses, microseconds from the request's first byte sent to the response's last received.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// What a run of a generator came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Responses with a 2xx status (wrk: 2xx or 3xx; the status was checked before), whole.
    pub ok: u64,
    /// Requests that failed, timed out, were cut, or got another status.
    pub failed: u64,
    /// Seconds by the generator's clock.
    pub seconds: f64,
    /// Bytes of response bodies, where the generator counts them.
    pub body_bytes: Option<u64>,
    /// Latency.
    pub latency: Latency,
}

impl Outcome {
    /// Verified responses a second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.ok as f64 / self.seconds } else { 0.0 }
    }
}

/// How client connections begin at a fixed rate. h2load sends from a timer of 10 ms on each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// All at once, so that the timers coincide and requests come in bursts: h2load's default.
    Bursts,
    /// Spread over the timer's 10 ms, so that requests come evenly.
    Spread,
}

/// Runs the cell's load against a port for about `seconds`, at `rate` requests a second where the cell has a rate.
pub fn run(
    ground: &Ground,
    cell: &Cell,
    port: u16,
    rate: u32,
    seconds: f64,
    arrivals: Arrivals,
) -> Result<Outcome, Failure> {
    let limit = Duration::from_secs_f64(seconds * 3.0 + 10.0);
    match cell.pace {
        Pace::Rate(_) => {
            let log = ground.scratch.join("latencies");
            // h2load appends to the file.
            let _ = fs::remove_file(&log);
            let arguments = h2load_arguments(ground, cell, port, rate, seconds, arrivals, &log)?;
            let said = spawn(ground, ground.tools.h2load.as_deref(), "h2load", &arguments, limit)?;
            let mut outcome = parse_h2load(&said)
                .ok_or_else(|| Failure::Generator(format!("h2load's words are not understood:\n{said}")))?;
            let lines = fs::read_to_string(&log).map_err(|error| Failure::file(&log, error))?;
            outcome.latency = latency_of_log(&lines);
            Ok(outcome)
        }
        Pace::Close => {
            let arguments = wrk_arguments(cell, port, seconds);
            let said = spawn(ground, ground.tools.wrk.as_deref(), "wrk", &arguments, limit)?;
            parse_wrk(&said)
                .ok_or_else(|| Failure::Generator(format!("wrk's words are not understood:\n{said}")))
        }
    }
}

/// Requests sent in a run of `seconds`: a whole number for every connection.
fn requests(cell: &Cell, rate: u32, seconds: f64) -> u64 {
    let connections = u64::from(cell.connections);
    let each = (f64::from(rate) * seconds / connections as f64).round().max(1.0) as u64;
    each * connections
}

fn h2load_arguments(
    ground: &Ground,
    cell: &Cell,
    port: u16,
    rate: u32,
    seconds: f64,
    arrivals: Arrivals,
    log: &Path,
) -> Result<Vec<String>, Failure> {
    let mut arguments: Vec<String> = vec![
        "--h1".into(),
        "-t1".into(),
        format!("-c{}", cell.connections),
        // A count rather than a duration: then every request between two readings of the CPU clock is counted.
        format!("-n{}", requests(cell, rate, seconds)),
        format!("--rps={:.3}", f64::from(rate) / f64::from(cell.connections)),
        format!("--log-file={}", log.display()),
    ];
    if arrivals == Arrivals::Spread && cell.connections > 1 {
        arguments.extend([format!("-r{}", cell.connections.div_ceil(10)), "--rate-period=1ms".into()]);
    }
    match cell.twist {
        Twist::Headers => {
            arguments.extend(many_headers().into_iter().map(|(name, value)| format!("-H{name}: {value}")));
        }
        Twist::Post => {
            let file = ground.scratch.join("post-body");
            fs::write(&file, vec![b'p'; POST_BODY]).map_err(|error| Failure::file(&file, error))?;
            arguments.push(format!("-d{}", file.display()));
        }
        Twist::Routes => {
            let file = ground.scratch.join("urls");
            let step = MANY_ROUTES / ROUTES_ASKED;
            let urls: String = (0..ROUTES_ASKED)
                .map(|at| format!("http://127.0.0.1:{port}{}x\n", route_path(at * step + step / 2)))
                .collect();
            fs::write(&file, urls).map_err(|error| Failure::file(&file, error))?;
            arguments.push(format!("-i{}", file.display()));
            return Ok(arguments);
        }
        Twist::None | Twist::AccessLog => {}
    }
    arguments.push(format!("http://127.0.0.1:{port}{}", body_path(cell.body)));
    Ok(arguments)
}

fn wrk_arguments(cell: &Cell, port: u16, seconds: f64) -> Vec<String> {
    vec![
        "-t1".into(),
        format!("-c{}", cell.connections),
        // wrk takes whole seconds.
        format!("-d{}", seconds.round().max(1.0)),
        "--latency".into(),
        // With the space: wrk drops a header given as `Name:value` without a word.
        "-H".into(),
        "Connection: close".into(),
        format!("http://127.0.0.1:{port}{}", body_path(cell.body)),
    ]
}

fn spawn(
    ground: &Ground,
    program: Option<&Path>,
    name: &str,
    arguments: &[String],
    limit: Duration,
) -> Result<String, Failure> {
    let program = program
        .ok_or_else(|| Failure::Lacking(format!("{name} is not installed (`tollgate-bench install`)")))?;
    let output: PathBuf = ground.scratch.join("generator");
    let _ = fs::remove_file(&output);
    let mut group = Group::start(ground.cores.load, program, arguments, &output, &output)?;
    let status = group.wait(limit);
    let said = fs::read_to_string(&output).map_err(|error| Failure::file(&output, error))?;
    match status {
        Some(status) if status.success() => Ok(said),
        Some(status) => Err(Failure::Generator(format!("{name} failed ({status}): {}", said.trim()))),
        None => Err(Failure::Generator(format!("{name} did not end within {:.0} s", limit.as_secs_f64()))),
    }
}

/// Reads h2load's summary (nghttp2 1.52: `finished in`, `requests:`, `status codes:` and `traffic:` lines).
fn parse_h2load(text: &str) -> Option<Outcome> {
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label));
    let seconds = micros(after("finished in ")?.split(',').next()?)? / 1e6;
    let requests = after("requests: ")?;
    let counted = |line: &str, word: &str| -> Option<u64> {
        line.split(',').find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
    };
    let total = counted(requests, "total")?;
    let succeeded = counted(requests, "succeeded")?;
    let good = counted(after("status codes: ")?, "2xx")?;
    let ok = succeeded.min(good);
    let body_bytes = after("traffic: ")?.rsplit('(').next()?.split(')').next()?.parse().ok();
    Some(Outcome { ok, failed: total.saturating_sub(ok), seconds, body_bytes, latency: Latency::default() })
}

/// Reads h2load's log: start, status and duration in microseconds, separated by tabs.
fn latency_of_log(text: &str) -> Latency {
    let duration = |line: &str| -> Option<u64> {
        let mut fields = line.split('\t').skip(1);
        let status: i32 = fields.next()?.parse().ok()?;
        let micros = fields.next()?.parse().ok()?;
        (200..300).contains(&status).then_some(micros)
    };
    let mut micros: Vec<u64> = text.lines().filter_map(duration).collect();
    if micros.is_empty() {
        return Latency::default();
    }
    Latency {
        mean: micros.iter().sum::<u64>() as f64 / micros.len() as f64,
        p50: percentile(&mut micros, 50.0).unwrap_or(0) as f64,
        p99: percentile(&mut micros, 99.0).unwrap_or(0) as f64,
    }
}

/// Reads wrk's summary (wrk 4.1 with `--latency`).
fn parse_wrk(text: &str) -> Option<Outcome> {
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label));
    let (count, rest) = text.lines().find_map(|line| line.trim().split_once(" requests in "))?;
    let total: u64 = count.parse().ok()?;
    let seconds = micros(rest.split(',').next()?)? / 1e6;
    let other_status: u64 =
        after("Non-2xx or 3xx responses: ").map_or(Some(0), |number| number.trim().parse().ok())?;
    let sockets: u64 = after("Socket errors: ").map_or(Some(0), |line| {
        line.split(',').map(|part| part.trim().rsplit(' ').next()?.parse::<u64>().ok()).sum()
    })?;
    let latency = Latency {
        mean: micros(after("Latency ")?.split_ascii_whitespace().next()?)?,
        p50: micros(after("50%")?)?,
        p99: micros(after("99%")?)?,
    };
    let ok = total.saturating_sub(other_status);
    Some(Outcome { ok, failed: other_status + sockets, seconds, body_bytes: None, latency })
}

/// Reads a duration such as `741us`, `2.94ms`, `2.00s` or `1.02m` as microseconds.
fn micros(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let scale = match &text[digits..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 6e7,
        "h" => 3.6e9,
        _ => return None,
    };
    text[..digits].parse::<f64>().ok().map(|number| number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::ALL;
    use proptest::prelude::*;

    const H2LOAD: &str = "starting benchmark...
spawning thread #0: 64 total client(s). 20000 total requests
Application protocol: http/1.1
progress: 100% done

finished in 1.56s, 12807.12 req/s, 1.82MB/s
requests: 20000 total, 20000 started, 20000 done, 20000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 20000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 2.84MB (2980000) total, 2.06MB (2160000) headers (space savings 0.00%), 39.06KB (40000) data
                     min         max         mean         sd        +/- sd
time for request:       63us       384us       173us        42us    74.51%
";

    const WRK: &str = "Running 2s test @ http://127.0.0.1:18080/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   285.20us  169.40us   1.74ms   59.47%
    Req/Sec    78.56k     1.11k   79.98k    55.00%
  Latency Distribution
     50%  239.00us
     75%  431.00us
     90%  531.00us
     99%    1.62ms
  156419 requests in 2.00s, 21.48MB read
Requests/sec:  78189.41
Transfer/sec:     10.74MB
";

    #[test]
    fn h2load_summary() {
        let outcome = parse_h2load(H2LOAD).unwrap();
        assert_eq!((outcome.ok, outcome.failed, outcome.body_bytes), (20_000, 0, Some(40_000)));
        assert!((outcome.seconds - 1.56).abs() < 1e-9);
        assert!((outcome.rate() - 12_820.5).abs() < 0.1);
    }

    #[test]
    fn h2load_failures_are_counted_once() {
        let bad = H2LOAD
            .replace("20000 succeeded, 0 failed, 0 errored", "19990 succeeded, 10 failed, 10 errored")
            .replace("20000 2xx, 0 3xx, 0 4xx, 0 5xx", "19980 2xx, 0 3xx, 0 4xx, 10 5xx");
        let outcome = parse_h2load(&bad).unwrap();
        assert_eq!((outcome.ok, outcome.failed), (19_980, 20));
        assert_eq!(parse_h2load("unable to connect"), None);
    }

    #[test]
    fn latencies_come_from_the_log_without_failures() {
        let log = "1795295497690605\t200\t100\n1795295497690611\t-1\t9\n1795295497690612\t200\t300\n\
                   1795295497690613\t502\t7\n1795295497690614\t204\t200\n";
        assert_eq!(latency_of_log(log), Latency { mean: 200.0, p50: 200.0, p99: 300.0 });
        assert_eq!(latency_of_log(""), Latency::default());
    }

    #[test]
    fn wrk_summary() {
        let outcome = parse_wrk(WRK).unwrap();
        assert_eq!((outcome.ok, outcome.failed, outcome.seconds), (156_419, 0, 2.0));
        assert_eq!(outcome.latency, Latency { mean: 285.2, p50: 239.0, p99: 1_620.0 });
    }

    #[test]
    fn wrk_errors_and_other_statuses() {
        let bad = format!(
            "{WRK}  Socket errors: connect 0, read 3, write 1, timeout 2\n  Non-2xx or 3xx responses: 19\n"
        );
        let outcome = parse_wrk(&bad).unwrap();
        assert_eq!((outcome.ok, outcome.failed), (156_400, 25));
        assert_eq!(parse_wrk("unable to connect to 127.0.0.1:1 Connection refused"), None);
    }

    #[test]
    fn durations() {
        assert_eq!(micros("741us"), Some(741.0));
        assert_eq!(micros(" 2.50ms"), Some(2_500.0));
        assert_eq!(micros("2.00s"), Some(2e6));
        assert_eq!(micros("12 parsecs"), None);
        assert_eq!(micros("12"), None);
    }

    #[test]
    fn requests_divide_evenly_over_the_connections() {
        for cell in &ALL {
            let count = requests(cell, 32_000, 2.5);
            assert_eq!(count % u64::from(cell.connections), 0);
            assert!((79_000..81_000).contains(&count));
        }
    }

    proptest! {
        #[test]
        fn no_output_upsets_the_parsers(text in "\\PC{0,60}(\nfinished in \\PC{0,20})?(\nrequests: \\PC{0,20})?") {
            let _ = parse_h2load(&text);
            let _ = parse_wrk(&text);
            let _ = latency_of_log(&text);
            let _ = micros(&text);
        }
    }
}
