//! `client_certificate`: who has shown a certificate that the listener has verified may come, and is known by it.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use tollgate_observe::Reason;
use tollgate_tls::Presented;

use crate::api_key::optionally;
use crate::{
    Authenticator, Consumer, Consumers, Identity, Planned, Policy, Refusal, Request, Shared, Shown, Verdict,
};

/// Certificates that are remembered with what came of them.
const REMEMBERED: usize = 1000;

/// What a certificate may be told by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CertificateName {
    /// Who it is for, as RFC 4514 writes names.
    Subject(String),
    /// One of its other names, such as `DNS:a.example` or `URI:spiffe://example/a`.
    Alternative(String),
    /// Its SHA-256, in lower-case hexadecimal.
    Fingerprint(String),
}

impl CertificateName {
    /// What a certificate is told by, the narrowest first.
    fn all(certificate: &Presented<'_>) -> Vec<Self> {
        let names = certificate.names();
        let names = names.split(',').filter(|name| !name.is_empty());
        [Self::Fingerprint(certificate.fingerprint())]
            .into_iter()
            .chain(names.map(|name| Self::Alternative(name.to_owned())))
            .chain([Self::Subject(certificate.subject())])
            .collect()
    }
}

/// Who has shown a certificate may come.
#[derive(Debug)]
pub struct CertificateRules {
    /// Which ones may; empty: every one that was verified.
    pub allow: Vec<CertificateName>,
    /// Whether a request without a certificate passes.
    pub optional: bool,
    /// How the upstream is told who it is.
    pub identity: Identity,
    /// Who is known.
    pub consumers: Arc<Consumers>,
}

impl Planned for CertificateRules {
    fn kind(&self) -> &'static str {
        "client_certificate"
    }

    fn summary(&self) -> String {
        let optional = optionally(self.optional);
        match self.allow.len() {
            0 => format!("every one that was verified{optional}"),
            count => format!("{count} allowed{optional}"),
        }
    }

    fn judges_by(&self) -> Option<Shown> {
        Some(Shown::Certificate)
    }

    fn live(self: Arc<Self>, _: &str, _: &Arc<Shared>) -> Arc<dyn Policy> {
        Arc::new(Live { rules: self, known: Mutex::default() })
    }
}

/// Who a certificate is of, by its hash; nothing: one that may not come.
type Known = HashMap<[u8; 32], Option<Arc<Consumer>>>;

struct Live {
    rules: Arc<CertificateRules>,
    known: Mutex<Known>,
}

impl Policy for Live {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.rules.identity.strip(request);
        let Some(der) = request.origin.certificate else {
            if self.rules.optional {
                self.rules.identity.renew(request);
                return Verdict::Continue;
            }
            let detail = Some("the client has shown no certificate");
            return Refusal { detail, ..Reason::CertificateMissing.into() }.into();
        };
        match self.of(der) {
            Some(consumer) => {
                self.rules.identity.tell(request, &consumer);
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

impl Authenticator for Live {
    fn is_shown(&self, request: &Request<'_>) -> bool {
        request.origin.certificate.is_some()
    }

    fn is_optional(&self) -> bool {
        self.rules.optional
    }

    fn claim(&self, request: &mut Request<'_>) {
        self.rules.identity.renew(request);
    }

    fn forwards(&self, _: &str) -> bool {
        false
    }

    fn conceal(&self, _: &mut Request<'_>, _: &dyn Fn(&str) -> bool) {}
}

impl Live {
    fn of(&self, der: &[u8]) -> Option<Arc<Consumer>> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, der).as_ref());
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&hash) {
            return known.clone();
        }
        let found = self.rules.consumer(der);
        let mut known = known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(hash, found.clone());
        found
    }
}

impl CertificateRules {
    /// Who a certificate is of; nothing if it may not come, or cannot be read.
    fn consumer(&self, der: &[u8]) -> Option<Arc<Consumer>> {
        let der = CertificateDer::from(der);
        let certificate = Presented::new(&der)?;
        let names = CertificateName::all(&certificate);
        if !self.allow.is_empty() && !names.iter().any(|name| self.allow.contains(name)) {
            return None;
        }
        if let Some(consumer) = names.iter().find_map(|name| self.consumers.of_certificate(name)) {
            return Some(consumer.clone());
        }
        Some(Arc::new(Consumer { name: certificate.subject(), ..Consumer::default() }))
    }
}

impl Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("rules", &self.rules).finish_non_exhaustive()
    }
}
