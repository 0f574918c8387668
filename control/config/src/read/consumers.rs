//! Reads `consumers`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Draft;
use super::named::named;
use crate::model::{At, CertificateName, ConsumerSpec, Digest, HmacKey, Secret, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{ScalarError, field as header};
use crate::spec::{CONSUMER, Shape};
use crate::tree::{Node, NodeKind, shown};

/// Reads consumers by name.
pub(super) fn consumers(reader: &mut Reader, field: Option<Field<'_>>) -> Vec<ConsumerSpec> {
    let out = named(reader, field, consumer);
    reader.problems.extend(shared_credentials(out.iter()));
    out
}

/// Reads a consumer from a document.
pub(crate) fn document(reader: &mut Reader, name: &str, node: &Node, draft: &mut Draft) {
    draft.config.consumers.extend(consumer(reader, name, node.at, node));
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

fn consumer(reader: &mut Reader, name: &str, at: At, node: &Node) -> Option<ConsumerSpec> {
    // The name is sent upstream in a field.
    if name.is_empty() || header::value(name).is_err() {
        let message = format!("{} cannot be the name of a consumer", shown(name));
        reader.problems.push(Problem::error(at, message).expected("a name such as `alice`"));
        return None;
    }
    let name = Spanned { value: name.to_owned(), at };
    let fields = reader.fields(node, &CONSUMER)?;
    let mut out = ConsumerSpec { name, ..ConsumerSpec::default() };
    out.groups = texts(reader, fields.get("groups"), group);
    if let Some(field) = fields.get("api_keys") {
        for item in one_or_many(field.node) {
            let digest = reader.parsed(item, "a key", one(field), digest);
            out.api_keys.extend(digest.map(|digest| (digest, item.at)));
        }
    }
    if let Some(field) = fields.get("password") {
        out.password = reader.spanned(field, password);
    }
    if let Some(field) = fields.get("hmac_keys") {
        hmac_keys(reader, field, &mut out);
    }
    out.certificates = texts(reader, fields.get("certificates"), certificate_name);
    Some(out)
}

/// Reads signing secrets by key id.
fn hmac_keys(reader: &mut Reader, field: Field<'_>, out: &mut ConsumerSpec) {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`hmac_keys`", field.key.shape.expected());
        return;
    };
    let one = if let Shape::MapOf(one) = field.key.shape { one } else { &field.key.shape };
    for entry in entries {
        // The id is sent in a field as a string (RFC 8941, 3.3.3).
        if entry.key.is_empty() || !entry.key.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            let message = format!("{} cannot be the id of a key", shown(&entry.key));
            reader.problems.push(Problem::error(entry.at, message).expected("an id such as `ann-2026`"));
            continue;
        }
        let secret = reader.parsed(&entry.value, "a secret", one, hmac_secret);
        out.hmac_keys.extend(secret.map(|secret| (entry.key.clone(), secret, entry.at)));
    }
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

/// Checks the form of a password's hash. The plan's compiler checks whether it can be computed.
fn password(text: &str) -> Result<Secret, ScalarError> {
    match text.starts_with("$argon2") || text.starts_with("$2") {
        true => Ok(Secret::from(text.to_owned())),
        false => Err(ScalarError::new("this is not a hash of argon2 or bcrypt")
            .help("`htpasswd -nbBC 10 NAME PASSWORD` prints one after the colon")),
    }
}

/// Parses a name or fingerprint that identifies a certificate.
pub(super) fn certificate_name(text: &str) -> Result<CertificateName, ScalarError> {
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

/// Returns the shape of each entry of a list.
pub(super) fn one(field: Field<'_>) -> &'static Shape {
    match field.key.shape {
        Shape::OneOrMany(one) => one,
        _ => &field.key.shape,
    }
}

/// Reads one or several texts.
pub(super) fn texts<T>(
    reader: &mut Reader,
    field: Option<Field<'_>>,
    parse: impl Fn(&str) -> Result<T, ScalarError>,
) -> Vec<T> {
    let Some(field) = field else { return Vec::new() };
    let what = format!("an entry of `{}`", field.key.name);
    one_or_many(field.node).iter().filter_map(|item| reader.parsed(item, &what, one(field), &parse)).collect()
}

/// Parses the name of a group. Groups are sent upstream as a comma-separated list.
pub(super) fn group(text: &str) -> Result<String, ScalarError> {
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
            .help("write `sha256:` and the output of `printf %s KEY | sha256sum`"));
    };
    hexadecimal(digits).map(Digest).ok_or_else(|| ScalarError::new("this is not a SHA-256"))
}

/// Parses 64 hexadecimal digits into 32 bytes.
pub(super) fn hexadecimal(digits: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (!digits.contains('+')).then_some(out)
}
