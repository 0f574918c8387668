//! The keys of `decompression`.

use crate::spec::{Choice, KeySpec, SectionSpec, Shape};

static CODING_SHAPE: Shape = Shape::Word(&["gzip", "br", "zstd", "deflate"]);

pub(crate) static DECOMPRESSION_POLICY: SectionSpec = SectionSpec {
    name: "decompression_policy",
    noun: "`decompression`",
    doc: "Decodes request bodies before they are forwarded, and response bodies for clients that do not \
        accept their encoding.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("encodings", "Encodings that are decoded.", Shape::OneOrMany(&CODING_SHAPE))
            .default("[gzip, br, zstd, deflate]")
            .aliases(&["encoding", "algorithms"]),
        KeySpec::new("requests", "Whether request bodies are decoded.", Shape::Switch)
            .default("on")
            .aliases(&["request"]),
        KeySpec::new("responses", "Whether response bodies are decoded.", Shape::Switch)
            .default("on")
            .aliases(&["response", "gunzip"]),
        KeySpec::new(
            "limit",
            "Maximum bytes of a decoded request body (413).",
            Shape::Size { min: 1, max: 1 << 40, off: true },
        )
        .default("16MiB")
        .aliases(&["max_size", "request_limit"]),
        KeySpec::new(
            "response_limit",
            "Maximum bytes of a decoded response body; a larger one is truncated.",
            Shape::Size { min: 1, max: 1 << 40, off: true },
        )
        .default("off"),
        KeySpec::new(
            "ratio",
            "Maximum ratio of decoded to encoded bytes, beyond 64 KiB (413; a response is truncated).",
            Shape::Count { min: 2, max: 1_000_000, off: false },
        )
        .default("200")
        .aliases(&["max_ratio", "max_inflate_ratio"]),
    ],
};
