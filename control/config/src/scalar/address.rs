//! Addresses to bind and addresses of endpoints.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::{ScalarError, host};

/// The destination that a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetText {
    /// An endpoint's address, written in the route.
    Endpoint(EndpointAddress),
    /// An entry under `upstreams`.
    Upstream(String),
}

/// Address and protocol of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointAddress {
    /// The protocol.
    pub scheme: Scheme,
    /// The address.
    pub address: Address,
}

/// Protocol of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP/1.1 in plain text (`host:port` or `http://host:port`).
    #[default]
    Http,
    /// HTTP/1.1 over TLS (`https://host:port`), or HTTP/2 if the upstream's `http2` says so.
    Https,
    /// HTTP/2 by prior knowledge, in plain text (`h2c://host:port`).
    H2c,
}

/// Address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name or address, and a port of at least 1.
    Tcp {
        /// Host name or IP address (an IPv6 address without brackets).
        host: String,
        /// Port.
        port: u16,
    },
    /// A unix socket (`unix:/path`).
    Unix(PathBuf),
}

/// Parses an address to bind: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, `:8080` (every address).
/// `alone` is the address for a port without an address.
pub(crate) fn bind(text: &str, alone: IpAddr) -> Result<SocketAddr, ScalarError> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(SocketAddr::new(alone, port(text, 0, 0)?));
    }
    if text.contains("://") {
        return Err(ScalarError::new("{} is a URL, not an address and port")
            .help("write only the address and the port"));
    }
    let Some((host, number)) = text.rsplit_once(':').filter(|_| text.parse::<Ipv6Addr>().is_err()) else {
        let fault = ScalarError::new("{} has no port");
        if let Some(fixed) = bracketed(text) {
            return Err(ScalarError::new("{} needs brackets around its address")
                .suggest(format!("write `\"{fixed}\"`")));
        }
        return Err(match text.parse::<IpAddr>() {
            Ok(address) => fault.suggest(format!("write `{}`", quoted(SocketAddr::new(address, 8080)))),
            Err(_) => fault,
        });
    };
    let port = port(number, host.chars().count() + 1, 0)?;
    let address = match host {
        "" | "*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => match host.strip_prefix('[').and_then(|inside| inside.strip_suffix(']')) {
            Some(inside) => inside.parse::<Ipv6Addr>().map(IpAddr::V6).ok(),
            None => host.parse::<Ipv4Addr>().map(IpAddr::V4).ok(),
        }
        .ok_or_else(|| {
            let length = host.chars().count();
            if host.parse::<Ipv6Addr>().is_ok() {
                return ScalarError::new("{} needs brackets").suggest(format!("write `\"[{host}]:{port}\"`"));
            }
            ScalarError::new("{} does not begin with an IP address")
                .part(0, length)
                .help("names are not looked up here")
        })?,
    };
    Ok(SocketAddr::new(address, port))
}

/// Formats an address for a suggestion: quoted if YAML would read the brackets as a list.
fn quoted(address: SocketAddr) -> String {
    if address.is_ipv6() { format!("\"{address}\"") } else { address.to_string() }
}

/// Suggests brackets: `::1:80` parses as an IPv6 address, although its author meant a port.
fn bracketed(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':')?;
    let (address, port) = (host.parse::<Ipv6Addr>().ok()?, port.parse::<u16>().ok()?);
    Some(format!("[{address}]:{port}"))
}

fn port(text: &str, at: usize, min: u16) -> Result<u16, ScalarError> {
    let digits = !text.is_empty() && text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits && port >= min => Ok(port),
        _ => {
            let fault = ScalarError::new("{} has no port from 1 to 65535").part(at, text.chars().count());
            Err(if text.contains('/') { fault.help(NO_PATH) } else { fault })
        }
    }
}

const NO_PATH: &str = "an endpoint has no path: use `rewrite` to change the path of requests";

/// Parses the target of a route: an endpoint or the name of an upstream.
pub(crate) fn target(text: &str) -> Result<TargetText, ScalarError> {
    if !text.contains(':') && !text.contains('/') {
        if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
            return Err(ScalarError::new("{} has no host")
                .suggest(format!("write `127.0.0.1:{text}` for this machine")));
        }
        if text.parse::<Ipv4Addr>().is_ok() || text == "localhost" {
            return Err(ScalarError::new("{} has no port").suggest(format!("write `{text}:80`")));
        }
        return upstream(text).map(TargetText::Upstream);
    }
    endpoint(text).map(TargetText::Endpoint)
}

/// Checks the name of an upstream.
pub fn upstream(text: &str) -> Result<String, ScalarError> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if let Some(odd) = text.chars().position(|c| !known(c)) {
        let fault = ScalarError::new("{} is not a name").part(odd, 1);
        return Err(fault.help("the name of an upstream has letters, digits, `_`, `-` and `.`"));
    }
    if text.is_empty() || text.len() > 128 {
        return Err(
            ScalarError::new("{} is not a name").help("the name of an upstream has 1 to 128 characters")
        );
    }
    if text.parse::<IpAddr>().is_ok() || text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(
            ScalarError::new("{} looks like an address").help("give the upstream a name with letters")
        );
    }
    Ok(text.to_owned())
}

/// Parses an endpoint: `host:port`, `http://host[:port]`, `https://host[:port]`, `h2c://host:port`,
/// `unix:/path`.
pub(crate) fn endpoint(text: &str) -> Result<EndpointAddress, ScalarError> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        // `sun_path` has 108 bytes, including the final NUL (unix(7)).
        if !path.starts_with('/') || path.len() > 107 || path.chars().any(char::is_control) {
            let fault = ScalarError::new("{} is not the path of a socket");
            return Err(
                fault.help("write `unix:` and an absolute path of at most 107 bytes: `unix:/run/app.sock`")
            );
        }
        return Ok(EndpointAddress { scheme: Scheme::Http, address: Address::Unix(PathBuf::from(path)) });
    }
    let (scheme, rest, default) = match text.split_once("://") {
        None => (Scheme::Http, text, None),
        Some(("http", rest)) => (Scheme::Http, rest, Some(80)),
        Some(("https", rest)) => (Scheme::Https, rest, Some(443)),
        Some(("h2c", rest)) => (Scheme::H2c, rest, Some(80)),
        Some((other, _)) => {
            let fault = ScalarError::new("{} has an unknown scheme").part(0, other.chars().count());
            return Err(fault.help("the schemes are `http`, `https` and `h2c`, and `unix:/path`"));
        }
    };
    let start = text.chars().count() - rest.chars().count();
    if let Some(slash) = rest.chars().position(|c| matches!(c, '/' | '?' | '#')) {
        let length = rest.chars().count() - slash;
        return Err(ScalarError::new("{} has a path").part(start + slash, length).help(NO_PATH));
    }
    if rest.contains('@') {
        let fault = ScalarError::new("{} has a user name in it");
        return Err(fault.help("endpoints accept no credentials: remove them"));
    }
    let (name, port) = if let Some(inside) = rest.strip_prefix('[') {
        let Some((address, tail)) = inside.split_once(']') else {
            return Err(ScalarError::new("{} has a bracket that is not closed"));
        };
        if address.parse::<Ipv6Addr>().is_err() {
            let fault = ScalarError::new("{} is not an IPv6 address in brackets");
            return Err(fault.part(start + 1, address.chars().count()));
        }
        let at = start + address.chars().count() + 3;
        match tail.strip_prefix(':') {
            Some(number) => (address, Some(self::port(number, at, 1)?)),
            None if tail.is_empty() => (address, None),
            None => return Err(ScalarError::new("{} has text after its bracket")),
        }
    } else if rest.parse::<Ipv6Addr>().is_ok() {
        let fixed = bracketed(rest).unwrap_or_else(|| format!("[{rest}]:80"));
        return Err(
            ScalarError::new("{} needs brackets around its address").suggest(format!("write `\"{fixed}\"`"))
        );
    } else {
        match rest.split_once(':') {
            Some((name, number)) => (name, Some(self::port(number, start + name.chars().count() + 1, 1)?)),
            None => (rest, None),
        }
    };
    if name.is_empty() {
        let fault = ScalarError::new("{} has no host");
        return Err(fault.suggest(format!("write `127.0.0.1:{}` for this machine", port.unwrap_or(80))));
    }
    let Some(port) = port.or(default) else {
        return Err(ScalarError::new("{} has no port").suggest(format!("write `{text}:80`")));
    };
    let host = host::endpoint(name).map_err(|fault| fault.shifted(start))?;
    Ok(EndpointAddress { scheme, address: Address::Tcp { host, port } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_bind() {
        let all = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let read = |text| bind(text, all).ok().map(|address| address.to_string());
        for (text, address) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            (":8080", "[::]:8080"),
            ("*:80", "[::]:80"),
            ("8080", "[::]:8080"),
            ("[::]:8080", "[::]:8080"),
            ("[::1]:0", "[::1]:0"),
            ("localhost:80", "127.0.0.1:80"),
        ] {
            assert_eq!(read(text).as_deref(), Some(address), "{text}");
        }
        for text in [
            "",
            ":",
            "127.0.0.1",
            "127.0.0.1:",
            ":65536",
            ":+80",
            "host:80",
            "::1:80",
            "::1",
            "http://:80",
            "[::1:80",
            "99999",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn endpoints() {
        let read = |text| {
            endpoint(text).ok().map(|endpoint| match endpoint.address {
                Address::Tcp { host, port } => format!("{:?} {host} {port}", endpoint.scheme),
                Address::Unix(path) => format!("unix {}", path.display()),
            })
        };
        for (text, endpoint) in [
            ("10.0.0.1:8080", "Http 10.0.0.1 8080"),
            ("Api.internal:80", "Http api.internal 80"),
            ("my_app:80", "Http my_app 80"),
            ("http://a", "Http a 80"),
            ("https://a", "Https a 443"),
            ("https://a:8443", "Https a 8443"),
            ("h2c://[::1]:9", "H2c ::1 9"),
            ("[::1]:9", "Http ::1 9"),
            ("unix:/run/a.sock", "unix /run/a.sock"),
            ("unix:///run/a.sock", "unix /run/a.sock"),
        ] {
            assert_eq!(read(text).as_deref(), Some(endpoint), "{text}");
        }
        for text in [
            "",
            "a",
            ":80",
            "a:",
            "a:0",
            "a:x",
            "a:80/x",
            "http://a/",
            "http://a:80/x",
            "ftp://a",
            "http://",
            "[::1]",
            "[x]:80",
            "[::1]80",
            "::1",
            "unix:x",
            "unix:",
            "http://u:p@a",
            "a:80:90",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn names_and_endpoints_are_distinguished() {
        assert_eq!(target("api"), Ok(TargetText::Upstream("api".into())));
        assert!(matches!(target("api:80"), Ok(TargetText::Endpoint(_))));
        for text in ["10.0.0.1", "localhost", "8080", "", "a b"] {
            assert!(target(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wrong_port_is_pointed_at() {
        assert_eq!(endpoint("http://a:99999").unwrap_err().part, Some((9, 5)));
        assert_eq!(endpoint("[::1]:99999").unwrap_err().part, Some((6, 5)));
        assert_eq!(bind("127.0.0.1:x", IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap_err().part, Some((10, 1)));
    }
}
