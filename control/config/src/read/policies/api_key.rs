//! `api_key`, and what policies share that say who somebody is.

use crate::model::{ApiKey, IdentityHeaders};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{Fault, field as header};
use crate::spec::API_KEY_POLICY;
use crate::tree::Scalar;

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

/// `on`, or a mapping. `Some(None)`: `on`.
pub(super) fn optional<'t>(
    reader: &mut Reader,
    field: Field<'t>,
    section: &'static crate::spec::Section,
) -> Option<Option<Fields<'t>>> {
    match reader.setting(field, section)? {
        crate::reader::Setting::Fields(fields) => Some(Some(fields)),
        crate::reader::Setting::On | crate::reader::Setting::Off => Some(None),
    }
}

pub(super) fn is_off(field: Field<'_>) -> bool {
    field.node.scalar().is_some_and(Scalar::is_off)
}

/// The name of a field of requests that policies may write, or `off`.
pub(super) fn header_name(reader: &mut Reader, field: Option<Field<'_>>, out: &mut Option<String>) {
    let Some(field) = field else { return };
    if is_off(field) {
        *out = None;
    } else if let Some(name) = reader.field(field, own_header) {
        *out = Some(name);
    }
}

/// The name of a field that a policy may read and write.
pub(super) fn own_header(text: &str) -> Result<String, Fault> {
    super::headers::name(text, true)
}

/// The fields that tell who somebody is.
pub(super) fn identity(reader: &mut Reader, fields: &Fields<'_>) -> IdentityHeaders {
    let mut out = IdentityHeaders::default();
    header_name(reader, fields.get("consumer_header"), &mut out.consumer);
    header_name(reader, fields.get("groups_header"), &mut out.groups);
    out
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
