//! `compression`.

use super::shared::encoding;
use crate::model::Compression;
use crate::problem::Problem;
use crate::reader::{Field, Reader, Setting};
use crate::scalar::Fault;
use crate::spec::{COMPRESSION_POLICY, Shape};

/// What bodies may be encoded with.
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
    Some(out)
}

fn list(reader: &mut Reader, field: Field<'_>, parse: impl Fn(&str) -> Result<String, Fault>) -> Vec<String> {
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let what = format!("an entry of `{}`", field.key.name);
    let items = reader.few(field.node, &format!("`{}`", field.key.name));
    if items.is_empty() {
        reader.missing(field.at, format!("`{}` is an empty list", field.key.name), &field.key.shape);
    }
    items.iter().filter_map(|item| reader.parsed(item, &what, one, &parse)).collect()
}

/// A media type (RFC 9110, 8.3.1), or one with a star at one end.
fn media_type(text: &str) -> Result<String, Fault> {
    let inner = text.strip_prefix('*').or(text.strip_suffix('*')).unwrap_or(text);
    let known = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-/".contains(c);
    if inner.chars().all(known) && (inner.contains('/') || inner.starts_with('+')) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(Fault::new("{} is not a media type").help("a star may stand at one end: `text/*`, `*+json`"))
}
