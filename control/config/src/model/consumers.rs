//! Consumers: who is known, and by what.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{At, CertificateName, Secret, Spanned};

/// Somebody who is told apart from others by what only they have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerSpec {
    /// The name.
    pub name: Spanned<String>,
    /// The groups that it is in.
    pub groups: Vec<String>,
    /// The SHA-256 of its keys, and where each was written.
    pub api_keys: Vec<(Digest, At)>,
    /// The hash of its password.
    pub password: Option<Spanned<Secret>>,
    /// What its certificates are told by.
    pub certificates: Vec<CertificateName>,
    /// The secrets that it signs with, by their ids, and where each id was written.
    pub hmac_keys: Vec<(String, HmacKey, At)>,
}

/// What requests are signed with. It is wiped from memory when it is dropped.
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

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("...")
    }
}
