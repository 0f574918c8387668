//! Reads the key by which requests are counted.

use crate::model::CountKeyPart;
use crate::problem::Problem;
use crate::reader::{Fields, Reader};
use crate::scalar::{ScalarError, field as header};
use crate::spec::BY_ONE;
use crate::suggest;
use crate::tree::NodeKind;

/// Maximum number of parts of a combined key.
const PARTS_MAX: usize = 8;

/// Keys without a name first, then keys that need one.
const WORDS: [&str; 11] =
    ["all", "consumer", "address", "route", "host", "path", "method", "header", "claim", "cookie", "query"];

/// Reads `by` of a policy.
pub(super) fn by(reader: &mut Reader, fields: &Fields<'_>) -> CountKeyPart {
    let Some(field) = fields.get("by") else { return CountKeyPart::All };
    let NodeKind::List(items) = &field.node.kind else {
        return reader.field(field, parse).unwrap_or_default();
    };
    let mut parts: Vec<CountKeyPart> = Vec::new();
    for item in items {
        let Some(part) = reader.parsed(item, "`by`", &BY_ONE, parse) else { continue };
        let problem = if part == CountKeyPart::All && items.len() > 1 {
            Problem::error(item.at, "`all` has no effect next to other keys").help("leave it out")
        } else if parts.contains(&part) {
            Problem::error(item.at, "this is in the list twice")
        } else if parts.len() == PARTS_MAX {
            Problem::error(item.at, format!("`by` has more than {PARTS_MAX} parts"))
        } else {
            parts.push(part);
            continue;
        };
        reader.problems.push(problem);
    }
    if items.is_empty() {
        reader.missing(field.at, "`by` is an empty list".to_owned(), &BY_ONE);
    }
    match parts.len() {
        0 => CountKeyPart::All,
        1 => parts.swap_remove(0),
        _ => CountKeyPart::Many(parts),
    }
}

fn parse(text: &str) -> Result<CountKeyPart, ScalarError> {
    let (word, name) = match text.split_once(' ') {
        Some((word, name)) => (word, Some(name.trim())),
        None => (text, None),
    };
    match (word, name) {
        ("all", None) => Ok(CountKeyPart::All),
        ("consumer", None) => Ok(CountKeyPart::Consumer),
        ("address", None) => Ok(CountKeyPart::Address),
        ("route", None) => Ok(CountKeyPart::Route),
        ("host", None) => Ok(CountKeyPart::Host),
        ("path", None) => Ok(CountKeyPart::Path),
        ("method", None) => Ok(CountKeyPart::Method),
        ("header", Some(name)) => Ok(CountKeyPart::Header(header::name(name)?.to_ascii_lowercase())),
        ("cookie", Some(name)) if header::is_token(name) => Ok(CountKeyPart::Cookie(name.to_owned())),
        ("cookie", Some(_)) => Err(ScalarError::new("{} does not name a cookie")),
        ("claim", Some(name)) => Ok(CountKeyPart::Claim(name.to_owned())),
        ("query", Some(name)) => Ok(CountKeyPart::Query(name.to_owned())),
        ("header" | "claim" | "cookie" | "query", None) => {
            Err(ScalarError::new("{} needs a name").suggest(format!("write `{text} NAME`")))
        }
        (
            "ip"
            | "client"
            | "client_ip"
            | "source_ip"
            | "client_address"
            | "remote_addr"
            | "$binary_remote_addr",
            None,
        ) => Err(ScalarError::new("{} is not supported here").help("write `address`")),
        ("user" | "credential" | "api_key" | "key", None) => {
            Err(ScalarError::new("{} is not supported here").help("write `consumer`"))
        }
        ("uri" | "url", None) => Err(ScalarError::new("{} is not supported here").help("write `path`")),
        (word, None)
            if word.split_once([':', '=']).is_some_and(|(kind, name)| {
                matches!(kind, "header" | "claim" | "cookie" | "query") && !name.is_empty()
            }) =>
        {
            Err(ScalarError::new("{} is not a key that requests can be counted by")
                .suggest(format!("write `{}`", word.replacen([':', '='], " ", 1))))
        }
        ("all" | "consumer" | "address" | "route" | "host" | "path" | "method", Some(_)) => {
            Err(ScalarError::new("{} takes no name").suggest(format!("write `{word}`")))
        }
        _ => {
            let fault = ScalarError::new("{} is not a key that requests can be counted by");
            Err(match suggest::nearest(word, WORDS.into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault,
            })
        }
    }
}
