//! Paths of matches and rewrites, in the normal form that requests get before they are matched.

use super::ScalarError;

/// Encodes the text between the capture groups of a replacement, as [`path`] does. A space becomes `%20`.
pub(crate) fn piece(text: &str) -> Result<String, ScalarError> {
    if let Some(odd) = text.chars().position(char::is_control) {
        return Err(ScalarError::new("{} has a control character").part(odd, 1));
    }
    if let Some(mark) = text.chars().position(|c| c == '?' || c == '#') {
        let fault = ScalarError::new("{} has a character that is not allowed in paths").part(mark, 1);
        return Err(
            fault.help("write query parameters under `query` of `rewrite`: `{path: /x, query: {id: $1}}`")
        );
    }
    if let Some(odd) = text.chars().position(|c| c == '\\') {
        return Err(ScalarError::new("{} has a `\\`, which no path has").part(odd, 1));
    }
    encode(text).map(|text| text.replace(' ', "%20"))
}

/// Returns a path in normal form (RFC 3986, section 6.2.2): unreserved characters are decoded, non-ASCII ones
/// are encoded, and hexadecimal digits are in upper case. Every other character stays as in a request
/// (docs/paths.md): `|` and `%7C` differ.
pub(crate) fn path(text: &str) -> Result<String, ScalarError> {
    if !text.starts_with('/') {
        let fault = ScalarError::new("{} does not begin with `/`").part(0, 1);
        return Err(fault.suggest(format!("write `/{text}`")));
    }
    if let Some(odd) = text.chars().position(char::is_whitespace) {
        return Err(ScalarError::new("{} has a blank")
            .part(odd, 1)
            .help("a blank in a path is written `%20`"));
    }
    if let Some(odd) = text.chars().position(char::is_control) {
        return Err(ScalarError::new("{} has a control character").part(odd, 1));
    }
    if let Some(mark) = text.chars().position(|c| c == '?' || c == '#') {
        let fault = ScalarError::new("{} is more than a path").part(mark, text.chars().count() - mark);
        return Err(fault.help("a path ends before `?` and `#`; `query` in a match tests parameters"));
    }
    if let Some(odd) = text.chars().position(|c| c == '\\') {
        return Err(ScalarError::new("{} has a `\\`, which no path has").part(odd, 1));
    }
    let normal = encode(text)?;
    if normal.split('/').any(|segment| segment == "." || segment == "..") {
        let fault = ScalarError::new("{} has a `.` or `..` segment");
        return Err(fault.help("they are resolved before a request is matched, so this could not match"));
    }
    Ok(normal)
}

fn encode(text: &str) -> Result<String, ScalarError> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < bytes.len() {
        let byte = bytes[i];
        if byte == b'%' {
            let hex = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
            let (Some(high), Some(low)) = (hex(i + 1), hex(i + 2)) else {
                let at = text[..i].chars().count();
                let fault = ScalarError::new("{} has a `%` without two hexadecimal digits").part(at, 1);
                return Err(fault.help("a percent sign itself is written `%25`"));
            };
            let value = u8::try_from(high * 16 + low).unwrap_or_default();
            if value == 0 {
                let at = text[..i].chars().count();
                let fault = ScalarError::new("{} has a `%00`, and the gateway rejects every request with it");
                return Err(fault.part(at, 3));
            }
            if is_unreserved(value) {
                out.push(char::from(value));
            } else {
                percent(&mut out, value);
            }
            i += 3;
            continue;
        }
        if byte.is_ascii() {
            out.push(char::from(byte));
        } else {
            percent(&mut out, byte);
        }
        i += 1;
    }
    Ok(out)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn percent(out: &mut String, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(HEX[usize::from(byte >> 4)]));
    out.push(char::from(HEX[usize::from(byte & 15)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_form() {
        for (text, normal) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/%7Euser/%41", "/~user/A"),
            ("/a%2fb", "/a%2Fb"),
            ("/é", "/%C3%A9"),
            ("/a;b=c@d", "/a;b=c@d"),
            ("/a|b", "/a|b"),
            ("/a%7cb", "/a%7Cb"),
            ("/{id}/<a>\"`^[0]", "/{id}/<a>\"`^[0]"),
        ] {
            assert_eq!(path(text).as_deref(), Ok(normal), "{text}");
            assert_eq!(path(normal).as_deref(), Ok(normal), "twice: {text}");
        }
        for text in [
            "",
            "a",
            "/a b",
            "/a?b",
            "/a#b",
            "/%",
            "/%4",
            "/%zz",
            "/%00",
            "/a/../b",
            "/%2e%2E/x",
            "/a\\b",
            "/a\u{7f}",
        ] {
            assert!(path(text).is_err(), "{text}");
        }
    }
}
