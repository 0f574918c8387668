//! The keys of `decompression`.

use crate::spec::{Choice, Key, Section, Shape};

static CODING_SHAPE: Shape = Shape::Word(&["gzip", "br", "zstd", "deflate"]);

pub(crate) static DECOMPRESSION_POLICY: Section = Section {
    name: "decompression_policy",
    noun: "`decompression`",
    doc: "Encoded bodies of requests are decoded before they go upstream, and those of responses for clients that do not take their encoding.",
    choice: Choice::Free,
    keys: &[
        Key::new("encodings", "Encodings that are decoded.", Shape::OneOrMany(&CODING_SHAPE))
            .or("[gzip, br, zstd, deflate]")
            .also(&["encoding", "algorithms"]),
        Key::new("requests", "Whether bodies of requests are.", Shape::Switch).or("on").also(&["request"]),
        Key::new("responses", "Whether bodies of responses are.", Shape::Switch)
            .or("on")
            .also(&["response", "gunzip"]),
        Key::new(
            "limit",
            "Largest body of a request once it is decoded (413).",
            Shape::Size { min: 1, max: 1 << 40, off: true },
        )
        .or("16MiB")
        .also(&["max_size", "request_limit"]),
        Key::new(
            "response_limit",
            "Largest body of a response once it is decoded; a larger one is broken off.",
            Shape::Size { min: 1, max: 1 << 40, off: true },
        )
        .or("off"),
        Key::new(
            "ratio",
            "How many times as large as it was a body may become, beyond 64 KiB (413; a response is broken off).",
            Shape::Count { min: 2, max: 1_000_000, off: false },
        )
        .or("200")
        .also(&["max_ratio", "max_inflate_ratio"]),
    ],
};
