//! Compiles `decompression`. A missing limit means no limit.

use tollgate_config as config;
use tollgate_policy::{Coding, DecodeLimits, DecompressionRules};

pub(super) fn decompression(spec: &config::Decompression) -> DecompressionRules {
    let config::Decompression { encodings, requests, responses, limit, response_limit, ratio } = spec;
    let most = |limit: &Option<u64>| limit.unwrap_or(u64::MAX);
    DecompressionRules {
        codings: encodings.iter().filter_map(|name| Coding::of(name.as_bytes())).collect(),
        requests: requests.then(|| DecodeLimits::of_requests(most(limit), *ratio)),
        responses: responses.then(|| DecodeLimits::of_responses(most(response_limit), *ratio)),
    }
}
