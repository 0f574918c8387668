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
    /// How hard each encoding tries.
    pub level: CompressionLevel,
}

/// How hard each encoding tries, as its library counts that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionLevel {
    /// 1 to 19. Default 3.
    pub zstd: u8,
    /// 0 to 11. Default 4.
    pub brotli: u8,
    /// 1 to 9. Default 5.
    pub gzip: u8,
}

impl Default for CompressionLevel {
    /// Levels at which a core makes 100 MB/s and more.
    fn default() -> Self {
        Self { zstd: 3, brotli: 4, gzip: 5 }
    }
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
            level: CompressionLevel::default(),
        }
    }
}
