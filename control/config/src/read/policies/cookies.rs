//! Reads `cookies`.

use super::shared::{cookie, is_off};
use crate::model::Cookies;
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{ScalarError, field as header};
use crate::spec::{COOKIES_POLICY, Shape};

pub(super) fn cookies(reader: &mut Reader, field: Field<'_>) -> Option<Cookies> {
    let fields = reader.fields(field.node, &COOKIES_POLICY)?;
    let same_site = reader.word(fields.get("same_site")).map(|word| match word {
        "strict" => Some("Strict".to_owned()),
        "lax" => Some("Lax".to_owned()),
        "none" => Some("None".to_owned()),
        _ => None,
    });
    let out = Cookies {
        names: names(reader, &fields, "names"),
        remove: names(reader, &fields, "remove"),
        secure: switch(reader, &fields, "secure"),
        http_only: switch(reader, &fields, "http_only"),
        same_site,
        domain: text(reader, &fields, "domain"),
        path: text(reader, &fields, "path"),
    };
    if out == (Cookies { names: out.names.clone(), ..Cookies::default() }) {
        let problem = Problem::error(field.at, "`cookies` changes nothing");
        reader.problems.push(problem.help("write `cookies: {secure: on, same_site: lax}`"));
    }
    // Browsers reject this combination (RFC 6265bis, 5.7).
    if out.same_site == Some(Some("None".to_owned()))
        && out.secure != Some(true)
        && let Some(field) = fields.get("same_site")
    {
        let problem = Problem::error(field.at, "browsers reject `same_site: none` without `secure: on`");
        reader.problems.push(problem.help("add `secure: on`"));
    }
    Some(out)
}

fn names(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Vec<String> {
    let Some(field) = fields.get(name) else { return Vec::new() };
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let items = reader.bounded_items(field.node, &format!("`{name}`"));
    items.iter().filter_map(|item| reader.parsed(item, "a cookie", one, cookie)).collect()
}

fn switch(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<bool> {
    let field = fields.get(name)?;
    let mut on = false;
    reader.switch(Some(field), &mut on);
    Some(on)
}

/// Reads an attribute. `Some(None)` is `off`.
fn text(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<Option<String>> {
    let field = fields.get(name)?;
    if is_off(field) {
        return Some(None);
    }
    let value = |text: &str| match header::value(text)? {
        value if value.contains(';') => {
            Err(ScalarError::new("{} has a `;`, which would start another attribute"))
        }
        value => Ok(value),
    };
    reader.field(field, value).map(Some)
}
