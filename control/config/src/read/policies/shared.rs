//! Readers that several policies share.

use crate::reader::{Field, Fields, Reader, Setting};
use crate::scalar::ScalarError;
use crate::sections::policies::own_header;
use crate::spec::SectionSpec;
use crate::tree::Scalar;

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
