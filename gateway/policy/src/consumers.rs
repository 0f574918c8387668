//! The configured consumers, indexed by their credentials.
//!
//! The plan builds one [`Consumers`], and all authentication policies share it. It holds API keys as SHA-256
//! digests, and passwords as hashes. HMAC secrets are held as keys, because both sides need them to sign.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;

use crate::identity_hasher::IdentityHasher;
use crate::{CertificateName, Consumer};

/// A hash that no password matches: its digest is all zeros.
const UNMATCHABLE_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A consumer with its credentials.
#[derive(Clone, Debug, Default)]
pub struct ConsumerEntry {
    /// The consumer that these credentials identify.
    pub consumer: Consumer,
    /// The SHA-256 digests of its API keys.
    pub api_keys: Vec<[u8; 32]>,
    /// The hash of its password, which [`is_password_hash`](crate::is_password_hash) accepts.
    pub password: Option<String>,
    /// The names that identify its certificates.
    pub certificates: Vec<CertificateName>,
    /// The secrets that it signs with, each with the key id that requests name.
    pub hmac_keys: Vec<(String, HmacSecret)>,
}

/// A secret that signs requests.
#[derive(Clone)]
pub struct HmacSecret(hmac::Key);

impl HmacSecret {
    /// Creates an HMAC-SHA256 key from these bytes.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }
}

impl Debug for HmacSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacSecret")
    }
}

/// The SHA-256 digest of an API key, and its owner.
type KeyOwner = ([u8; 32], Arc<Consumer>);

/// All configured consumers, indexed by their credentials.
#[derive(Default)]
pub struct Consumers {
    /// API keys, by the first bytes of their SHA-256 digest. The time of a look-up reveals something about
    /// the digest, but the digest does not lead back to the key.
    keys: HashMap<u64, Vec<KeyOwner>, BuildHasherDefault<IdentityHasher>>,
    /// Passwords, by the consumer's name.
    names: HashMap<String, (Arc<Consumer>, Arc<str>)>,
    /// The hashes of all passwords, in the order of the configuration.
    passwords: Vec<Arc<str>>,
    certificates: HashMap<CertificateName, Arc<Consumer>>,
    /// HMAC secrets, by key id.
    secrets: HashMap<String, (Arc<Consumer>, HmacSecret)>,
}

impl Consumers {
    /// Indexes these consumers. If two share a certificate name, the first wins.
    #[must_use]
    pub fn new(known: Vec<ConsumerEntry>) -> Self {
        let mut out = Self::default();
        for ConsumerEntry { consumer, api_keys, password, certificates, hmac_keys } in known {
            let consumer = Arc::new(consumer);
            if let Some(password) = password {
                let password: Arc<str> = password.into();
                out.passwords.push(password.clone());
                out.names.insert(consumer.name.clone(), (consumer.clone(), password));
            }
            for certificate in certificates {
                out.certificates.entry(certificate).or_insert_with(|| consumer.clone());
            }
            for (id, secret) in hmac_keys {
                out.secrets.insert(id, (consumer.clone(), secret));
            }
            for key in api_keys {
                out.keys.entry(first(&key)).or_default().push((key, consumer.clone()));
            }
        }
        out
    }

    /// Returns the owner of an API key. Keys are long and random, so a plain hash suffices: they cannot be
    /// guessed.
    #[must_use]
    pub fn by_api_key(&self, key: &[u8]) -> Option<&Arc<Consumer>> {
        let hash = digest(&SHA256, key);
        let candidates = self.keys.get(&first(hash.as_ref()))?;
        let same = |own: &[u8; 32]| verify_slices_are_equal(own, hash.as_ref()).is_ok();
        candidates.iter().find(|(own, _)| same(own)).map(|(_, consumer)| consumer)
    }

    /// Returns the consumer of this name and the hash of its password.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&(Arc<Consumer>, Arc<str>)> {
        self.names.get(name)
    }

    /// Returns the password hash that the gateway verifies for an unknown name, so that it takes as long as a known
    /// one. `number` belongs to the name. Hashes of different schemes take different times; unknown names then take
    /// these times in the same proportions as known ones.
    #[must_use]
    pub fn password_instead(&self, number: u64) -> Arc<str> {
        let count = self.passwords.len() as u64;
        let index = number.checked_rem(count).and_then(|index| usize::try_from(index).ok());
        index.map_or_else(|| UNMATCHABLE_HASH.into(), |index| self.passwords[index].clone())
    }

    /// Returns the number of passwords.
    #[must_use]
    pub fn password_count(&self) -> usize {
        self.names.len()
    }

    /// Returns the owner of a certificate with this name.
    #[must_use]
    pub fn by_certificate(&self, name: &CertificateName) -> Option<&Arc<Consumer>> {
        self.certificates.get(name)
    }

    /// Returns the secret with this key id, and its owner.
    #[must_use]
    pub fn by_hmac_key(&self, id: &str) -> Option<(&Arc<Consumer>, &hmac::Key)> {
        self.secrets.get(id).map(|(consumer, secret)| (consumer, &secret.0))
    }

    /// Returns the number of HMAC secrets.
    #[must_use]
    pub fn secret_count(&self) -> usize {
        self.secrets.len()
    }

    /// Returns the number of API keys.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }
}

fn first(hash: &[u8]) -> u64 {
    hash.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first))
}

impl Debug for Consumers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumers").field("keys", &self.key_count()).finish()
    }
}
