//! What a TLS handshake is configured with: certificates, keys, whom to trust.
//!
//! [`Server`] is for a listener, [`Client`] for an upstream. Both are made of files' contents, say which file is wrong
//! and how, and are used by every worker at once. The handshake itself, and all that follows, is
//! [`tollgate_net`]'s.

mod client;
mod distinguished_name;
mod pem;
mod presented;
mod resolver;
mod server;
mod tickets;

use std::sync::{Arc, OnceLock};

use rustls::SupportedCipherSuite;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

pub use client::{Client, ClientFiles};
pub use pem::Pem;
pub use presented::Presented;
pub use server::{ClientAuthentication, Server, ServerFiles};

/// A certificate with its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, and those between it and a root.
    pub chain: Pem,
    /// Its private key.
    pub key: Pem,
}

/// Which file is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// The chain of the certificate with this index.
    Chain(usize),
    /// Its key.
    Key(usize),
    /// Those who may have signed the peer's.
    Authorities,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which.
    pub file: File,
    /// What, as text for people.
    pub message: String,
}

impl Problem {
    fn new(file: File, message: impl Into<String>) -> Self {
        Self { file, message: message.into() }
    }
}

/// rustls with AWS-LC: X25519MLKEM768 first, then X25519, P-256 and P-384; AES-GCM and ChaCha20-Poly1305 only, AES with 128
/// bits first: it is the cheapest where processors have instructions for it, and nobody breaks it.
fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        let mut provider = aws_lc_rs::default_provider();
        // Keeps their order otherwise: ECDSA before RSA, TLS 1.3 before 1.2.
        let aes_128 = |suite: &SupportedCipherSuite| format!("{:?}", suite.suite()).contains("AES_128_GCM");
        provider.cipher_suites.sort_by_key(|suite| !aes_128(suite));
        Arc::new(provider)
    })
}
