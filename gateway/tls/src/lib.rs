//! The configuration of TLS handshakes: certificates, keys and trusted issuers.
//!
//! [`TlsServerConfig`] configures a listener, [`TlsClientConfig`] an upstream. Both are built from the
//! contents of files, report which file is wrong and why, and are shared by all workers. [`tollgate_net`]
//! does the handshake and everything after it.

mod accepted_names;
mod certificate_rule;
mod client;
mod client_hello;
mod distinguished_name;
mod host_table;
mod ja4;
mod peer_certificate;
mod pem;
mod resolver;
mod server;
mod summary;
mod tickets;

use std::sync::{Arc, OnceLock};

use rustls::SupportedCipherSuite;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

pub use accepted_names::AcceptedName;
pub use client::{ClientOptions, TlsClientConfig};
pub use client_hello::{CLIENT_HELLO_MAX_BYTES, ClientHello, FirstBytes};
pub use host_table::HostTable;
pub use ja4::ja4;
pub use peer_certificate::PeerCertificate;
pub use pem::Pem;
pub use server::{AdmittedClients, CertificateScope, ClientAuthentication, ServerOptions, TlsServerConfig};
pub use summary::{CertificateSummary, ClientAuthoritiesSummary};

/// A certificate with its private key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsIdentity {
    /// The certificate, followed by the intermediates between it and a root.
    pub chain: Pem,
    /// The private key.
    pub key: Pem,
}

/// The file that a [`FileProblem`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputFile {
    /// The chain of the certificate with this index.
    Chain(usize),
    /// The key of the certificate with this index.
    Key(usize),
    /// The authorities that may sign the peer's certificate.
    Authorities,
}

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The file that is wrong.
    pub file: InputFile,
    /// The reason, as text for people. It quotes nothing of the file.
    pub message: String,
}

impl FileProblem {
    fn new(file: InputFile, message: impl Into<String>) -> Self {
        Self { file, message: message.into() }
    }
}

/// Returns rustls with AWS-LC: X25519MLKEM768 first, then X25519, P-256 and P-384; only AES-GCM and
/// ChaCha20-Poly1305. AES with 128 bits comes first: it is the cheapest on processors with AES instructions,
/// and secure.
fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        let mut provider = aws_lc_rs::default_provider();
        // The sort is stable, so otherwise the order stays: ECDSA before RSA, TLS 1.3 before 1.2.
        let aes_128 = |suite: &SupportedCipherSuite| format!("{:?}", suite.suite()).contains("AES_128_GCM");
        provider.cipher_suites.sort_by_key(|suite| !aes_128(suite));
        Arc::new(provider)
    })
}
