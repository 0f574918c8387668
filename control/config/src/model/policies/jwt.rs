//! `jwt`.

use std::time::Duration;

use crate::model::{CredentialPlace, IdentityHeaders, PemFile, Secret};

/// Who shows a token that somebody trusted has signed may come.
#[derive(Clone, Debug, PartialEq)]
pub struct Jwt {
    /// The issuers that are trusted; at least one. Of several, each has names of its own.
    pub issuers: Vec<JwtIssuer>,
    /// By how much clocks may differ. Default 30 s.
    pub leeway: Duration,
    /// Where the token may be. Default: `Authorization: Bearer`.
    pub from: Vec<CredentialPlace>,
    /// Whether it goes upstream; one from the query never does. Default true.
    pub forward: bool,
    /// Whether a request without a token passes. Default false.
    pub optional: bool,
    /// Fields in which claims go upstream: name and claim.
    pub headers: Vec<(String, String)>,
    /// Who it is, as the upstream hears it.
    pub identity: IdentityHeaders,
    /// Tokens that are remembered, for each worker. Default 1000.
    pub cache: usize,
}

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtIssuer {
    /// What its tokens have in `iss`, one of these; empty, of an only issuer: whatever they have.
    pub names: Vec<String>,
    /// The keys.
    pub keys: JwtKeys,
    /// Which algorithms are taken, as tokens spell them.
    pub algorithms: Vec<&'static str>,
    /// For whom a token has to be, one of these; empty: whomever.
    pub audiences: Vec<String>,
    /// What a token has to say.
    pub claims: Vec<(String, Vec<String>)>,
    /// The claim that is the consumer's name. Default `sub`.
    pub consumer_claim: String,
    /// The claim that has its groups. Default `groups`.
    pub groups_claim: String,
}

/// The keys that verify tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum JwtKeys {
    /// A set of keys in a file.
    File(PemFile),
    /// A shared secret.
    Secret(Secret),
    /// A set of keys at an URL.
    Url {
        /// The URL.
        url: String,
        /// Who may have signed its certificate; `None`: whom the system trusts.
        ca: Option<PemFile>,
        /// How long they hold. Default 5 min.
        refresh: Duration,
        /// The least time between two fetches. Default 5 s.
        cooldown: Duration,
        /// How long a fetch may take. Default 5 s.
        timeout: Duration,
    },
}
