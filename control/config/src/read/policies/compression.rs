//! Reads `compression`.

use super::shared::encoding;
use crate::model::{Compression, CompressionLevel};
use crate::problem::Problem;
use crate::reader::{Field, Reader, Setting};
use crate::scalar::{ScalarError, quantity};
use crate::spec::{COMPRESSION_LEVEL, COMPRESSION_POLICY, Shape};
use crate::tree::NodeKind;

/// Encodings that the gateway can produce.
const ENCODINGS: [&str; 3] = ["zstd", "br", "gzip"];

pub(super) fn compression(reader: &mut Reader, field: Field<'_>) -> Option<Compression> {
    let setting = reader.setting(field, &COMPRESSION_POLICY)?;
    let mut out = Compression::default();
    let Setting::Fields(fields) = &setting else { return Some(out) };
    if let Some(field) = fields.get("encodings") {
        let encodings = list(reader, field, |text| encoding(text, &ENCODINGS));
        if let Some(twice) = (1..encodings.len()).find(|at| encodings[..*at].contains(&encodings[*at])) {
            let message = format!("`{}` is given twice", encodings[twice]);
            reader.problems.push(Problem::error(field.at, message));
        }
        out.encodings = encodings;
    }
    if let Some(field) = fields.get("types") {
        out.types = list(reader, field, media_type);
    }
    reader.number_into(fields.get("min_length"), &mut out.min_length);
    if let Some(field) = fields.get("level") {
        level(reader, field, &mut out.level);
    }
    Some(out)
}

/// Reads levels per encoding, or one number for all. The number is capped at each encoding's maximum.
fn level(reader: &mut Reader, field: Field<'_>, out: &mut CompressionLevel) {
    if matches!(field.node.kind, NodeKind::Map(_)) {
        let Some(fields) = reader.fields(field.node, &COMPRESSION_LEVEL) else { return };
        reader.number_into(fields.get("zstd"), &mut out.zstd);
        reader.number_into(fields.get("br"), &mut out.brotli);
        reader.number_into(fields.get("gzip"), &mut out.gzip);
        return;
    }
    if let Some(level) = reader.field(field, |text| quantity::count(text, 1, 19)) {
        let level = level as u8;
        *out = CompressionLevel { zstd: level, brotli: level.min(11), gzip: level.min(9) };
    }
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
