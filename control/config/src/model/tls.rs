//! TLS: certificates, keys, and whom to trust, on either side.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{At, Spanned};
use crate::file_access::Scope;

/// A file of certificates or keys in PEM (RFC 7468), with what it held when the configuration was read; or the text of one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PemFile {
    /// Where it is; `None`: what it would hold is written in its place.
    pub path: Option<PathBuf>,
    /// Where it may lie.
    pub scope: Scope,
    /// The path as it was written, for messages; for what is written in its place, words for that.
    pub shown: String,
    /// Where it was written.
    pub at: At,
    /// What it held.
    pub bytes: PemBytes,
}

impl fmt::Debug for PemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, scope: _, shown, at, bytes } = self;
        let mut out = f.debug_struct("PemFile");
        out.field("path", path).field("shown", shown).field("at", at).field("bytes", bytes).finish()
    }
}

/// Bytes that are never shown, and that are wiped from memory when they are dropped: they may be a private key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PemBytes(pub Vec<u8>);

impl Drop for PemBytes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for PemBytes {}

impl fmt::Debug for PemBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// TLS towards clients (`tls` of a listener).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenTls {
    /// At least one. The first serves clients that name no host, or one that no other certificate is for.
    pub certificates: Vec<Certificate>,
    /// The oldest version that is spoken. Default 1.2.
    pub min_version: TlsVersion,
    /// Certificates that clients show. Default: they are not asked.
    pub client: Option<ClientCertificates>,
    /// What browsers are told of `https` (RFC 6797). Default nothing.
    pub strict_transport_security: Option<StrictTransportSecurity>,
}

/// That browsers are to use `https` only (RFC 6797, 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrictTransportSecurity {
    /// For how long they remember. Default 365 days.
    pub max_age: Duration,
    /// Whether that holds for every host below this one. Default false.
    pub include_subdomains: bool,
    /// Whether browsers may have it built in (hstspreload.org). Default false.
    pub preload: bool,
}

impl Default for StrictTransportSecurity {
    fn default() -> Self {
        Self { max_age: Duration::from_secs(365 * 24 * 3600), include_subdomains: false, preload: false }
    }
}

/// What a field tells of a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificatePart {
    /// All of it (RFC 9440, 2.2).
    Certificate,
    /// Those between it and a root (RFC 9440, 2.3).
    Chain,
    /// All of it in PEM, percent-encoded.
    Pem,
    /// Who it is for.
    Subject,
    /// Who has signed it.
    Issuer,
    /// Its number.
    Serial,
    /// Its other names.
    Names,
    /// Its SHA-256.
    Fingerprint,
}

impl CertificatePart {
    /// Every one, by the word for it.
    pub const ALL: [(&'static str, Self); 8] = [
        ("certificate", Self::Certificate),
        ("chain", Self::Chain),
        ("pem", Self::Pem),
        ("subject", Self::Subject),
        ("issuer", Self::Issuer),
        ("serial", Self::Serial),
        ("names", Self::Names),
        ("fingerprint", Self::Fingerprint),
    ];
}

/// A certificate with its key. Which hosts it is for it says itself (RFC 6125: its subject alternative names).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, and those between it and a root, in this order.
    pub chain: PemFile,
    /// Its private key.
    pub key: PemFile,
}

/// A certificate with a name, for the listeners that speak TLS, beside their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertificate {
    /// The name.
    pub name: Spanned<String>,
    /// The certificate with its key.
    pub certificate: Certificate,
    /// The addresses of the listeners that it is for; empty: every one with `tls`.
    pub listeners: Vec<Spanned<SocketAddr>>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// Certificates that clients show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Who may have signed them.
    pub ca: PemFile,
    /// Whether a client without one is refused. Default true.
    pub required: bool,
}

/// TLS towards endpoints (`tls` of an upstream); that it is spoken is what `https://` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Where it begins in its file.
    pub at: At,
    /// Who may have signed their certificates; `None`: whom the system trusts.
    pub ca: Option<PemFile>,
    /// The name that their certificates must hold, and that they are asked for; `None`: each one's own host.
    pub server_name: Option<String>,
    /// The name that they are asked for (SNI), where it is another one; `Some(None)`: none. Default the name above.
    pub sni: Option<Option<String>>,
    /// Whether their certificates are accepted whoever has signed them and whatever they are for. Default false.
    pub unverified: bool,
    /// What the gateway shows them.
    pub certificate: Option<Certificate>,
}
