//! The key and proof of the WebSocket handshake in HTTP/1 (RFC 6455, 1.3). HTTP/2 does without them.

use sha1::{Digest, Sha1};

/// Constant that is hashed after the key (RFC 6455, 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Creates a `Sec-WebSocket-Key` from unpredictable bytes.
#[must_use]
pub fn key(random: [u8; 16]) -> String {
    base64(&random)
}

/// Computes the `Sec-WebSocket-Accept` for a key.
#[must_use]
pub fn accept(key: &[u8]) -> String {
    base64(&Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// Encodes base64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let six = (bits >> (18 - 6 * at) & 63) as usize;
            text.push(if at <= group.len() { char::from(ALPHABET[six]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_proofs_of_the_rfcs() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(key(*b"the sample nonce"), "dGhlIHNhbXBsZSBub25jZQ==");
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
