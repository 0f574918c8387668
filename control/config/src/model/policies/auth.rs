//! Policies that authenticate and authorize requests.

use std::time::Duration;

use super::Attached;
use crate::model::PemFile;

/// The fields that tell the upstream which consumer sent a request. The gateway removes these fields from
/// client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityHeaders {
    /// Field for the consumer's name. Default `X-Consumer-Name`.
    pub consumer: Option<String>,
    /// Field for its groups, separated by commas. Default `X-Consumer-Groups`.
    pub groups: Option<String>,
}

impl Default for IdentityHeaders {
    fn default() -> Self {
        Self { consumer: Some("X-Consumer-Name".to_owned()), groups: Some("X-Consumer-Groups".to_owned()) }
    }
}

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

/// `body` of an authorization service: how much of a request's body the service receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthBody {
    /// Maximum bytes of the body.
    pub max: usize,
    /// Whether a larger body is truncated for the service; otherwise the request is rejected. Default false.
    pub partial: bool,
    /// Whether `ext_authz` sends the body in `raw_body` even if it is text. Default false.
    pub as_bytes: bool,
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

/// `basic`: admits requests with a consumer's name and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basic {
    /// The realm that browsers show. Default `restricted`.
    pub realm: String,
    /// Whether the password is forwarded upstream. Default false.
    pub forward: bool,
    /// How long a verified password is cached; zero: not at all. Default one minute.
    pub cache: Duration,
    /// Whether a request without a password passes. Default false.
    pub optional: bool,
    /// Fields that tell the upstream which consumer it is.
    pub identity: IdentityHeaders,
}

impl Default for Basic {
    fn default() -> Self {
        Self {
            realm: "restricted".to_owned(),
            forward: false,
            cache: Duration::from_secs(60),
            optional: false,
            identity: IdentityHeaders::default(),
        }
    }
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

/// `client_certificate`: admits clients with a verified certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Certificates that are admitted; empty: every verified one.
    pub allow: Vec<CertificateName>,
    /// Whether a request without a certificate passes. Default false.
    pub optional: bool,
    /// Fields that tell the upstream which consumer it is.
    pub identity: IdentityHeaders,
}

/// `forward_auth`: an HTTP service decides whether a request may proceed.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardAuth {
    /// URL of the service.
    pub url: String,
    /// Maximum time for its answer. Default 1 s.
    pub timeout: Duration,
    /// Request fields that it receives; `None`: all.
    pub request_headers: Option<Vec<String>>,
    /// How much of the request's body it receives; `None`: nothing. Default none.
    pub body: Option<AuthBody>,
    /// Fields of its answer that are copied to the upstream request.
    pub response_headers: Vec<String>,
    /// The field of its answer that holds the consumer's name.
    pub consumer: Option<String>,
    /// The field of its answer that holds the consumer's groups.
    pub groups: Option<String>,
    /// Fields that tell the upstream which consumer it is.
    pub identity: IdentityHeaders,
    /// CA for its certificate; `None`: the system's trust store.
    pub ca: Option<PemFile>,
}

/// `ext_authz`: a service that speaks Envoy's gRPC protocol decides whether a request may proceed.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtAuthz {
    /// URL of the service, without the method.
    pub url: String,
    /// Maximum time for its answer. Default 1 s.
    pub timeout: Duration,
    /// Whether requests proceed if the service does not answer. Default false.
    pub fail_open: bool,
    /// How much of the request's body it receives; `None`: nothing. Default none.
    pub body: Option<AuthBody>,
    /// Fields that only the service may set.
    pub reserved: Vec<String>,
    /// Additional context that the service receives.
    pub context: Vec<(String, String)>,
    /// The field of its answer that holds the consumer's name.
    pub consumer: Option<String>,
    /// The field of its answer that holds the consumer's groups.
    pub groups: Option<String>,
    /// Fields that tell the upstream which consumer it is.
    pub identity: IdentityHeaders,
    /// CA for its certificate; `None`: the system's trust store.
    pub ca: Option<PemFile>,
}
