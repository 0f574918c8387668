//! `client_certificate`: admits requests on connections with a verified client certificate, and identifies
//! the consumer.
//!
//! The listener's TLS settings decide which CAs are trusted. This policy maps a certificate to a consumer,
//! and caches the result by the certificate's SHA-256.

mod config;

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use tollgate_observe::Reason;
use tollgate_tls::PeerCertificate;

use crate::api_key::optional_suffix;
use crate::{
    Authenticator, Consumer, Consumers, Dependency, Identity, Planned, Policy, PolicyStates, Refusal,
    Request, Verdict,
};

pub(crate) use config::ClientCertificateSettings;

/// The maximum number of remembered certificates.
const CACHED_CERTIFICATES_MAX: usize = 1000;

/// A property that identifies a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CertificateName {
    /// The subject, formatted as in RFC 4514.
    Subject(String),
    /// A subject alternative name, such as `DNS:a.example` or `URI:spiffe://example/a`.
    Alternative(String),
    /// The SHA-256 fingerprint in lower-case hexadecimal.
    Fingerprint(String),
}

impl From<tollgate_config::CertificateName> for CertificateName {
    fn from(name: tollgate_config::CertificateName) -> Self {
        match name {
            tollgate_config::CertificateName::Subject(name) => Self::Subject(name),
            tollgate_config::CertificateName::Alternative(name) => Self::Alternative(name),
            tollgate_config::CertificateName::Fingerprint(name) => Self::Fingerprint(name),
        }
    }
}

impl CertificateName {
    /// Returns all names of a certificate, the most specific first.
    fn all(certificate: &PeerCertificate<'_>) -> Vec<Self> {
        let names = certificate.names();
        let names = names.split(',').filter(|name| !name.is_empty());
        [Self::Fingerprint(certificate.fingerprint())]
            .into_iter()
            .chain(names.map(|name| Self::Alternative(name.to_owned())))
            .chain([Self::Subject(certificate.subject())])
            .collect()
    }
}

/// Admits clients with a verified certificate.
#[derive(Debug)]
pub struct CertificateRules {
    /// The allowed certificates; empty: every verified certificate.
    pub allow: Vec<CertificateName>,
    /// Whether a request without a certificate passes.
    pub optional: bool,
    /// The fields that name the consumer to the upstream.
    pub identity: Identity,
    /// The consumers with their certificates.
    pub consumers: Arc<Consumers>,
}

impl Planned for CertificateRules {
    fn kind(&self) -> &'static str {
        "client_certificate"
    }

    fn summary(&self) -> String {
        let optional = optional_suffix(self.optional);
        match self.allow.len() {
            0 => format!("every one that was verified{optional}"),
            count => format!("{count} allowed{optional}"),
        }
    }

    fn depends_on(&self) -> Option<Dependency> {
        Some(Dependency::Certificate)
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        Arc::new(CertificateState { rules: self, known: Mutex::default() })
    }
}

/// The consumer of each certificate, by its SHA-256 digest; `None`: the certificate is not allowed.
type ConsumersByCertificate = HashMap<[u8; 32], Option<Arc<Consumer>>>;

struct CertificateState {
    rules: Arc<CertificateRules>,
    known: Mutex<ConsumersByCertificate>,
}

impl Policy for CertificateState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.rules.identity.remove(request);
        let Some(der) = request.origin.certificate else {
            if self.rules.optional {
                self.rules.identity.rewrite(request);
                return Verdict::Continue;
            }
            let detail = Some("the client has shown no certificate");
            return Refusal { detail, ..Reason::CertificateMissing.into() }.into();
        };
        match self.of(der) {
            Some(consumer) => {
                self.rules.identity.set_consumer(request, &consumer);
                Verdict::Continue
            }
            None => {
                let detail = Some("the certificate is not among those allowed");
                Refusal { detail, ..Reason::NotAuthorized.into() }.into()
            }
        }
    }

    fn authenticator(&self) -> Option<&dyn Authenticator> {
        Some(self)
    }
}

impl Authenticator for CertificateState {
    fn is_present(&self, request: &Request<'_>) -> bool {
        request.origin.certificate.is_some()
    }

    fn is_optional(&self) -> bool {
        self.rules.optional
    }

    fn reserve_fields(&self, request: &mut Request<'_>) {
        self.rules.identity.rewrite(request);
    }

    fn forwards(&self, _: &str) -> bool {
        false
    }

    fn conceal(&self, _: &mut Request<'_>, _: &dyn Fn(&str) -> bool) {}
}

impl CertificateState {
    fn of(&self, der: &[u8]) -> Option<Arc<Consumer>> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, der).as_ref());
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&hash) {
            return known.clone();
        }
        let found = self.rules.consumer(der);
        let mut known = known();
        if known.len() >= CACHED_CERTIFICATES_MAX {
            known.clear();
        }
        known.insert(hash, found.clone());
        found
    }
}

impl CertificateRules {
    /// Returns the consumer of a certificate; `None` if the certificate is not allowed or cannot be parsed.
    fn consumer(&self, der: &[u8]) -> Option<Arc<Consumer>> {
        let der = CertificateDer::from(der);
        let certificate = PeerCertificate::new(&der)?;
        let names = CertificateName::all(&certificate);
        if !self.allow.is_empty() && !names.iter().any(|name| self.allow.contains(name)) {
            return None;
        }
        if let Some(consumer) = names.iter().find_map(|name| self.consumers.by_certificate(name)) {
            return Some(consumer.clone());
        }
        Some(Arc::new(Consumer { name: certificate.subject(), ..Consumer::default() }))
    }
}

impl Debug for CertificateState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("rules", &self.rules).finish_non_exhaustive()
    }
}
