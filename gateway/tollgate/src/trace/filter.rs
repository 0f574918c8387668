//! Reads which requests and streams a client follows, from the query of its request.

use std::ops::RangeInclusive;

use serde::Deserialize;
use tollgate_config::{Problem, Severity, block, from_text};
use tollgate_observe::Reason;
use tollgate_plan::compile;
use tollgate_proxy::{TraceFilter, TraceSubject};
use tollgate_tls::HostTable;

/// The query parameters of `GET /api/v1/trace`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceQuery {
    /// As in the `match` of a route: `api.example.com`, `*.example.com`. For streams, the server name of TLS.
    pub host: Option<String>,
    /// As in the `match` of a route: `/v1/users`, `/v1/*`, `/users/{id}`.
    pub path: Option<String>,
    /// An address, or a block of addresses.
    pub client: Option<String>,
    /// `404`, `5xx`, `400-499`, or several with commas; 0: nothing was sent.
    pub status: Option<String>,
    /// A reason, as the access log has it.
    pub reason: Option<String>,
    /// The name of a stream of layer 4, or `*` for all: no requests then.
    pub stream: Option<String>,
    /// After how many requests and streams the response ends.
    pub limit: Option<u64>,
}

/// Returns the filter.
///
/// # Errors
/// A message about the first parameter that is not valid.
pub fn filter(query: &TraceQuery) -> Result<TraceFilter, String> {
    let TraceQuery { host, path, client, status, reason, stream, limit: _ } = query;
    let mut filter = TraceFilter::default();
    if let Some(stream) = stream {
        for (name, value) in [("path", path), ("status", status)] {
            if value.is_some() {
                return Err(format!("{name}: a stream of layer 4 has none, so `stream` excludes it"));
            }
        }
        filter.subject = TraceSubject::Streams((stream != "*").then(|| stream.clone()));
    } else if path.is_some() || status.is_some() {
        filter.subject = TraceSubject::Requests;
    }
    if let Some(host) = host {
        let mut names = HostTable::default();
        names.insert(&host.to_ascii_lowercase(), ());
        filter.server_names = Some(names);
    }
    if host.is_some() || path.is_some() {
        // The conditions are compiled as a route's, so that they mean the same as there.
        let matches = serde_json::json!({ "host": host.as_deref(), "path": path.as_deref() });
        let mut matches = matches.as_object().cloned().unwrap_or_default();
        matches.retain(|_, value| !value.is_null());
        let route = serde_json::json!({
            "listen": "127.0.0.1:0",
            "routes": [{ "match": matches, "respond": 204 }],
        });
        let loaded = from_text("the query", &route.to_string(), &|_| None);
        let Some(config) = loaded.config else { return Err(first_error(loaded.problems.iter())) };
        let compiled = compile(&config).map_err(|problems| first_error(problems.iter()))?;
        filter.matches = Some(compiled.plan.routers.into_first());
    }
    if let Some(client) = client {
        filter.client = Some(block(client).map_err(|message| format!("client: {message}"))?);
    }
    if let Some(status) = status {
        let ranges = status.split(',').map(|text| statuses(text.trim()));
        let ranges: Option<Vec<_>> = ranges.collect();
        filter.statuses =
            ranges.ok_or_else(|| format!("status: `{status}` is not like 404, 5xx or 400-499"))?;
    }
    if let Some(reason) = reason {
        let known = Reason::ALL.iter().find(|known| known.as_str() == reason);
        let known = known.ok_or_else(|| format!("reason: `{reason}` is not in docs/errors.md"))?;
        filter.reason = Some(*known);
    }
    Ok(filter)
}

/// Returns the message of the first error, without its position in a file that the client did not write.
fn first_error<'a>(mut problems: impl Iterator<Item = &'a Problem>) -> String {
    let error = problems.find(|problem| problem.severity == Severity::Error);
    error.map_or_else(|| "host or path is not valid".to_owned(), |error| error.message.clone())
}

/// Returns the statuses that a text names.
fn statuses(text: &str) -> Option<RangeInclusive<u16>> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|status| digits && *status <= 999)
    };
    if let Some(class) = text.strip_suffix("xx").or(text.strip_suffix("XX")) {
        let class = number(class).filter(|class| (1..=9).contains(class))?;
        return Some(class * 100..=class * 100 + 99);
    }
    match text.split_once('-') {
        Some((from, to)) => Some(number(from)?..=number(to)?).filter(|range| !range.is_empty()),
        None => number(text).map(|status| status..=status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_classes_and_ranges() {
        assert_eq!(statuses("404"), Some(404..=404));
        assert_eq!(statuses("5xx"), Some(500..=599));
        assert_eq!(statuses("400-499"), Some(400..=499));
        assert_eq!(statuses("0"), Some(0..=0));
        for bad in ["", "xx", "0xx", "55xx", "+4xx", "499-400", "-", "4-", "1000", "ok"] {
            assert_eq!(statuses(bad), None, "{bad}");
        }
    }

    #[test]
    fn each_parameter_is_read_and_refused() {
        let query = |name: &str, value: &str| -> TraceQuery {
            serde_json::from_value(serde_json::json!({ name: value })).expect("a parameter")
        };
        assert!(filter(&query("host", "*.example.com")).is_ok_and(|filter| filter.matches.is_some()));
        assert!(filter(&query("path", "/users/{id}")).is_ok_and(|filter| filter.matches.is_some()));
        assert!(filter(&query("client", "10.0.0.0/8")).is_ok_and(|filter| filter.client.is_some()));
        assert_eq!(filter(&query("status", "404, 5xx")).map(|filter| filter.statuses.len()), Ok(2));
        assert!(
            filter(&query("reason", "no_route")).is_ok_and(|filter| filter.reason == Some(Reason::NoRoute))
        );
        let subject = |name: &str, value: &str| filter(&query(name, value)).map(|filter| filter.subject);
        assert!(matches!(subject("host", "a"), Ok(TraceSubject::All)));
        assert!(matches!(subject("path", "/a"), Ok(TraceSubject::Requests)));
        assert!(matches!(subject("status", "5xx"), Ok(TraceSubject::Requests)));
        assert!(matches!(subject("stream", "*"), Ok(TraceSubject::Streams(None))));
        assert!(matches!(subject("stream", "db"), Ok(TraceSubject::Streams(Some(name))) if name == "db"));
        let both = TraceQuery { status: Some("5xx".to_owned()), ..query("stream", "db") };
        assert!(filter(&both).is_err_and(|message| message.starts_with("status")));
        for (name, value) in [
            ("host", "a b"),
            ("path", "v1"),
            ("path", "/a*b"),
            ("client", "here"),
            ("status", "fine"),
            ("reason", "bad luck"),
        ] {
            let message = filter(&query(name, value)).expect_err(value);
            assert!(message.starts_with(name) || message.contains(value), "{name}={value}: {message}");
        }
    }
}
