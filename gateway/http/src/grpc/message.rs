//! Encodes the `grpc-message` field, in which the gateway's own errors of gRPC calls carry their text.

/// Most bytes of a message before encoding; longer ones are truncated.
const MESSAGE_MAX_BYTES: usize = 1024;

/// Appends a text in the encoding of `grpc-message`: `%` and bytes that are not printable ASCII become `%XX`,
/// for each byte of UTF-8. Texts are truncated to 1 KiB, because the size of a head is limited.
pub fn encode_message(out: &mut Vec<u8>, text: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let text = &text[..text.floor_char_boundary(MESSAGE_MAX_BYTES)];
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(byte),
            _ => {
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = text;
        while let Some((first, after)) = rest.split_first() {
            if *first == b'%' {
                let hex = std::str::from_utf8(&after[..2]).expect("hex");
                out.push(u8::from_str_radix(hex, 16).expect("hex"));
                rest = &after[2..];
            } else {
                out.push(*first);
                rest = after;
            }
        }
        out
    }

    #[test]
    fn percent_encoding_of_messages() {
        let mut out = Vec::new();
        encode_message(&mut out, "100 % of\u{e9}\n\t~ ");
        assert_eq!(out, b"100 %25 of%C3%A9%0A%09~ ");
    }

    proptest! {
        #[test]
        fn any_text_is_a_field_value_and_comes_back(text in "\\PC{0,2000}|[\\x00-\\x7f]{0,100}") {
            let mut out = Vec::new();
            encode_message(&mut out, &text);
            prop_assert!(out.iter().all(|byte| matches!(byte, b' '..=b'~')));
            prop_assert!(text.as_bytes().starts_with(&decode(&out)));
            prop_assert!(decode(&out).len() >= text.len().min(MESSAGE_MAX_BYTES - 3));
        }
    }
}
