//! Escaping for log fields. Whatever bytes a peer sends, a line stays one line, and a quoted field ends at
//! its quote.

/// The digits that nginx escapes with.
const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `bytes` as nginx does in its default escaping: bytes below 0x20, from 0x7F, `"` and `\` become
/// `\xXX`.
#[inline]
pub(super) fn text(line: &mut Vec<u8>, bytes: &[u8]) {
    // No early exit, so that the compiler tests 16 bytes at once; nearly all fields are plain.
    if bytes.iter().fold(false, |special, &byte| special | is_special(byte)) {
        text_escaped(line, bytes);
    } else {
        line.extend_from_slice(bytes);
    }
}

#[cold]
fn text_escaped(line: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match is_special(byte) {
            true => line.extend_from_slice(&hex(byte)),
            false => line.push(byte),
        }
    }
}

#[inline]
fn is_special(byte: u8) -> bool {
    (byte.wrapping_sub(0x20) >= 0x5f) | (byte == b'"') | (byte == b'\\')
}

fn hex(byte: u8) -> [u8; 4] {
    [b'\\', b'x', UPPER_HEX[usize::from(byte >> 4)], UPPER_HEX[usize::from(byte & 15)]]
}

/// Appends `bytes` as the inside of a JSON string (RFC 8259, section 7). Valid UTF-8 stays. Control
/// characters become `\u00XX`, including the Latin-1 ones that terminals obey. A byte that is not UTF-8
/// becomes the four characters `\xXX`.
#[inline]
pub(super) fn json(line: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.iter().fold(false, |special, &byte| special | is_special(byte)) {
        json_escaped(line, bytes);
    } else {
        line.extend_from_slice(bytes);
    }
}

#[cold]
fn json_escaped(line: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => line.extend_from_slice(&[b'\\', character as u8]),
                _ if character.is_control() => {
                    let [_, _, high, low] = hex(character as u8);
                    line.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
                }
                _ => line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for &byte in chunk.invalid() {
            line.push(b'\\');
            line.extend_from_slice(&hex(byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(escape: fn(&mut Vec<u8>, &[u8]), bytes: &[u8]) -> String {
        let mut line = Vec::new();
        escape(&mut line, bytes);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn as_nginx_does() {
        assert_eq!(written(text, b"plain ~!'"), "plain ~!'");
        assert_eq!(written(text, b"a\"b\\c\n\x1f\x7f\xe9"), r"a\x22b\x5Cc\x0A\x1F\x7F\xE9");
    }

    #[test]
    fn as_json_wants() {
        assert_eq!(written(json, "é\"\\\n\u{85}".as_bytes()), r#"é\"\\\u000A\u0085"#);
        assert_eq!(written(json, b"\xff\xfe"), r"\\xFF\\xFE");
    }

    proptest! {
        #[test]
        fn text_is_printable_and_can_be_read_back(bytes: Vec<u8>) {
            let line = written(text, &bytes);
            prop_assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'"'));
            let mut back = Vec::new();
            let mut rest = line.as_bytes();
            while let Some((&byte, tail)) = rest.split_first() {
                if byte == b'\\' {
                    let digits = std::str::from_utf8(&tail[1..3]).unwrap();
                    back.push(u8::from_str_radix(digits, 16).unwrap());
                    rest = &tail[3..];
                } else {
                    back.push(byte);
                    rest = tail;
                }
            }
            prop_assert_eq!(back, bytes);
        }

        #[test]
        fn json_reads_valid_text_back(wanted: String) {
            let quoted = format!("\"{}\"", written(json, wanted.as_bytes()));
            prop_assert!(!quoted.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), wanted);
        }

        #[test]
        fn json_is_valid_whatever_comes(bytes: Vec<u8>) {
            let quoted = format!("\"{}\"", written(json, &bytes));
            prop_assert!(serde_json::from_str::<String>(&quoted).is_ok());
        }
    }
}
