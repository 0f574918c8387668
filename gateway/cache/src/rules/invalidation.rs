//! Lists the targets whose stored responses an unsafe request invalidates (RFC 9111, 4.4).

use tollgate_http::{Name, RequestHead, ResponseHead};

/// A target whose stored responses are invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalidated {
    /// The target of the request itself.
    Own,
    /// A path with its query, on the host of the request. As the endpoint wrote it: bring it to its normal form
    /// before it becomes a key.
    Target(Vec<u8>),
}

/// Lists the targets whose stored responses must be [purged](crate::Store::purge) after a response: its own, and
/// those that `Location` and `Content-Location` name, if they have the same origin. Empty for a safe method and for
/// an error.
#[must_use]
pub fn invalidated(request: &RequestHead, is_secure: bool, response: &ResponseHead) -> Vec<Invalidated> {
    if request.is_safe() || !(200..400).contains(&response.status) {
        return Vec::new();
    }
    let head = &response.head;
    let named = [head.get(Name::Location), head.get_by_text(b"content-location")];
    let mut targets = vec![Invalidated::Own];
    for target in named.into_iter().flatten().filter_map(|reference| resolve(reference, request, is_secure)) {
        let target = Invalidated::Target(target);
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

/// Resolves a reference against the target of the request. `None`: it has another origin, or is malformed.
fn resolve(reference: &[u8], request: &RequestHead, is_secure: bool) -> Option<Vec<u8>> {
    let reference = reference.split(|byte| *byte == b'#').next()?;
    let scheme: &[u8] = if is_secure { b"https:" } else { b"http:" };
    let after_scheme = match reference.split_at_checked(scheme.len()) {
        Some((begin, rest)) if begin.eq_ignore_ascii_case(scheme) => rest,
        _ => reference,
    };
    let is_absolute = after_scheme.len() != reference.len();
    if let Some(rest) = after_scheme.strip_prefix(b"//") {
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let own = without_default_port(request.slice(request.authority), is_secure);
        if !without_default_port(authority, is_secure).eq_ignore_ascii_case(own) {
            return None;
        }
        return Some(match target.first() {
            Some(b'/') => target.to_vec(),
            _ => [b"/", target].concat(),
        });
    }
    let has_other_scheme =
        after_scheme.iter().take_while(|byte| !matches!(byte, b'/' | b'?')).any(|byte| *byte == b':');
    if is_absolute || has_other_scheme {
        return None;
    }
    let path = request.slice(request.path);
    match reference.first() {
        Some(b'/') => Some(reference.to_vec()),
        Some(b'?') => Some([path, reference].concat()),
        None => None,
        Some(_) => {
            let directory =
                path.iter().rposition(|byte| *byte == b'/').map_or(&b"/"[..], |slash| &path[..=slash]);
            Some([directory, reference].concat())
        }
    }
}

fn without_default_port(authority: &[u8], is_secure: bool) -> &[u8] {
    let port: &[u8] = if is_secure { b":443" } else { b":80" };
    authority.strip_suffix(port).or_else(|| authority.strip_suffix(b":")).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_messages::{request, response};

    fn targets(method: &str, status: u16, fields: &str) -> Vec<String> {
        let show = |target| match target {
            Invalidated::Own => "own".to_owned(),
            Invalidated::Target(target) => String::from_utf8(target).expect("text"),
        };
        let asked = request(method, "/a/b?c", "");
        invalidated(&asked, false, &response(status, fields)).into_iter().map(show).collect()
    }

    #[test]
    fn unsafe_methods_invalidate_as_in_rfc_9111_4_4() {
        for (method, status, expected) in [
            ("GET", 200, &[][..]),
            ("HEAD", 200, &[]),
            ("OPTIONS", 200, &[]),
            ("POST", 200, &["own"]),
            ("PUT", 204, &["own"]),
            ("DELETE", 303, &["own"]),
            ("PATCH", 201, &["own"]),
            ("PROPPATCH", 207, &["own"]),
            ("PROPFIND", 207, &[]),
            ("QUERY", 200, &[]),
            ("propfind", 207, &["own"]),
            ("POST", 400, &[]),
            ("POST", 503, &[]),
        ] {
            assert_eq!(targets(method, status, ""), expected, "{method} {status}");
        }
    }

    #[test]
    fn named_targets_of_the_same_origin() {
        for (value, expected) in [
            ("/x?y", Some("/x?y")),
            ("x", Some("/a/x")),
            ("?z", Some("/a/b?z")),
            ("http://a.example/x#f", Some("/x")),
            ("HTTP://A.EXAMPLE:80/x", Some("/x")),
            ("http://a.example", Some("/")),
            ("http://a.example?q", Some("/?q")),
            ("//a.example/x", Some("/x")),
            ("https://a.example/x", None),
            ("http://b.example/x", None),
            ("http://a.example.b/x", None),
            ("http://a.example:81/x", None),
            ("//b.example/x", None),
            ("mailto:a", None),
            ("http:x", None),
            ("#f", None),
        ] {
            for name in ["Location", "Content-Location"] {
                let found = targets("POST", 201, &format!("{name}: {value}\r\n"));
                let all: Vec<&str> = std::iter::once("own").chain(expected).collect();
                assert_eq!(found, all, "{name}: {value}");
            }
        }
        assert_eq!(targets("POST", 201, "Location: /x\r\nContent-Location: /x\r\n"), ["own", "/x"]);
        assert_eq!(targets("POST", 201, "Location: /x\r\nContent-Location: /y\r\n"), ["own", "/x", "/y"]);
    }
}
