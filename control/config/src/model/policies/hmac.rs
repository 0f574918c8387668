//! `hmac`.

use std::time::Duration;

use super::IdentityHeaders;

/// Who signs requests may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hmac {
    /// What a signature must cover.
    pub components: Vec<String>,
    /// How old it may be.
    pub max_age: Duration,
    /// How much clocks may differ.
    pub leeway: Duration,
    /// How many nonces are remembered; `None`: none is wanted.
    pub nonces: Option<usize>,
    /// Bytes of a body that is compared with its digest; `None`: none is.
    pub body: Option<usize>,
    /// The label of the signature.
    pub label: Option<String>,
    /// The tag that it must have.
    pub tag: Option<String>,
    /// Whether it goes upstream.
    pub forward: bool,
    /// Whether a request without a signature passes. Default false.
    pub optional: bool,
    /// The fields that tell who it is.
    pub identity: IdentityHeaders,
}

impl Default for Hmac {
    fn default() -> Self {
        Self {
            components: ["@method", "@authority", "@path", "@query"].map(str::to_owned).to_vec(),
            max_age: Duration::from_secs(300),
            leeway: Duration::from_secs(30),
            nonces: None,
            body: None,
            label: None,
            tag: None,
            forward: false,
            optional: false,
            identity: IdentityHeaders::default(),
        }
    }
}
