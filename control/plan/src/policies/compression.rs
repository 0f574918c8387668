//! Compiles `compression`. The reader has checked the names of the encodings.

use tollgate_config as config;
use tollgate_policy::{CompressionLevels, CompressionRules, Encoding};

pub(super) fn compression(compression: &config::Compression) -> CompressionRules {
    let config::Compression { encodings, types, min_length, level } = compression;
    let config::CompressionLevel { zstd, brotli, gzip } = *level;
    CompressionRules {
        encodings: encodings.iter().filter_map(|name| Encoding::of(name.as_bytes())).collect(),
        types: types.clone(),
        min_length: *min_length,
        levels: CompressionLevels { zstd: zstd.into(), brotli: brotli.into(), gzip: gzip.into() },
    }
}
