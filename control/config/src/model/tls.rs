//! TLS towards clients and endpoints: certificates, keys and trusted CAs.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{At, Spanned};
use crate::file_access::Scope;

/// Certificates or keys in PEM (RFC 7468): a file with its content at the time of reading, or the text
/// itself.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PemFile {
    /// Path of the file; `None`: the content is written inline.
    pub path: Option<PathBuf>,
    /// Directories that the file must lie in.
    pub scope: Scope,
    /// How messages name it: the path as written, or a description of the inline text.
    pub shown: String,
    /// Source position of the path or text.
    pub at: At,
    /// The content when the configuration was read.
    pub bytes: PemBytes,
}

impl fmt::Debug for PemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, scope: _, shown, at, bytes } = self;
        let mut out = f.debug_struct("PemFile");
        out.field("path", path).field("shown", shown).field("at", at).field("bytes", bytes).finish()
    }
}

/// Bytes that may be a private key. They are never shown, and are wiped from memory on drop.
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
    /// At least one. The first is the default: it serves clients whose server name is missing or covered by
    /// no other certificate.
    pub certificates: Vec<Certificate>,
    /// The oldest accepted version. Default 1.2.
    pub min_version: TlsVersion,
    /// Verification of client certificates. Default none: the gateway does not request any.
    pub client: Option<ClientCertificates>,
    /// The `Strict-Transport-Security` field of responses (RFC 6797). Default none.
    pub strict_transport_security: Option<StrictTransportSecurity>,
}

/// A `Strict-Transport-Security` policy: browsers use only `https` for this host (RFC 6797, 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrictTransportSecurity {
    /// How long browsers remember the policy. Default 365 days.
    pub max_age: Duration,
    /// Whether the policy covers every host below this one. Default false.
    pub include_subdomains: bool,
    /// Whether browsers may preload the policy (hstspreload.org). Default false.
    pub preload: bool,
}

impl Default for StrictTransportSecurity {
    fn default() -> Self {
        Self { max_age: Duration::from_secs(365 * 24 * 3600), include_subdomains: false, preload: false }
    }
}

/// A certificate with its key. The subject alternative names decide which hosts it serves (RFC 6125).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, followed by the certificates between it and a root.
    pub chain: PemFile,
    /// Its private key.
    pub key: PemFile,
}

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

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// Verification of client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The CA that must have signed them.
    pub ca: PemFile,
    /// Whether a client without a certificate is rejected. Default true.
    pub required: bool,
}

/// TLS settings towards endpoints (`tls` of an upstream). The scheme `https://`, not this, turns TLS on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Source position of the settings.
    pub at: At,
    /// CA for their certificates; `None`: the system's trust store.
    pub ca: Option<PemFile>,
    /// The name that their certificates must contain, also sent as SNI; `None`: each endpoint's own host.
    pub server_name: Option<String>,
    /// The server name to send (SNI), if it differs; `Some(None)`: none. Default: the name above.
    pub sni: Option<Option<String>>,
    /// Whether any certificate is accepted, whatever its signer and names. Default false.
    pub unverified: bool,
    /// The client certificate that the gateway presents.
    pub certificate: Option<Certificate>,
}
