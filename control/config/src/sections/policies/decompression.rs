//! `decompression`: decodes encoded bodies.

use super::encoding;
use crate::section::{Field, Fields, Problem, Reader, Section, Shape};

/// Encodings that the gateway can decode.
const ENCODINGS: [&str; 4] = ["gzip", "br", "zstd", "deflate"];
static ENCODING: Shape = Shape::Word(&ENCODINGS);
const ENCODINGS_SHAPE: Shape = Shape::OneOrMany(&ENCODING);

/// Decodes request bodies before they are forwarded, and response bodies for clients that do not accept their
/// encoding.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "decompression_policy", noun = "`decompression`", switch, check = check)]
pub struct Decompression {
    /// Encodings that are decoded.
    #[key(
        shape = ENCODINGS_SHAPE, read = encodings,
        default = "[gzip, br, zstd, deflate]", also = ["encoding", "algorithms"]
    )]
    pub encodings: Vec<String>,
    /// Whether request bodies are decoded.
    #[key(default = on, also = ["request"])]
    pub requests: bool,
    /// Whether response bodies are decoded.
    #[key(default = on, also = ["response", "gunzip"])]
    pub responses: bool,
    /// Maximum bytes of a decoded request body (413).
    #[key(size = 1..=1 << 40, off, default = "16MiB", also = ["max_size", "request_limit"])]
    pub limit: Option<u64>,
    /// Maximum bytes of a decoded response body; a larger one is truncated.
    #[key(size = 1..=1 << 40, off, default = off)]
    pub response_limit: Option<u64>,
    /// Maximum ratio of decoded to encoded bytes, beyond 64 KiB (413; a response is truncated).
    #[key(count = 2..=1_000_000, default = 200, also = ["max_ratio", "max_inflate_ratio"])]
    pub ratio: u64,
}

fn encodings(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    let items = reader.list_items(field, false, false);
    if items.is_empty() {
        reader.missing(field.at, "`encodings` is an empty list".to_owned(), &field.key.shape);
    }
    Some(reader.each(items, field, "an entry of `encodings`", |text| encoding(text, &ENCODINGS)))
}

fn check(reader: &mut Reader, fields: &Fields<'_>, decompression: &mut Decompression) {
    if !decompression.requests && !decompression.responses {
        let problem = Problem::error(fields.at, "`decompression` decodes nothing");
        reader
            .problems
            .push(problem.help("write `decompression: off`, or leave `requests` or `responses` on"));
    }
}
