//! Reads `decompression`.

use super::shared::encoding;
use crate::model::Decompression;
use crate::problem::Problem;
use crate::reader::{Field, Reader, Setting, one_or_many};
use crate::sections::consumers::texts;
use crate::spec::DECOMPRESSION_POLICY;

/// Encodings that the gateway can decode.
const ENCODINGS: [&str; 4] = ["gzip", "br", "zstd", "deflate"];

pub(super) fn decompression(reader: &mut Reader, field: Field<'_>) -> Option<Decompression> {
    let setting = reader.setting(field, &DECOMPRESSION_POLICY)?;
    let mut out = Decompression::default();
    let Setting::Fields(fields) = &setting else { return Some(out) };
    if let Some(field) = fields.get("encodings") {
        out.encodings = texts(reader, Some(field), |text| encoding(text, &ENCODINGS));
        if one_or_many(field.node).is_empty() {
            reader.missing(field.at, "`encodings` is an empty list".to_owned(), &field.key.shape);
        }
    }
    reader.switch(fields.get("requests"), &mut out.requests);
    reader.switch(fields.get("responses"), &mut out.responses);
    reader.optional_into(fields.get("limit"), &mut out.limit);
    reader.optional_into(fields.get("response_limit"), &mut out.response_limit);
    reader.number_into(fields.get("ratio"), &mut out.ratio);
    if !out.requests && !out.responses {
        let problem = Problem::error(field.at, "`decompression` decodes nothing");
        reader
            .problems
            .push(problem.help("write `decompression: off`, or leave `requests` or `responses` on"));
    }
    Some(out)
}
