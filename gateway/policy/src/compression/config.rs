//! The settings of `compression`.

use std::sync::Arc;

use tollgate_config::section::{
    Field, KeySpec, Problem, Reader, ScalarError, Section, Shape, Text, Value, quantity,
};

use tollgate_http::ContentCoding;

use super::{CompressionLevels, CompressionRules};
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::{encoding, nonempty_list};

/// Encodings that the gateway can produce.
const ENCODINGS: [&str; 3] = ["zstd", "br", "gzip"];
const ENCODING: &Shape = &Shape::Word(&ENCODINGS);
static MEDIA_TYPE: Text = Text {
    expected: "a media type such as `text/html`, `text/*` or `*+json`",
    pattern: Some(r"^[!#$&^_.+*A-Za-z0-9-]+(/[!#$&^_.+*A-Za-z0-9-]+)?$"),
    loose: false,
};
const TYPE: &Shape = &Shape::Text(&MEDIA_TYPE);
/// The types that are compressed by default: all kinds of text.
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

/// Compresses response bodies for clients that accept it.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "compression_policy", noun = "`compression`", switch)]
pub(crate) struct CompressionSettings {
    /// Encodings in order of preference.
    #[key(
        shape = Shape::OneOrMany(ENCODING), read = encodings, default = "[zstd, br, gzip]",
        also = ["encoding", "algorithms"],
    )]
    encodings: Vec<String>,
    /// Content types that are compressed. Default: all kinds of text.
    #[key(
        shape = Shape::OneOrMany(TYPE), read = types, also = ["content_types", "gzip_types", "includedContentTypes"],
    )]
    types: Option<Vec<String>>,
    /// Bodies that are known to be shorter are not compressed.
    #[key(
        size = 0..="1GiB", default = "1KiB", also = ["gzip_min_length", "minResponseBodyBytes", "min_size"],
    )]
    min_length: u64,
    /// Compression level: one number for all encodings, or one for each. Higher levels cost more time.
    #[key(
        default = "{zstd: 3, br: 4, gzip: 5}",
        also = ["levels", "quality", "gzip_comp_level", "compression_level", "comp_level"],
    )]
    level: CompressionLevel,
}

/// Compression level of each encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(noun = "`level`", own_forms)]
struct CompressionLevel {
    /// 1 to 19.
    #[key(count = 1..=19, default = 3)]
    zstd: u8,
    /// 0 to 11.
    #[key(count = 0..=11, default = 4, also = ["brotli", "brotli_comp_level"])]
    br: u8,
    /// 1 to 9.
    #[key(count = 1..=9, default = 5, also = ["gzip_comp_level"])]
    gzip: u8,
}

/// A mapping of levels, or one number for all. The number is capped at each encoding's maximum.
impl Value for CompressionLevel {
    const SHAPE: Shape =
        Shape::AnyOf(&[Shape::Count { min: 1, max: 19, off: false }, Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            let fields = reader.fields(field.node, Self::SPEC)?;
            return Self::read_keys(reader, &fields);
        }
        let level = reader.field(field, |text| quantity::count(text, 1, 19))? as u8;
        Some(Self { zstd: level, br: level.min(11), gzip: level.min(9) })
    }
}

impl PolicyConfig for CompressionSettings {
    const KEY: KeySpec =
        policy_key::<Self>("compression", "Compresses response bodies for clients that accept it.")
            .aliases(&["compress", "gzip", "brotli", "compressor", "encode"]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let CompressionLevel { zstd, br, gzip } = self.level;
        let types = self.types.clone().unwrap_or_else(|| TYPES.map(str::to_owned).to_vec());
        Arc::new(CompressionRules {
            encodings: self.encodings.iter().filter_map(|name| ContentCoding::of(name.as_bytes())).collect(),
            types,
            min_length: self.min_length,
            levels: CompressionLevels { zstd: zstd.into(), brotli: br.into(), gzip: gzip.into() },
        })
    }
}

fn encodings(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    let encodings = nonempty_list(reader, field, |text| encoding(text, &ENCODINGS));
    if let Some(twice) = (1..encodings.len()).find(|at| encodings[..*at].contains(&encodings[*at])) {
        let message = format!("`{}` is given twice", encodings[twice]);
        reader.problems.push(Problem::error(field.at, message));
    }
    Some(encodings)
}

fn types(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    Some(nonempty_list(reader, field, media_type))
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
