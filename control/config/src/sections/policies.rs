//! The sections of policies, one file each.

use crate::scalar::field as header;
use crate::section::ScalarError;
use crate::suggest;

mod authorization_service;
mod basic;
mod canary;
mod client_certificate;
mod compression;
mod cookies;
mod cors;
mod decompression;
mod fault;
mod headers;
mod hmac;
mod identity;
mod intercept;
mod ip;
mod mirror;
mod query;
mod security_headers;

pub use authorization_service::{AuthBody, ExtAuthz, ForwardAuth};
pub(crate) use authorization_service::{URL, url};
pub use basic::*;
pub use canary::*;
pub use client_certificate::*;
pub use compression::*;
pub use cookies::*;
pub use cors::*;
pub use decompression::*;
pub use fault::*;
pub(crate) use headers::own_header;
pub use headers::*;
pub use hmac::*;
pub use identity::*;
pub use intercept::*;
pub use ip::*;
pub use mirror::*;
pub use query::*;
pub use security_headers::*;

/// Checks the name of a cookie: a token (RFC 6265, 4.1.1).
pub(crate) fn cookie(text: &str) -> Result<String, ScalarError> {
    match header::is_token(text) && !text.contains('*') {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not the name of a cookie")),
    }
}

/// Parses a content coding, one of `names`.
pub(crate) fn encoding(text: &str, names: &[&'static str]) -> Result<String, ScalarError> {
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    let fault = ScalarError::new("{} is not an encoding");
    Err(match suggest::nearest(text, names.iter().copied()) {
        _ if text == "brotli" => fault.suggest("did you mean `br`?"),
        Some(near) => fault.suggest(format!("did you mean `{near}`?")),
        None => fault,
    })
}
