//! `/upstreams`: the state of every endpoint, for programs (JSON) and for people (text, HTML).

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::{AdaptiveStatus, EndpointState, EndpointStatus, LookupStatus, TlsStatus, UpstreamStatus};

/// Renders the page as JSON. Times are RFC 3339, in UTC.
pub(super) fn json(upstreams: &[UpstreamStatus], now: SystemTime) -> String {
    let upstreams: Vec<Value> = upstreams.iter().map(|upstream| of_upstream(upstream, now)).collect();
    format!("{:#}\n", json!({ "upstreams": upstreams }))
}

fn of_upstream(upstream: &UpstreamStatus, now: SystemTime) -> Value {
    let counts = |counts: &[(&'static str, u64)]| -> Map<String, Value> {
        counts.iter().map(|(word, count)| ((*word).to_owned(), json!(count))).collect()
    };
    let mut occurred = upstream.tls_failures.clone();
    occurred.retain(|(_, count)| *count > 0);
    let endpoints: Vec<Value> =
        upstream.endpoints.iter().map(|endpoint| of_endpoint(endpoint, now)).collect();
    json!({
        "name": upstream.name,
        "endpoints": endpoints,
        "probes": counts(&upstream.probes),
        "tls_failures": counts(&occurred),
        "ejections": counts(&upstream.ejections),
        "ejections_refused": upstream.ejections_refused,
        "lookups": upstream.lookups.as_ref().map(|lookups| of_lookups(lookups, now)),
        "adaptive": upstream.adaptive.map(|adaptive| {
            json!({
                "limit": adaptive.limit,
                "in_flight": adaptive.in_flight,
                "base_ms": adaptive.base.map(|base| base.as_secs_f64() * 1000.0),
            })
        }),
    })
}

fn of_lookups(lookups: &LookupStatus, now: SystemTime) -> Value {
    json!({
        "source": lookups.source,
        "count": lookups.count,
        "failures": lookups.failures,
        "last_good": lookups.good_ago.map(|ago| rfc3339(now.checked_sub(ago).unwrap_or(now))),
        "problem": lookups.problem,
    })
}

/// Returns one line about the source of the endpoints.
fn looked_up(lookups: &LookupStatus) -> String {
    let LookupStatus { source, good_ago, problem, .. } = lookups;
    let last_success =
        good_ago.map_or_else(|| "never yet".to_owned(), |ago| format!("{} ago", time_text(ago)));
    match problem {
        None => format!("looked up at {source}, {last_success}"),
        // Problems of a file span several lines; the first one says enough.
        Some(problem) => {
            let problem = problem.lines().next().unwrap_or_default();
            format!("looked up at {source}, {last_success}; since then: {problem}")
        }
    }
}

/// Returns one line about the adaptive limit.
fn limited(adaptive: &AdaptiveStatus) -> String {
    let AdaptiveStatus { limit, in_flight, base } = adaptive;
    let base = base
        .map_or_else(|| "not known yet".to_owned(), |base| format!("{:.1} ms", base.as_secs_f64() * 1000.0));
    format!("adaptive limit {limit}, {in_flight} under way; latency without load {base}")
}

fn of_endpoint(endpoint: &EndpointStatus, now: SystemTime) -> Value {
    let before = |age: Duration| rfc3339(now.checked_sub(age).unwrap_or(now));
    let last_probe = endpoint.last_probe.as_ref().map(|probe| {
        let (reason, detail) = probe.failure.clone().unzip();
        json!({
            "at": before(probe.ago),
            "took_ms": probe.took.as_secs_f64() * 1000.0,
            "result": if probe.failure.is_none() { "good" } else { "bad" },
            "reason": reason,
            "detail": detail,
        })
    });
    json!({
        "address": endpoint.address,
        "weight": endpoint.weight,
        "priority": endpoint.priority,
        "zone": endpoint.zone,
        "state": endpoint.shown_state(),
        "health": endpoint.health.as_str(),
        "health_since": endpoint.health_for.map(before),
        "last_probe": last_probe,
        "tls_failure": endpoint.tls_failure.as_ref().map(|failure| {
            json!({ "at": before(failure.ago), "kind": failure.kind, "detail": failure.detail })
        }),
        "ejected_until": endpoint.ejected_for.map(|time| rfc3339(now + time)),
        "ejection_cause": endpoint.ejection_cause,
        "ejections": endpoint.ejections,
        "ejections_in_a_row": endpoint.ejections_in_a_row,
        "connections": endpoint.connections,
        "requests": endpoint.requests,
        "failures": endpoint.failures,
    })
}

/// Formats a time as `2026-01-31T23:59:59.123Z`.
fn rfc3339(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at);
    let (date, hour, minute, second) = (at.date(), at.hour(), at.minute(), at.second());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", at.millisecond())
}

const COLUMNS: [&str; 10] = [
    "endpoint",
    "weight",
    "priority",
    "zone",
    "state",
    "last probe",
    "ejections",
    "connections",
    "requests",
    "failures",
];

/// Returns the cells of an endpoint's row.
fn row(endpoint: &EndpointStatus) -> [String; COLUMNS.len()] {
    let state = endpoint.state();
    let state = match (state, endpoint.ejected_for, endpoint.health_for) {
        (EndpointState::Ejected, Some(time), _) => {
            let cause = endpoint.ejection_cause.unwrap_or_default();
            format!("ejected for {} more ({cause})", time_text(time))
        }
        (_, _, Some(time)) => format!("{} for {}", endpoint.health.as_str(), time_text(time)),
        _ => endpoint.shown_state().to_owned(),
    };
    let state = match &endpoint.tls_failure {
        Some(TlsStatus { detail, ago, .. }) => format!("{state}; TLS: {detail}, {} ago", time_text(*ago)),
        None => state,
    };
    let probe = endpoint.last_probe.as_ref().map_or_else(
        || "-".to_owned(),
        |probe| {
            let result = probe.failure.as_ref().map_or("good", |(_, detail)| detail);
            format!("{result}, {} ago", time_text(probe.ago))
        },
    );
    [
        endpoint.address.clone(),
        endpoint.weight.to_string(),
        endpoint.priority.to_string(),
        endpoint.zone.clone().unwrap_or_else(|| "-".to_owned()),
        state,
        probe,
        endpoint.ejections.to_string(),
        endpoint.connections.to_string(),
        endpoint.requests.to_string(),
        endpoint.failures.to_string(),
    ]
}

/// Formats a duration as `250 ms`, `12 s`, `3 min` or `5 h`.
fn time_text(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// Renders the page as text, for a terminal.
pub(super) fn text(upstreams: &[UpstreamStatus]) -> String {
    let mut text = String::new();
    for upstream in upstreams {
        let _ = writeln!(text, "{}", upstream.name);
        if let Some(lookups) = &upstream.lookups {
            let _ = writeln!(text, "  {}", looked_up(lookups));
        }
        if let Some(adaptive) = &upstream.adaptive {
            let _ = writeln!(text, "  {}", limited(adaptive));
        }
        let mut rows = vec![COLUMNS.map(str::to_owned)];
        rows.extend(upstream.endpoints.iter().map(row));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(line, "  {cell:width$}");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text.push('\n');
    }
    if upstreams.is_empty() {
        text.push_str("no upstreams\n");
    }
    text
}

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em}\
    table{border-collapse:collapse}\
    th,td{text-align:left;padding:.2em .8em;border-bottom:1px solid #8884}\
    .unhealthy,.ejected{background:#d332}\
    :root{color-scheme:light dark}";

/// The page's content security policy: a browser may apply the style with this SHA-256 hash, and nothing
/// else.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'sha256-sHj2aMv6k2xFI53+X2xuu0XkOyjNg3c+jQHG1C2c928='; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Renders the page as HTML, for a browser.
pub(super) fn html(upstreams: &[UpstreamStatus]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Upstreams</title><style>{STYLE}</style>\n"
    );
    for upstream in upstreams {
        let _ = writeln!(page, "<h2>{}</h2>", escape(&upstream.name));
        if let Some(lookups) = &upstream.lookups {
            let _ = writeln!(page, "<p>{}</p>", escape(&looked_up(lookups)));
        }
        if let Some(adaptive) = &upstream.adaptive {
            let _ = writeln!(page, "<p>{}</p>", escape(&limited(adaptive)));
        }
        page.push_str("<table><tr>");
        for column in COLUMNS {
            let _ = write!(page, "<th>{column}</th>");
        }
        page.push_str("</tr>\n");
        for endpoint in &upstream.endpoints {
            let _ = write!(page, "<tr class=\"{}\">", endpoint.shown_state());
            for cell in row(endpoint) {
                let _ = write!(page, "<td>{}</td>", escape(&cell));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</table>\n");
    }
    if upstreams.is_empty() {
        page.push_str("<p>no upstreams</p>\n");
    }
    page
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstreams::sample::shop;

    #[test]
    fn for_programs() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_790_000_000_250);
        let value: Value = serde_json::from_str(&json(&[shop()], now)).unwrap();
        let shop = &value["upstreams"][0];
        assert_eq!(shop["name"], "shop");
        assert_eq!(shop["probes"]["connection_refused"], 18);
        assert_eq!(
            (&shop["ejections"]["consecutive_5xx"], &shop["ejections_refused"]),
            (&json!(3), &json!(2))
        );
        let [a, b, c] = [0, 1, 2].map(|index| &shop["endpoints"][index]);
        assert_eq!(
            (&a["state"], &b["state"], &c["state"]),
            (&json!("available"), &json!("unhealthy"), &json!("ejected"))
        );
        assert_eq!((&a["weight"], &a["requests"], &a["connections"]), (&json!(2), &json!(1000), &json!(3)));
        assert_eq!((&a["last_probe"]["result"], &a["last_probe"]["reason"]), (&json!("good"), &Value::Null));
        assert_eq!((&b["zone"], &b["last_probe"]["reason"]), (&json!("a<b"), &json!("connection_refused")));
        assert_eq!(b["last_probe"]["at"], "2026-09-21T14:13:16.250Z");
        assert_eq!(c["ejected_until"], "2026-09-21T14:13:48.250Z");
        assert_eq!((&c["last_probe"], &c["health_since"]), (&Value::Null, &Value::Null));
        let lookups = &shop["lookups"];
        assert_eq!((&lookups["count"], &lookups["failures"]), (&json!(90), &json!(4)));
        assert_eq!(lookups["last_good"], "2026-09-21T14:13:05.250Z");
        assert_eq!(shop["adaptive"], json!({ "limit": 40, "in_flight": 12, "base_ms": 2.5 }));
    }

    #[test]
    fn for_people() {
        let text = text(&[shop()]);
        let mut lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "shop");
        let lookups = "  looked up at dns://shop.internal:8080, 15 s ago; since then: error: a < b";
        assert_eq!(lines.remove(1), lookups);
        let adaptive = "  adaptive limit 40, 12 under way; latency without load 2.5 ms";
        assert_eq!(lines.remove(1), adaptive);
        let columns = |line: &str| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(columns(lines[1]), COLUMNS);
        assert_eq!(columns(lines[2])[4..6], ["healthy for 60 min", "good, 1 s ago"]);
        assert_eq!(columns(lines[3])[4..6], ["unhealthy for 90 s", "no connection, 4 s ago"]);
        assert_eq!(columns(lines[4])[4..6], ["ejected for 28 s more (consecutive_5xx)", "-"]);
        assert_eq!(super::text(&[]), "no upstreams\n");
    }

    #[test]
    fn for_browsers() {
        let page = html(&[shop()]);
        assert!(page.contains("<tr class=\"ejected\"><td>shop.internal:8080</td>"), "{page}");
        assert!(page.contains("a&lt;b") && !page.contains("a<b"), "what others wrote is text");
        assert!(html(&[]).contains("no upstreams"));
    }
}
