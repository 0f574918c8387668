//! MD5-crypt, the hash that `htpasswd` writes by default (`$apr1$`) and crypt(3) under `$1$`.
//!
//! The two differ only in the name of the scheme, which is hashed too. A library computes MD5; no maintained one
//! combines its rounds like this. [The decision](../../../../docs/decisions/0010-hashes.md) has the alternatives.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use md5::{Digest, Md5};

/// The number of rounds, which is fixed.
const ROUNDS: u32 = 1000;
/// The maximum length of a salt in characters.
const SALT_MAX: usize = 8;
/// The length of a digest in characters.
const DIGEST_LENGTH: usize = 22;
/// The alphabet of crypt(3) for digests and salts, in the order of its values.
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The bytes of a digest that four characters encode, the most significant one first.
const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
/// The byte that the last two characters encode.
const LAST: usize = 11;

/// A hash, split into its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Md5Crypt<'h> {
    scheme: &'static str,
    salt: &'h str,
    digest: &'h str,
}

impl<'h> Md5Crypt<'h> {
    /// Parses the text after the name of the scheme; `None` if it is malformed.
    pub fn parse(scheme: &'static str, rest: &'h str) -> Option<Self> {
        let (salt, digest) = rest.split_once('$')?;
        let is_valid = salt.len() <= SALT_MAX && digest.len() == DIGEST_LENGTH;
        (is_valid && is_of_crypt(salt) && is_of_crypt(digest)).then_some(Self { scheme, salt, digest })
    }

    /// Whether a password has this hash.
    pub fn verify(&self, password: &[u8]) -> bool {
        let digest = encode(&digest(self.scheme.as_bytes(), self.salt.as_bytes(), password));
        verify_slices_are_equal(&digest, self.digest.as_bytes()).is_ok()
    }
}

/// Whether a text has only characters of crypt(3)'s alphabet.
pub(super) fn is_of_crypt(text: &str) -> bool {
    text.bytes().all(|byte| ALPHABET.contains(&byte))
}

fn digest(scheme: &[u8], salt: &[u8], password: &[u8]) -> [u8; 16] {
    let inner: [u8; 16] =
        Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut outer = Md5::new().chain_update(password).chain_update(scheme).chain_update(salt);
    for piece in password.chunks(inner.len()) {
        outer.update(&inner[..piece.len()]);
    }
    let mut length = password.len();
    while length > 0 {
        // A zero for each set bit of the length, else the first byte of the password.
        let byte: &[u8] = if length & 1 == 1 { &[0] } else { &password[..1] };
        outer.update(byte);
        length >>= 1;
    }
    let mut state: [u8; 16] = outer.finalize().into();
    for round in 0..ROUNDS {
        let (first, last): (&[u8], &[u8]) =
            if round % 2 == 0 { (&state, password) } else { (password, &state) };
        let mut next = Md5::new().chain_update(first);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        state = next.chain_update(last).finalize().into();
    }
    state
}

fn encode(digest: &[u8; 16]) -> [u8; DIGEST_LENGTH] {
    let groups = GROUPS.iter().map(|group| {
        let value = group.iter().fold(0, |value, index| (value << 8) | u32::from(digest[*index]));
        (value, 4)
    });
    let mut out = [0; DIGEST_LENGTH];
    let mut characters = out.iter_mut();
    for (mut value, count) in groups.chain([(u32::from(digest[LAST]), 2)]) {
        for character in characters.by_ref().take(count) {
            *character = ALPHABET[(value & 0x3f) as usize];
            value >>= 6;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(scheme: &'static str, hash: &str, password: &str) -> bool {
        let rest = hash.strip_prefix(scheme).expect("the scheme");
        Md5Crypt::parse(scheme, rest).expect("a hash").verify(password.as_bytes())
    }

    // Hashes of `ab` repeated, up to a length, as crypt(3) of glibc computes them.
    #[test]
    fn every_length_of_a_password_counts() {
        for (length, digest) in [
            (0, "5Jhcit4zN9UlGiA0txPkO0"),
            (1, "MzDjbImyzEz2m0NTiPzNW/"),
            (15, "WToeQ2nLydsx5Jq5RffJv1"),
            (16, "5MshEroMFJwclD7WBFuvL1"),
            (17, "u7aFILVxRew8sG2zzaMcz0"),
            (33, "e0AdNocRgzuza6EaRK1Lc."),
            (63, "WdfTpv0nBZVz3A6FKX5Ty/"),
            (64, "Hcn6cjVqF1n4ziy603EN2/"),
            (65, "OQS2v1U915vYchygQQMCR/"),
            (200, "Y5H5WKkcd5h0c4Qr93lNA."),
        ] {
            let password = &"ab".repeat(100)[..length];
            let hash = format!("$1$saltsalt${digest}");
            assert!(verify("$1$", &hash, password), "{length}");
            assert!(!verify("$1$", &hash, &format!("{password}a")), "{length}");
        }
    }

    // Hashes that `openssl passwd -apr1` prints.
    #[test]
    fn apache_has_a_scheme_of_its_own() {
        for (password, digest) in [
            ("", "sHuPAw7VA9xjRbJz7zKV7/"),
            ("a", "68ZQVfPkWX/wcXr/41VxQ."),
            ("abababababababab", "EEDQn31ehMlC5JMaYhpEl."),
            ("ababababababababa", "LyG3pQEoUBEHF8aChIBLL1"),
        ] {
            assert!(verify("$apr1$", &format!("$apr1$12345678${digest}"), password), "{password}");
            assert!(!verify("$1$", &format!("$1$12345678${digest}"), password), "{password}");
        }
        assert!(verify("$apr1$", "$apr1$Zk3v$zrUHnc3neMu1SxlYRVyIb.", "correct horse"), "a short salt");
        assert!(verify("$1$", "$1$a$6B22QzZd2o90NQAIVNfPu/", "correct horse"), "a short salt");
    }

    #[test]
    fn malformed_hashes_are_no_hashes() {
        for rest in [
            "",
            "salt",
            "salt$",
            "salt$sHuPAw7VA9xjRbJz7zKV7",
            "salt$sHuPAw7VA9xjRbJz7zKV7/x",
            "salt$sHuPAw7VA9xjRbJz7zKV7!",
            "saltsalts$sHuPAw7VA9xjRbJz7zKV7/",
            "sa:t$sHuPAw7VA9xjRbJz7zKV7/",
            "s$lt$sHuPAw7VA9xjRbJz7zKV7/",
        ] {
            assert!(Md5Crypt::parse("$1$", rest).is_none(), "{rest}");
        }
    }
}
