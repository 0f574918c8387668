//! Header fields: names and values.

use super::Fault;

/// A token (RFC 9110, section 5.6.2).
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(token_char)
}

fn token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// The name of a header field, as written.
pub(crate) fn name(text: &str) -> Result<String, Fault> {
    if let Some(odd) = text.chars().position(|c| !token_char(c)) {
        let fault = Fault::new("{} is not the name of a header field").part(odd, 1);
        return Err(fault.help("names have letters, digits and `-`"));
    }
    if text.is_empty() || text.len() > 256 {
        return Err(Fault::new("{} is not the name of a header field"));
    }
    Ok(text.to_owned())
}

/// The value of a header field (RFC 9110, section 5.5). Controls would end the field and begin another.
pub(crate) fn value(text: &str) -> Result<String, Fault> {
    if let Some(odd) = text.chars().position(|c| c.is_control() && c != '\t') {
        let fault = Fault::new("{} has a line break or another control character").part(odd, 1);
        return Err(fault.help("a header value is one line"));
    }
    if text.trim_matches([' ', '\t']).len() != text.len() {
        return Err(Fault::new("{} begins or ends with a blank, which a header value cannot"));
    }
    Ok(text.to_owned())
}

/// Fields that say where a message ends or belong to one connection: only the codecs write them.
pub(crate) fn is_framing(name: &str) -> bool {
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
        for text in ["", "X Id", "X:", "É", "a\r\nb"] {
            assert!(name(text).is_err(), "{text}");
        }
        assert!(value("text/plain; charset=utf-8").is_ok() && value("").is_ok());
        for text in ["a\r\nb: c", "a\nb", "a\0", " a", "a\t"] {
            assert!(value(text).is_err(), "{text:?}");
        }
    }
}
