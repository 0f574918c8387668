//! Decides whether the listener answers to the host that a request names.
//!
//! This prevents DNS rebinding: an attacker's page points its own name at this machine, and the browser then
//! treats the listener's answers as the attacker's own. The browser sends that name as `Host`, so it can be
//! recognised. An IP address and `localhost` cannot be the attacker's name.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::HOST;

use super::tokens::AccessRules;

/// Returns whether the listener answers to every host that the request names. True for a request without any,
/// since browsers always send one.
pub fn is_allowed(access: &AccessRules, request: &Request) -> bool {
    let is_allowed = |host: &str| {
        let name = without_port(host);
        is_local(name) || access.allows_host(name)
    };
    // A target in absolute form counts too (RFC 9112, section 3.2.2).
    let target = request.uri().authority().map(|authority| authority.as_str());
    let fields = request.headers().get_all(HOST).iter().map(|value| value.to_str().unwrap_or("(not text)"));
    target.into_iter().chain(fields).all(is_allowed)
}

fn without_port(host: &str) -> &str {
    let port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    host.rsplit_once(':').filter(|(_, end)| port(end)).map_or(host, |(name, _)| name)
}

/// Returns whether a name means this machine in every network. A name without a dot does not: any host in the
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
    fn foreign_host_names_are_recognised() {
        let open = AccessRules::new(Some(&tollgate_config::AdminSettings::default()));
        for (hosts, known) in [
            (&["127.0.0.1:9911"][..], true),
            (&["[::1]:9911"], true),
            (&["10.0.0.7"], true),
            (&["localhost"], true),
            (&["LOCALHOST:80"], true),
            (&[], true),
            (&["admin"], false),
            (&["localhost.evil.example"], false),
            (&["evil.example:9911"], false),
            (&["127.0.0.1.evil.example"], false),
            (&["localhost", "evil.example"], false),
            (&[""], false),
        ] {
            let mut request = Request::new(Body::empty());
            for host in hosts {
                request.headers_mut().append(HOST, host.parse().expect("a value"));
            }
            assert_eq!(is_allowed(&open, &request), known, "{hosts:?}");
        }
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = "http://evil.example/metrics".parse().expect("a target");
        assert!(!is_allowed(&open, &request));
    }
}
