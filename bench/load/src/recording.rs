//! Recordings of real traffic as plans: the gateway's own access log in JSON, and HAR files as browsers save
//! them. [`read`] recognises the format by its content and returns the requests with the times at which they
//! began. Requests that are equal become one request of the plan, so a log of millions of lines stays small.

use crate::plan::{Body, Expect, Replay, Request};
use crate::token::is_token;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A recording as the parts of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The distinct requests.
    pub requests: Vec<Request>,
    /// When each of them was sent.
    pub replay: Replay,
    /// Entries that cannot be repeated, such as lines of requests that were no HTTP.
    pub skipped: usize,
}

/// The exchanges of a recording in any order: the nanosecond of its beginning, and the request.
type Exchanges = Vec<(i128, Request)>;

/// Reads a recording. Times are divided by `speed`.
///
/// # Errors
/// A sentence with the file, the line if there is one, and what was expected.
pub fn read(file: &Path, speed: f64) -> Result<Recording, String> {
    let at = |what: String| format!("{}: {what}", file.display());
    let text = fs::read_to_string(file).map_err(|error| at(error.to_string()))?;
    let (exchanges, skipped) = match serde_json::from_str::<Har>(&text) {
        Ok(har) => from_har(har),
        Err(error) => {
            // A HAR file is one object over many lines, and has this key near its beginning.
            let start: String = text.chars().take(2_000).collect();
            if start.trim_start().starts_with("{\n") || start.contains("\"entries\"") {
                return Err(at(format!("no HAR file: {error}")));
            }
            from_log(&text).map_err(at)?
        }
    };
    if exchanges.is_empty() {
        return Err(at(format!(
            "nothing to replay: expected the gateway's access log with `format: json`, or a HAR file ({skipped} \
             entries were skipped)"
        )));
    }
    Ok(recording(exchanges, skipped, speed))
}

/// One line of the access log; see `docs/access-log.md`.
#[derive(Deserialize)]
struct Line {
    time: String,
    method: Option<String>,
    target: Option<String>,
    path: Option<String>,
    query: Option<String>,
    host: Option<String>,
    status: Option<u16>,
    bytes_in: Option<u64>,
    bytes_out: Option<u64>,
    user_agent: Option<String>,
    referer: Option<String>,
    total_ms: Option<f64>,
}

fn from_log(text: &str) -> Result<(Exchanges, usize), String> {
    let mut exchanges = Vec::new();
    let mut skipped = 0;
    let whole = text.matches('\n').count();
    let is_last = |index: usize| index == whole;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |what: String| format!("line {}: {what}", index + 1);
        let line: Line = match serde_json::from_str(line) {
            Ok(line) => line,
            // A log that was copied while the gateway wrote it may end within a line.
            Err(_) if !exchanges.is_empty() && is_last(index) => {
                skipped += 1;
                continue;
            }
            Err(error) => {
                return Err(at(format!(
                    "expected a line of the gateway's access log with `format: json`: {error}"
                )));
            }
        };
        let end = OffsetDateTime::parse(&line.time, &Rfc3339)
            .map_err(|error| at(format!("`time` {:?}: {error}", line.time)))?;
        match request_of(&line) {
            Some(request) => {
                // The time of a line is the end of its exchange.
                let lasted = (line.total_ms.unwrap_or(0.0).max(0.0) * 1e6) as i128;
                exchanges.push((end.unix_timestamp_nanos() - lasted, request));
            }
            None => skipped += 1,
        }
    }
    Ok((exchanges, skipped))
}

/// Returns the request of a line; `None` if it cannot be repeated.
fn request_of(line: &Line) -> Option<Request> {
    let method = line.method.clone().filter(|method| is_token(method.as_bytes()) && method != "CONNECT")?;
    let path = match (&line.path, &line.query, &line.target) {
        (Some(path), Some(query), _) => format!("{path}?{query}"),
        (Some(path), None, _) => path.clone(),
        (None, _, target) => target.clone()?,
    };
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let fields = [("User-Agent", &line.user_agent), ("Referer", &line.referer)];
    let headers = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
        .filter(|(_, value)| is_value(value))
        .collect();
    let status = line.status.filter(|status| (200..=999).contains(status));
    Some(Request {
        host: line.host.clone().filter(|host| is_value(host) && !host.is_empty()),
        headers,
        body: line
            .bytes_in
            .filter(|bytes| *bytes > 0)
            .map(|bytes| Body::Bytes(usize::try_from(bytes).unwrap_or(usize::MAX).min(LONGEST_BODY))),
        expect: Expect { status, length: status.and(line.bytes_out), digest: None },
        method,
        ..Request::get(&path)
    })
}

/// The longest body that is sent, in bytes; a longer one is sent with this length.
const LONGEST_BODY: usize = 64 << 20;

fn is_value(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// The parts of a HAR file (version 1.2) that are replayed.
#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    request: HarRequest,
    response: HarResponse,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<HarField>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct HarField {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
struct HarResponse {
    status: i64,
}

/// Fields that belong to a connection, or that the generator writes itself.
const NOT_REPEATED: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "upgrade",
    "te",
    "expect",
];

fn from_har(har: Har) -> (Exchanges, usize) {
    let count = har.log.entries.len();
    let exchanges: Exchanges = har.log.entries.into_iter().filter_map(exchange_of).collect();
    let skipped = count - exchanges.len();
    (exchanges, skipped)
}

/// Returns an entry's start and request; `None` if it cannot be repeated, such as a `data:` URL.
fn exchange_of(entry: Entry) -> Option<(i128, Request)> {
    let Entry { started_date_time, request, response } = entry;
    let start = OffsetDateTime::parse(&started_date_time, &Rfc3339).ok()?;
    let url: http::Uri = request.url.split('#').next()?.parse().ok()?;
    if !matches!(url.scheme_str(), Some("http" | "https")) || !is_token(request.method.as_bytes()) {
        return None;
    }
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let headers = request
        .headers
        .into_iter()
        .filter(|field| is_token(field.name.as_bytes()) && is_value(&field.value))
        .filter(|field| !NOT_REPEATED.iter().any(|name| field.name.eq_ignore_ascii_case(name)))
        .map(|field| (field.name, field.value))
        .collect();
    let status = u16::try_from(response.status).ok().filter(|status| (200..=999).contains(status));
    let request = Request {
        method: request.method,
        host: url.authority().map(|authority| authority.as_str().to_owned()),
        headers,
        body: request.post_data.filter(|data| !data.text.is_empty()).map(|data| Body::Text(data.text)),
        // A HAR file gives the length of the decoded body.
        expect: Expect { status, length: None, digest: None },
        ..Request::get(path)
    };
    Some((start.unix_timestamp_nanos(), request))
}

fn recording(mut exchanges: Exchanges, skipped: usize, speed: f64) -> Recording {
    exchanges.sort_by_key(|(start, _)| *start);
    let first = exchanges.first().map_or(0, |(start, _)| *start);
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut requests = Vec::new();
    let (mut times_us, mut order) = (Vec::new(), Vec::new());
    for (start, request) in exchanges {
        times_us.push(((start - first) as f64 / 1e3 / speed).round() as u64);
        let key = format!("{request:?}");
        order.push(*known.entry(key).or_insert_with(|| {
            requests.push(request);
            requests.len() as u32 - 1
        }));
    }
    let last = times_us.last().copied().unwrap_or(0);
    // The recording starts over after a gap as long as its mean one; a single request is repeated each second.
    let gap = if order.len() > 1 { (last / (order.len() as u64 - 1)).max(1) } else { 1_000_000 };
    Recording { requests, replay: Replay { times_us, order, period_us: last + gap }, skipped }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, speed: f64) -> Result<Recording, String> {
        let file =
            std::env::temp_dir().join(format!("tollgate-recording-{}-{}", std::process::id(), text.len()));
        fs::write(&file, text).unwrap();
        let read = read(&file, speed);
        fs::remove_file(&file).unwrap();
        read
    }

    #[test]
    fn an_access_log_is_ordered_by_the_beginning_of_its_exchanges() {
        let log = r#"{"time":"2026-01-31T23:59:59.900Z","method":"GET","path":"/b","query":"x=1","host":"b.test","status":200,"bytes_in":0,"bytes_out":5,"total_ms":100.0}
{"time":"2026-01-31T23:59:59.950Z","method":"POST","path":"/a","query":null,"host":"a.test","status":404,"bytes_in":7,"bytes_out":0,"total_ms":250.0,"user_agent":"x"}
{"time":"2026-01-31T23:59:59.960Z","method":null,"path":null,"status":400,"total_ms":0.0}
{"time":"2026-02-01T00:00:00.000Z","method":"GET","path":"/b","query":"x=1","host":"b.test","status":200,"bytes_in":0,"bytes_out":5,"total_ms":0.0}
"#;
        let recording = read_text(log, 2.0).unwrap();
        assert_eq!((recording.requests.len(), recording.skipped), (2, 1));
        // The POST began at .700, the first GET at .800, the second at 1.000: at double speed.
        assert_eq!(recording.replay.times_us, [0, 50_000, 150_000]);
        assert_eq!(recording.replay.order, [0, 1, 1]);
        assert_eq!(recording.replay.period_us, 225_000);
        let post = &recording.requests[0];
        assert_eq!((post.method.as_str(), post.host.as_deref()), ("POST", Some("a.test")));
        assert_eq!((&post.body, post.expect.status), (&Some(Body::Bytes(7)), Some(404)));
        assert_eq!(post.headers, [("User-Agent".to_owned(), "x".to_owned())]);
        assert_eq!(recording.requests[1].path, "/b?x=1");
        // Copied while it was written.
        let cut = read_text(&format!("{log}{{\"time\":\"2026-"), 2.0).unwrap();
        assert_eq!((cut.replay, cut.skipped), (recording.replay, 2));
        let broken = read_text(&format!("{{\"time\"\n{log}"), 2.0).unwrap_err();
        assert!(broken.contains("line 1: expected a line of the gateway's access log"), "{broken}");
    }

    #[test]
    fn a_har_file_keeps_headers_and_bodies() {
        let har = r#"{
  "log": {"version": "1.2", "entries": [
    {"startedDateTime": "2026-03-01T10:00:00.500+01:00", "time": 3, "request": {"method": "POST", "url": "https://a.test:8443/p?q=1#top",
      "headers": [{"name": ":authority", "value": "a.test"}, {"name": "Host", "value": "a.test"}, {"name": "X-A", "value": "1"}],
      "postData": {"mimeType": "text/plain", "text": "hello"}}, "response": {"status": 201}},
    {"startedDateTime": "2026-03-01T09:00:00Z", "time": 3, "request": {"method": "GET", "url": "http://b.test/"}, "response": {"status": 0}},
    {"startedDateTime": "2026-03-01T09:00:00Z", "time": 3, "request": {"method": "GET", "url": "data:text/plain,x"}, "response": {"status": 200}}
  ]}
}"#;
        let recording = read_text(har, 1.0).unwrap();
        assert_eq!((recording.requests.len(), recording.skipped), (2, 1));
        assert_eq!(recording.replay.times_us, [0, 500_000]);
        let [get, post] = &recording.requests[..] else { panic!("two") };
        assert_eq!((get.host.as_deref(), get.expect.status), (Some("b.test"), None));
        assert_eq!((post.path.as_str(), post.host.as_deref()), ("/p?q=1", Some("a.test:8443")));
        assert_eq!(post.headers, [("X-A".to_owned(), "1".to_owned())]);
        assert_eq!((&post.body, post.expect.status), (&Some(Body::Text("hello".into())), Some(201)));
    }

    #[test]
    fn a_file_that_is_no_recording_is_reported_with_its_line() {
        assert!(
            read_text("127.0.0.1 - - [x] \"GET / HTTP/1.1\" 200", 1.0)
                .unwrap_err()
                .contains("line 1: expected")
        );
        assert!(read_text("\n", 1.0).unwrap_err().contains("nothing to replay"));
        assert!(read_text("{\n \"log\": {}}", 1.0).unwrap_err().contains("no HAR file"));
        let time = r#"{"time":"yesterday","method":"GET","path":"/"}"#;
        assert!(read_text(time, 1.0).unwrap_err().contains("line 1: `time` \"yesterday\""));
    }
}
