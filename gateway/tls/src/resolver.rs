//! Chooses the certificate for a client by the name in its SNI. rustls calls the [`CertificateResolver`] in
//! each full handshake. It also records the names of the chosen certificate, with which the proxy detects
//! requests for other hosts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::SignatureAlgorithm;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::HostTable;

/// Certificates by host name. An exact name wins over a wildcard, which matches one label (RFC 6125, 6.4.3).
/// A client that names no known host gets the first certificate. If a host has several, the client gets the
/// first that it can verify; ECDSA comes before RSA, because its signature costs a tenth.
pub(crate) struct CertificateResolver {
    exact: HashMap<String, Vec<HostCertificate>>,
    /// Keyed by the name after `*.`.
    wildcard: HashMap<String, Vec<HostCertificate>>,
    default: Vec<HostCertificate>,
}

/// A certificate with the hosts that it is valid for.
#[derive(Clone)]
struct HostCertificate {
    key: Arc<CertifiedKey>,
    hosts: Arc<[String]>,
}

/// The certificates of listeners that share an address. The server name (SNI) chooses the listener, and only the
/// certificates of that listener count. A client whose name no listener has gets none, and its handshake fails.
#[derive(Debug)]
pub(crate) struct ScopedResolver(pub HostTable<Arc<CertificateResolver>>);

impl ResolvesServerCert for ScopedResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().unwrap_or_default();
        self.0.find(name.as_bytes())?.resolve(hello)
    }
}

impl fmt::Debug for CertificateResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resolver({} hosts)", self.exact.len() + self.wildcard.len())
    }
}

impl CertificateResolver {
    /// Indexes the certificates. The first one serves clients that name no known host.
    pub fn new(certified: impl IntoIterator<Item = Arc<CertifiedKey>>) -> Self {
        let mut resolver = Self { exact: HashMap::new(), wildcard: HashMap::new(), default: Vec::new() };
        let held: Vec<_> = certified
            .into_iter()
            .map(|certified| HostCertificate { hosts: names(&certified).into(), key: certified })
            .collect();
        for certificate in &held {
            for name in certificate.hosts.iter() {
                let list = match name.strip_prefix("*.") {
                    Some(base) => resolver.wildcard.entry(base.to_owned()).or_default(),
                    None => resolver.exact.entry(name.clone()).or_default(),
                };
                list.push(certificate.clone());
            }
        }
        if let Some(first) = held.first() {
            // With certificates of another key type for the same hosts.
            let same = held.iter().enumerate().filter(|(index, certificate)| {
                *index == 0 || certificate.hosts.iter().any(|name| first.hosts.contains(name))
            });
            resolver.default = same.map(|(_, certificate)| certificate.clone()).collect();
        }
        let lists = resolver.exact.values_mut().chain(resolver.wildcard.values_mut());
        for list in lists.chain([&mut resolver.default]) {
            list.sort_by_key(|certificate| certificate.key.key.algorithm() == SignatureAlgorithm::RSA);
        }
        resolver
    }

    fn find(&self, host: Option<&str>) -> &[HostCertificate] {
        let Some(host) = host else { return &self.default };
        let host = host.to_ascii_lowercase();
        let below = || self.wildcard.get(host.split_once('.')?.1);
        self.exact.get(&host).or_else(below).unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let found = self.find(hello.server_name());
        let fits = |it: &&HostCertificate| it.key.key.choose_scheme(hello.signature_schemes()).is_some();
        let chosen = found.iter().find(fits).or(found.first())?;
        tollgate_net::record_sni(hello.server_name(), chosen.hosts.clone());
        Some(chosen.key.clone())
    }
}

/// The host names of a certificate, in lower case. Names such as `*.org` are among them: webpki leaves them out, but a
/// client that accepts one (as Go's do) may use the connection for every host below.
fn names(certified: &CertifiedKey) -> Vec<String> {
    let Some(leaf) = certified.cert.first() else { return Vec::new() };
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else { return Vec::new() };
    let Ok(Some(extension)) = leaf.subject_alternative_name() else { return Vec::new() };
    let names = extension.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pem, TlsIdentity};

    fn certified(names: &[&str]) -> CertifiedKey {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let identity = TlsIdentity {
            chain: Pem::from(made.cert.pem().as_bytes()),
            key: Pem::from(made.signing_key.serialize_pem().as_bytes()),
        };
        identity.certified_key(0).expect("they belong together")
    }

    #[test]
    fn a_wildcard_below_a_top_level_domain_counts() {
        assert_eq!(names(&certified(&["*.Org", "a.example"])), ["*.org", "a.example"]);
    }

    #[test]
    fn exact_beats_wildcard_and_the_first_is_for_all_others() {
        let resolver = CertificateResolver::new(
            [&["first.example"][..], &["*.example.com"], &["api.example.com", "Other.Example"]]
                .map(|names| Arc::new(certified(names))),
        );
        let at = |host: Option<&str>| {
            let found = resolver.find(host);
            assert_eq!(found.len(), 1);
            found[0].hosts[0].clone()
        };
        assert_eq!(at(Some("first.example")), "first.example");
        assert_eq!(at(Some("www.example.com")), "*.example.com");
        assert_eq!(at(Some("WWW.example.com")), "*.example.com");
        assert_eq!(at(Some("api.example.com")), "api.example.com");
        assert_eq!(at(Some("other.example")), "api.example.com");
        assert_eq!(at(Some("a.b.example.com")), "first.example", "a wildcard is one label");
        assert_eq!(at(Some("example.com")), "first.example");
        assert_eq!(at(Some("localhost")), "first.example");
        assert_eq!(at(None), "first.example");
    }
}
