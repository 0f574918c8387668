//! The public part of a certificate, for operators: names, issuer and validity, never a key.
//!
//! [`TlsServerConfig`](crate::TlsServerConfig) makes a [`CertificateSummary`] of each certificate and of each
//! trusted authority when a plan is compiled. `GET /api/v1/listeners` and the dashboard show them.

use rustls::pki_types::CertificateDer;

use crate::{PeerCertificate, Pem};

/// The most authorities that are summarised: a bundle of public authorities has some 150.
const AUTHORITIES_MAX: usize = 200;

/// The readable contents of a certificate. All texts are printable ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The subject in the notation of RFC 4514.
    pub subject: String,
    /// The issuer, in the same notation.
    pub issuer: String,
    /// The subject alternative names, each with its kind: `DNS:a.example`.
    pub names: Vec<String>,
    /// The serial number in upper-case hexadecimal.
    pub serial: String,
    /// The SHA-256 of the certificate in lower-case hexadecimal.
    pub fingerprint: String,
    /// Start of the validity, in seconds since 1970.
    pub not_before: i64,
    /// End of the validity, in seconds since 1970.
    pub not_after: i64,
}

/// How a listener verifies client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthoritiesSummary {
    /// Whether a client without a certificate is refused.
    pub required: bool,
    /// Whether a client is let in although its certificate is not valid.
    pub insecure_fallback: bool,
    /// The authorities that may sign client certificates, at most 200.
    pub authorities: Vec<CertificateSummary>,
}

impl CertificateSummary {
    /// Summarises a certificate; `None` if it cannot be parsed.
    fn new(der: &CertificateDer<'_>) -> Option<Self> {
        let certificate = PeerCertificate::new(der)?;
        let names = certificate.names();
        Some(Self {
            subject: certificate.subject(),
            issuer: certificate.issuer(),
            names: names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            serial: certificate.serial(),
            fingerprint: certificate.fingerprint(),
            not_before: certificate.not_before(),
            not_after: certificate.not_after(),
        })
    }

    /// Summarises the first certificate of a chain; `None` if it cannot be parsed.
    pub(crate) fn of_chain(chain: &Pem) -> Option<Self> {
        Self::new(chain.certificates().ok()?.first()?)
    }

    /// Summarises the certificates of a bundle. Certificates that cannot be parsed are left out.
    pub(crate) fn of_bundle(bundle: &Pem) -> Vec<Self> {
        let all = bundle.certificates().unwrap_or_default();
        all.iter().filter_map(Self::new).take(AUTHORITIES_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn a_bundle_is_summarised_without_what_cannot_be_parsed() {
        let mut params =
            CertificateParams::new(vec!["a.example".to_owned(), "b.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "first");
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let pem = Pem::from(format!("{}{broken}", made.pem()).as_bytes());
        let all = CertificateSummary::of_bundle(&pem);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].names, ["DNS:a.example", "DNS:b.example"]);
        assert!(all[0].subject.contains("CN=first") && all[0].not_before < all[0].not_after);
        assert_eq!(CertificateSummary::of_chain(&pem).as_ref(), Some(&all[0]));
        assert_eq!(CertificateSummary::of_chain(&Pem::from(&b"nothing"[..])), None);
    }
}
