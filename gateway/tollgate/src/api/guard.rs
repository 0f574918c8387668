//! Who may use the API.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::answer::problem;
use crate::surface::Surface;

/// Who asks for a change, for the history: the guard has found out.
#[derive(Clone, Debug)]
pub struct Asker(pub String);

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(|| Self("unknown".to_owned())))
    }
}

/// Lets a request pass, or says why not.
pub async fn guard(State(surface): State<Surface>, mut request: Request, next: Next) -> Response {
    let forbidden = |message: &str| problem(StatusCode::FORBIDDEN, "forbidden", message);
    let headers = request.headers();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    // What is asked for in a body is still only a question; but no page of others is to have it worked out.
    let writes = !reads && request.uri().path() != "/api/v1/explain";
    if !reads && is_foreign(headers) {
        return forbidden("a page of another origin asks for this");
    }
    if !is_local_host(headers) {
        return forbidden(
            "without tokens the API answers to an IP address or `localhost` alone, not to a name",
        );
    }
    if writes && !surface.local {
        return forbidden(
            "without tokens nothing is changed over an address that others reach: let `admin` listen on the loopback \
             address",
        );
    }
    request.extensions_mut().insert(Asker("local".to_owned()));
    next.run(request).await
}

fn text(headers: &HeaderMap, name: impl axum::http::header::AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a browser says that the request comes from a page of somebody else.
fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = text(headers, "sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    origin.is_none() || origin != text(headers, HOST)
}

/// Whether the host that is asked for is this machine's by a name that nobody else can give it: another name may be
/// a stranger's that was led here (DNS rebinding), with the stranger's page in a browser.
fn is_local_host(headers: &HeaderMap) -> bool {
    let Some(host) = text(headers, HOST) else { return true };
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse::<std::net::IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || !name.contains('.')
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn pages_of_others_are_known_by_what_browsers_say() {
        for (lines, foreign) in [
            (&[("host", "127.0.0.1:9901")][..], false),
            (&[("host", "127.0.0.1:9901"), ("origin", "http://127.0.0.1:9901")], false),
            (&[("host", "127.0.0.1:9901"), ("origin", "http://evil.example")], true),
            (&[("host", "127.0.0.1:9901"), ("origin", "null")], true),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://a")], false),
        ] {
            assert_eq!(is_foreign(&headers(lines)), foreign, "{lines:?}");
        }
    }

    #[test]
    fn names_that_could_be_a_strangers_are_told_from_this_machine() {
        for (host, local) in [
            ("127.0.0.1:9901", true),
            ("[::1]:9901", true),
            ("localhost", true),
            ("localhost:80", true),
            ("admin", true),
            ("evil.example:9901", false),
            ("127.0.0.1.evil.example", false),
        ] {
            assert_eq!(is_local_host(&headers(&[("host", host)])), local, "{host}");
        }
    }
}
