//! h2load over HTTP/1.1 (`--h1`) and HTTP/2.
//!
//! Its summary has no percentiles, so its log of every request is parsed: start, status, microseconds. A rate
//! is a limit for each connection; a connection that waited for a response catches up. It treats 2xx and 3xx
//! as success; the log has the statuses.

use super::{asked, count_statuses};
use crate::abilities::{Abilities, RateSupport, Refused, USUAL};
use crate::invocation::Invocation;
use crate::output::{Misunderstood, Output};
use crate::request::{HttpVersion, Length, Request};
use crate::text::{after, count_before, time_us};
use crate::times::Times;
use crate::tool::Adapter;
use std::collections::BTreeMap;
use std::io::BufRead;
use tollgate_lab_record::{LoadResult, Window};

pub(crate) struct H2load;

const NAME: &str = "h2load";
const LOG: &str = "requests.tsv";
const BODY: &str = "body";

impl Adapter for H2load {
    fn abilities(&self) -> Abilities {
        Abilities {
            rate: RateSupport::Limit,
            several_urls: true,
            methods: &["GET", "POST"],
            timeout: false,
            http2: true,
            tls: true,
            ..USUAL
        }
    }

    /// It flushes its lines, and counts and logs only what happens between these two.
    fn phases(&self) -> Option<(&'static str, &'static str)> {
        Some((
            "Main benchmark duration is started for thread #0",
            "Main benchmark duration is over for thread #0",
        ))
    }

    fn command(&self, request: &Request) -> Result<Invocation, Refused> {
        if request.method == "POST" && request.body.is_empty() {
            return Err(Refused { tool: NAME, reason: "sends POST only with a body".into() });
        }
        // It would silently send all of them to the host of the first URL.
        if request.urls.iter().any(|url| origin(url) != origin(&request.urls[0])) {
            return Err(Refused {
                tool: NAME,
                reason: "takes several URLs only of one scheme, host and port".into(),
            });
        }
        let mut call = Invocation::new(NAME);
        match request.version {
            HttpVersion::Http2 => call.args(["--npn-list=h2".to_owned(), format!("-m{}", request.streams)]),
            _ => call.args(["--h1"]),
        };
        if request.urls.iter().any(|url| url.starts_with("https:")) {
            call.args(["--groups=X25519", "--tls13-ciphers=TLS_AES_128_GCM_SHA256"]);
        }
        call.args(["--log-file", LOG]);
        call.args([
            "-t".to_owned(),
            request.threads.to_string(),
            "-c".into(),
            request.connections.to_string(),
        ]);
        match request.length {
            Length::Count(requests) => call.args(["-n".to_owned(), requests.to_string()]),
            Length::Time(time) => {
                if !request.warm_up.is_zero() {
                    call.args([format!("--warm-up-time={}ms", request.warm_up.as_millis())]);
                }
                call.args(["-D".to_owned(), format!("{}ms", time.as_millis())])
            }
        };
        if let Some(rate) = request.model.rps() {
            call.args(["--rps".to_owned(), (rate / f64::from(request.connections)).to_string()]);
        }
        if !request.body.is_empty() {
            call.args(["-d", BODY]).file(BODY, request.body.clone());
        }
        for line in request.lines_with_close() {
            // Its own Host line is made from this; a second Host line would be wrong.
            let host = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("host"));
            let line = host.map_or(line.clone(), |(_, host)| format!(":authority: {}", host.trim()));
            call.args(["-H".to_owned(), line]);
        }
        call.args(request.urls.iter().cloned());
        Ok(call)
    }

    fn parse(&self, request: &Request, output: &Output) -> Result<LoadResult, Misunderstood> {
        let text = output.stdout.as_str();
        let missing = |what: &str| Misunderstood::new(NAME, what, output);
        let requests = after(text, "requests:").ok_or_else(|| missing("a line 'requests:'"))?;
        let of = |word: &str| {
            count_before(requests, word)
                .ok_or_else(|| missing(&format!("a number before '{word}' in 'requests:'")))
        };
        let (started, done, errored, late) = (of("started")?, of("done")?, of("errored")?, of("timeout")?);
        let finished = after(text, "finished in ").ok_or_else(|| missing("a line 'finished in'"))?;
        let seconds = finished
            .split(',')
            .next()
            .and_then(time_us)
            .ok_or_else(|| missing("a time after 'finished in'"))?;
        let log = Log::read(output).map_err(|what| missing(&what))?;
        let mut result = asked(NAME, request, output);
        result.seconds = (seconds / 1e6 - request.warm_up.as_secs_f64()).max(0.0);
        result.sent = Some(started);
        count_statuses(&mut result, request, log.statuses);
        result.failures.timeout = late;
        // Requests that were never sent because all connections failed also count as errors.
        result.failures.read = errored.min(started.saturating_sub(done));
        result.failures.connect = errored - result.failures.read;
        result.body_bytes = after(text, "traffic:")
            .and_then(|line| line.rsplit_once(" data"))
            .and_then(|(before, _)| before.rsplit_once('('))
            .and_then(|(_, bytes)| bytes.trim_end_matches(')').parse().ok());
        result.service_time = log.times.distribution();
        result.windows = log.windows.iter().map(|(second, window)| window.finish(*second, request)).collect();
        if let Some(last) = result.windows.last_mut() {
            last.seconds = (result.seconds - last.start).clamp(0.0, 1.0);
        }
        Ok(result)
    }
}

/// Returns the `http://host:port` of a URL.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find(['/', '?']).map_or(url, |end| &url[..host + end])
}

#[derive(Default)]
struct Log {
    times: Times,
    statuses: BTreeMap<u16, u64>,
    windows: BTreeMap<u32, Second>,
}

#[derive(Default)]
struct Second {
    times: Times,
    statuses: BTreeMap<u16, u64>,
}

/// The longest plausible run, a day; a longer time means a damaged line.
const MOST_SECONDS: u64 = 86_400;

impl Log {
    /// Parses the log: start in microseconds since 1970, status (-1 without a response), microseconds until
    /// its end.
    fn read(output: &Output) -> Result<Self, String> {
        let expected = "start, status and microseconds of a request";
        let mut log = Self::default();
        let mut first: Option<u64> = None;
        let file = output.open(LOG).map_err(|error| format!("its log {LOG} ({error})"))?;
        for (at, line) in file.lines().enumerate() {
            let wrong = || format!("{expected} in line {} of {LOG}", at + 1);
            let line = line.map_err(|_| wrong())?;
            let mut fields = line.split('\t');
            let mut field = || fields.next().ok_or_else(wrong);
            let start: u64 = field()?.parse().map_err(|_| wrong())?;
            let status: i32 = field()?.parse().map_err(|_| wrong())?;
            let us: u64 = field()?.parse().map_err(|_| wrong())?;
            let Ok(status) = u16::try_from(status) else { continue };
            // Threads write in turn: the first line is near the start, but not always exactly at it.
            let first = *first.get_or_insert(start);
            let second = start.saturating_add(us).saturating_sub(first) / 1_000_000;
            let second = u32::try_from(second.min(MOST_SECONDS)).map_err(|_| wrong())?;
            log.times.add(us, 1);
            *log.statuses.entry(status).or_default() += 1;
            let window = log.windows.entry(second).or_default();
            window.times.add(us, 1);
            *window.statuses.entry(status).or_default() += 1;
        }
        Ok(log)
    }
}

impl Second {
    fn finish(&self, second: u32, request: &Request) -> Window {
        let (ok, failed): (Vec<_>, Vec<_>) =
            self.statuses.iter().partition(|(status, _)| request.expects(**status));
        let sum = |statuses: Vec<(&u16, &u64)>| statuses.into_iter().map(|(_, count)| count).sum();
        Window {
            start: f64::from(second),
            seconds: 1.0,
            ok: sum(ok),
            failed: sum(failed),
            p99_us: self.times.percentile(99.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tool;
    use std::time::Duration;
    use tollgate_lab_record::LoadModel;

    #[test]
    fn other_hosts_than_the_first_are_refused() {
        let mut request = Request::new("http://127.0.0.1:8/a", 1, Length::Count(2));
        request.urls.push("http://127.0.0.1:8/b?c".into());
        assert!(H2load.command(&request).is_ok());
        request.urls.push("http://127.0.0.1:80/a".into());
        assert!(H2load.command(&request).unwrap_err().reason.contains("of one scheme, host and port"));
    }

    #[test]
    fn http_2_over_tls_has_the_terms_of_the_built_in_generator() {
        let mut request = Request::new("https://127.0.0.1/", 8, Length::Time(Duration::from_secs(2)));
        request.version = HttpVersion::Http2;
        request.streams = 32;
        request.warm_up = Duration::from_millis(1500);
        let call = Tool::H2load.command(&request).unwrap();
        assert_eq!(
            call.line().join(" "),
            "h2load --npn-list=h2 -m32 --groups=X25519 --tls13-ciphers=TLS_AES_128_GCM_SHA256 \
             --log-file requests.tsv -t 1 -c 8 --warm-up-time=1500ms -D 2000ms https://127.0.0.1/"
        );
        request.keep_alive = false;
        assert!(Tool::H2load.command(&request).unwrap_err().reason.contains("cannot open one a request"));
    }

    #[test]
    fn a_rate_is_shared_over_the_connections() {
        let mut request = Request::new("http://127.0.0.1/", 4, Length::Count(100));
        request.model = LoadModel::Constant { rps: 50.0 };
        request.keep_alive = false;
        let call = H2load.command(&request).unwrap();
        assert_eq!(
            call.line().join(" "),
            "h2load --h1 --log-file requests.tsv -t 1 -c 4 -n 100 --rps 12.5 -H Connection: close http://127.0.0.1/"
        );
    }
}
