//! `compression`.

use tollgate_config as config;
use tollgate_policy::{CompressionRules, Encoding};

pub(super) fn compression(compression: &config::Compression) -> CompressionRules {
    let config::Compression { encodings, types, min_length } = compression;
    CompressionRules {
        encodings: encodings.iter().filter_map(|name| Encoding::of(name.as_bytes())).collect(),
        types: types.clone(),
        min_length: *min_length,
    }
}
