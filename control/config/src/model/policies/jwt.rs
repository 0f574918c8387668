//! `jwt`.

use std::time::Duration;

use crate::model::{IdentityHeaders, PemFile, Secret};

/// Who shows a token that somebody trusted has signed may come.
#[derive(Clone, Debug, PartialEq)]
pub struct Jwt {
    /// The keys.
    pub keys: JwtKeys,
    /// Which algorithms are taken, as tokens spell them.
    pub algorithms: Vec<&'static str>,
    /// Who may have issued it; empty: whoever has the key.
    pub issuers: Vec<String>,
    /// For whom it has to be, one of these; empty: whomever.
    pub audiences: Vec<String>,
    /// By how much clocks may differ. Default 30 s.
    pub leeway: Duration,
    /// The cookie that it may be in.
    pub cookie: Option<String>,
    /// Whether it goes upstream. Default true.
    pub forward: bool,
    /// What it has to say.
    pub claims: Vec<(String, Vec<String>)>,
    /// Fields in which claims go upstream: name and claim.
    pub headers: Vec<(String, String)>,
    /// The claim that is the consumer's name. Default `sub`.
    pub consumer_claim: String,
    /// The claim that has its groups. Default `groups`.
    pub groups_claim: String,
    /// Who it is, as the upstream hears it.
    pub identity: IdentityHeaders,
    /// Tokens that are remembered, for each worker. Default 1000.
    pub cache: usize,
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
