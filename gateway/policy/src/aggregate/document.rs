//! Builds the document: converts the responses of upstreams to JSON values.

use serde::de::IgnoredAny;
use tollgate_observe::Reason;

use super::ShapePiece;
use crate::UpstreamResponse;

/// The reason and detail why a response cannot become part of the document.
type UnusableResponse = (Reason, Option<&'static str>);

/// Converts the response of an upstream to a JSON value.
pub(super) fn value(response: UpstreamResponse) -> Result<String, UnusableResponse> {
    let unfit = |detail| (Reason::PartFailed, Some(detail));
    let UpstreamResponse { status, content_type, content_encoding, body } = response;
    if !(200..300).contains(&status) {
        return Err(unfit("a part was answered with an error"));
    }
    if !matches!(content_encoding.as_slice(), b"" | b"identity") {
        return Err(unfit("a part came in an encoding that nobody asked for"));
    }
    if body.is_empty() {
        return Ok("null".to_owned());
    }
    let text = String::from_utf8(body).map_err(|_| unfit("a part is no text"))?;
    if !is_json(&content_type) {
        return serde_json::to_string(&text).map_err(|_| unfit("a part is no text"));
    }
    // Requires exactly one value: otherwise a part could end the document and start another.
    match serde_json::from_str::<IgnoredAny>(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err(unfit("a part says that it is JSON, and is not")),
    }
}

/// Whether a media type is JSON (RFC 8259) or has the suffix `+json` (RFC 6839, 3.1).
fn is_json(content_type: &[u8]) -> bool {
    let name = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let name = name.to_ascii_lowercase();
    name == b"application/json" || name == b"text/json" || name.ends_with(b"+json")
}

/// Writes the document with these values.
pub(super) fn write(shape: &[ShapePiece], values: &[String], failed: &[&str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.iter().map(String::len).sum::<usize>() + 256);
    for piece in shape {
        match piece {
            ShapePiece::Text(text) => out.extend_from_slice(text.as_bytes()),
            ShapePiece::Part(number) => {
                out.extend_from_slice(values.get(*number).map_or("null", String::as_str).trim().as_bytes());
            }
            ShapePiece::Failed => {
                let names = serde_json::to_vec(failed).unwrap_or_else(|_| b"[]".to_vec());
                out.extend_from_slice(&names);
            }
        }
    }
    out
}
