//! Parses public keys in PEM (RFC 7468), for issuers without a JWK set: `PUBLIC KEY` (RFC 5280, 4.1.2.7), or
//! the key of a `CERTIFICATE`. They have no ids, so each of them matches all tokens.

use rustls::pki_types::pem::{PemObject, SectionKind};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;

use super::key::{KEYS_MAX, VerifyingKey};

/// Whether the text looks like PEM instead of JSON.
pub(crate) fn is_pem(text: &[u8]) -> bool {
    let begin = b"-----BEGIN ";
    text.windows(begin.len()).any(|part| part == begin) && text.trim_ascii_start().first() != Some(&b'{')
}

/// Returns the keys of a PEM file.
///
/// # Errors
/// When it has no key, or an unusable one. Unlike in an issuer's set, the operator has chosen each key.
pub(crate) fn keys_of_pem(text: &[u8]) -> Result<Vec<VerifyingKey>, &'static str> {
    let mut keys = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let (kind, der) = section.map_err(|_| "it is broken")?;
        let key = match kind {
            SectionKind::PublicKey => SubjectPublicKeyInfo::from_der(&der)
                .ok()
                .filter(|(rest, _)| rest.is_empty())
                .and_then(|(_, key)| VerifyingKey::of_spki(&key)),
            SectionKind::Certificate => X509Certificate::from_der(&der)
                .ok()
                .and_then(|(_, certificate)| VerifyingKey::of_spki(certificate.public_key())),
            SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                return Err("it holds a private key, which is not needed here: write the public one");
            }
            _ => continue,
        };
        keys.push(
            key.ok_or("a key in it is none of RSA (2048 bits and more), P-256, P-384, P-521 or Ed25519")?,
        );
        if keys.len() > KEYS_MAX {
            return Err("it has too many keys");
        }
    }
    match keys.is_empty() {
        true => Err("it has no `PUBLIC KEY` and no `CERTIFICATE`"),
        false => Ok(keys),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
        EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    };
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    use super::*;
    use crate::jwt::Algorithm;

    fn pem(label: &str, der: &[u8]) -> String {
        let text = BASE64_STANDARD.encode(der);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
    }

    /// Returns the public key in PEM.
    pub fn public<K: AsDer<PublicKeyX509Der<'static>>>(key: &K) -> String {
        pem("PUBLIC KEY", key.as_der().expect("a key").as_ref())
    }

    #[test]
    fn keys_of_every_kind_verify_what_theirs_have_signed() {
        let random = SystemRandom::new();
        let (rsa, ed) = (
            RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"),
            Ed25519KeyPair::generate().expect("a key"),
        );
        let ec =
            |algorithm: &'static EcdsaSigningAlgorithm| EcdsaKeyPair::generate(algorithm).expect("a key");
        let curves = [
            (Algorithm::Es256, ec(&ECDSA_P256_SHA256_FIXED_SIGNING)),
            (Algorithm::Es384, ec(&ECDSA_P384_SHA384_FIXED_SIGNING)),
            (Algorithm::Es512, ec(&ECDSA_P521_SHA512_FIXED_SIGNING)),
        ];
        let mut signed = vec![0; rsa.public_modulus_len()];
        rsa.sign(&RSA_PKCS1_SHA256, &random, b"m", &mut signed).expect("signed");
        let mut cases = vec![
            (public(rsa.public_key()), Algorithm::Rs256, signed),
            (public(ed.public_key()), Algorithm::EdDsa, ed.sign(b"m").as_ref().to_vec()),
        ];
        for (algorithm, key) in &curves {
            cases.push((
                public(key.public_key()),
                *algorithm,
                key.sign(&random, b"m").expect("signed").as_ref().to_vec(),
            ));
        }
        for (text, algorithm, tag) in &cases {
            let keys = keys_of_pem(format!("who it is from\n{text}").as_bytes()).expect("a key");
            assert!(keys[0].verifies(*algorithm, b"m", tag), "{algorithm:?}");
            assert!(!keys[0].verifies(*algorithm, b"n", tag) && keys[0].id.is_none());
            // RFC 8725, 2.1: a public key must not serve as a secret.
            assert!(!keys[0].supports(Algorithm::Hs256));
        }
        let all: String = cases.iter().map(|(text, ..)| text.as_str()).collect();
        assert_eq!(keys_of_pem(all.as_bytes()).expect("keys").len(), cases.len());
    }

    #[test]
    fn input_without_a_public_key_is_rejected() {
        let small = pem("PUBLIC KEY", &BASE64_STANDARD.decode(SMALL).expect("base64"));
        for (text, why) in [
            (String::new(), "no `PUBLIC KEY`"),
            (pem("NOTES", b"x"), "no `PUBLIC KEY`"),
            (pem("PUBLIC KEY", b"x"), "none of RSA"),
            (pem("CERTIFICATE", b"x"), "none of RSA"),
            (pem("PRIVATE KEY", b"x"), "private key"),
            ("-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n".to_owned(), "broken"),
            (small, "none of RSA"),
        ] {
            let found = keys_of_pem(text.as_bytes()).expect_err("none");
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    /// A 1024-bit RSA key: `openssl genrsa 1024 | openssl rsa -pubout`.
    const SMALL: &str = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC8yKFgcd6V8zp6ov39SYz6dNY056+O3vOdbT+MxOm/0TBCUavsnc9Nniom6f8CaBA62Su2mpD2o9cpmnGnaexhHDPmKdHdnN8nVCnVCs5+jgXRTg1wRo3PB97B819z7cj/dkT8njpl0gFzwJ1hiucxvQvSlR2EcHLLsrnNRAFwDwIDAQAB";

    #[test]
    fn a_set_that_speaks_of_pem_is_a_set() {
        assert!(is_pem(b"# ours\n-----BEGIN PUBLIC KEY-----"));
        assert!(!is_pem(br#" {"keys": [], "x": "-----BEGIN PUBLIC KEY-----"}"#));
        assert!(!is_pem(b"") && !is_pem(b"keys"));
    }
}
