//! Sizes and buffers of bodies.

use super::reader::Reader;
use super::wanted::Wanted;

/// The largest size that the gateway takes, and its bytes. It stands for no limit at a route.
const UNLIMITED: &str = "1024TiB";
const UNLIMITED_BYTES: u64 = 1 << 50;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    if let Some(text) = reader.text("proxy-body-size") {
        match size(text) {
            Some(size) => wanted.set_route("limits", "body", size),
            None => reader.invalid("proxy-body-size", format!("{text:?} is not a size such as 8m")),
        }
    }
    match reader.text("proxy-request-buffering") {
        Some("on") => wanted.set_route("buffer", "request", true),
        Some("off") => wanted.set_route("buffer", "request", false),
        Some(other) => reader.invalid("proxy-request-buffering", format!("{other:?} is neither on nor off")),
        None => {}
    }
}

/// Converts a size as nginx writes it; 0 is no limit.
fn size(text: &str) -> Option<String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G']) {
        Some(digits) => (digits, &text[digits.len()..]),
        None => (text, ""),
    };
    let (unit, bytes) = match unit {
        "k" | "K" => ("KiB", 1 << 10),
        "m" | "M" => ("MiB", 1 << 20),
        "g" | "G" => ("GiB", 1 << 30),
        _ => ("", 1),
    };
    let number: u64 = digits.parse().ok()?;
    match number.saturating_mul(bytes) {
        1..UNLIMITED_BYTES => Some(format!("{number}{unit}")),
        _ => Some(UNLIMITED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("8m", Some("8MiB")),
            ("8M", Some("8MiB")),
            ("512k", Some("512KiB")),
            ("1g", Some("1GiB")),
            ("1000", Some("1000")),
            ("10737418240", Some("10737418240")),
            ("4294967295g", Some(UNLIMITED)),
            ("0", Some(UNLIMITED)),
            ("0m", Some(UNLIMITED)),
            ("8mb", None),
            ("", None),
            ("m", None),
            ("-1", None),
        ] {
            assert_eq!(size(text).as_deref(), expected, "{text}");
        }
    }
}
