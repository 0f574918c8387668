//! Settings of the policy `compression`.

/// Compresses response bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Encodings by their HTTP names, in order of preference.
    pub encodings: Vec<String>,
    /// Content types, in lower case; a star at one end matches any text.
    pub types: Vec<String>,
    /// Minimum length in bytes: a body that is known to be shorter stays uncompressed.
    pub min_length: u64,
    /// Compression level of each encoding.
    pub level: CompressionLevel,
}

/// Compression level of each encoding, on its library's scale.
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
    /// Levels at which one core compresses at least 100 MB/s.
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
