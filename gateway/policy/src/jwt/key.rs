//! Keys that verify tokens (RFC 7517, RFC 7518, RFC 8037).
//!
//! The type of a key determines what it can verify: an RSA key never verifies an HMAC, whatever a token
//! states. A key that names an algorithm verifies that algorithm only.

use std::fmt::{self, Debug};

use aws_lc_rs::hmac;
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, UnparsedPublicKey};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use x509_parser::oid_registry;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::Zeroizing;

use super::Algorithm;

/// The maximum number of keys in a set.
pub(super) const KEYS_MAX: usize = 100;
/// RFC 7518, 3.3 and 3.5 require at least 2048 bits. Verification with more than 8192 bits would be slow.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// A key that verifies tokens.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct VerifyingKey {
    /// The key id; a key without one matches all tokens.
    pub id: Option<String>,
    /// The only algorithm of the key; `None`: all algorithms of its type.
    algorithm: Option<Algorithm>,
    material: KeyMaterial,
}

#[derive(Clone, PartialEq, Eq)]
enum KeyMaterial {
    Secret(Zeroizing<Vec<u8>>),
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    P521(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl VerifyingKey {
    /// Creates a shared secret for HMAC.
    pub fn secret(secret: &[u8]) -> Self {
        Self { id: None, algorithm: None, material: KeyMaterial::Secret(secret.to_vec().into()) }
    }

    /// Whether the key can verify signatures of this algorithm.
    pub fn supports(&self, algorithm: Algorithm) -> bool {
        use Algorithm as A;
        let kind = match self.material {
            KeyMaterial::Secret(_) => matches!(algorithm, A::Hs256 | A::Hs384 | A::Hs512),
            KeyMaterial::Rsa { .. } => {
                matches!(algorithm, A::Rs256 | A::Rs384 | A::Rs512 | A::Ps256 | A::Ps384 | A::Ps512)
            }
            KeyMaterial::P256(_) => algorithm == A::Es256,
            KeyMaterial::P384(_) => algorithm == A::Es384,
            KeyMaterial::P521(_) => algorithm == A::Es512,
            KeyMaterial::Ed25519(_) => algorithm == A::EdDsa,
        };
        kind && self.algorithm.is_none_or(|own| own == algorithm)
    }

    /// Whether the signature of the message is valid.
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], tag: &[u8]) -> bool {
        if !self.supports(algorithm) {
            return false;
        }
        let public =
            |algorithm, key: &[u8]| UnparsedPublicKey::new(algorithm, key).verify(message, tag).is_ok();
        match &self.material {
            KeyMaterial::Secret(secret) => {
                let algorithm = match algorithm {
                    Algorithm::Hs384 => hmac::HMAC_SHA384,
                    Algorithm::Hs512 => hmac::HMAC_SHA512,
                    _ => hmac::HMAC_SHA256,
                };
                hmac::verify(&hmac::Key::new(algorithm, secret), message, tag).is_ok()
            }
            KeyMaterial::Rsa { n, e } => {
                let parameters = match algorithm {
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => &signature::RSA_PKCS1_2048_8192_SHA256,
                };
                PublicKeyComponents { n, e }.verify(parameters, message, tag).is_ok()
            }
            KeyMaterial::P256(key) => public(&signature::ECDSA_P256_SHA256_FIXED, key),
            KeyMaterial::P384(key) => public(&signature::ECDSA_P384_SHA384_FIXED, key),
            KeyMaterial::P521(key) => public(&signature::ECDSA_P521_SHA512_FIXED, key),
            KeyMaterial::Ed25519(key) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, tag).is_ok()
            }
        }
    }

    /// Converts a `SubjectPublicKeyInfo` (RFC 5280, 4.1.2.7; RFC 3279, 2.3.1; RFC 5480; RFC 8410). Returns
    /// `None` for an unsupported type. The key has no id, and verifies all algorithms of its type.
    pub(super) fn of_spki(key: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
        let kind = &key.algorithm.algorithm;
        let material = if *kind == oid_registry::OID_SIG_ED25519 {
            KeyMaterial::Ed25519(Some(key.subject_public_key.data.to_vec()).filter(|key| key.len() == 32)?)
        } else {
            match key.parsed().ok()? {
                PublicKey::RSA(rsa) => {
                    let stripped = |number: &[u8]| {
                        let zeros = number.iter().take_while(|byte| **byte == 0).count();
                        number[zeros..].to_vec()
                    };
                    let n = Some(stripped(rsa.modulus)).filter(|n| RSA_BYTES.contains(&n.len()))?;
                    KeyMaterial::Rsa { n, e: stripped(rsa.exponent) }
                }
                PublicKey::EC(point) => {
                    let curve = key.algorithm.parameters.as_ref()?.as_oid().ok()?;
                    let point = |coordinate: usize| {
                        let point = point.data();
                        (point.len() == 2 * coordinate + 1 && point[0] == 4).then(|| point.to_vec())
                    };
                    if curve == oid_registry::OID_EC_P256 {
                        KeyMaterial::P256(point(32)?)
                    } else if curve == oid_registry::OID_NIST_EC_P384 {
                        KeyMaterial::P384(point(48)?)
                    } else if curve == oid_registry::OID_NIST_EC_P521 {
                        KeyMaterial::P521(point(66)?)
                    } else {
                        return None;
                    }
                }
                _ => return None,
            }
        };
        Some(Self { id: None, algorithm: None, material })
    }

    /// Converts a JWK. Returns `None` if it is not a signature key or its type is unsupported. `public`: the
    /// source is public, so secrets are rejected.
    fn of_jwk(jwk: &Map<String, Value>, public: bool) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let verifies = |ops: &Vec<Value>| ops.iter().any(|op| op == "verify");
        if text("use").is_some_and(|usage| usage != "sig")
            || jwk.get("key_ops").and_then(Value::as_array).is_some_and(|ops| !verifies(ops))
        {
            return None;
        }
        let algorithm = match text("alg") {
            Some(name) => Some(Algorithm::of(name)?),
            None => None,
        };
        let point = |length: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == length && y.len() == length).then(|| [&[4][..], &x, &y].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("oct", _) if !public => {
                KeyMaterial::Secret(bytes("k").map(Zeroizing::new).filter(|key| key.len() >= 32)?)
            }
            ("RSA", _) => {
                let mut n = bytes("n")?;
                let zeros = n.iter().take_while(|byte| **byte == 0).count();
                n.drain(..zeros);
                KeyMaterial::Rsa { n: Some(n).filter(|n| RSA_BYTES.contains(&n.len()))?, e: bytes("e")? }
            }
            ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
            ("EC", Some("P-521")) => KeyMaterial::P521(point(66)?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes("x").filter(|x| x.len() == 32)?),
            _ => return None,
        };
        let key = Self { id: text("kid").map(str::to_owned), algorithm, material };
        // A key whose `alg` does not fit its type verifies nothing.
        Algorithm::ALL.into_iter().any(|algorithm| key.supports(algorithm)).then_some(key)
    }
}

/// Returns the keys of a JWK set (RFC 7517, 5) that can verify tokens.
///
/// # Errors
/// When it is not a JWK set, or has no such key.
pub(crate) fn keys_of_jwks(text: &[u8], public: bool) -> Result<Vec<VerifyingKey>, &'static str> {
    let set: Value = serde_json::from_slice(text).map_err(|_| "it is not JSON")?;
    let keys = set.get("keys").and_then(Value::as_array).ok_or("it has no list `keys`")?;
    let keys = keys.iter().take(KEYS_MAX).filter_map(Value::as_object);
    let keys: Vec<VerifyingKey> = keys.filter_map(|jwk| VerifyingKey::of_jwk(jwk, public)).collect();
    if keys.is_empty() {
        return Err("it has no key that verifies signatures");
    }
    Ok(keys)
}

impl Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}
