//! `api_key`.

use super::shared::{header_name, identity, is_off, optional};
use crate::model::ApiKey;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::{Fault, field as header};
use crate::spec::API_KEY_POLICY;

pub(super) fn api_key(reader: &mut Reader, field: Field<'_>) -> Option<ApiKey> {
    let mut out = ApiKey::default();
    let Some(fields) = optional(reader, field, &API_KEY_POLICY)? else { return Some(out) };
    header_name(reader, fields.get("header"), &mut out.header);
    if let Some(field) = fields.get("query").filter(|field| !is_off(*field)) {
        out.query = reader.field(field, parameter);
    }
    reader.switch(fields.get("forward"), &mut out.forward);
    out.identity = identity(reader, &fields);
    if out.header.is_none() && out.query.is_none() {
        let problem = Problem::error(field.at, "`api_key` looks for the key nowhere");
        reader.problems.push(problem.expected("a name for `header` or `query`"));
    }
    Some(out)
}

fn parameter(text: &str) -> Result<String, Fault> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) && header::is_token(text) {
        true => Ok(text.to_owned()),
        false => {
            Err(Fault::new("{} is not the name of a parameter").help("letters, digits, `.`, `_`, `~`, `-`"))
        }
    }
}
