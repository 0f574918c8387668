//! `certificates`: for several listeners, in addition to the listeners' own.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::position::{At, Spanned};
use crate::reader::named;
use crate::scalar::address;
use crate::section::{Field, Node, Problem, Reader, ScalarError, Section, Shape};

use super::texts::ADDRESS;
use super::tls::{Certificate, PemFile};

pub(crate) static NAMED_CERTIFICATE_VALUE: Shape = Shape::Section(NamedCertificateKeys::SPEC);

/// A named certificate for listeners with TLS, in addition to the listeners' own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertificate {
    /// Unique name of the certificate.
    pub name: Spanned<String>,
    /// The certificate with its key.
    pub certificate: Certificate,
    /// Addresses of the listeners that use it; empty: every listener with `tls`.
    pub listeners: Vec<Spanned<SocketAddr>>,
}

impl NamedCertificate {
    /// Returns the warning that no listener can use it.
    #[must_use]
    pub fn unused(&self) -> Problem {
        let problem =
            Problem::warning(self.name.at, "no listener has `tls`, so this certificate is not used");
        problem.help("give a listener a `tls`: `listen: {bind: \":443\", tls: {}}`")
    }
}

/// A certificate with its key, for listeners with `tls`, in addition to their own.
#[derive(Clone, Debug, Section)]
#[section(name = "named_certificate", noun = "a certificate")]
struct NamedCertificateKeys {
    /// A PEM file or PEM text: the certificate, followed by the certificates between it and a root.
    #[key(required, also = ["cert", "chain", "crt", "ssl_certificate", "cert_file", "certFile"])]
    certificate: PemFile,
    /// A PEM file or PEM text with the certificate's private key. Default: the value of `certificate`.
    #[key(also = ["private_key", "ssl_certificate_key", "key_file", "keyFile"])]
    key: Option<PemFile>,
    /// Addresses of the listeners that use it, as in `listen`. Default: every listener with `tls`.
    #[key(text = ADDRESS, each = bind, what = "a listener", nonempty, also = ["listener", "listen", "bind", "for"])]
    listeners: Vec<Spanned<SocketAddr>>,
}

/// Reads certificates by name.
pub(crate) fn certificates(reader: &mut Reader, field: Field<'_>) -> Option<Vec<NamedCertificate>> {
    Some(named(reader, Some(field), certificate))
}

/// Reads a certificate. Its name is the key of the mapping, or the name of the document.
pub(crate) fn certificate(reader: &mut Reader, name: &str, at: At, node: &Node) -> Option<NamedCertificate> {
    let NamedCertificateKeys { certificate: chain, key, listeners } = Section::read_section(reader, node)?;
    let certificate = Certificate { key: key.unwrap_or_else(|| chain.clone()), chain };
    Some(NamedCertificate { name: Spanned { value: name.to_owned(), at }, certificate, listeners })
}

fn bind(text: &str) -> Result<SocketAddr, ScalarError> {
    address::bind(text, IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}
