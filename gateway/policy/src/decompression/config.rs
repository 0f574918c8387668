//! The settings of `decompression`.

use std::sync::Arc;

use tollgate_config::section::{Field, Fields, KeySpec, Problem, Reader, Section, Shape, one_or_many};

use super::{Coding, DecodeLimits, DecompressionRules};
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::encoding;

/// Encodings that the gateway can decode.
const ENCODINGS: [&str; 4] = ["gzip", "br", "zstd", "deflate"];
const ENCODING: &Shape = &Shape::Word(&ENCODINGS);

/// Decodes request bodies before they are forwarded, and response bodies for clients that do not accept their
/// encoding.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "decompression_policy", noun = "`decompression`", switch, check = check)]
pub(crate) struct DecompressionSettings {
    /// Encodings that are decoded.
    #[key(
        shape = Shape::OneOrMany(ENCODING), read = encodings, default = "[gzip, br, zstd, deflate]",
        also = ["encoding", "algorithms"],
    )]
    encodings: Vec<String>,
    /// Whether request bodies are decoded.
    #[key(default = on, also = ["request"])]
    requests: bool,
    /// Whether response bodies are decoded.
    #[key(default = on, also = ["response", "gunzip"])]
    responses: bool,
    /// Maximum bytes of a decoded request body (413).
    #[key(size = 1..="1TiB", off, default = "16MiB", also = ["max_size", "request_limit"])]
    limit: Option<u64>,
    /// Maximum bytes of a decoded response body; a larger one is truncated.
    #[key(size = 1..="1TiB", off, default = off)]
    response_limit: Option<u64>,
    /// Maximum ratio of decoded to encoded bytes, beyond 64 KiB (413; a response is truncated).
    #[key(count = 2..=1_000_000, default = 200, also = ["max_ratio", "max_inflate_ratio"])]
    ratio: u64,
}

impl PolicyConfig for DecompressionSettings {
    const KEY: KeySpec = policy_key::<Self>(
        "decompression",
        "Decodes request bodies, and response bodies for clients that do not accept their encoding.",
    )
    .aliases(&["decompress", "gunzip", "inflate", "decompressor", "decode"]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        let (request, response) = (most(self.limit), most(self.response_limit));
        Arc::new(DecompressionRules {
            codings: self.encodings.iter().filter_map(|name| Coding::of(name.as_bytes())).collect(),
            requests: self.requests.then(|| DecodeLimits::of_requests(request, self.ratio)),
            responses: self.responses.then(|| DecodeLimits::of_responses(response, self.ratio)),
        })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, settings: &mut DecompressionSettings) {
    if !settings.requests && !settings.responses {
        let problem = Problem::error(fields.at, "`decompression` decodes nothing");
        reader
            .problems
            .push(problem.help("write `decompression: off`, or leave `requests` or `responses` on"));
    }
}

fn encodings(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    let what = "an entry of `encodings`";
    let items = one_or_many(field.node);
    let encodings = reader.each(items, field, what, |text| encoding(text, &ENCODINGS));
    if items.is_empty() {
        reader.missing(field.at, "`encodings` is an empty list".to_owned(), &field.key.shape);
    }
    Some(encodings)
}
