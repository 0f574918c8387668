//! `consumers`: client identities, recognized by credentials of their own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::model::Secret;
use crate::password_hash::{PasswordScheme, unverifiable_hash, weak_hashes};
use crate::position::{At, Spanned};
use crate::reader::named;
use crate::scalar::field as header;
use crate::section::{Field, Node, NodeKind, Problem, Reader, ScalarError, Section, Shape, Text, shown};

/// The hash of a password.
pub static PASSWORD_HASH: Text = Text {
    expected: "a password's hash such as `$argon2id$v=19$m=19456,t=2,p=1$...` or `$2b$12$...`, or one of `htpasswd`",
    pattern: Some(r"^\$(argon2(id|i|d)|2[abxy]|apr1|[156])\$|^\{S?SHA\}|[$][{]"),
    loose: false,
};
/// The name of a certificate.
pub static CERTIFICATE_NAME: Text = Text {
    expected: "`subject:`, `DNS:`, `URI:`, `email:`, `IP:` or `sha256:` followed by the value in the \
        certificate, such as `DNS:a.example`",
    pattern: Some("^(subject|DNS|URI|email|IP|sha256):."),
    loose: false,
};
pub(crate) static CONSUMER_VALUE: Shape = Shape::Section(ConsumerSpec::SPEC);

/// A client that is identified by its credentials.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "consumer", noun = "a consumer")]
pub struct ConsumerSpec {
    /// Unique name of the consumer.
    #[key(skip)]
    pub name: Spanned<String>,
    /// Groups of the consumer.
    #[key(
        expected = "the name of a group such as `admin`", pattern = r"^[^\s,]+$", loose, each = group,
        also = ["group", "roles", "acls"]
    )]
    pub groups: Vec<String>,
    /// Hashes of its keys for `api_key`, as `tollgate hash` prints them: `sha256:` and the SHA-256 of the key.
    #[key(
        expected = "`sha256:` and the 64 hexadecimal digits of the key's SHA-256",
        pattern = "^sha256:[0-9A-Fa-f]{64}$", list, read = api_keys, concealed,
        also = ["api_key", "key", "keys", "keyauth_credentials"]
    )]
    pub api_keys: Vec<(Digest, At)>,
    /// The hash of its password for `basic`: `tollgate hash --argon2` prints one, and `htpasswd`.
    #[key(text = PASSWORD_HASH, parse = password, concealed, also = ["password_hash", "basic", "basicauth_credentials"])]
    pub password: Option<Spanned<Secret>>,
    /// Its secrets for `hmac`, by the key id in its signatures.
    #[key(
        expected = "a secret of at least 16 bytes, or `base64:` and one in base64",
        pattern = "^.{16,}$|[$][{]", map, read = hmac_keys, secret,
        also = ["hmac", "hmac_secret", "hmacauth_credentials", "signing_keys"]
    )]
    pub hmac_keys: Vec<(String, HmacKey, At)>,
    /// Its certificates for `client_certificate`, each identified by a name or fingerprint.
    #[key(
        text = CERTIFICATE_NAME, each = certificate_name,
        also = ["certificate", "subjects", "mtls"]
    )]
    pub certificates: Vec<CertificateName>,
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

/// Reads consumers by name.
pub(crate) fn consumers(reader: &mut Reader, field: Field<'_>) -> Option<Vec<ConsumerSpec>> {
    let out = named(reader, Some(field), consumer);
    reader.problems.extend(shared_credentials(out.iter()));
    reader.problems.extend(weak_passwords(&out));
    Some(out)
}

/// Returns a warning about weak hashes, at the first of them.
pub(crate) fn weak_passwords(consumers: &[ConsumerSpec]) -> Option<Problem> {
    let hashes = consumers.iter().filter_map(|consumer| Some((consumer, consumer.password.as_ref()?)));
    let is_weak = |hash: &str| PasswordScheme::split(hash).is_some_and(|(scheme, _)| scheme.is_weak());
    let (_, first) = hashes.clone().find(|(_, hash)| is_weak(hash.value.reveal()))?;
    weak_hashes(first.at, hashes.map(|(consumer, hash)| (consumer.name.value.as_str(), hash.value.reveal())))
}

/// Returns a problem for each credential that several consumers share, because it would not identify one of
/// them. A source's reader calls it for its own consumers, and the plan's compiler for those of all sources.
pub fn shared_credentials<'a>(consumers: impl Iterator<Item = &'a ConsumerSpec>) -> Vec<Problem> {
    let (mut api_keys, mut hmac_keys) = (HashMap::new(), HashMap::new());
    let mut problems = Vec::new();
    let mut twice = |at: At, first: At, message: &str| {
        problems.push(Problem::error(at, message).related(first, "first written here"));
    };
    for consumer in consumers {
        for (digest, at) in &consumer.api_keys {
            match api_keys.entry(digest.0) {
                Entry::Occupied(first) => twice(*at, *first.get(), "two consumers have the same key"),
                Entry::Vacant(free) => drop(free.insert(*at)),
            }
        }
        for (id, _, at) in &consumer.hmac_keys {
            match hmac_keys.entry(id) {
                Entry::Occupied(first) => twice(*at, *first.get(), "two consumers have a key with this id"),
                Entry::Vacant(free) => drop(free.insert(*at)),
            }
        }
    }
    problems
}

/// Parses a secret, plain or in base64. Messages do not repeat it.
fn hmac_secret(text: &str) -> Result<HmacKey, ScalarError> {
    let bytes = match text.strip_prefix("base64:") {
        Some(encoded) => STANDARD.decode(encoded).map_err(|_| ScalarError::new("this is not base64"))?,
        None => text.as_bytes().to_vec(),
    };
    match bytes.len() {
        16..=1024 => Ok(HmacKey(bytes)),
        0..16 => Err(ScalarError::new("this secret is too short: it could be guessed")
            .help("write `base64:` and the output of `openssl rand -base64 32`")),
        _ => Err(ScalarError::new("this secret has more than 1024 bytes")),
    }
}

/// Checks the scheme of a password's hash. The plan's compiler checks whether it can be computed.
fn password(text: &str) -> Result<Secret, ScalarError> {
    match PasswordScheme::split(text) {
        Some(_) => Ok(Secret::from(text.to_owned())),
        None => Err(ScalarError::new(unverifiable_hash(text))
            .help("`tollgate hash --argon2` asks for the password and prints a hash")),
    }
}

/// A property that identifies a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// The subject, as RFC 4514 writes names.
    Subject(String),
    /// A subject alternative name, such as `DNS:a.example`.
    Alternative(String),
    /// The SHA-256 of the certificate, in lower-case hexadecimal.
    Fingerprint(String),
}

/// Parses a name or fingerprint that identifies a certificate.
pub fn certificate_name(text: &str) -> Result<CertificateName, ScalarError> {
    let fault = || {
        ScalarError::new("{} does not identify a certificate")
            .help("write for example `DNS:a.example` or `subject:CN=a`")
    };
    let (kind, name) = text.split_once(':').ok_or_else(fault)?;
    if name.is_empty() {
        return Err(fault());
    }
    match kind {
        "subject" => Ok(CertificateName::Subject(name.to_owned())),
        "DNS" | "URI" | "email" | "IP" => Ok(CertificateName::Alternative(text.to_owned())),
        "sha256" => {
            let digits = name.replace(':', "").to_ascii_lowercase();
            hexadecimal(&digits).ok_or_else(|| ScalarError::new("{} is not a SHA-256"))?;
            Ok(CertificateName::Fingerprint(digits))
        }
        _ => Err(fault()),
    }
}

/// Parses the name of a group. Groups are sent upstream as a comma-separated list.
pub(crate) fn group(text: &str) -> Result<String, ScalarError> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    match text.is_empty() || text.chars().any(odd) {
        true => Err(ScalarError::new("{} is not the name of a group").help("it has no blanks and no commas")),
        false => Ok(text.to_owned()),
    }
}

/// Parses a digest with the prefix `sha256:`.
fn digest(text: &str) -> Result<Digest, ScalarError> {
    let Some(digits) = text.strip_prefix("sha256:") else {
        return Err(ScalarError::new("this key is not hashed")
            .help("`tollgate hash` asks for the key and prints its hash, `sha256:...`"));
    };
    hexadecimal(digits).map(Digest).ok_or_else(|| ScalarError::new("this is not a SHA-256"))
}

/// Parses 64 hexadecimal digits into 32 bytes.
pub(crate) fn hexadecimal(digits: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (!digits.contains('+')).then_some(out)
}

/// Reads a consumer. Its name is the key of the mapping, or the name of the document.
pub(crate) fn consumer(reader: &mut Reader, name: &str, at: At, node: &Node) -> Option<ConsumerSpec> {
    // The name is sent upstream in a field.
    if name.is_empty() || header::value(name).is_err() {
        let message = format!("{} cannot be the name of a consumer", shown(name));
        reader.problems.push(Problem::error(at, message).expected("a name such as `alice`"));
        return None;
    }
    let consumer = ConsumerSpec::read_section(reader, node)?;
    Some(ConsumerSpec { name: Spanned { value: name.to_owned(), at }, ..consumer })
}

fn api_keys(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(Digest, At)>> {
    let items = reader.list_items(field, false, false);
    let keys = reader.spanned_each(items, field, "a key", digest);
    Some(keys.into_iter().map(|key| (key.value, key.at)).collect())
}

/// Reads signing secrets by key id.
fn hmac_keys(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(String, HmacKey, At)>> {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`hmac_keys`", field.key.shape.expected());
        return None;
    };
    let mut out = Vec::new();
    for entry in entries {
        // The id is sent in a field as a string (RFC 8941, 3.3.3).
        if entry.key.is_empty() || !entry.key.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            let message = format!("{} cannot be the id of a key", shown(&entry.key));
            reader.problems.push(Problem::error(entry.at, message).expected("an id such as `ann-2026`"));
            continue;
        }
        let secret = reader.parsed(&entry.value, "a secret", field.key.shape.one(), hmac_secret);
        out.extend(secret.map(|secret| (entry.key.clone(), secret, entry.at)));
    }
    Some(out)
}
