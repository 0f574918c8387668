//! The proof in a WebSocket handshake (RFC 6455, 1.3).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// Returns the `Sec-WebSocket-Accept` for a key.
#[must_use]
pub fn websocket_accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    base64(hash.as_ref())
}

fn base64(bytes: &[u8]) -> String {
    let letters: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = (0..3).fold(0_u32, |number, at| number << 8 | u32::from(*group.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let letter = letters[(number >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() { letter } else { '=' });
        }
    }
    text
}
