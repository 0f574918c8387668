//! The keys of `decompression`.

use crate::spec::{Choice, Key, Section, Shape};

static CODING_SHAPE: Shape = Shape::Word(&["gzip", "br", "zstd", "deflate"]);

pub(crate) static DECOMPRESSION_POLICY: Section = Section {
    name: "decompression_policy",
    noun: "`decompression`",
    doc: "Decodes request bodies before they are forwarded, and response bodies for clients that do not \
        accept their encoding.",
    choice: Choice::Free,
    keys: &[
        Key::new("encodings", "Encodings that are decoded.", Shape::OneOrMany(&CODING_SHAPE))
            .or("[gzip, br, zstd, deflate]")
            .also(&["encoding", "algorithms"]),
        Key::new("requests", "Whether request bodies are decoded.", Shape::Switch)
            .or("on")
            .also(&["request"]),
        Key::new("responses", "Whether response bodies are decoded.", Shape::Switch)
            .or("on")
            .also(&["response", "gunzip"]),
        Key::new(
            "limit",
            "Maximum bytes of a decoded request body (413).",
            Shape::Size { min: 1, max: 1 << 40, off: true },
        )
        .or("16MiB")
        .also(&["max_size", "request_limit"]),
        Key::new(
            "response_limit",
            "Maximum bytes of a decoded response body; a larger one is truncated.",
            Shape::Size { min: 1, max: 1 << 40, off: true },
        )
        .or("off"),
        Key::new(
            "ratio",
            "Maximum ratio of decoded to encoded bytes, beyond 64 KiB (413; a response is truncated).",
            Shape::Count { min: 2, max: 1_000_000, off: false },
        )
        .or("200")
        .also(&["max_ratio", "max_inflate_ratio"]),
    ],
};
