//! Decodes the path of a request to a path below a root.

/// The path cannot name a file: it is not encoded correctly, or holds a byte that no name of a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPath(pub &'static str);

/// A component of the path begins with a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hidden;

/// Decodes a path once, to a path relative to the root. A slash at its end is kept: it asks for a directory. The
/// root itself is the empty path. Empty components are left out.
///
/// # Errors
/// If the path is not encoded correctly, or holds a NUL, an encoded slash, or a component `.` or `..`.
pub fn decode(path: &[u8], out: &mut Vec<u8>) -> Result<(), BadPath> {
    out.clear();
    let Some(inner) = path.strip_prefix(b"/") else {
        return Err(BadPath("the path does not begin with `/`"));
    };
    for component in inner.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
        if !out.is_empty() {
            out.push(b'/');
        }
        let start = out.len();
        decode_component(component, out)?;
        if matches!(&out[start..], b"." | b"..") {
            return Err(BadPath("the path leads upwards"));
        }
    }
    if inner.ends_with(b"/") && !out.is_empty() {
        out.push(b'/');
    }
    Ok(())
}

fn decode_component(component: &[u8], out: &mut Vec<u8>) -> Result<(), BadPath> {
    let mut bytes = component.iter();
    while let Some(byte) = bytes.next() {
        let decoded = match byte {
            b'%' => {
                let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(BadPath("a percent sign is not followed by two hexadecimal digits"));
                };
                (high * 16 + low) as u8
            }
            byte => *byte,
        };
        match decoded {
            0 => return Err(BadPath("the path holds a NUL")),
            b'/' => return Err(BadPath("the path holds an encoded slash")),
            decoded => out.push(decoded),
        }
    }
    Ok(())
}

/// Returns whether a component of this path begins with a dot. `.well-known` (RFC 8615) does not count.
#[must_use]
pub fn is_hidden(path: &[u8]) -> bool {
    let mut components = path.split(|byte| *byte == b'/');
    components.any(|component| component.starts_with(b".") && component != b".well-known")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(path: &str) -> Result<String, &'static str> {
        let mut out = Vec::new();
        decode(path.as_bytes(), &mut out).map_err(|bad| bad.0)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn a_path_is_decoded_once() {
        for (path, expected) in [
            ("/", ""),
            ("//", ""),
            ("/a/b.css", "a/b.css"),
            ("/a//b/", "a/b/"),
            ("/a%20b", "a b"),
            ("/%2541", "%41"),
            ("/%c3%a4", "ä"),
            ("/a%5cb", "a\\b"),
        ] {
            assert_eq!(decoded(path), Ok(expected.to_owned()), "{path}");
        }
        for path in [
            "",
            "a",
            "*",
            "/a%2fb",
            "/a%2Fb",
            "/a%00",
            "/%",
            "/%4",
            "/%zz",
            "/..",
            "/a/../b",
            "/%2e%2e/b",
            "/./b",
        ] {
            assert!(decoded(path).is_err(), "{path}");
        }
    }

    #[test]
    fn dots_hide() {
        for path in [".git/config", "a/.env", ".htaccess", "..", "...", "a/.well-known/.x"] {
            assert!(is_hidden(path.as_bytes()), "{path}");
        }
        for path in ["", "a.b", "a/b.", ".well-known/acme-challenge/x"] {
            assert!(!is_hidden(path.as_bytes()), "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_upwards(path in "(/|%2e|%2E|%2f|\\.|a|%25|%00|%){0,20}") {
            let mut out = Vec::new();
            if decode(path.as_bytes(), &mut out).is_ok() {
                prop_assert!(!out.starts_with(b"/") && !out.contains(&0));
                prop_assert!(out.split(|byte| *byte == b'/').all(|part| part != b".." && part != b"."));
            }
        }
    }
}
