//! Whether the listener answers to the host that a request names.
//!
//! A page of a stranger can lead its own name to this machine (DNS rebinding), and a browser then takes the answers of
//! this listener for the stranger's own. The browser sends the stranger's name as `Host`, so the name gives it away. An IP
//! address and `localhost` cannot be a stranger's name.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::HOST;

use super::tokens::Access;

/// Whether every host that the request names is one that the listener answers to. A request without any comes from no
/// browser.
pub fn is_known(access: &Access, request: &Request) -> bool {
    let is_known = |host: &str| {
        let name = without_port(host);
        is_local(name) || access.answers_to(name)
    };
    // The target in absolute form counts too (RFC 9112, section 3.2.2).
    let target = request.uri().authority().map(|authority| authority.as_str());
    let fields = request.headers().get_all(HOST).iter().map(|value| value.to_str().unwrap_or("(not text)"));
    target.into_iter().chain(fields).all(is_known)
}

fn without_port(host: &str) -> &str {
    let port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    host.rsplit_once(':').filter(|(_, end)| port(end)).map_or(host, |(name, _)| name)
}

/// Whether a name is this machine's whoever answers for it in the network. A name without a dot is not: whoever is in the
/// same network can answer for it (RFC 4795).
fn is_local(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn names_that_could_be_a_strangers_are_told_from_this_machine() {
        let open = Access::new(Some(&tollgate_config::AdminSettings::default()));
        for (hosts, known) in [
            (&["127.0.0.1:9901"][..], true),
            (&["[::1]:9901"], true),
            (&["10.0.0.7"], true),
            (&["localhost"], true),
            (&["LOCALHOST:80"], true),
            (&[], true),
            (&["admin"], false),
            (&["localhost.evil.example"], false),
            (&["evil.example:9901"], false),
            (&["127.0.0.1.evil.example"], false),
            (&["localhost", "evil.example"], false),
            (&[""], false),
        ] {
            let mut request = Request::new(Body::empty());
            for host in hosts {
                request.headers_mut().append(HOST, host.parse().expect("a value"));
            }
            assert_eq!(is_known(&open, &request), known, "{hosts:?}");
        }
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = "http://evil.example/metrics".parse().expect("a target");
        assert!(!is_known(&open, &request));
    }
}
