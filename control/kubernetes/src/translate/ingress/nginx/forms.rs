//! The forms of values that the gateway takes in its documents.
//!
//! The values of annotations are checked here before they become part of a document, because the gateway refuses a document
//! as a whole: one odd origin of `cors-allow-origin` would take all paths of its Ingress out of service. A test translates
//! odd values of every annotation, and compiles what they become.

use std::net::Ipv4Addr;

/// Fields of requests that only the gateway sets.
const OWN_FIELDS: [&str; 16] = [
    "cdn-loop",
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
];

/// Returns whether a text is a token (RFC 9110, section 5.6.2): the name of a field, a method or a cookie.
pub fn is_token(text: &str) -> bool {
    let is_mark = |c: char| "!#$%&'+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || is_mark(c))
}

/// Returns whether a text is a name as variables of nginx and parameters of URLs have it.
pub fn is_plain_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.~".contains(c))
}

/// Returns whether other systems may set a field of requests.
pub fn is_free_field(name: &str) -> bool {
    is_token(name) && !OWN_FIELDS.contains(&name.to_ascii_lowercase().as_str())
}

/// Returns whether a text can be the value of a field.
pub fn is_field_value(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// Returns whether a text is a host name, without a port.
pub fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A name that ends in a number is an address (RFC 3986, section 3.2.2).
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = !text.rsplit('.').next().is_some_and(is_number);
    text.len() <= 253 && text.split('.').all(is_label) && (is_name || text.parse::<Ipv4Addr>().is_ok())
}

/// Returns whether a text is the name of a Service or of another object.
pub fn is_object_name(text: &str) -> bool {
    is_host(text) && text == text.to_ascii_lowercase()
}

/// Splits a host with an optional port.
pub fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    match authority.rsplit_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok().filter(|port| *port > 0)?))),
        None => Some((authority, None)),
    }
}

/// Returns whether a text is an origin: `*`, `null`, or a scheme with a host, whose first label may be `*`.
pub fn is_origin(text: &str) -> bool {
    if matches!(text, "*" | "null") {
        return true;
    }
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let Some((host, _)) = host_and_port(authority) else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(is_scheme)
        && is_host(host.strip_prefix("*.").unwrap_or(host))
}

/// Returns whether a text can be a URL of `http` or `https` after its variables are filled in.
pub fn is_url(text: &str) -> bool {
    let text = without_braces(text);
    let rest = ["http://", "https://", "$scheme://"].iter().find_map(|start| text.strip_prefix(start));
    let Some(rest) = rest else { return false };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    !host.is_empty() && !authority.contains('@') && rest.chars().all(|c| is_of_url(c) && c != '#')
}

/// Writes variables without their braces: `$name` in place of `${name}`.
fn without_braces(text: &str) -> String {
    let mut parts = text.split("${");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((name, rest)) => out.extend(["$", name, rest]),
            None => out.extend(["${", part]),
        }
    }
    out
}

/// Returns whether a character can be a part of a URL.
fn is_of_url(c: char) -> bool {
    c.is_ascii_graphic() && !"{}<>\"\\^`|".contains(c)
}

/// Returns why no request has a path; `None`: requests may have it.
pub fn unusable_path(path: &str) -> Option<&'static str> {
    let lower = path.to_ascii_lowercase();
    let mut escapes = path.split('%').skip(1);
    let is_escape =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    match path {
        _ if !path.starts_with('/') => Some("it does not begin with `/`"),
        _ if path.contains(['?', '#']) => Some("a path ends before `?` and `#`"),
        _ if path.contains('\\') => Some("no path has a `\\`"),
        _ if path.contains(|c: char| c.is_whitespace() || c.is_control()) => Some("no path has a blank"),
        _ if !escapes.all(is_escape) => Some("a `%` begins a character in hexadecimal digits"),
        _ if lower.contains("%2f") || lower.contains("%5c") || lower.contains("%00") => {
            Some("requests with an encoded slash are rejected")
        }
        _ if path.split('/').any(|segment| matches!(segment.split(';').next(), Some("." | ".."))) => {
            Some("requests never have `.` and `..` here")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        for (text, is) in [
            ("*", true),
            ("null", true),
            ("https://a.example", true),
            ("http://*.a.example:8443", true),
            ("capacitor://localhost", true),
            ("a.example", false),
            ("https://*", false),
            ("https://a.example/", false),
            ("https://a.*.example", false),
            ("https://a.example:0", false),
            ("https://a b", false),
        ] {
            assert_eq!(is_origin(text), is, "{text}");
        }
    }

    #[test]
    fn urls() {
        for (text, is) in [
            ("http://auth.demo.svc/check?a=b", true),
            ("https://$host/oauth2/auth", true),
            ("$scheme://a:8080", true),
            ("https://${host}/a", true),
            ("https://{host}/a", false),
            ("http://", false),
            ("http:///x", false),
            ("http://user:password@a/", false),
            ("http://a b/", false),
            ("http://a/#x", false),
            ("ftp://a/", false),
        ] {
            assert_eq!(is_url(text), is, "{text}");
        }
    }

    #[test]
    fn paths_that_no_request_has() {
        for path in ["a", "/a b", "/a?b", "/a#b", "/a\\d", "/%2f", "/%zz", "/a/../b", "/.", "/..;a"] {
            assert!(unusable_path(path).is_some(), "{path}");
        }
        for path in ["/", "/a.b", "/a/", "/%20", "/ä", "/a+(b)"] {
            assert_eq!(unusable_path(path), None, "{path}");
        }
    }

    #[test]
    fn fields_that_others_may_set() {
        assert!(is_free_field("X-User") && is_free_field("Authorization"));
        assert!(!is_free_field("Host") && !is_free_field("X-Forwarded-For") && !is_free_field("a b"));
    }
}
