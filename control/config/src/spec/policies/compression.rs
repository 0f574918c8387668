//! `compression`.

use crate::spec::{Choice, Key, Section, Shape, Text};

static ENCODING_SHAPE: Shape = Shape::Word(&["zstd", "br", "gzip"]);
static TYPE: Text = Text {
    expected: "a media type such as `text/html`, `text/*` or `*+json`",
    pattern: Some(r"^[!#$&^_.+*A-Za-z0-9-]+(/[!#$&^_.+*A-Za-z0-9-]+)?$"),
    loose: false,
};
static TYPE_SHAPE: Shape = Shape::Text(&TYPE);

pub(crate) static COMPRESSION_POLICY: Section = Section {
    name: "compression_policy",
    noun: "`compression`",
    doc: "Bodies of responses become smaller for clients that take it.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "encodings",
            "Encodings, the one that is liked best first.",
            Shape::OneOrMany(&ENCODING_SHAPE),
        )
        .or("[zstd, br, gzip]")
        .also(&["encoding", "algorithms"]),
        Key::new(
            "types",
            "Content types that become smaller; without it texts of all kinds.",
            Shape::OneOrMany(&TYPE_SHAPE),
        )
        .also(&["content_types", "gzip_types", "includedContentTypes"]),
        Key::new(
            "min_length",
            "Bodies that are known to be shorter stay as they are.",
            Shape::Size { min: 0, max: 1 << 30, off: false },
        )
        .or("1KiB")
        .also(&["gzip_min_length", "minResponseBodyBytes", "min_size"]),
    ],
};
