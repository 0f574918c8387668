//! What requests are told apart by.

use crate::model::By;
use crate::reader::{Fields, Reader};
use crate::scalar::{Fault, field as header};
use crate::suggest;

/// The words that need no name, and those that do.
const WORDS: [&str; 8] = ["all", "consumer", "address", "route", "header", "claim", "cookie", "query"];

/// `by` of a policy.
pub(super) fn by(reader: &mut Reader, fields: &Fields<'_>) -> By {
    fields.get("by").and_then(|field| reader.field(field, parse)).unwrap_or_default()
}

fn parse(text: &str) -> Result<By, Fault> {
    let (word, name) = match text.split_once(' ') {
        Some((word, name)) => (word, Some(name.trim())),
        None => (text, None),
    };
    match (word, name) {
        ("all", None) => Ok(By::All),
        ("consumer", None) => Ok(By::Consumer),
        ("address", None) => Ok(By::Address),
        ("route", None) => Ok(By::Route),
        ("header", Some(name)) => Ok(By::Header(header::name(name)?.to_ascii_lowercase())),
        ("cookie", Some(name)) if header::is_token(name) => Ok(By::Cookie(name.to_owned())),
        ("cookie", Some(_)) => Err(Fault::new("{} does not name a cookie")),
        ("claim", Some(name)) => Ok(By::Claim(name.to_owned())),
        ("query", Some(name)) => Ok(By::Query(name.to_owned())),
        ("header" | "claim" | "cookie" | "query", None) => {
            Err(Fault::new("{} does not say which").suggest(format!("write `{text} NAME`")))
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
        ) => Err(Fault::new("{} is not known here").help("write `address`")),
        ("user" | "credential" | "api_key" | "key", None) => {
            Err(Fault::new("{} is not known here").help("write `consumer`"))
        }
        ("all" | "consumer" | "address" | "route", Some(_)) => {
            Err(Fault::new("{} says too much").suggest(format!("write `{word}`")))
        }
        _ => {
            let fault = Fault::new("{} is nothing to tell requests apart by");
            Err(match suggest::nearest(word, WORDS.into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault,
            })
        }
    }
}
