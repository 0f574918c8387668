//! Consumers and their credentials.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{At, CertificateName, Secret, Spanned};

/// A client identity, recognized by credentials of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerSpec {
    /// Unique name of the consumer.
    pub name: Spanned<String>,
    /// Groups that the consumer belongs to.
    pub groups: Vec<String>,
    /// The SHA-256 of each of its API keys, and the key's source position.
    pub api_keys: Vec<(Digest, At)>,
    /// The hash of its password.
    pub password: Option<Spanned<Secret>>,
    /// Names or fingerprints that identify its certificates.
    pub certificates: Vec<CertificateName>,
    /// Its signing secrets: key id, secret, and the id's source position.
    pub hmac_keys: Vec<(String, HmacKey, At)>,
}

/// A secret that signs requests. It is wiped from memory on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct HmacKey(pub Vec<u8>);

impl Drop for HmacKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for HmacKey {}

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacKey")
    }
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("...")
    }
}
