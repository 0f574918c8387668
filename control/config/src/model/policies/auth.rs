//! Policies that authenticate and authorize requests.

use super::{Attached, IdentityHeaders};

/// A part of a request that may carry a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// A header field.
    Header {
        /// Name of the field.
        name: String,
        /// The text before the credential, without trailing blanks.
        prefix: Option<String>,
    },
    /// A cookie of this name.
    Cookie(String),
    /// A query parameter of this name.
    Query(String),
}

/// `any_of`: admits a request if one of several alternatives does.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyOf {
    /// The alternatives, in the order tried. The policies of each are in the order in which they act on a
    /// request. None of them is `off`.
    pub alternatives: Vec<Vec<Attached>>,
}

/// `api_key`: admits requests that carry a consumer's API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Places where the key is looked for. Default: the field `X-Api-Key`.
    pub from: Vec<CredentialSource>,
    /// Whether the key is forwarded upstream. Default false.
    pub forward: bool,
    /// Whether a request without a key passes. Default false.
    pub optional: bool,
    /// Fields that tell the upstream which consumer it is.
    pub identity: IdentityHeaders,
}

impl Default for ApiKey {
    fn default() -> Self {
        let from = vec![CredentialSource::Header { name: "X-Api-Key".to_owned(), prefix: None }];
        Self { from, forward: false, optional: false, identity: IdentityHeaders::default() }
    }
}

/// `authorize`: restricts which identified consumers may proceed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorize {
    /// Rules that admit; `None`: every identified consumer.
    pub allow: Option<Vec<AuthorizeRule>>,
    /// Rules that reject, even if `allow` admits.
    pub deny: Vec<AuthorizeRule>,
}

/// A rule that matches if all of its conditions hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizeRule {
    /// The consumer is one of these; empty: any.
    pub consumers: Vec<String>,
    /// The consumer is in one of these groups; empty: any.
    pub groups: Vec<String>,
    /// Each claim has one of the listed values.
    pub claims: Vec<(String, Vec<String>)>,
    /// The method is one of these; empty: any.
    pub methods: Vec<String>,
}

/// A property that identifies a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// The subject, as RFC 4514 writes names.
    Subject(String),
    /// A subject alternative name, such as `DNS:a.example`.
    Alternative(String),
    /// The SHA-256 of the certificate, in lower-case hexadecimal.
    Fingerprint(String),
}
