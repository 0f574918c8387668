//! Policies that say who somebody is, and who may.

use std::time::Duration;

use super::Attached;
use crate::model::PemFile;

/// The fields that tell upstream who somebody is; what a client sends there is taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityHeaders {
    /// The consumer's name. Default `X-Consumer-Name`.
    pub consumer: Option<String>,
    /// Its groups, with commas. Default `X-Consumer-Groups`.
    pub groups: Option<String>,
}

impl Default for IdentityHeaders {
    fn default() -> Self {
        Self { consumer: Some("X-Consumer-Name".to_owned()), groups: Some("X-Consumer-Groups".to_owned()) }
    }
}

/// A place in a request where a credential may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialPlace {
    /// A field.
    Header {
        /// Its name.
        name: String,
        /// The text before the credential, without blanks at its end.
        prefix: Option<String>,
    },
    /// A cookie of this name.
    Cookie(String),
    /// A parameter of the query.
    Query(String),
}

/// `body` of an authorisation service: how much of a request's body it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthBody {
    /// Bytes of the body.
    pub max: usize,
    /// Whether a larger body is cut for the service; else the request is refused. Default false.
    pub partial: bool,
    /// Whether `ext_authz` has it in `raw_body` even if it is text. Default false.
    pub as_bytes: bool,
}

/// `any_of`: alternatives of policies that let a request in.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyOf {
    /// The alternatives, in the order in which they are tried; each with its policies in the order in which a request meets
    /// them. None of the policies is `off`.
    pub alternatives: Vec<Vec<Attached>>,
}

/// `api_key`: who shows a key of one of the consumers may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Where the key may be. Default: the field `X-Api-Key`.
    pub from: Vec<CredentialPlace>,
    /// Whether the key goes upstream. Default false.
    pub forward: bool,
    /// Whether a request without a key passes. Default false.
    pub optional: bool,
    /// Who it is, as the upstream hears it.
    pub identity: IdentityHeaders,
}

impl Default for ApiKey {
    fn default() -> Self {
        let from = vec![CredentialPlace::Header { name: "X-Api-Key".to_owned(), prefix: None }];
        Self { from, forward: false, optional: false, identity: IdentityHeaders::default() }
    }
}

/// `authorize`: which of those who are known may come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorize {
    /// Who may; `None`: everybody who is known.
    pub allow: Option<Vec<AuthorizeRule>>,
    /// Who may not, whatever `allow` says.
    pub deny: Vec<AuthorizeRule>,
}

/// Has those for whom all of it is true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizeRule {
    /// It is one of them; empty: whoever it is.
    pub consumers: Vec<String>,
    /// It is in one of them; empty: in whichever.
    pub groups: Vec<String>,
    /// Each claim has one of its values.
    pub claims: Vec<(String, Vec<String>)>,
    /// The request has one of these methods; empty: whichever.
    pub methods: Vec<String>,
}

/// `basic`: who shows the name and password of a consumer may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basic {
    /// What browsers say the password is for. Default `restricted`.
    pub realm: String,
    /// Whether it goes upstream. Default false.
    pub forward: bool,
    /// How long one that was right is taken for right; zero: not at all. Default a minute.
    pub cache: Duration,
    /// Whether a request without a password passes. Default false.
    pub optional: bool,
    /// Who it is, as the upstream hears it.
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

/// What a certificate may be told by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// Who it is for, as RFC 4514 writes names.
    Subject(String),
    /// One of its other names, such as `DNS:a.example`.
    Alternative(String),
    /// Its SHA-256, in lower-case hexadecimal.
    Fingerprint(String),
}

/// `client_certificate`: who has shown a certificate that was verified may come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Which ones may; empty: every one.
    pub allow: Vec<CertificateName>,
    /// Whether a request without a certificate passes. Default false.
    pub optional: bool,
    /// Who it is, as the upstream hears it.
    pub identity: IdentityHeaders,
}

/// `forward_auth`: a service says whether a request may go on.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardAuth {
    /// Where it is asked.
    pub url: String,
    /// How long it may take. Default 1 s.
    pub timeout: Duration,
    /// Fields of the request that it gets; `None`: all of them.
    pub request_headers: Option<Vec<String>>,
    /// How much of the request's body it gets; `None`: nothing. Default none.
    pub body: Option<AuthBody>,
    /// Fields of its answer that go upstream.
    pub response_headers: Vec<String>,
    /// The field of its answer that is the consumer's name.
    pub consumer: Option<String>,
    /// The field of its answer that has the consumer's groups.
    pub groups: Option<String>,
    /// How the upstream is told who it is.
    pub identity: IdentityHeaders,
    /// Who may have signed its certificate; `None`: whom the system trusts.
    pub ca: Option<PemFile>,
}

/// `ext_authz`: a service that speaks Envoy's gRPC protocol says whether a request may go on.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtAuthz {
    /// Where it is asked, without the method.
    pub url: String,
    /// How long it may take. Default 1 s.
    pub timeout: Duration,
    /// Whether requests go on when it gives no answer. Default false.
    pub fail_open: bool,
    /// How much of the request's body it gets; `None`: nothing. Default none.
    pub body: Option<AuthBody>,
    /// Fields that only the service writes.
    pub reserved: Vec<String>,
    /// What it is told beside the request.
    pub context: Vec<(String, String)>,
    /// The field of its answer that is the consumer's name.
    pub consumer: Option<String>,
    /// The field of its answer that has the consumer's groups.
    pub groups: Option<String>,
    /// How the upstream is told who it is.
    pub identity: IdentityHeaders,
    /// Who may have signed its certificate; `None`: whom the system trusts.
    pub ca: Option<PemFile>,
}
