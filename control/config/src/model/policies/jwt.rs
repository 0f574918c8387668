//! Settings of the policy `jwt`.

use std::time::Duration;

use crate::model::{CredentialSource, IdentityHeaders, PemFile, Secret};

/// Admits requests with a token that a trusted issuer signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Jwt {
    /// The trusted issuers; at least one. If there are several, each lists its own names.
    pub issuers: Vec<JwtIssuer>,
    /// Tolerated difference between the clocks. Default 30 s.
    pub leeway: Duration,
    /// Places where the token is looked for. Default: `Authorization: Bearer`.
    pub from: Vec<CredentialSource>,
    /// Whether the token is forwarded upstream; a token from the query never is. Default true.
    pub forward: bool,
    /// Whether a request without a token passes. Default false.
    pub optional: bool,
    /// Fields that carry claims upstream: name and claim.
    pub headers: Vec<(String, String)>,
    /// Fields that tell the upstream which consumer it is.
    pub identity: IdentityHeaders,
    /// Tokens that each worker caches. Default 1000.
    pub cache: usize,
}

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtIssuer {
    /// Accepted values of `iss`. Empty, allowed only for a single issuer: any value.
    pub names: Vec<String>,
    /// The keys that verify its tokens.
    pub keys: JwtKeys,
    /// Accepted algorithms, as tokens spell them.
    pub algorithms: Vec<&'static str>,
    /// Accepted audiences; a token must name one of them. Empty: any.
    pub audiences: Vec<String>,
    /// Required claims and their accepted values.
    pub claims: Vec<(String, Vec<String>)>,
    /// The claim that holds the consumer's name. Default `sub`.
    pub consumer_claim: String,
    /// The claim that holds the consumer's groups. Default `groups`.
    pub groups_claim: String,
}

/// The keys that verify tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum JwtKeys {
    /// A key set in a file.
    File(PemFile),
    /// A shared secret.
    Secret(Secret),
    /// A key set at a URL.
    Url {
        /// The URL.
        url: String,
        /// CA for its certificate; `None`: the system's trust store.
        ca: Option<PemFile>,
        /// Time after which keys are fetched again. Default 5 min.
        refresh: Duration,
        /// Minimum time between two fetches. Default 5 s.
        cooldown: Duration,
        /// Maximum duration of a fetch. Default 5 s.
        timeout: Duration,
    },
}
