//! The keys of `compression`.

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text};

static ENCODING_SHAPE: Shape = Shape::Word(&["zstd", "br", "gzip"]);
static TYPE: Text = Text {
    expected: "a media type such as `text/html`, `text/*` or `*+json`",
    pattern: Some(r"^[!#$&^_.+*A-Za-z0-9-]+(/[!#$&^_.+*A-Za-z0-9-]+)?$"),
    loose: false,
};
static TYPE_SHAPE: Shape = Shape::Text(&TYPE);

pub(crate) static COMPRESSION_POLICY: SectionSpec = SectionSpec {
    name: "compression_policy",
    noun: "`compression`",
    doc: "Compresses response bodies for clients that accept it.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("encodings", "Encodings in order of preference.", Shape::OneOrMany(&ENCODING_SHAPE))
            .default("[zstd, br, gzip]")
            .aliases(&["encoding", "algorithms"]),
        KeySpec::new(
            "types",
            "Content types that are compressed. Default: all kinds of text.",
            Shape::OneOrMany(&TYPE_SHAPE),
        )
        .aliases(&["content_types", "gzip_types", "includedContentTypes"]),
        KeySpec::new(
            "min_length",
            "Bodies that are known to be shorter are not compressed.",
            Shape::Size { min: 0, max: 1 << 30, off: false },
        )
        .default("1KiB")
        .aliases(&["gzip_min_length", "minResponseBodyBytes", "min_size"]),
        KeySpec::new(
            "level",
            "Compression level: one number for all encodings, or one for each. Higher levels cost more time.",
            Shape::AnyOf(&[Shape::Count { min: 1, max: 19, off: false }, Shape::Section(&COMPRESSION_LEVEL)]),
        )
        .default("{zstd: 3, br: 4, gzip: 5}")
        .aliases(&["levels", "quality", "gzip_comp_level", "compression_level", "comp_level"]),
    ],
};

pub(crate) static COMPRESSION_LEVEL: SectionSpec = SectionSpec {
    name: "compression_level",
    noun: "`level`",
    doc: "Compression level of each encoding.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("zstd", "1 to 19.", Shape::Count { min: 1, max: 19, off: false }).default("3"),
        KeySpec::new("br", "0 to 11.", Shape::Count { min: 0, max: 11, off: false })
            .default("4")
            .aliases(&["brotli", "brotli_comp_level"]),
        KeySpec::new("gzip", "1 to 9.", Shape::Count { min: 1, max: 9, off: false })
            .default("5")
            .aliases(&["gzip_comp_level"]),
    ],
};
