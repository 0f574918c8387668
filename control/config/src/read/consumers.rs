//! `consumers`.

use std::collections::HashMap;

use crate::model::{At, CertificateName, ConsumerSpec, Digest, Secret, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{Fault, field as header};
use crate::spec::{CONSUMER, Shape};
use crate::tree::{Kind, Node, shown};

/// Consumers by name.
pub(super) fn consumers(reader: &mut Reader, field: Option<Field<'_>>) -> Vec<ConsumerSpec> {
    let Some(field) = field else { return Vec::new() };
    let Kind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`consumers`", field.key.shape.expected());
        return Vec::new();
    };
    let mut out = Vec::new();
    let mut keys = HashMap::new();
    for entry in entries {
        // The name goes upstream in a field.
        if entry.key.is_empty() || header::value(&entry.key).is_err() {
            let message = format!("{} cannot be the name of a consumer", shown(&entry.key));
            reader.problems.push(Problem::error(entry.at, message).expected("a name such as `alice`"));
            continue;
        }
        let name = Spanned { value: entry.key.clone(), at: entry.at };
        out.extend(consumer(reader, name, &entry.value, &mut keys));
    }
    out
}

fn consumer(
    reader: &mut Reader,
    name: Spanned<String>,
    node: &Node,
    keys: &mut HashMap<[u8; 32], At>,
) -> Option<ConsumerSpec> {
    let fields = reader.fields(node, &CONSUMER)?;
    let mut out = ConsumerSpec { name, ..ConsumerSpec::default() };
    out.groups = texts(reader, fields.get("groups"), group);
    if let Some(field) = fields.get("api_keys") {
        for item in one_or_many(field.node) {
            let Some(digest) = reader.parsed(item, "a key", one(field), digest) else { continue };
            if let Some(first) = keys.get(&digest.0) {
                let problem = Problem::error(item.at, "two consumers have the same key");
                reader.problems.push(problem.see(*first, "first written here"));
                continue;
            }
            keys.insert(digest.0, item.at);
            out.api_keys.push((digest, item.at));
        }
    }
    if let Some(field) = fields.get("password") {
        out.password = reader.spanned(field, password);
    }
    out.certificates = texts(reader, fields.get("certificates"), certificate_name);
    Some(out)
}

/// The hash of a password; whether it can be computed, the plan finds out.
fn password(text: &str) -> Result<Secret, Fault> {
    match text.starts_with("$argon2") || text.starts_with("$2") {
        true => Ok(Secret::from(text.to_owned())),
        false => Err(Fault::new("this is not a hash of argon2 or bcrypt")
            .help("`htpasswd -nbBC 10 NAME PASSWORD` prints one behind the colon")),
    }
}

/// What a certificate is told by.
pub(super) fn certificate_name(text: &str) -> Result<CertificateName, Fault> {
    let fault =
        || Fault::new("{} tells no certificate").help("write `DNS:a.example`, `subject:CN=a` or the like");
    let (kind, name) = text.split_once(':').ok_or_else(fault)?;
    if name.is_empty() {
        return Err(fault());
    }
    match kind {
        "subject" => Ok(CertificateName::Subject(name.to_owned())),
        "DNS" | "URI" | "email" | "IP" => Ok(CertificateName::Alternative(text.to_owned())),
        "sha256" => {
            let digits = name.replace(':', "").to_ascii_lowercase();
            hexadecimal(&digits).ok_or_else(|| Fault::new("{} is not a SHA-256"))?;
            Ok(CertificateName::Fingerprint(digits))
        }
        _ => Err(fault()),
    }
}

/// What each entry of a list looks like.
pub(super) fn one(field: Field<'_>) -> &'static Shape {
    match field.key.shape {
        Shape::OneOrMany(one) => one,
        _ => &field.key.shape,
    }
}

/// One or many texts.
pub(super) fn texts<T>(
    reader: &mut Reader,
    field: Option<Field<'_>>,
    parse: impl Fn(&str) -> Result<T, Fault>,
) -> Vec<T> {
    let Some(field) = field else { return Vec::new() };
    let what = format!("an entry of `{}`", field.key.name);
    one_or_many(field.node).iter().filter_map(|item| reader.parsed(item, &what, one(field), &parse)).collect()
}

/// The name of a group: they go upstream as a list with commas.
pub(super) fn group(text: &str) -> Result<String, Fault> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    match text.is_empty() || text.chars().any(odd) {
        true => Err(Fault::new("{} is not the name of a group").help("it has no blanks and no commas")),
        false => Ok(text.to_owned()),
    }
}

/// A SHA-256 with its name.
fn digest(text: &str) -> Result<Digest, Fault> {
    let Some(digits) = text.strip_prefix("sha256:") else {
        return Err(Fault::new("this key is not hashed")
            .help("write `sha256:` and what `printf %s KEY | sha256sum` prints"));
    };
    hexadecimal(digits).map(Digest).ok_or_else(|| Fault::new("this is not a SHA-256"))
}

/// 32 bytes as hexadecimal digits.
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
