//! Distinguished names as text (RFC 4514), for [`PeerCertificate`](crate::PeerCertificate). A value cannot
//! imitate the separators of a name, because they are escaped.

use std::fmt::Write;

use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Appends a name with the most specific part first, as RFC 4514 defines it and `openssl -nameopt RFC2253`
/// writes it. All characters but printable ASCII are escaped, so the text is a valid field value.
pub(crate) fn write(out: &mut String, name: &X509Name<'_>) {
    let parts: Vec<_> = name.iter_rdn().collect();
    for (at, part) in parts.iter().rev().enumerate() {
        for (index, attribute) in part.iter().enumerate() {
            out.push_str(match (at, index) {
                (0, 0) => "",
                (_, 0) => ",",
                _ => "+",
            });
            write_attribute(out, attribute);
        }
    }
}

fn write_attribute(out: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    let oid = attribute.attr_type().to_id_string();
    let name = match oid.as_str() {
        "2.5.4.3" => "CN",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "STREET",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "0.9.2342.19200300.100.1.25" => "DC",
        "0.9.2342.19200300.100.1.1" => "UID",
        "1.2.840.113549.1.9.1" => "emailAddress",
        other => other,
    };
    out.push_str(name);
    out.push('=');
    match attribute.as_str() {
        Ok(text) if name != oid => write_value(out, text),
        // RFC 4514, 2.4: a value without a text form is written as its DER bytes.
        _ => {
            let value = attribute.attr_value();
            let _ = write!(out, "#{:02X}{}", value.header.tag().0, hexadecimal(&length(value.data.len())));
            out.push_str(&hexadecimal(value.data));
        }
    }
}

fn write_value(out: &mut String, text: &str) {
    let last = text.len().saturating_sub(1);
    for (at, byte) in text.bytes().enumerate() {
        let special = match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => true,
            b'#' => at == 0,
            b' ' => at == 0 || at == last,
            _ => false,
        };
        match byte {
            _ if special => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(out, "\\{byte:02X}")),
        }
    }
}

/// Encodes a length as DER does (X.690, 8.1.3).
fn length(length: usize) -> Vec<u8> {
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => vec![short],
        _ => {
            let bytes = length.to_be_bytes();
            let skip = bytes.iter().take_while(|byte| **byte == 0).count();
            let mut out = vec![0x80 | (bytes.len() - skip) as u8];
            out.extend_from_slice(&bytes[skip..]);
            out
        }
    }
}

/// Writes two upper-case digits for each byte.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_pretend_to_be_more_than_one() {
        let written = |text: &str| {
            let mut out = String::new();
            write_value(&mut out, text);
            out
        };
        assert_eq!(written("api"), "api");
        assert_eq!(written("eve,CN=admin"), "eve\\,CN=admin");
        assert_eq!(written("#1 + \"2\" \\"), "\\#1 \\+ \\\"2\\\" \\\\");
        assert_eq!(written(" a "), "\\ a\\ ");
        assert_eq!(written("a\r\nX: b\u{e9}"), "a\\0D\\0AX: b\\C3\\A9");
        assert_eq!(written(""), "");
    }

    #[test]
    fn lengths() {
        assert_eq!(length(5), [5]);
        assert_eq!(length(200), [0x81, 200]);
        assert_eq!(length(300), [0x82, 1, 44]);
    }
}
