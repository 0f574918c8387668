//! The request to explain, and the head that a client would send for it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::Deserialize;
use tollgate_plan::{Plan, PlannedListener};

/// The request to explain.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    pub method: String,
    /// `/path?query`, `host/path` or `http://host:port/path`. Without a host, the first `listen` address is
    /// used.
    pub url: String,
    /// Header fields, each as `Name: value`.
    #[serde(default)]
    pub headers: Vec<String>,
    /// The client's address; loopback if it is missing.
    #[serde(default = "loopback")]
    pub from: IpAddr,
    /// The name of the listener at which it arrives; without it, the URL decides.
    #[serde(default)]
    pub listener: Option<String>,
    /// Whether to return every route that does not win, not only the nearest.
    #[serde(default)]
    pub all: bool,
}

fn loopback() -> IpAddr {
    IpAddr::V4(Ipv4Addr::LOCALHOST)
}

/// A mistake in the question.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidRequest {
    /// Its position, as a JSON pointer (RFC 6901) into [`ExplainRequest`].
    pub pointer: String,
    /// A readable message.
    pub message: String,
}

/// Returns the listener that the question names.
///
/// # Errors
/// No listener has this name.
pub fn listener<'p>(
    request: &ExplainRequest,
    plan: &'p Plan,
) -> Result<Option<&'p PlannedListener>, InvalidRequest> {
    let Some(name) = &request.listener else { return Ok(None) };
    let found = plan.listeners.iter().find(|listener| listener.name.as_ref() == Some(name));
    let found = found.ok_or_else(|| InvalidRequest {
        pointer: "/listener".to_owned(),
        message: format!("there is no listener named `{name}`"),
    });
    found.map(|listener| Some(&**listener))
}

/// Returns the head as a client would send it.
///
/// # Errors
/// The arguments do not describe a request.
pub fn request_head(
    request: &ExplainRequest,
    plan: &Plan,
    at: Option<&PlannedListener>,
) -> Result<String, InvalidRequest> {
    let wrong = |pointer: &str, message| InvalidRequest { pointer: pointer.to_owned(), message };
    let method = &request.method;
    if method.is_empty() || method.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let message = format!("`{method}` is not a method: write `GET`, for example");
        return Err(wrong("/method", message));
    }
    let UrlParts { authority, target } = split(&request.url).map_err(|message| wrong("/url", message))?;
    let authority = authority.map_or_else(|| default_authority(plan, at), str::to_owned);
    let target = if method == "CONNECT" { authority.clone() } else { target };
    let mut fields = String::new();
    let mut host = format!("Host: {authority}\r\n");
    for (index, header) in request.headers.iter().enumerate() {
        let (name, value) = field(header).map_err(|message| wrong(&format!("/headers/{index}"), message))?;
        if name.eq_ignore_ascii_case("host") {
            host.clear();
        }
        fields.push_str(&format!("{name}: {value}\r\n"));
    }
    Ok(format!("{method} {target} HTTP/1.1\r\n{host}{fields}\r\n"))
}

/// Returns whether the request would arrive over TLS. The listener decides that the question names; without one, the
/// scheme of the URL, and without that the first listener.
pub fn is_secure(request: &ExplainRequest, plan: &Plan, at: Option<&PlannedListener>) -> bool {
    if let Some(at) = at {
        return at.tls.is_some();
    }
    match request.url.split_once("://") {
        Some((scheme, _)) if !scheme.contains(['/', '?', '#']) => scheme.eq_ignore_ascii_case("https"),
        _ => plan.listeners.first().is_some_and(|listener| listener.tls.is_some()),
    }
}

/// A URL's parts.
#[derive(Debug, PartialEq, Eq)]
struct UrlParts<'a> {
    authority: Option<&'a str>,
    /// Path and query, as a client sends them.
    target: String,
}

fn split(url: &str) -> Result<UrlParts<'_>, String> {
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("a URL has no blanks or control characters: encode them, `%20` for example".to_owned());
    }
    // Clients do not send the fragment.
    let url = url.split('#').next().unwrap_or_default();
    if url.is_empty() {
        return Err("the URL is empty: write `/path`, `host/path` or `http://host:port/path`".to_owned());
    }
    if url.starts_with('/') || url == "*" {
        return Ok(UrlParts { authority: None, target: url.to_owned() });
    }
    let rest = match url.split_once("://") {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
        {
            rest
        }
        // A query may contain a URL of its own.
        Some((scheme, _)) if !scheme.contains(['/', '?']) => {
            return Err(format!("`{scheme}://` is not `http://`"));
        }
        _ => url,
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.is_empty() {
        return Err(format!("`{url}` names no host"));
    }
    if authority.contains('@') {
        return Err(
            "a URL with a user name is not sent as such: leave it out, or use `-H 'Authorization: ...'`"
                .into(),
        );
    }
    // An empty path is sent as `/` (RFC 9110, 4.2.3).
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(UrlParts { authority: Some(authority), target: format!("{slash}{path}") })
}

/// Returns the authority by which a client on this machine would reach this listener, or the first one.
fn default_authority(plan: &Plan, at: Option<&PlannedListener>) -> String {
    if let Some(host) = at.and_then(|at| at.hosts.first()) {
        // A name that the wildcard covers.
        return host.strip_prefix("*.").map_or_else(|| host.clone(), |base| format!("www.{base}"));
    }
    let address = at.and_then(|at| at.bind.tcp());
    let address = address.or_else(|| plan.listeners.iter().find_map(|listener| listener.bind.tcp()));
    let address = address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 80)));
    if address.ip().is_unspecified() { format!("localhost:{}", address.port()) } else { address.to_string() }
}

fn field(header: &str) -> Result<(&str, &str), String> {
    let wrong = || format!("`{}` is not a header: write `Name: value`", header.escape_debug());
    let (name, value) = header.split_once(':').ok_or_else(wrong)?;
    if name.is_empty() || header.contains(['\r', '\n', '\0']) {
        return Err(wrong());
    }
    Ok((name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let parts = |authority, target: &str| UrlParts { authority, target: target.to_owned() };
        for (url, expected) in [
            ("/v1/x?q=1", parts(None, "/v1/x?q=1")),
            ("/go?to=http://x/", parts(None, "/go?to=http://x/")),
            ("*", parts(None, "*")),
            ("api.example.com/v1", parts(Some("api.example.com"), "/v1")),
            ("api.example.com/?u=http://x", parts(Some("api.example.com"), "/?u=http://x")),
            ("api.example.com", parts(Some("api.example.com"), "/")),
            ("http://h:81/a/../b", parts(Some("h:81"), "/a/../b")),
            ("HTTPS://h?x", parts(Some("h"), "/?x")),
            ("http://[::1]:8080/#top", parts(Some("[::1]:8080"), "/")),
        ] {
            assert_eq!(split(url), Ok(expected), "{url}");
        }
        for url in ["", "#x", "ftp://h/", "http:///x", "http://user@h/", "/a b", "/a\r\nX: y"] {
            assert!(split(url).is_err(), "{url}");
        }
    }

    #[test]
    fn fields() {
        assert_eq!(field("X-A:  b : c "), Ok(("X-A", "b : c")));
        assert_eq!(field("X-A:"), Ok(("X-A", "")));
        for header in ["X-A", ": b", "X: a\r\nY: b"] {
            assert!(field(header).is_err(), "{header}");
        }
    }
}
