//! The destination of a URL: its parts, its address, and the fields of a plan that it stands for.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Whether a target is a URL: everything else is the file of a plan.
pub fn is_url(target: &str) -> bool {
    target.contains("://")
}

/// The destination of a URL.
#[derive(Debug, PartialEq, Eq)]
pub struct Destination {
    pub https: bool,
    pub web_socket: bool,
    /// Host and port as they stand in the URL: the value of `Host`.
    pub authority: String,
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl Destination {
    /// Takes a URL apart.
    pub fn parse(url: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{url}: {what}");
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("expected a URL"))?;
        let (https, web_socket) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (false, false),
            "https" => (true, false),
            "ws" => (false, true),
            "wss" => (true, true),
            _ => return Err(wrong("expected http://, https://, ws:// or wss://")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) if rest[at..].starts_with('/') => (&rest[..at], rest[at..].to_owned()),
            Some(at) => (&rest[..at], format!("/{}", &rest[at..])),
            None => (rest, "/".to_owned()),
        };
        let parsed: http::uri::Authority = authority
            .parse()
            .map_err(|_| wrong("expected a host after ://, such as example.com or 127.0.0.1:8080"))?;
        if authority.contains('@') {
            return Err(wrong("a user in the URL is not sent: use `-H 'Authorization: Basic ...'`"));
        }
        if parsed.as_str().len() > parsed.host().len() && parsed.port_u16().is_none() {
            return Err(wrong("expected a port of 0 to 65535 after the colon"));
        }
        let host = parsed.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = parsed.port_u16().unwrap_or(if https { 443 } else { 80 });
        Ok(Self { https, web_socket, authority: authority.to_owned(), host, port, path })
    }
}

/// How long each address of a name with several may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Resolves `HOST:PORT`. Of several addresses, the first that accepts a connection is taken, IPv4 first: a server on
/// `localhost` may listen on one of its two alone.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut found: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| format!("cannot resolve {host}: {error}"))?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.dedup();
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok();
    let reached = if found.len() > 1 { found.iter().find(answers) } else { None };
    let chosen = reached.or(found.first()).copied();
    chosen.ok_or_else(|| format!("cannot resolve {host}: the name has no address"))
}

/// Replaces the URL in a plan's `target` by the address, the host and TLS that it stands for.
pub fn expand(plan: &mut serde_json::Value) -> Result<(), String> {
    let Some(url) = plan.get("target").and_then(|target| target.as_str()).filter(|text| is_url(text)) else {
        return Ok(());
    };
    let url = url.to_owned();
    let to = Destination::parse(&url)?;
    plan["target"] = resolve(&to.host, to.port)?.to_string().into();
    if to.https && plan.get("https").is_none() {
        plan["https"] = serde_json::json!({"name": to.host});
    }
    if to.web_socket && plan.get("protocol").is_none() {
        plan["protocol"] = "web-socket".into();
    }
    if plan.get("requests").is_none() {
        plan["requests"] = serde_json::json!([{"path": to.path}]);
    }
    for request in plan["requests"].as_array_mut().into_iter().flatten() {
        if request.is_object() && request.get("host").is_none() {
            request["host"] = to.authority.clone().into();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let at = |url: &str| {
            let to = Destination::parse(url).unwrap();
            (to.host, to.port, to.authority, to.path)
        };
        let own = |parts: (&str, u16, &str, &str)| {
            (parts.0.to_owned(), parts.1, parts.2.to_owned(), parts.3.to_owned())
        };
        assert_eq!(at("http://a.test"), own(("a.test", 80, "a.test", "/")));
        assert_eq!(at("https://a.test:8443/x?y#z"), own(("a.test", 8443, "a.test:8443", "/x?y")));
        assert_eq!(at("http://[::1]:81?q={{id}}"), own(("::1", 81, "[::1]:81", "/?q={{id}}")));
        assert!(Destination::parse("wss://a").unwrap().web_socket);
        for (url, words) in [
            ("ftp://a", "expected http://"),
            ("http://", "expected a host"),
            ("http://a:99999/", "expected a port"),
            ("http://me:pw@a/", "Authorization"),
        ] {
            assert!(Destination::parse(url).unwrap_err().contains(words), "{url}");
        }
    }
}
