//! `compression`: compresses response bodies.

use super::encoding;
use crate::scalar::quantity;
use crate::section::{Field, Problem, Reader, ScalarError, Section, Shape, Value};

/// Encodings that the gateway can produce.
const ENCODINGS: [&str; 3] = ["zstd", "br", "gzip"];
static ENCODING: Shape = Shape::Word(&ENCODINGS);
const ENCODINGS_SHAPE: Shape = Shape::OneOrMany(&ENCODING);

/// Compresses response bodies for clients that accept it.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "compression_policy", noun = "`compression`", switch)]
pub struct Compression {
    /// Encodings in order of preference.
    #[key(
        shape = ENCODINGS_SHAPE, read = encodings, default = "[zstd, br, gzip]",
        also = ["encoding", "algorithms"]
    )]
    pub encodings: Vec<String>,
    /// Content types that are compressed. Default: all kinds of text.
    #[key(
        expected = "a media type such as `text/html`, `text/*` or `*+json`",
        pattern = r"^[!#$&^_.+*A-Za-z0-9-]+(/[!#$&^_.+*A-Za-z0-9-]+)?$", list, read = types, absent = usual_types(),
        also = ["content_types", "gzip_types", "includedContentTypes"]
    )]
    pub types: Vec<String>,
    /// Bodies that are known to be shorter are not compressed.
    #[key(
        size = 0..=1 << 30, default = "1KiB",
        also = ["gzip_min_length", "minResponseBodyBytes", "min_size"]
    )]
    pub min_length: u64,
    /// Compression level: one number for all encodings, or one for each. Higher levels cost more time.
    #[key(
        default = "{zstd: 3, br: 4, gzip: 5}",
        also = ["levels", "quality", "gzip_comp_level", "compression_level", "comp_level"]
    )]
    pub level: CompressionLevel,
}

/// Compression level of each encoding.
///
/// With the defaults one core compresses at least 100 MB/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(noun = "`level`", own_forms)]
pub struct CompressionLevel {
    /// 1 to 19.
    #[key(count = 1..=19, default = 3)]
    pub zstd: u8,
    /// 0 to 11.
    #[key(name = "br", count = 0..=11, default = 4, also = ["brotli", "brotli_comp_level"])]
    pub brotli: u8,
    /// 1 to 9.
    #[key(count = 1..=9, default = 5, also = ["gzip_comp_level"])]
    pub gzip: u8,
}

impl Value for CompressionLevel {
    const SHAPE: Shape =
        Shape::AnyOf(&[Shape::Count { min: 1, max: 19, off: false }, Shape::Section(CompressionLevel::SPEC)]);

    /// Reads levels per encoding, or one number for all. The number is capped at each encoding's maximum.
    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        let level = reader.field(field, |text| quantity::count(text, 1, 19))? as u8;
        Some(Self { zstd: level, brotli: level.min(11), gzip: level.min(9) })
    }
}

fn encodings(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    let encodings = list(reader, field, |text| encoding(text, &ENCODINGS));
    if let Some(twice) = (1..encodings.len()).find(|at| encodings[..*at].contains(&encodings[*at])) {
        let message = format!("`{}` is given twice", encodings[twice]);
        reader.problems.push(Problem::error(field.at, message));
    }
    Some(encodings)
}

fn types(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    Some(list(reader, field, media_type))
}

fn usual_types() -> Vec<String> {
    const TYPES: [&str; 9] = [
        "text/*",
        "*+json",
        "*+xml",
        "application/json",
        "application/javascript",
        "application/ecmascript",
        "application/xml",
        "application/wasm",
        "application/x-ndjson",
    ];
    TYPES.map(str::to_owned).to_vec()
}

fn list(
    reader: &mut Reader,
    field: Field<'_>,
    parse: impl Fn(&str) -> Result<String, ScalarError>,
) -> Vec<String> {
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let what = format!("an entry of `{}`", field.key.name);
    let items = reader.bounded_items(field.node, &format!("`{}`", field.key.name));
    if items.is_empty() {
        reader.missing(field.at, format!("`{}` is an empty list", field.key.name), &field.key.shape);
    }
    items.iter().filter_map(|item| reader.parsed(item, &what, one, &parse)).collect()
}

/// Parses a media type (RFC 9110, 8.3.1), with an optional star at one end.
fn media_type(text: &str) -> Result<String, ScalarError> {
    let inner = text.strip_prefix('*').or(text.strip_suffix('*')).unwrap_or(text);
    let known = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-/".contains(c);
    if inner.chars().all(known) && (inner.contains('/') || inner.starts_with('+')) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(ScalarError::new("{} is not a media type").help("a `*` is allowed at one end: `text/*`, `*+json`"))
}
