//! `decompression`.

/// Which bodies are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decompression {
    /// Encodings by their names in HTTP.
    pub encodings: Vec<String>,
    /// Whether bodies of requests are.
    pub requests: bool,
    /// Whether bodies of responses are.
    pub responses: bool,
    /// Bytes of a request's; `None`: `off`.
    pub limit: Option<u64>,
    /// Bytes of a response's; `None`: `off`.
    pub response_limit: Option<u64>,
    /// Bytes for one of the encoded body.
    pub ratio: u64,
}

impl Default for Decompression {
    fn default() -> Self {
        Self {
            encodings: ["gzip", "br", "zstd", "deflate"].map(str::to_owned).to_vec(),
            requests: true,
            responses: true,
            limit: Some(16 << 20),
            response_limit: None,
            ratio: 200,
        }
    }
}
