//! `tollgate hash`: prints what `api_keys`, admin tokens and the passwords of `basic` store.
//!
//! The secret is read from standard input, or asked for on a terminal without being shown. It is never an
//! argument, which other users of the machine could see.

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use tollgate_policy::hash_password;
use tollgate_top::read_secret;

use crate::cli::HashArgs;
use crate::print::{print, print_error};

/// The cost of bcrypt: 2^10 rounds, some 50 ms of a core for each verification.
const BCRYPT_COST: u32 = 10;
/// The most bytes that bcrypt takes of a password. It ignores the rest.
const BCRYPT_MAX_BYTES: usize = 72;
/// The length of a generated key, in bytes. Each is printed as two hexadecimal digits.
const KEY_BYTES: usize = 32;
/// Below this number of bytes, a secret can be found from its SHA-256 by trying.
const SAFE_KEY_BYTES: usize = 16;
/// The most bytes that are read from standard input.
const INPUT_MAX_BYTES: u64 = 64 << 10;

/// How a secret is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashKind {
    /// For `api_keys` and tokens.
    Sha256,
    /// For `password`.
    Argon2,
    /// For `password`.
    Bcrypt,
}

/// Prints the hash of a secret on standard output.
pub fn hash(args: &HashArgs) -> ExitCode {
    match make(args) {
        Ok(text) => print(&format!("{text}\n"), ExitCode::SUCCESS),
        Err(message) => {
            print_error(format_args!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn make(args: &HashArgs) -> Result<String, String> {
    let kind = match (args.argon2, args.bcrypt) {
        (true, _) => HashKind::Argon2,
        (_, true) => HashKind::Bcrypt,
        _ => HashKind::Sha256,
    };
    let secret = if args.generate { generate()? } else { read(kind)? };
    let hashed = hash_secret(kind, secret.as_bytes())?;
    if args.generate {
        // On standard error, so that standard output has only the text to paste.
        print_error(format_args!("key for the client, shown only now: {secret}"));
    } else if kind == HashKind::Sha256 && secret.len() < SAFE_KEY_BYTES {
        print_error(format_args!(
            "warning: a key of fewer than {SAFE_KEY_BYTES} characters can be found from its SHA-256: \
             `tollgate hash --generate` makes a safe one, and `--argon2` is for passwords"
        ));
    }
    Ok(hashed)
}

/// Returns a random key.
fn generate() -> Result<String, String> {
    let mut bytes = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system has no random numbers".to_owned())?;
    Ok(hexadecimal(&bytes))
}

/// Reads the secret. On a terminal it is asked for twice, since it cannot be seen.
fn read(kind: HashKind) -> Result<String, String> {
    let noun = if kind == HashKind::Sha256 { "Key" } else { "Password" };
    if io::stdin().is_terminal() {
        let ask = |prompt: String| {
            let answer =
                read_secret(&prompt).map_err(|error| format!("cannot read from the terminal: {error}"))?;
            answer.ok_or_else(|| "interrupted".to_owned())
        };
        let first = ask(format!("{noun}: "))?;
        if ask(format!("{noun} again: "))? != first {
            return Err("the two texts differ".to_owned());
        }
        return not_empty(first);
    }
    let mut text = String::new();
    let read = io::stdin().lock().take(INPUT_MAX_BYTES).read_to_string(&mut text);
    read.map_err(|error| format!("cannot read standard input: {error}"))?;
    // `echo` and text files end with a newline, which is not part of the secret.
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    not_empty(secret.strip_suffix('\r').unwrap_or(secret).to_owned())
}

fn not_empty(secret: String) -> Result<String, String> {
    match secret.is_empty() {
        true => Err("standard input has no key or password".to_owned()),
        false => Ok(secret),
    }
}

/// Returns the text for the configuration.
fn hash_secret(kind: HashKind, secret: &[u8]) -> Result<String, String> {
    match kind {
        HashKind::Sha256 => Ok(format!("sha256:{}", hexadecimal(digest(&SHA256, secret).as_ref()))),
        HashKind::Argon2 => {
            hash_password(secret).ok_or_else(|| "argon2 does not take this password".to_owned())
        }
        HashKind::Bcrypt if secret.len() > BCRYPT_MAX_BYTES => Err(format!(
            "bcrypt takes at most {BCRYPT_MAX_BYTES} bytes of a password, and this one has {}: use `--argon2`",
            secret.len()
        )),
        HashKind::Bcrypt => bcrypt::hash(secret, BCRYPT_COST).map_err(|error| error.to_string()),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use tollgate_policy::is_password_hash;

    use super::*;

    #[test]
    fn each_kind_is_what_the_configuration_takes() {
        let hashed = |kind, secret: &[u8]| hash_secret(kind, secret);
        assert_eq!(
            hashed(HashKind::Sha256, b"test").as_deref(),
            Ok("sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
        );
        assert!(hashed(HashKind::Argon2, b"test").is_ok_and(|text| is_password_hash(&text)));
        assert!(hashed(HashKind::Bcrypt, b"test").is_ok_and(|text| is_password_hash(&text)));
        assert!(hashed(HashKind::Bcrypt, &[b'x'; 73]).is_err_and(|message| message.contains("--argon2")));
        let (one, other) = (generate().expect("a key"), generate().expect("a key"));
        assert!(one.len() == 64 && one != other);
    }
}
