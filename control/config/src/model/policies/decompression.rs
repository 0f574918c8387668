//! Settings of the policy `decompression`.

/// Decodes encoded bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decompression {
    /// Encodings by their HTTP names.
    pub encodings: Vec<String>,
    /// Whether request bodies are decoded.
    pub requests: bool,
    /// Whether response bodies are decoded.
    pub responses: bool,
    /// Maximum bytes of a decoded request body; `None`: `off`.
    pub limit: Option<u64>,
    /// Maximum bytes of a decoded response body; `None`: `off`.
    pub response_limit: Option<u64>,
    /// Maximum ratio of decoded to encoded bytes.
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
