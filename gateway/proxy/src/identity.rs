//! The certificate that a client has shown, as endpoints are told of it.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use tollgate_net::Certificates;
use tollgate_plan::{CertificatePart, Settings};
use tollgate_policy::looks_like;
use tollgate_tls::Presented;

/// The fields that tell of a certificate, as the plan has them.
pub(crate) type Fields = Arc<[(String, CertificatePart)]>;

/// The certificate of one connection. What is said of it is worked out once, and again when a reload asks for
/// something else.
#[derive(Debug)]
pub(crate) struct Identity {
    chain: Certificates,
    lines: RefCell<Option<(Fields, Vec<u8>)>>,
    subject: OnceCell<String>,
    fingerprint: OnceCell<String>,
}

impl Identity {
    /// Of a client that has shown this one.
    pub fn new(chain: Certificates) -> Self {
        Self { chain, lines: RefCell::default(), subject: OnceCell::new(), fingerprint: OnceCell::new() }
    }

    /// Who it is for.
    pub fn subject(&self) -> &str {
        self.subject.get_or_init(|| self.leaf().map(|leaf| leaf.subject()).unwrap_or_default())
    }

    /// The SHA-256 hash of the certificate.
    pub fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| self.leaf().map(|leaf| leaf.fingerprint()).unwrap_or_default())
    }

    /// Appends the lines that tell of it.
    pub fn write(&self, out: &mut Vec<u8>, fields: &Fields) {
        let mut kept = self.lines.borrow_mut();
        let (_, lines) = match kept.take() {
            Some(kept_for) if Arc::ptr_eq(&kept_for.0, fields) => kept.insert(kept_for),
            _ => kept.insert((fields.clone(), self.lines(fields))),
        };
        out.extend_from_slice(lines);
    }

    /// The certificate itself, as DER.
    pub fn der(&self) -> Option<&[u8]> {
        self.chain.first().map(|leaf| leaf.as_ref())
    }

    fn leaf(&self) -> Option<Presented<'_>> {
        self.chain.first().and_then(|leaf| Presented::new(leaf))
    }

    fn lines(&self, fields: &Fields) -> Vec<u8> {
        let mut out = Vec::new();
        // What cannot be read is not told of: an endpoint then sees a client without a certificate.
        let Some(leaf) = self.leaf() else { return out };
        for (name, part) in fields.iter() {
            let value = match part {
                CertificatePart::Certificate => Presented::byte_sequence(&self.chain[0]),
                CertificatePart::Chain => {
                    let rest: Vec<_> = self.chain[1..].iter().map(Presented::byte_sequence).collect();
                    rest.join(", ")
                }
                CertificatePart::Pem => leaf.escaped_pem(),
                CertificatePart::Subject => leaf.subject(),
                CertificatePart::Issuer => leaf.issuer(),
                CertificatePart::Serial => leaf.serial(),
                CertificatePart::Names => leaf.names(),
                CertificatePart::Fingerprint => leaf.fingerprint(),
            };
            if !value.is_empty() {
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b": ");
                out.extend_from_slice(value.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
        }
        out
    }
}

/// The names that the plan chooses for what the gateway alone says, in heads and in trailers: endpoints may merge these
/// into the head, for all that RFC 9110, 6.5.1 says.
pub(crate) struct Reserved<'a> {
    /// Of the request's id.
    id: Option<&'a [u8]>,
    /// Of what is told of the client's certificate. A trusted proxy has clients of its own, of whom it tells itself.
    pub told: Option<&'a Fields>,
}

impl<'a> Reserved<'a> {
    #[inline]
    pub fn new(settings: &'a Settings, trusted: bool) -> Self {
        let told = &settings.client_certificate;
        Self {
            id: settings.request_id.enabled.then_some(settings.request_id.header.as_bytes()),
            told: (!told.is_empty() && !trusted).then_some(told),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.id.is_none() && self.told.is_none()
    }

    /// Whether a field of this name tells of a certificate.
    pub fn is_certificates(&self, name: &[u8]) -> bool {
        self.told.is_some_and(|told| is_claimed(told, name))
    }

    /// Whether a field of this name is not the client's to send.
    #[inline]
    pub fn has(&self, name: &[u8]) -> bool {
        self.id.is_some_and(|id| name.eq_ignore_ascii_case(id)) || self.is_certificates(name)
    }
}

/// Whether a field of a client's has a name that only the gateway may write, or looks like one.
fn is_claimed(fields: &Fields, name: &[u8]) -> bool {
    fields.iter().any(|(own, _)| looks_like(own.as_bytes(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_claimed_too() {
        let fields: Fields = [("X-Client-Subject".to_owned(), CertificatePart::Subject)].into();
        for name in ["X-Client-Subject", "x-client-subject", "X_Client_Subject", "X.CLIENT~Subject"] {
            assert!(is_claimed(&fields, name.as_bytes()), "{name}");
        }
        for name in ["X-Client-Subjec", "X-Client-Subjects", "XaClient-Subject", ""] {
            assert!(!is_claimed(&fields, name.as_bytes()), "{name}");
        }
    }
}
