//! The certificate that a client has presented, and the request fields that describe it to endpoints.
//!
//! A TLS connection keeps one [`PresentedCertificate`]. [`ReservedFields`] names the fields that only the
//! gateway may write, so that a client cannot forge them.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use tollgate_net::Certificates;
use tollgate_plan::{CertificatePart, GatewaySettings};
use tollgate_policy::looks_like;
use tollgate_tls::PeerCertificate;

/// The fields that describe a certificate, in the form of the plan.
pub(crate) type CertificateFields = Arc<[(String, CertificatePart)]>;

/// The certificate of one connection. An unverified one is kept only as such: nothing that it says is passed on. The field lines are computed once, and again if a reload changes the
/// fields.
#[derive(Debug)]
pub(crate) struct PresentedCertificate {
    /// The verified chain; `None`: the certificate is not valid.
    chain: Option<Certificates>,
    lines: RefCell<Option<(CertificateFields, Vec<u8>)>>,
    subject: OnceCell<String>,
    fingerprint: OnceCell<String>,
}

impl PresentedCertificate {
    /// Wraps the verified chain that a client has presented; `None`: its certificate is not valid.
    pub fn new(chain: Option<Certificates>) -> Self {
        Self { chain, lines: RefCell::default(), subject: OnceCell::new(), fingerprint: OnceCell::new() }
    }

    /// Returns whether the certificate was verified.
    pub fn is_verified(&self) -> bool {
        self.chain.is_some()
    }

    /// Returns the subject of the certificate; empty if the certificate cannot be parsed.
    pub fn subject(&self) -> &str {
        self.subject.get_or_init(|| self.leaf().map(|leaf| leaf.subject()).unwrap_or_default())
    }

    /// Returns the SHA-256 hash of the certificate; empty if the certificate cannot be parsed.
    pub fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| self.leaf().map(|leaf| leaf.fingerprint()).unwrap_or_default())
    }

    /// Appends the field lines that describe the certificate.
    pub fn write(&self, out: &mut Vec<u8>, fields: &CertificateFields) {
        let mut kept = self.lines.borrow_mut();
        let (_, lines) = match kept.take() {
            Some(kept_for) if Arc::ptr_eq(&kept_for.0, fields) => kept.insert(kept_for),
            _ => kept.insert((fields.clone(), self.lines(fields))),
        };
        out.extend_from_slice(lines);
    }

    /// Returns the certificate itself, as DER.
    pub fn der(&self) -> Option<&[u8]> {
        self.chain.as_ref()?.first().map(|leaf| leaf.as_ref())
    }

    fn leaf(&self) -> Option<PeerCertificate<'_>> {
        self.chain.as_ref()?.first().and_then(|leaf| PeerCertificate::new(leaf))
    }

    fn lines(&self, fields: &CertificateFields) -> Vec<u8> {
        let mut out = Vec::new();
        // A certificate that cannot be parsed is not described: an endpoint then sees a client without one.
        let leaf = self.leaf();
        let chain = self.chain.as_deref().unwrap_or_default();
        for (name, part) in fields.iter() {
            let value = match (part, &leaf) {
                (CertificatePart::Verified, Some(_)) => "true".to_owned(),
                (CertificatePart::Verified, None) if self.chain.is_none() => "false".to_owned(),
                (_, None) => continue,
                (CertificatePart::Certificate, _) => PeerCertificate::byte_sequence(&chain[0]),
                (CertificatePart::Chain, _) => {
                    let rest: Vec<_> = chain[1..].iter().map(PeerCertificate::byte_sequence).collect();
                    rest.join(", ")
                }
                (CertificatePart::Pem, Some(leaf)) => leaf.escaped_pem(),
                (CertificatePart::Subject, Some(leaf)) => leaf.subject(),
                (CertificatePart::Issuer, Some(leaf)) => leaf.issuer(),
                (CertificatePart::Serial, Some(leaf)) => leaf.serial(),
                (CertificatePart::Names, Some(leaf)) => leaf.names(),
                (CertificatePart::Fingerprint, Some(leaf)) => leaf.fingerprint(),
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

/// The configured names of fields that only the gateway may set. They are reserved in trailers too, because
/// endpoints may merge trailers into the head despite RFC 9110, 6.5.1.
pub(crate) struct ReservedFields<'a> {
    /// The name of the request id's field.
    id: Option<&'a [u8]>,
    /// The fields that describe the client's certificate. `None` for a trusted proxy, which describes the
    /// certificates of its own clients.
    pub certificate_fields: Option<&'a CertificateFields>,
}

impl<'a> ReservedFields<'a> {
    #[inline]
    pub fn new(settings: &'a GatewaySettings, trusted: bool) -> Self {
        let fields = &settings.client_certificate;
        Self {
            id: settings.request_id.enabled.then_some(settings.request_id.header.as_bytes()),
            certificate_fields: (!fields.is_empty() && !trusted).then_some(fields),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.id.is_none() && self.certificate_fields.is_none()
    }

    /// Returns whether a field of this name describes a certificate.
    pub fn is_certificates(&self, name: &[u8]) -> bool {
        self.certificate_fields.is_some_and(|fields| is_claimed(fields, name))
    }

    /// Returns whether a client may not send a field of this name.
    #[inline]
    pub fn has(&self, name: &[u8]) -> bool {
        self.id.is_some_and(|id| name.eq_ignore_ascii_case(id)) || self.is_certificates(name)
    }
}

/// Returns whether a client's field has a name that only the gateway may write, or a name that frameworks
/// confuse with it.
fn is_claimed(fields: &CertificateFields, name: &[u8]) -> bool {
    fields.iter().any(|(own, _)| looks_like(own.as_bytes(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alike_names_are_reserved() {
        let fields: CertificateFields = [("X-Client-Subject".to_owned(), CertificatePart::Subject)].into();
        for name in ["X-Client-Subject", "x-client-subject", "X_Client_Subject", "X.CLIENT~Subject"] {
            assert!(is_claimed(&fields, name.as_bytes()), "{name}");
        }
        for name in ["X-Client-Subjec", "X-Client-Subjects", "XaClient-Subject", ""] {
            assert!(!is_claimed(&fields, name.as_bytes()), "{name}");
        }
    }
}
