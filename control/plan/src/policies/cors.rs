//! `cors`.

use regex::Regex;
use tollgate_config as config;
use tollgate_policy::{CorsRules, OriginPattern};

pub(super) fn cors(cors: &config::Cors) -> CorsRules {
    let exact = cors.origins.iter().map(|origin| match origin.split_once("://*.") {
        Some((scheme, host)) => {
            OriginPattern::Below(format!("{scheme}://").into(), format!(".{host}").into())
        }
        None => OriginPattern::Exactly(origin.as_str().into()),
    });
    // The reader has checked the patterns. One that the library finds too large is dropped, and so admits no
    // origin.
    let regexes = cors.regexes.iter().filter_map(|regex| Regex::new(&format!("^(?:{regex})$")).ok());
    CorsRules {
        any: cors.any,
        origins: exact.chain(regexes.map(OriginPattern::Matching)).collect(),
        methods: cors.methods.join(", "),
        any_header: cors.headers.iter().any(|name| name == "*"),
        headers: cors.headers.join(", "),
        expose: cors.expose.join(", "),
        credentials: cors.credentials,
        max_age: cors.max_age.map(|age| age.as_secs()),
    }
}
