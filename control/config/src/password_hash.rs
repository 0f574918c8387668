//! The schemes of password hashes that `basic` verifies, and the warning about weak ones.
//!
//! A hash begins with the name of its scheme. The sections `consumers` and `basic` reject a text that begins with no
//! such name; the policy checks the rest of the hash and verifies passwords. `htpasswd` writes MD5 by default, so
//! existing files have weak hashes. They are accepted, and `check` names their users.

use crate::position::At;
use crate::problem::Problem;

/// Maximum number of users that a warning names.
const NAMED_USERS_MAX: usize = 5;

/// How a password is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordScheme {
    /// argon2 in the PHC format.
    Argon2,
    /// bcrypt.
    Bcrypt,
    /// SHA-512 of crypt(3), `$6$`.
    Sha512Crypt,
    /// SHA-256 of crypt(3), `$5$`.
    Sha256Crypt,
    /// MD5 of Apache, `$apr1$`.
    AprMd5,
    /// MD5 of crypt(3), `$1$`.
    Md5Crypt,
    /// SHA-1 with a salt, `{SSHA}`.
    SaltedSha1,
    /// SHA-1, `{SHA}`.
    Sha1,
}

/// The beginnings of hashes.
const BEGINNINGS: [(&str, PasswordScheme); 13] = [
    ("$argon2id$", PasswordScheme::Argon2),
    ("$argon2i$", PasswordScheme::Argon2),
    ("$argon2d$", PasswordScheme::Argon2),
    ("$2a$", PasswordScheme::Bcrypt),
    ("$2b$", PasswordScheme::Bcrypt),
    ("$2x$", PasswordScheme::Bcrypt),
    ("$2y$", PasswordScheme::Bcrypt),
    ("$6$", PasswordScheme::Sha512Crypt),
    ("$5$", PasswordScheme::Sha256Crypt),
    ("$apr1$", PasswordScheme::AprMd5),
    ("$1$", PasswordScheme::Md5Crypt),
    ("{SSHA}", PasswordScheme::SaltedSha1),
    ("{SHA}", PasswordScheme::Sha1),
];

impl PasswordScheme {
    /// Splits a hash into its scheme and the text after the scheme's name. `None`: the gateway does not verify such a
    /// hash.
    #[must_use]
    pub fn split(hash: &str) -> Option<(Self, &str)> {
        BEGINNINGS.iter().find_map(|(start, scheme)| Some((*scheme, hash.strip_prefix(start)?)))
    }

    /// Returns whether most passwords can be guessed from such a hash: a graphics card computes millions of them per
    /// second.
    #[must_use]
    pub fn is_weak(self) -> bool {
        matches!(self, Self::AprMd5 | Self::Md5Crypt | Self::SaltedSha1 | Self::Sha1)
    }
}

/// Names the form of a text that is not a hash which the gateway verifies. The result does not repeat the text.
#[must_use]
pub fn unverifiable_hash(text: &str) -> &'static str {
    let is_des = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/');
    match text {
        _ if text.starts_with("{PLAIN}") => "this is a password in plain text",
        _ if text.starts_with("$y$") || text.starts_with("$7$") => "yescrypt and scrypt are not verified",
        _ if text.len() == 13 && text.chars().all(is_des) => {
            "this looks like crypt with DES, which reads 8 characters of a password and is not verified"
        }
        _ => "this is not a hash that can be verified",
    }
}

/// Returns a warning that names the users whose hashes are weak.
#[must_use]
pub fn weak_hashes<'a>(at: At, users: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Problem> {
    let is_weak = |hash: &str| PasswordScheme::split(hash).is_some_and(|(scheme, _)| scheme.is_weak());
    let weak: Vec<&str> = users.filter(|(_, hash)| is_weak(hash)).map(|(name, _)| name).collect();
    let named: Vec<String> =
        weak.iter().take(NAMED_USERS_MAX).map(|name| crate::section::shown(name)).collect();
    let others = match weak.len().saturating_sub(NAMED_USERS_MAX) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let message = match weak.len() {
        0 => return None,
        1 => format!("the password hash of {} is weak", named.join("")),
        count => format!("{count} password hashes are weak, those of {}{others}", named.join(", ")),
    };
    let help = "passwords are easily guessed from MD5 and SHA-1; replace such a hash by one that \
        `tollgate hash --argon2` or `htpasswd -B` prints";
    Some(Problem::warning(at, message).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_names_its_scheme() {
        for (hash, scheme, rest) in [
            (
                "$argon2id$v=19$m=64,t=1,p=1$c2FsdA$aGFzaA",
                PasswordScheme::Argon2,
                "v=19$m=64,t=1,p=1$c2FsdA$aGFzaA",
            ),
            ("$2y$05$x", PasswordScheme::Bcrypt, "05$x"),
            ("$6$salt$x", PasswordScheme::Sha512Crypt, "salt$x"),
            ("$5$rounds=5000$salt$x", PasswordScheme::Sha256Crypt, "rounds=5000$salt$x"),
            ("$apr1$salt$x", PasswordScheme::AprMd5, "salt$x"),
            ("$1$salt$x", PasswordScheme::Md5Crypt, "salt$x"),
            ("{SSHA}eA==", PasswordScheme::SaltedSha1, "eA=="),
            ("{SHA}eA==", PasswordScheme::Sha1, "eA=="),
        ] {
            assert_eq!(PasswordScheme::split(hash), Some((scheme, rest)), "{hash}");
        }
        for text in ["", "secret", "{PLAIN}secret", "$y$j9T$x", "lQhul89CPXQlE", "$2$x", "{sha}eA==", "$apr1"]
        {
            assert_eq!(PasswordScheme::split(text), None, "{text}");
            assert!(text.is_empty() || !unverifiable_hash(text).contains(text), "{text}");
        }
        assert!(unverifiable_hash("lQhul89CPXQlE").contains("DES"));
    }

    #[test]
    fn one_warning_names_the_users_with_weak_hashes() {
        let warning = |users: &[(&'static str, &'static str)]| {
            weak_hashes(At::default(), users.iter().copied()).map(|problem| problem.message)
        };
        assert_eq!(warning(&[("ann", "$2b$04$x"), ("bob", "$6$salt$x")]), None);
        let one = [("ann", "$2b$04$x"), ("bob", "$apr1$salt$x")];
        assert_eq!(warning(&one).as_deref(), Some("the password hash of `bob` is weak"));
        let two = [("ann", "{SHA}x"), ("bob", "$1$salt$x")];
        assert_eq!(warning(&two).as_deref(), Some("2 password hashes are weak, those of `ann`, `bob`"));
        let many = [("a", "{SHA}x"); 7];
        assert_eq!(
            warning(&many).as_deref(),
            Some("7 password hashes are weak, those of `a`, `a`, `a`, `a`, `a` and 2 more")
        );
    }
}
