//! Parses a token: a header, a payload with claims, and a signature (RFC 7515, RFC 7519). A [`Token`] is not
//! verified; `jwt` does that before it trusts the claims.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Algorithm;

/// The maximum length of a token in bytes.
pub(crate) const TOKEN_MAX_BYTES: usize = 16 << 10;
/// The maximum nesting depth of claims.
const NESTING_MAX: usize = 8;

/// The header of a token. Other members are ignored: a token never selects the source of a key.
#[derive(Debug, Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// A parsed token whose signature is not verified yet.
#[derive(Debug)]
pub(crate) struct Token<'t> {
    /// The algorithm of the signature.
    pub algorithm: Algorithm,
    /// The id of the key.
    pub key: Option<String>,
    /// The signed bytes: the header and the payload.
    pub message: &'t [u8],
    /// The signature.
    pub tag: Vec<u8>,
    payload: &'t [u8],
}

impl<'t> Token<'t> {
    /// Splits a token and decodes its header and signature.
    ///
    /// # Errors
    /// The defect of the token.
    pub fn new(text: &'t [u8]) -> Result<Self, &'static str> {
        if text.len() > TOKEN_MAX_BYTES {
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
        let header: TokenHeader =
            serde_json::from_slice(&decoded(header)?).map_err(|_| "the token's header is not one")?;
        if header.crit.is_some() {
            // RFC 7515, 4.1.11: all extensions that `crit` names must be understood, and none are supported.
            return Err("the token's header has `crit`");
        }
        let algorithm =
            Algorithm::of(&header.alg).ok_or("the token is signed by an algorithm that is not taken")?;
        Ok(Self { algorithm, key: header.kid, message, tag: decoded(tag)?, payload })
    }

    /// Returns the claims. They are trustworthy only after the signature was verified.
    ///
    /// # Errors
    /// When the payload is not a JSON object.
    pub fn claims(&self) -> Result<Map<String, Value>, &'static str> {
        let decoded =
            BASE64_URL_SAFE_NO_PAD.decode(self.payload).map_err(|_| "the token is not base64url")?;
        serde_json::from_slice(&decoded).map_err(|_| "the token's claims are not an object")
    }
}

/// Flattens claims into names and values: `a.b` is `b` in `a`, and each element of a list becomes one value.
pub(crate) fn flat(claims: &Map<String, Value>) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for (name, value) in claims {
        flatten(name, value, NESTING_MAX, &mut out);
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
