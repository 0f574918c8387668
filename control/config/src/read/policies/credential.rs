//! Reads the places where a credential may be.

use super::api_key::parameter;
use crate::model::CredentialSource;
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader, one_or_many};
use crate::scalar::ScalarError;
use crate::sections::policies::{cookie, own_header};
use crate::spec::CREDENTIAL_PLACE;
use crate::tree::Node;

/// Reads the places of `from`; `None` if the key is missing. The keys in `others` exclude it. With `bearer`,
/// the default prefix of `Authorization` is `Bearer`.
pub(super) fn places(
    reader: &mut Reader,
    fields: &Fields<'_>,
    others: &[&str],
    bearer: bool,
) -> Option<Vec<CredentialSource>> {
    let field = fields.get("from")?;
    for name in others {
        if let Some(other) = fields.get(name) {
            let problem = Problem::error(other.at, format!("`{name}` and `from` exclude each other"));
            reader.problems.push(problem.related(field.at, "`from` is here"));
        }
    }
    let items = reader.bounded_items(field.node, "`from`");
    let mut out: Vec<CredentialSource> = Vec::new();
    for item in items {
        let Some(place) = place(reader, item, bearer) else { continue };
        if out.iter().any(|known| is_same(known, &place)) {
            let problem = Problem::error(item.at, "this place is listed twice");
            reader.problems.push(problem.help("one field cannot have two prefixes"));
            continue;
        }
        out.push(place);
    }
    if one_or_many(field.node).is_empty() {
        reader.missing(field.node.at, "`from` is an empty list".to_owned(), &field.key.shape);
    }
    Some(out)
}

/// Compares two places; names of fields are case-insensitive.
fn is_same(one: &CredentialSource, two: &CredentialSource) -> bool {
    match (one, two) {
        (CredentialSource::Header { name: one, .. }, CredentialSource::Header { name: two, .. }) => {
            one.eq_ignore_ascii_case(two)
        }
        _ => one == two,
    }
}

fn place(reader: &mut Reader, node: &Node, bearer: bool) -> Option<CredentialSource> {
    let fields = reader.fields(node, &CREDENTIAL_PLACE)?;
    if let Some(field) = fields.get("header") {
        let name = reader.field(field, own_header)?;
        let usual = || (bearer && name.eq_ignore_ascii_case("authorization")).then(|| "Bearer".to_owned());
        let prefix = match fields.get("prefix") {
            Some(field) => Some(reader.field(field, prefix)?),
            None => usual(),
        };
        return Some(CredentialSource::Header { name, prefix });
    }
    if let Some(field) = fields.get("prefix") {
        reader.problems.push(Problem::error(field.at, "`prefix` goes with `header`"));
    }
    let mut named = |name, parse: fn(&str) -> Result<String, ScalarError>| {
        let field: Field<'_> = fields.get(name)?;
        reader.field(field, parse)
    };
    let cookie = named("cookie", cookie).map(CredentialSource::Cookie);
    cookie.or_else(|| named("query", parameter).map(CredentialSource::Query))
}

/// Parses the text before a credential. Trailing blanks are dropped, as YAML drops them from unquoted text.
fn prefix(text: &str) -> Result<String, ScalarError> {
    let text = text.trim_end();
    let plain = |c: char| c.is_ascii_graphic() || c == ' ';
    match !text.is_empty() && !text.starts_with(' ') && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not a valid prefix of a credential")
            .help("printable ASCII, such as `Bearer`")),
    }
}
