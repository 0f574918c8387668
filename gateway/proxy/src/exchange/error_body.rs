//! Bodies of the gateway's own error responses, as JSON, HTML or text. [`respond`](crate::exchange::respond) calls it,
//! and uses the bodies of the configuration if there are any.

use tollgate_http::reason_phrase;
use tollgate_observe::Reason;
use tollgate_plan::ErrorBodies;

/// The format of an error body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// `application/json`.
    Json,
    /// `text/html`.
    Html,
    /// `text/plain`.
    Text,
}

impl Flavour {
    /// Chooses the first format that `Accept` names. Weights are ignored, since no client in practice lists
    /// HTML before JSON and prefers JSON. Without a known type, the result is text.
    #[must_use]
    pub fn for_accept(accept: Option<&[u8]>) -> Self {
        let members = accept.unwrap_or_default().split(|byte| *byte == b',');
        let kinds = members.filter_map(|member| {
            let media = member
                .split(|byte| *byte == b';')
                .next()
                .unwrap_or_default()
                .trim_ascii()
                .to_ascii_lowercase();
            match media.as_slice() {
                b"text/html" | b"application/xhtml+xml" => Some(Self::Html),
                b"text/plain" => Some(Self::Text),
                b"application/json" => Some(Self::Json),
                other if other.ends_with(b"+json") => Some(Self::Json),
                _ => None,
            }
        });
        kinds.into_iter().next().unwrap_or(Self::Text)
    }

    /// Returns the `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Html => "text/html; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

/// Returns the body of an error response.
#[must_use]
pub fn error_body(
    flavour: Flavour,
    bodies: &ErrorBodies,
    status: u16,
    reason: Reason,
    request_id: &[u8],
) -> String {
    let (own, default) = match flavour {
        Flavour::Json => (
            &bodies.json,
            "{\"status\":{status},\"title\":\"{title}\",\"reason\":\"{reason}\",\"request_id\":\"{request_id}\"}\n",
        ),
        Flavour::Html => (
            &bodies.html,
            "<!doctype html>\n<html lang=\"en\"><head><title>{status} {title}</title></head>\n\
             <body><h1>{status} {title}</h1><p>Reason: <code>{reason}</code></p></body></html>\n",
        ),
        Flavour::Text => (&bodies.text, "{status} {title}: {reason}\n"),
    };
    let id = escaped(flavour, request_id);
    own.as_deref()
        .unwrap_or(default)
        .replace("{status}", &status.to_string())
        .replace("{title}", reason_phrase(status))
        .replace("{reason}", reason.as_str())
        .replace("{request_id}", &id)
}

/// Removes characters that could break out of the format, since a request id may come from the client.
fn escaped(flavour: Flavour, id: &[u8]) -> String {
    let plain =
        |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | b'\'');
    let keep = |byte: &&u8| flavour == Flavour::Text || plain(byte);
    id.iter().filter(|byte| byte.is_ascii_graphic()).filter(keep).map(|byte| char::from(*byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_accept() {
        for (accept, flavour) in [
            ("application/json", Flavour::Json),
            ("application/problem+json;q=0.9, text/html", Flavour::Json),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Flavour::Html),
            ("*/*", Flavour::Text),
            ("image/png, TEXT/HTML", Flavour::Html),
            ("", Flavour::Text),
        ] {
            assert_eq!(Flavour::for_accept(Some(accept.as_bytes())), flavour, "{accept}");
        }
        assert_eq!(Flavour::for_accept(None), Flavour::Text);
    }

    #[test]
    fn an_id_cannot_break_out() {
        let body = error_body(Flavour::Json, &ErrorBodies::default(), 404, Reason::NoRoute, b"a\"},{\\<b>");
        assert_eq!(
            body,
            "{\"status\":404,\"title\":\"Not Found\",\"reason\":\"no_route\",\"request_id\":\"a},{b\"}\n"
        );
    }

    #[test]
    fn own_bodies_are_filled_in() {
        let bodies = ErrorBodies {
            text: Some("{status}|{title}|{reason}|{request_id}".to_owned()),
            ..ErrorBodies::default()
        };
        let body = error_body(Flavour::Text, &bodies, 502, Reason::ConnectionRefused, b"id1");
        assert_eq!(body, "502|Bad Gateway|connection_refused|id1");
    }
}
