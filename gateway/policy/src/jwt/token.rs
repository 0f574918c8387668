//! A token: three parts, of which the first says how it is signed and the second what it says (RFC 7515, 7519).

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Algorithm;

/// The longest token that is looked at, in bytes.
pub(crate) const LONGEST: usize = 16 << 10;
/// How deep claims are looked into.
const DEPTH: usize = 8;

/// What a token's first part says. What else is there counts for nothing: no key is taken from where a token says.
#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// A token, not verified yet.
#[derive(Debug)]
pub(crate) struct Token<'t> {
    /// How it is signed.
    pub algorithm: Algorithm,
    /// The name of its key.
    pub key: Option<String>,
    /// What is signed.
    pub message: &'t [u8],
    /// The signature.
    pub tag: Vec<u8>,
    payload: &'t [u8],
}

impl<'t> Token<'t> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &'t [u8]) -> Result<Self, &'static str> {
        if text.len() > LONGEST {
            return Err("the token is longer than 16 KiB");
        }
        let mut parts = text.split(|byte| *byte == b'.');
        let (Some(header), Some(payload), Some(tag), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("the token has not three parts");
        };
        let message = &text[..header.len() + 1 + payload.len()];
        let decoded =
            |part: &[u8]| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| "the token is not base64url");
        let header: Header =
            serde_json::from_slice(&decoded(header)?).map_err(|_| "the token's header is not one")?;
        if header.crit.is_some() {
            // RFC 7515, 4.1.11: what it names has to be understood, and none of it is.
            return Err("the token's header has `crit`");
        }
        let algorithm =
            Algorithm::of(&header.alg).ok_or("the token is signed by an algorithm that is not taken")?;
        Ok(Self { algorithm, key: header.kid, message, tag: decoded(tag)?, payload })
    }

    /// What it says; to be asked when its signature was verified.
    ///
    /// # Errors
    /// When it is not an object.
    pub fn claims(&self) -> Result<Map<String, Value>, &'static str> {
        let decoded =
            BASE64_URL_SAFE_NO_PAD.decode(self.payload).map_err(|_| "the token is not base64url")?;
        serde_json::from_slice(&decoded).map_err(|_| "the token's claims are not an object")
    }
}

/// What a token says, as names and values: `a.b` is `b` in `a`, and a list is as many values of its name.
pub(crate) fn flat(claims: &Map<String, Value>) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for (name, value) in claims {
        flatten(name, value, DEPTH, &mut out);
    }
    out
}

fn flatten(name: &str, value: &Value, depth: usize, out: &mut Vec<(String, String)>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push((name.to_owned(), value.to_string())),
        Value::Number(value) => out.push((name.to_owned(), value.to_string())),
        Value::String(value) => out.push((name.to_owned(), value.clone())),
        Value::Array(values) => values.iter().for_each(|value| flatten(name, value, depth, out)),
        Value::Object(values) => {
            values.iter().for_each(|(key, value)| flatten(&format!("{name}.{key}"), value, depth, out));
        }
    }
}
