//! Verifies a password against a hash of any accepted scheme, and checks hashes when a configuration is loaded.
//!
//! [`is_password_hash`] bounds the cost of a verification, because a file may come from elsewhere and a hash states its
//! own cost. Every hash that it accepts is verified by [`verify`], on the threads of the policy. The comparison of
//! digests takes the same time whatever they contain.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha_crypt::ShaCrypt;
use tollgate_config::PasswordScheme;

use super::md5_crypt::{Md5Crypt, is_of_crypt};

/// The maximum number of bytes that bcrypt reads of a password.
const BCRYPT_PASSWORD_MAX_BYTES: usize = 72;
/// The maximum length of a password for crypt(3) in bytes, as in libxcrypt. The cost of its rounds grows with the
/// length.
const CRYPT_PASSWORD_MAX_BYTES: usize = 512;
/// The accepted rounds of SHA-crypt. Libraries write up to 656,000; a million takes about half a second of a core.
const SHA_CRYPT_ROUNDS: std::ops::RangeInclusive<u32> = 1000..=1_000_000;
/// The maximum length of a salt of SHA-crypt in characters.
const SHA_CRYPT_SALT_MAX: usize = 16;
/// The maximum length of a salt of `{SSHA}` in bytes.
const SHA1_SALT_MAX_BYTES: usize = 64;

/// Whether a password matches a hash.
pub(super) fn verify(hash: &str, password: &[u8]) -> bool {
    let Some((scheme, rest)) = PasswordScheme::split(hash) else { return false };
    match scheme {
        PasswordScheme::Argon2 => {
            let Ok(hash) = PasswordHash::new(hash) else { return false };
            argon2::Argon2::default().verify_password(password, &hash).is_ok()
        }
        // bcrypt would truncate a longer password, so that a prefix of it would also match.
        PasswordScheme::Bcrypt => {
            password.len() <= BCRYPT_PASSWORD_MAX_BYTES && bcrypt::verify(password, hash).unwrap_or(false)
        }
        PasswordScheme::Sha512Crypt | PasswordScheme::Sha256Crypt => {
            password.len() <= CRYPT_PASSWORD_MAX_BYTES
                && ShaCrypt::default().verify_password(password, hash).is_ok()
        }
        PasswordScheme::AprMd5 | PasswordScheme::Md5Crypt => {
            password.len() <= CRYPT_PASSWORD_MAX_BYTES
                && md5_crypt(scheme, rest).is_some_and(|hash| hash.verify(password))
        }
        PasswordScheme::SaltedSha1 | PasswordScheme::Sha1 => {
            Sha1Hash::parse(scheme, rest).is_some_and(|hash| hash.verify(password))
        }
    }
}

/// Returns a hash of a password with argon2id at its default cost, in the PHC format. `None` if argon2 does
/// not take the password, or the system has no random numbers.
#[must_use]
pub fn hash_password(password: &[u8]) -> Option<String> {
    let mut salt = [0; 16];
    SystemRandom::new().fill(&mut salt).ok()?;
    let hash = argon2::Argon2::default().hash_password_with_salt(password, &salt).ok()?;
    Some(hash.to_string())
}

/// Whether a text is a supported password hash whose cost a server can afford.
#[must_use]
pub fn is_password_hash(text: &str) -> bool {
    let Some((scheme, rest)) = PasswordScheme::split(text) else { return false };
    match scheme {
        PasswordScheme::Argon2 => is_affordable_argon2(text),
        PasswordScheme::Bcrypt => {
            let cost = rest.get(..2).and_then(|cost| cost.parse::<u32>().ok());
            text.len() == 60 && cost.is_some_and(|cost| (4..=15).contains(&cost))
        }
        PasswordScheme::Sha512Crypt => is_affordable_sha_crypt(rest, 86),
        PasswordScheme::Sha256Crypt => is_affordable_sha_crypt(rest, 43),
        PasswordScheme::AprMd5 | PasswordScheme::Md5Crypt => md5_crypt(scheme, rest).is_some(),
        PasswordScheme::SaltedSha1 | PasswordScheme::Sha1 => Sha1Hash::parse(scheme, rest).is_some(),
    }
}

fn is_affordable_argon2(text: &str) -> bool {
    let Ok(hash) = PasswordHash::new(text) else { return false };
    let memory = hash.params.get_decimal("m").unwrap_or(u32::MAX);
    let passes = hash.params.get_decimal("t").unwrap_or(u32::MAX);
    hash.hash.is_some() && memory <= 1 << 20 && passes <= 20
}

/// Checks `rounds=5000$salt$digest`, whose rounds may be missing. `digest_length` is in characters.
fn is_affordable_sha_crypt(rest: &str, digest_length: usize) -> bool {
    let (rounds, rest) = match rest.strip_prefix("rounds=").and_then(|rest| rest.split_once('$')) {
        Some((rounds, rest)) => (rounds.parse().ok(), rest),
        None => (Some(5000), rest),
    };
    let Some((salt, digest)) = rest.split_once('$') else { return false };
    rounds.is_some_and(|rounds| SHA_CRYPT_ROUNDS.contains(&rounds))
        && (1..=SHA_CRYPT_SALT_MAX).contains(&salt.len())
        && digest.len() == digest_length
        && is_of_crypt(salt)
        && is_of_crypt(digest)
}

fn md5_crypt(scheme: PasswordScheme, rest: &str) -> Option<Md5Crypt<'_>> {
    let name = if scheme == PasswordScheme::AprMd5 { "$apr1$" } else { "$1$" };
    Md5Crypt::parse(name, rest)
}

/// A hash of SHA-1, which may have a salt.
struct Sha1Hash {
    digest: [u8; SHA1_OUTPUT_LEN],
    salt: Vec<u8>,
}

impl Sha1Hash {
    /// Parses the Base64 text after the name of the scheme: the digest, and for `{SSHA}` the salt.
    fn parse(scheme: PasswordScheme, rest: &str) -> Option<Self> {
        if rest.len() > 2 * (SHA1_OUTPUT_LEN + SHA1_SALT_MAX_BYTES) {
            return None;
        }
        let bytes = BASE64_STANDARD.decode(rest).ok()?;
        let (digest, salt) = bytes.split_first_chunk()?;
        let is_valid = match scheme {
            PasswordScheme::SaltedSha1 => (1..=SHA1_SALT_MAX_BYTES).contains(&salt.len()),
            _ => salt.is_empty(),
        };
        is_valid.then(|| Self { digest: *digest, salt: salt.to_vec() })
    }

    fn verify(&self, password: &[u8]) -> bool {
        let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(password);
        context.update(&self.salt);
        verify_slices_are_equal(context.finish().as_ref(), &self.digest).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Hashes of `correct horse`: of htpasswd with its default, `-5`, `-2` and `-s`, of `openssl passwd`, and of crypt(3)
    // with rounds.
    const HASHES: [&str; 12] = [
        "$apr1$KXJFwPCc$BJ7ea5bcSA4hv31X0Wt4J1",
        "$apr1$Zk3v$zrUHnc3neMu1SxlYRVyIb.",
        "$1$saltsalt$NuzA7WTAelpl95xgBGWN60",
        "$6$MJ0x5Gh1/KpW0kTF$32dRgADbqUfvnBwuALDopT/teXe9G9/LU8jlHp9sJUGdUWlr8Biy37v56Mf/L6LwYHxre4YgHvmCTnI6lacrx/",
        "$5$vR3mopHUbajDBqK2$HSch8vLKf7NJbeWJMJlHcsFvMUjpwR58gstCEoU91c9",
        "$6$x./yZ09$lLs0BjFZNFmE9oYFtOOT7wPdHo8zTOgFvpWjx6G7HQkoJdJY8xA8IQYu6Mv77NzHrACVJoA4aCVLHZjIw4Tnp0",
        "$5$saltsalt$myjXcpMpE2Ofk7fj9hqyNYSn6lmWG4Mqnjx.KIRRr4/",
        "$6$rounds=1000$abcdefgh$DbXqPck5ABZumVXwcH5eMVHsPZwvQ3jylSxpJmKkZVxcoCiC3N0rPerjHmAqL7r6PK6CIeYnO9.vxpbsevscg/",
        "$5$rounds=1400$anotherlongsalts$0KT8xKdzAzHA/GLeLkewBNfWJasAb9.GxP2bbi2wnX1",
        "{SHA}L55TUjtiq8FBorTWAZ0jy6g129A=",
        "{SSHA}lcQQO/lOKcEpnhqFebqIP/U334hwZXBwZXIwMA==",
        "$2b$04$YUDH4LPhF5SiQuEneCdn9.ltTxgeJ.A7tkKykgt8kADTseU/KH3b.",
    ];

    #[test]
    fn passwords_are_verified() {
        let cheap = argon2::Params::new(64, 1, 1, None).expect("parameters");
        let argon = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, cheap);
        let argon =
            argon.hash_password_with_salt(b"correct horse", b"0123456789abcdef").expect("hashed").to_string();
        for hash in HASHES.into_iter().chain([argon.as_str()]) {
            assert!(is_password_hash(hash), "{hash}");
            assert!(verify(hash, b"correct horse"), "{hash}");
            for wrong in ["", "correct hors", "correct horse ", "Correct horse"] {
                assert!(!verify(hash, wrong.as_bytes()), "{hash} {wrong}");
            }
        }
    }

    #[test]
    fn a_password_that_a_scheme_would_truncate_has_no_match() {
        let long = "x".repeat(72);
        let hash = bcrypt::hash(&long, 4).expect("hashed");
        assert!(verify(&hash, long.as_bytes()) && !verify(&hash, format!("{long}y").as_bytes()));
        for hash in HASHES {
            assert!(!verify(hash, &[b'x'; 1000]), "{hash}");
        }
    }

    #[test]
    fn malformed_and_expensive_hashes_are_refused() {
        let digest = "DbXqPck5ABZumVXwcH5eMVHsPZwvQ3jylSxpJmKkZVxcoCiC3N0rPerjHmAqL7r6PK6CIeYnO9.vxpbsevscg/";
        let sha512 = |start: &str| format!("$6${start}${digest}");
        for good in [sha512("salt"), sha512("rounds=1000$salt"), sha512("rounds=1000000$0123456789abcdef")] {
            assert!(is_password_hash(&good), "{good}");
        }
        for text in [
            sha512("rounds=999999999$salt"),
            sha512("rounds=1000001$salt"),
            sha512("rounds=999$salt"),
            sha512("rounds=$salt"),
            sha512("rounds=-1$salt"),
            sha512("rounds=99999999999999999999$salt"),
            sha512("rounds=5000"),
            sha512(""),
            sha512("0123456789abcdefg"),
            sha512("sa lt"),
            format!("$5$salt${digest}"),
            format!("{}x", sha512("salt")),
        ]
        .iter()
        .map(String::as_str)
        .chain([
            "",
            "secret",
            "$2b$04$short",
            "$2b$31$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuvwxyzabcdefghijk",
            "$argon2id$v=19$m=4294967295,t=1,p=1$YWJjZGVmZ2g$YWJjZGVmZ2hpamtsbW5vcA",
            "$1$abc$def",
            "$apr1$",
            "{SHA}",
            "{SHA}L55TUjtiq8FBorTWAZ0jy6g129A",
            "{SHA}lcQQO/lOKcEpnhqFebqIP/U334hwZXBwZXIwMA==",
            "{SSHA}L55TUjtiq8FBorTWAZ0jy6g129A=",
            "{SSHA}!!!!",
            "{PLAIN}secret",
            "lQhul89CPXQlE",
        ]) {
            assert!(!is_password_hash(text), "{text}");
        }
    }
}
