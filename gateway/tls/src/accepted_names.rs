//! Verifies certificates of endpoints for a list of names instead of the name that the connection is for.

use std::sync::Arc;

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

use crate::certificate_rule::{CertificateRule, PresentedCertificate};
use crate::{FileProblem, InputFile, PeerCertificate, provider};

/// The scheme of SPIFFE ids.
const SPIFFE: &str = "spiffe://";

/// A name that the certificate of an endpoint may hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AcceptedName {
    /// A host name or an IP address. A wildcard of the certificate covers it as always (RFC 6125, 6.4.3).
    Host(String),
    /// A URI, compared byte by byte.
    Uri(String),
}

/// Accepts certificates that a trusted authority has signed and that hold one of some names.
#[derive(Debug)]
pub(crate) struct AcceptedNames {
    roots: Arc<RootCertStore>,
    hosts: Vec<ServerName<'static>>,
    uris: Vec<String>,
}

impl AcceptedNames {
    /// # Errors
    /// A host is neither a name nor an address.
    pub fn new(roots: Arc<RootCertStore>, names: &[AcceptedName]) -> Result<Self, FileProblem> {
        let (mut hosts, mut uris) = (Vec::new(), Vec::new());
        for name in names {
            match name {
                AcceptedName::Host(host) => {
                    let host = ServerName::try_from(host.clone());
                    hosts.push(
                        host.map_err(|error| FileProblem::new(InputFile::Authorities, error.to_string()))?,
                    );
                }
                AcceptedName::Uri(uri) => uris.push(uri.clone()),
            }
        }
        Ok(Self { roots, hosts, uris })
    }

    /// Returns whether the certificate holds one of the URIs. A SPIFFE id counts only if it is the only URI, as the
    /// X.509-SVID standard demands (section 5.2): otherwise one workload could present the id of another beside its own.
    fn holds_uri(&self, certificate: &CertificateDer<'_>) -> bool {
        if self.uris.is_empty() {
            return false;
        }
        let Some(certificate) = PeerCertificate::new(certificate) else { return false };
        let held = certificate.uris();
        let accepts = |uri: &&str| self.uris.iter().any(|accepted| accepted == uri);
        held.iter().any(|uri| accepts(uri) && (!uri.starts_with(SPIFFE) || held.len() == 1))
    }
}

impl CertificateRule for AcceptedNames {
    fn verify(&self, certificate: &PresentedCertificate<'_>) -> Result<(), Error> {
        let PresentedCertificate { end_entity, intermediates, now, .. } = *certificate;
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        let holds_host = self.hosts.iter().any(|host| verify_server_name(&parsed, host).is_ok());
        match holds_host || self.holds_uri(end_entity) {
            true => Ok(()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::UnixTime;
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::Pem;
    use crate::certificate_rule::RuleVerifier;

    fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
    }

    fn issue(
        authority: &CertifiedIssuer<'static, KeyPair>,
        hosts: &[&str],
        uris: &[&str],
    ) -> CertificateDer<'static> {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(hosts).expect("names");
        let uri = |uri: &&str| SanType::URI((*uri).try_into().expect("ASCII"));
        params.subject_alt_names.extend(uris.iter().map(uri));
        let pem = params.signed_by(&KeyPair::generate().expect("a key"), authority).expect("signed").pem();
        CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")
    }

    #[test]
    fn a_name_and_a_trusted_issuer_are_required() {
        let (own, other) = (authority("own"), authority("other"));
        let roots = Pem::from(own.pem().as_bytes()).authorities().expect("an authority");
        let accepts = |names: &[AcceptedName], certificate: &CertificateDer<'_>| {
            let rule = AcceptedNames::new(roots.clone(), names).expect("good names");
            let name = ServerName::try_from("connected.example").expect("a name");
            RuleVerifier(rule).verify_server_cert(certificate, &[], &name, &[], UnixTime::now())
        };
        let host = |name: &str| AcceptedName::Host(name.to_owned());
        let uri = |name: &str| AcceptedName::Uri(name.to_owned());
        let shop = "spiffe://example.org/ns/shop";
        let both = [host("api.internal"), uri(shop)];
        let named = |hosts: &[&str], uris: &[&str]| issue(&own, hosts, uris);
        let good = |certificate: &CertificateDer<'_>| accepts(&both, certificate).is_ok();
        assert!(good(&named(&["api.internal"], &[])));
        assert!(good(&named(&["x.internal", "api.internal"], &["spiffe://example.org/other"])));
        let below = [host("a.svc.internal")];
        assert!(accepts(&below, &named(&["*.svc.internal"], &[])).is_ok(), "a wildcard of the certificate");
        assert!(good(&named(&[], &[shop])));
        let wrong = Err(Error::from(CertificateError::NotValidForName));
        for (hosts, uris) in [
            (&["connected.example"][..], &[][..]),
            (&["a.api.internal"], &[]),
            (&[], &["spiffe://example.org/ns/shop/x"]),
            (&[], &["spiffe://example.org/ns/sho"]),
            (&[], &["SPIFFE://example.org/ns/shop"]),
            // A host that looks like the URI, and the id beside another one.
            (&["example.org"], &[]),
            (&[], &[shop, "spiffe://example.org/ns/other"]),
            (&[], &[]),
        ] {
            assert_eq!(accepts(&both, &named(hosts, uris)).map(drop), wrong, "{hosts:?} {uris:?}");
        }
        // Other URIs may stand beside each other.
        let https = [uri("https://example.org/a")];
        assert!(accepts(&https, &named(&[], &["https://example.org/a", "https://example.org/b"])).is_ok());
        assert!(accepts(&[host("192.0.2.1")], &named(&["192.0.2.1"], &[])).is_ok(), "an address");
        let stranger =
            accepts(&both, &issue(&other, &["api.internal"], &[shop])).expect_err("another issuer");
        assert_eq!(stranger, Error::from(CertificateError::UnknownIssuer));
    }
}
