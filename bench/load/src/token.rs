//! The token characters of names (RFC 9110, section 5.6.2). The origins use this module too.

/// The token characters other than letters and digits.
const MARKS: &[u8] = b"!#$%&'*+-.^_`|~";

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = (at as u8).is_ascii_alphanumeric();
        at += 1;
    }
    let mut at = 0;
    while at < MARKS.len() {
        table[MARKS[at] as usize] = true;
        at += 1;
    }
    table
};

/// Returns whether a byte may occur in a header name or a method.
pub fn may_stand(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// Returns whether these bytes are a valid header name or method.
pub fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().copied().all(may_stand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_other_bytes() {
        for byte in 0..=255_u8 {
            let wanted = byte.is_ascii_alphanumeric() || MARKS.contains(&byte);
            assert_eq!(may_stand(byte), wanted, "{byte}");
        }
        assert!(is_token(b"X-Request-Id") && is_token(b"M-SEARCH"));
        for bad in [&b""[..], b"a b", b"a:", b"(a)", b"\xc3\xa9"] {
            assert!(!is_token(bad), "{bad:?}");
        }
    }
}
