//! Reads `api_key`.

use super::credential::places;
use super::shared::{header_name, is_off, optional};
use crate::model::{ApiKey, CredentialSource};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{ScalarError, field as header};
use crate::section::Section;
use crate::sections::IdentityHeaders;
use crate::spec::API_KEY_POLICY;

pub(super) fn api_key(reader: &mut Reader, field: Field<'_>) -> Option<ApiKey> {
    let mut out = ApiKey::default();
    let Some(fields) = optional(reader, field, &API_KEY_POLICY)? else { return Some(out) };
    out.from = match places(reader, &fields, &["header", "query"], false) {
        Some(places) => places,
        None => usual_places(reader, field, &fields),
    };
    reader.switch(fields.get("forward"), &mut out.forward);
    reader.switch(fields.get("optional"), &mut out.optional);
    out.identity = IdentityHeaders::read_keys(reader, &fields).unwrap_or_default();
    Some(out)
}

/// Reads the places given by `header` and `query`.
fn usual_places(reader: &mut Reader, at: Field<'_>, fields: &Fields<'_>) -> Vec<CredentialSource> {
    let mut header = Some("X-Api-Key".to_owned());
    header_name(reader, fields.get("header"), &mut header);
    let query = fields.get("query").filter(|field| !is_off(*field));
    let query = query.and_then(|field| reader.field(field, parameter));
    if header.is_none() && query.is_none() {
        let problem = Problem::error(at.at, "`api_key` has no place to look for the key");
        reader.problems.push(problem.expected("a name for `header` or `query`"));
    }
    let header = header.map(|name| CredentialSource::Header { name, prefix: None });
    header.into_iter().chain(query.map(CredentialSource::Query)).collect()
}

pub(super) fn parameter(text: &str) -> Result<String, ScalarError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) && header::is_token(text) {
        true => Ok(text.to_owned()),
        false => {
            Err(ScalarError::new("{} is not the name of a parameter")
                .help("letters, digits, `.`, `_`, `~`, `-`"))
        }
    }
}
