//! The parts of a service's URL.

/// A server and the request target, taken from a URL that the configuration has checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceUrl {
    /// Whether the connection uses TLS.
    pub secure: bool,
    /// The host's name or address; an IPv6 address has no brackets.
    pub host: String,
    pub port: u16,
    /// The value of `Host`: the default port of the scheme is omitted.
    pub authority: String,
    /// The path with its query.
    pub path: String,
}

impl ServiceUrl {
    /// Parses an `http` or `https` URL; returns `None` if it is invalid.
    pub fn of(url: &str) -> Option<Self> {
        let (secure, rest) = match url.split_once("://")? {
            ("http", rest) => (false, rest),
            ("https", rest) => (true, rest),
            _ => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
            _ => (authority, None),
        };
        let usual = if secure { 443 } else { 80 };
        let port = port.unwrap_or(usual);
        let authority = if port == usual { host.to_owned() } else { format!("{host}:{port}") };
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        (!inner.is_empty() && plain(inner) && plain(&path)).then(|| Self {
            secure,
            host: inner.to_owned(),
            port,
            authority,
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_their_parts() {
        for (url, host, port, authority, path) in [
            ("http://a", "a", 80, "a", "/"),
            ("http://a:80/x?y", "a", 80, "a", "/x?y"),
            ("https://a:80?y", "a", 80, "a:80", "/?y"),
            ("https://[::1]/", "::1", 443, "[::1]", "/"),
            ("http://[::1]:81/", "::1", 81, "[::1]:81", "/"),
        ] {
            let target = ServiceUrl::of(url).unwrap_or_else(|| panic!("{url}"));
            assert_eq!((target.host.as_str(), target.port), (host, port), "{url}");
            assert_eq!((target.authority.as_str(), target.path.as_str()), (authority, path), "{url}");
        }
        for url in
            ["ftp://a/", "a", "http://", "http://:80/", "http://a:x/", "http://a:70000/", "http://a/ b"]
        {
            assert_eq!(ServiceUrl::of(url), None, "{url}");
        }
    }
}
