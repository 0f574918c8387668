//! Host names and IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ScalarError, quantity};

/// The host of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostPattern {
    /// `*`: every host.
    Any,
    /// A host in lower case, or `*.` and a host. An IPv6 address is in brackets, as in `Host`.
    Name(String),
}

/// Parses the host of a match: a name, `*.` and a name, an IP address, or `*`.
pub(crate) fn pattern(text: &str) -> Result<HostPattern, ScalarError> {
    if text == "*" {
        return Ok(HostPattern::Any);
    }
    if let Some(base) = text.strip_prefix("*.") {
        if base.parse::<Ipv4Addr>().is_ok() {
            return Err(ScalarError::new("{} is neither a host nor an address"));
        }
        return Ok(HostPattern::Name(format!("*.{}", name(base, false).map_err(|fault| fault.shifted(2))?)));
    }
    if let Some(star) = text.chars().position(|c| c == '*') {
        let fault = ScalarError::new("{} has a `*` where none is allowed").part(star, 1);
        return Err(
            fault.help("a host is exact, or begins with `*.`: `*.example.com` is every host below it")
        );
    }
    literal(text).map(HostPattern::Name)
}

/// Parses a host without wildcards. Returns it in lower case; an IPv6 address is in brackets.
pub(crate) fn literal(text: &str) -> Result<String, ScalarError> {
    if let Some(inside) = text.strip_prefix('[') {
        let address = inside.strip_suffix(']').and_then(|inside| inside.parse::<Ipv6Addr>().ok());
        return match address {
            Some(address) => Ok(format!("[{address}]")),
            None => Err(ScalarError::new("{} is not an IPv6 address in brackets")),
        };
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(ScalarError::new("{} needs brackets").suggest(format!("write `\"[{text}]\"`")));
    }
    name(text, false)
}

/// Parses `host` or `host:port`.
pub(crate) fn authority(text: &str) -> Result<String, ScalarError> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !text.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let name = literal(name)?;
    match port {
        None => Ok(name),
        Some(port) => {
            let number = quantity::count(port, 1, 65_535)
                .map_err(|_| ScalarError::new("{} has no port from 1 to 65535"))?;
            Ok(format!("{name}:{number}"))
        }
    }
}

/// Parses an endpoint's host, without brackets. Underscores are accepted, because container platforms create
/// such names.
pub(crate) fn endpoint(text: &str) -> Result<String, ScalarError> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    name(text, true)
}

/// Checks a name of letters, digits and hyphens (RFC 1123, section 2.1) or an IPv4 address. Returns it in
/// lower case.
fn name(text: &str, underscore: bool) -> Result<String, ScalarError> {
    if text.is_empty() {
        return Err(ScalarError::new("{} has no host"));
    }
    if let Some(odd) = text.chars().position(|c| !c.is_ascii()) {
        let fault = ScalarError::new("{} has a character that is not allowed in host names").part(odd, 1);
        return Err(fault.help("write an international name in its ASCII form, which begins with `xn--`"));
    }
    if text.ends_with('.') {
        return Err(ScalarError::new("{} ends with a dot").help("remove the dot: names are always absolute"));
    }
    let odd = text
        .chars()
        .position(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.') || underscore && c == '_'));
    if let Some(odd) = odd {
        return Err(ScalarError::new("{} has a character that is not allowed in host names").part(odd, 1));
    }
    // RFC 1035, section 2.3.4: at most 63 octets per label and 253 as text.
    if text.len() > 253 {
        return Err(ScalarError::new("{} is longer than the 253 characters of a host name"));
    }
    for label in text.split('.') {
        if label.is_empty() {
            return Err(ScalarError::new("{} has an empty part between two dots"));
        }
        if label.len() > 63 {
            return Err(ScalarError::new("{} has a part of more than 63 characters"));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(ScalarError::new("{} has a part that begins or ends with `-`"));
        }
    }
    let numeric = text.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    if numeric && text.parse::<Ipv4Addr>().is_err() {
        return Err(ScalarError::new("{} is neither a host nor an address"));
    }
    Ok(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_matches() {
        let read = |text| match pattern(text) {
            Ok(HostPattern::Name(name)) => Some(name),
            Ok(HostPattern::Any) => Some("any".into()),
            Err(_) => None,
        };
        for (text, host) in [
            ("*", "any"),
            ("API.example.com", "api.example.com"),
            ("*.Example.com", "*.example.com"),
            ("10.0.0.1", "10.0.0.1"),
            ("[::1]", "[::1]"),
            ("[0:0::1]", "[::1]"),
            ("localhost", "localhost"),
            ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ] {
            assert_eq!(read(text).as_deref(), Some(host), "{text}");
        }
        for text in [
            "",
            "a..b",
            "-a.b",
            "a-.b",
            "a_b.c",
            "münchen.de",
            "10.0.0.256",
            "1.2.3",
            "a.",
            "*a.b",
            "a.*",
            "**",
            "*.",
            "::1",
            "[::1",
            "a b",
            "*.10.0.0.1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(pattern(&format!("{}.com", "a".repeat(64))).is_err());
    }

    #[test]
    fn endpoints_may_have_underscores() {
        assert_eq!(endpoint("my_app"), Ok("my_app".into()));
        assert_eq!(endpoint("::1"), Ok("::1".into()));
    }
}
