//! Names and values of header fields.

use super::ScalarError;

/// Returns whether the text is a token (RFC 9110, section 5.6.2).
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(token_char)
}

fn token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// Checks the name of a header field and returns it as written.
pub fn name(text: &str) -> Result<String, ScalarError> {
    if let Some(odd) = text.chars().position(|c| !token_char(c)) {
        let fault = ScalarError::new("{} is not the name of a header field").part(odd, 1);
        return Err(fault.help("names have letters, digits and `-`"));
    }
    if text.is_empty() || text.len() > 256 {
        return Err(ScalarError::new("{} is not the name of a header field"));
    }
    // A token may contain `*` (RFC 9110, section 5.6.2), but no known field does. Without this check a
    // pattern would silently be taken for a name.
    if let Some(star) = text.chars().position(|c| c == '*') {
        let fault = ScalarError::new("{} has a `*`, but this key takes the name of one field").part(star, 1);
        return Err(fault.help("`remove` of the policy `headers` takes a beginning of names: `X-Debug-*`"));
    }
    Ok(text.to_owned())
}

/// Checks a field name, or a pattern `PREFIX*` that matches every field with this prefix.
pub fn name_or_begin(text: &str) -> Result<String, ScalarError> {
    let Some(begin) = text.strip_suffix('*') else { return name(text) };
    if begin.is_empty() {
        return Err(
            ScalarError::new("{} would match every field").help("write a prefix of the names: `X-Debug-*`")
        );
    }
    name(begin).map(|begin| format!("{begin}*"))
}

/// Checks the value of a header field (RFC 9110, section 5.5). Control characters could end the field and
/// start another.
pub fn value(text: &str) -> Result<String, ScalarError> {
    if let Some(odd) = text.chars().position(|c| c.is_control() && c != '\t') {
        let fault = ScalarError::new("{} has a line break or another control character").part(odd, 1);
        return Err(fault.help("a header value is one line"));
    }
    if text.trim_matches([' ', '\t']).len() != text.len() {
        return Err(ScalarError::new("{} starts or ends with a blank, which a header value cannot"));
    }
    Ok(text.to_owned())
}

/// Returns whether the field frames the message or belongs to one connection. Only the codecs write such
/// fields.
pub fn is_framing(name: &str) -> bool {
    const FRAMING: [&str; 8] = [
        "connection",
        "content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    FRAMING.iter().any(|framing| framing.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tokens_and_values_are_lines() {
        assert!(name("X-Request-Id").is_ok());
        assert_eq!(name_or_begin("X-*").as_deref(), Ok("X-*"));
        for text in ["*", "X-**", "*-Id", "X-*-Id"] {
            assert!(name_or_begin(text).is_err() && name(text).is_err(), "{text}");
        }
        for text in ["", "X Id", "X:", "É", "a\r\nb"] {
            assert!(name(text).is_err(), "{text}");
        }
        assert!(value("text/plain; charset=utf-8").is_ok() && value("").is_ok());
        for text in ["a\r\nb: c", "a\nb", "a\0", " a", "a\t"] {
            assert!(value(text).is_err(), "{text:?}");
        }
    }
}
