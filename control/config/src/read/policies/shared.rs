//! Readers that several policies share.

use crate::model::{AuthBody, IdentityHeaders};
use crate::reader::{Field, Fields, Reader, Setting};
use crate::scalar::{ScalarError, quantity};
use crate::sections::policies::own_header;
use crate::spec::SectionSpec;
use crate::tree::{NodeKind, Scalar};

/// Reads `on` or a mapping. `Some(None)` is `on`.
pub(super) fn optional<'t>(
    reader: &mut Reader,
    field: Field<'t>,
    section: &'static SectionSpec,
) -> Option<Option<Fields<'t>>> {
    match reader.setting(field, section)? {
        Setting::Fields(fields) => Some(Some(fields)),
        Setting::On | Setting::Off => Some(None),
    }
}

pub(super) fn is_off(field: Field<'_>) -> bool {
    field.node.scalar().is_some_and(Scalar::is_off)
}

/// Reads how much of a request's body an authorization service receives: a size, or a mapping.
pub(super) fn body(reader: &mut Reader, field: Field<'_>, section: &'static SectionSpec) -> Option<AuthBody> {
    let mut out = AuthBody { max: 0, partial: false, as_bytes: false };
    if matches!(field.node.kind, NodeKind::Map(_)) {
        let fields = reader.fields(field.node, section)?;
        reader.number_into(fields.get("max"), &mut out.max);
        reader.switch(fields.get("partial"), &mut out.partial);
        if fields.key("as_bytes").is_some() {
            reader.switch(fields.get("as_bytes"), &mut out.as_bytes);
        }
        return Some(out);
    }
    if is_off(field) {
        return None;
    }
    let max = reader.field(field, |text| quantity::size(text, 1, 16 << 20))?;
    out.max = usize::try_from(max).ok()?;
    Some(out)
}

/// Parses the URL of a service.
pub(in crate::read) fn url(text: &str) -> Result<String, ScalarError> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Err(ScalarError::new("{} is not an `http` or `https` URL"));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let odd = |c: char| !c.is_ascii_graphic() || "\"<>\\^`{|}#".contains(c);
    if authority.is_empty() || authority.contains('@') || text.chars().any(odd) {
        return Err(ScalarError::new("{} is not a valid URL").help("`https://host:port/path`"));
    }
    // The client that requests the URL needs a path.
    Ok(if path.is_empty() { format!("{text}/") } else { text.to_owned() })
}

/// Reads the fields that tell the upstream which consumer it is.
pub(super) fn identity(reader: &mut Reader, fields: &Fields<'_>) -> IdentityHeaders {
    let mut out = IdentityHeaders::default();
    header_name(reader, fields.get("consumer_header"), &mut out.consumer);
    header_name(reader, fields.get("groups_header"), &mut out.groups);
    out
}

/// Reads the name of a request field that policies may write, or `off`.
pub(super) fn header_name(reader: &mut Reader, field: Option<Field<'_>>, out: &mut Option<String>) {
    let Some(field) = field else { return };
    if is_off(field) {
        *out = None;
    } else if let Some(name) = reader.field(field, own_header) {
        *out = Some(name);
    }
}

/// Reads the name of a limit or quota.
pub(super) fn limit_name(reader: &mut Reader, fields: &Fields<'_>) -> Option<String> {
    reader.field(fields.get("name")?, |text| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte);
        if text.is_empty() || text.len() > 64 || !text.bytes().all(fits) {
            return Err(ScalarError::new("{} is not a valid name"));
        }
        Ok(text.to_owned())
    })
}
