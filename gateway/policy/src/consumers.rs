//! Who is known, and by what.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;

use crate::hashed::Hashed;
use crate::{CertificateName, Consumer};

/// A hash that no password has: its last part is all zeros.
const NOBODYS: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Somebody who is known, with what only they have.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Who it is.
    pub consumer: Consumer,
    /// The SHA-256 of its keys.
    pub api_keys: Vec<[u8; 32]>,
    /// The hash of its password: argon2 or bcrypt.
    pub password: Option<String>,
    /// What its certificates are told by.
    pub certificates: Vec<CertificateName>,
    /// The secrets that it signs with, by the id under which it names each.
    pub hmac_keys: Vec<(String, HmacSecret)>,
}

/// A secret that requests are signed with.
#[derive(Clone)]
pub struct HmacSecret(hmac::Key);

impl HmacSecret {
    /// Of these bytes.
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

/// The SHA-256 of a key, and whose it is.
type Key = ([u8; 32], Arc<Consumer>);

/// Everybody who is known, found by what they show.
#[derive(Default)]
pub struct Consumers {
    /// By the first bytes of the SHA-256 of a key. How long a look-up takes tells something of a hash, from which nobody comes
    /// to the key.
    keys: HashMap<u64, Vec<Key>, BuildHasherDefault<Hashed>>,
    /// By name, with the hash of the password.
    names: HashMap<String, (Arc<Consumer>, Arc<str>)>,
    certificates: HashMap<CertificateName, Arc<Consumer>>,
    /// Secrets by their ids.
    secrets: HashMap<String, (Arc<Consumer>, HmacSecret)>,
}

impl Consumers {
    /// All of these.
    #[must_use]
    pub fn new(known: Vec<Known>) -> Self {
        let mut out = Self::default();
        for Known { consumer, api_keys, password, certificates, hmac_keys } in known {
            let consumer = Arc::new(consumer);
            if let Some(password) = password {
                out.names.insert(consumer.name.clone(), (consumer.clone(), password.into()));
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

    /// Whose key it is. Keys are random and long, so that a plain hash of them is enough: there is nothing to guess from.
    #[must_use]
    pub fn of_key(&self, key: &[u8]) -> Option<&Arc<Consumer>> {
        let hash = digest(&SHA256, key);
        let candidates = self.keys.get(&first(hash.as_ref()))?;
        let same = |own: &[u8; 32]| verify_slices_are_equal(own, hash.as_ref()).is_ok();
        candidates.iter().find(|(own, _)| same(own)).map(|(_, consumer)| consumer)
    }

    /// Who has this name, and the hash of its password.
    #[must_use]
    pub fn of_name(&self, name: &str) -> Option<&(Arc<Consumer>, Arc<str>)> {
        self.names.get(name)
    }

    /// The hash of some password: what is computed for somebody who is not known, so that it takes as long as for others.
    #[must_use]
    pub fn any_password(&self) -> Arc<str> {
        self.names.values().next().map_or_else(|| NOBODYS.into(), |(_, hash)| hash.clone())
    }

    /// How many passwords there are.
    #[must_use]
    pub fn passwords(&self) -> usize {
        self.names.len()
    }

    /// Whose certificate is told by this.
    #[must_use]
    pub fn of_certificate(&self, name: &CertificateName) -> Option<&Arc<Consumer>> {
        self.certificates.get(name)
    }

    /// Whose secret has this id, and the secret.
    #[must_use]
    pub fn of_secret(&self, id: &str) -> Option<(&Arc<Consumer>, &hmac::Key)> {
        self.secrets.get(id).map(|(consumer, secret)| (consumer, &secret.0))
    }

    /// How many secrets there are.
    #[must_use]
    pub fn secrets(&self) -> usize {
        self.secrets.len()
    }

    /// How many keys there are.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }
}

fn first(hash: &[u8]) -> u64 {
    hash.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first))
}

impl Debug for Consumers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumers").field("keys", &self.keys()).finish()
    }
}
