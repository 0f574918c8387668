//! `compression`.

/// Which responses become smaller, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Encodings by their names in HTTP, the one that is liked best first.
    pub encodings: Vec<String>,
    /// Content types, in lower case; a star at one end stands for anything.
    pub types: Vec<String>,
    /// Bodies that are known to be shorter stay as they are, in bytes.
    pub min_length: u64,
}

impl Default for Compression {
    fn default() -> Self {
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
        Self {
            encodings: ["zstd", "br", "gzip"].map(str::to_owned).to_vec(),
            types: TYPES.map(str::to_owned).to_vec(),
            min_length: 1024,
        }
    }
}
