//! Settings of the policy `hmac`.

use std::time::Duration;

use super::IdentityHeaders;

/// Admits signed requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hmac {
    /// The components that a signature must cover.
    pub components: Vec<String>,
    /// Maximum age of a signature.
    pub max_age: Duration,
    /// Tolerated difference between the clocks.
    pub leeway: Duration,
    /// How many nonces are remembered; `None`: signatures need no nonce.
    pub nonces: Option<usize>,
    /// Maximum bytes of a body that is compared with its digest; `None`: bodies are not compared.
    pub body: Option<usize>,
    /// The required label of the signature; `None`: any.
    pub label: Option<String>,
    /// The required tag of the signature; `None`: any.
    pub tag: Option<String>,
    /// Whether the signature is forwarded upstream.
    pub forward: bool,
    /// Whether a request without a signature passes. Default false.
    pub optional: bool,
    /// Fields that tell the upstream which consumer it is.
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
