//! Templates of access log lines and of error bodies, with `{field}` placeholders.

use super::{ScalarError, braces, field};
use crate::suggest;

/// The fields of an access log line. Durations are in milliseconds; a field that does not apply is `-`.
pub const ACCESS_LOG_FIELDS: &[&str] = &[
    "time",
    "time_local",
    "client",
    "client_port",
    "peer",
    "peer_port",
    "scheme",
    "method",
    "target",
    "path",
    "query",
    "protocol",
    "host",
    "tls_version",
    "tls_cipher",
    "sni",
    "alpn",
    "ja4",
    "client_subject",
    "client_fingerprint",
    "client_unverified",
    "status",
    "grpc_status",
    "reason",
    "detail",
    "route",
    "upstream",
    "endpoint",
    "endpoints",
    "endpoint_statuses",
    "endpoint_reasons",
    "endpoint_ms",
    "cache_status",
    "bytes_in",
    "bytes_out",
    "request_id",
    "consumer",
    "trace_id",
    "span_id",
    "referer",
    "user_agent",
    "attempts",
    "reused",
    "total_ms",
    "connect_ms",
    "header_ms",
    "body_ms",
];

/// The placeholders in the body of an error response.
pub(crate) const ERROR_FIELDS: &[&str] = &["status", "title", "reason", "request_id"];

/// One piece of an access log template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// One of [`ACCESS_LOG_FIELDS`].
    Field(&'static str),
    /// `header.NAME`, `response_header.NAME` or `cookie.NAME`.
    Named(String),
}

/// Splits an access log template. `{{` and `}}` are literal braces.
///
/// # Errors
/// Returns a message about the first unknown field, unpaired brace, or control character other than a tab.
pub fn access_log_template(text: &str) -> Result<Vec<Piece>, String> {
    pieces(text).map_err(|fault| fault.message.replacen("{}", "the template", 1))
}

pub(crate) fn pieces(text: &str) -> Result<Vec<Piece>, ScalarError> {
    braces::split(text, BRACES, Piece::Text, fits, |name| {
        if let Some(field) = ACCESS_LOG_FIELDS.iter().find(|field| **field == name) {
            return Ok(Piece::Field(field));
        }
        if let Some(named) = named(name) {
            return Ok(Piece::Named(named));
        }
        let fault = ScalarError::new("{} contains an unknown field");
        Err(match nearest(name) {
            Some(near) => fault.suggest(format!("did you mean `{{{near}}}`?")),
            None => fault.help(BRACES),
        })
    })
}

/// Checks the name of a log field, header or cookie.
pub(crate) fn log_field(name: &str) -> Result<String, ScalarError> {
    let known = ACCESS_LOG_FIELDS.contains(&name).then(|| name.to_owned());
    known.or_else(|| named(name)).ok_or_else(|| {
        let fault = ScalarError::new("{} is not the name of a field");
        match nearest(name) {
            Some(near) => fault.suggest(format!("did you mean `{near}`?")),
            None => fault.help(
                "headers and cookies are named `header.NAME`, `response_header.NAME` and `cookie.NAME`",
            ),
        }
    })
}

/// Parses `header.NAME`, `response_header.NAME` or `cookie.NAME`; header names become lower case.
fn named(text: &str) -> Option<String> {
    let (kind, name) = text.split_once('.').filter(|(_, name)| field::is_token(name))?;
    match kind {
        "header" | "response_header" => Some(format!("{kind}.{}", name.to_ascii_lowercase())),
        "cookie" => Some(text.to_owned()),
        _ => None,
    }
}

fn nearest(text: &str) -> Option<String> {
    if let Some((kind, name)) = text.split_once(['.', ':']).filter(|(_, name)| field::is_token(name)) {
        let kind = match kind {
            "header" | "request_header" | "req_header" | "http" | "headers" | "request" => "header",
            "resp_header" | "response_header" | "sent_http" | "response" | "upstream_http" => {
                "response_header"
            }
            "cookie" | "cookies" => "cookie",
            _ => suggest::nearest(kind, ["header", "response_header", "cookie"].into_iter())?,
        };
        return Some(format!("{kind}.{name}"));
    }
    suggest::nearest(text, ACCESS_LOG_FIELDS.iter().copied()).map(str::to_owned)
}

/// Rejects line breaks and other control characters: a log record is one line.
fn fits(c: char) -> Result<(), ScalarError> {
    match c {
        '\n' | '\r' => Err(ScalarError::new("{} has a line break: each record would span several lines")
            .help("end a block text with `|-` or `>-` rather than `|` or `>`")),
        c if c.is_control() && c != '\t' => Err(ScalarError::new("{} has a control character")),
        _ => Ok(()),
    }
}

const BRACES: &str = "`{field}` is a placeholder; write `{{` or `}}` for a literal brace";

/// Finds a `{word}` that is nearly a field of an error body, and returns it with that field.
pub(crate) fn misspelt(body: &str) -> Option<(String, &'static str)> {
    body.split('{').skip(1).find_map(|rest| {
        let (word, _) = rest.split_once('}')?;
        let plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if !plain || ERROR_FIELDS.contains(&word) {
            return None;
        }
        let near = suggest::nearest(word, ERROR_FIELDS.iter().copied())?;
        Some((word.to_owned(), near))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_split() {
        let got = access_log_template("{client} {{x}} {status}!").unwrap();
        let text = |t: &str| Piece::Text(t.into());
        assert_eq!(got, [Piece::Field("client"), text(" {x} "), Piece::Field("status"), text("!")]);
        for bad in ["{", "}", "{nope}", "{}", "{client"] {
            assert!(access_log_template(bad).is_err(), "{bad}");
        }
        let fault = pieces("a {stauts}").unwrap_err();
        assert_eq!(fault.part, Some((2, 8)));
        assert_eq!(fault.suggestion.as_deref(), Some("did you mean `{status}`?"));
    }

    /// The access log has its own parser for templates. Both parsers are tested with this table.
    #[test]
    fn templates_are_read_as_the_access_log_reads_them() {
        let table = include_str!("../../../../gateway/observe/tests/templates.json");
        let table: serde_json::Value = serde_json::from_str(table).unwrap();
        let of = |key: &str| table[key].as_array().unwrap().iter();
        assert!(of("fields").eq(ACCESS_LOG_FIELDS.iter()));
        for case in of("split") {
            let source = case["template"].as_str().unwrap();
            let got = access_log_template(source).unwrap().into_iter().map(|piece| match piece {
                Piece::Text(text) => serde_json::json!({ "text": text }),
                Piece::Field(field) => serde_json::json!({ "field": field }),
                Piece::Named(field) => serde_json::json!({ "field": field }),
            });
            assert_eq!(case["pieces"], got.collect::<serde_json::Value>(), "{source}");
        }
        for case in of("refused") {
            let source = case["template"].as_str().unwrap();
            let at = pieces(source).unwrap_err().part.map(|(start, _)| start as u64);
            assert_eq!(case["at"].as_u64(), at, "{source}");
        }
    }

    #[test]
    fn css_in_an_error_body_is_no_field() {
        assert_eq!(misspelt("<style>body{color:red}</style>{status}"), None);
        assert_eq!(misspelt("{titel}"), Some(("titel".into(), "title")));
    }
}
