//! Reads `mirror`.

use std::time::Duration;

use super::shared::{is_off, own_header};
use crate::model::Mirror;
use crate::model::Percent;
use crate::reader::{Field, Reader};
use crate::scalar::{address, field as header};
use crate::spec::MIRROR_POLICY;

pub(super) fn mirror(reader: &mut Reader, field: Field<'_>) -> Option<Mirror> {
    let fields = reader.fields(field.node, &MIRROR_POLICY)?;
    let (mut percent, mut body, mut in_flight) = (Percent::ALL, 64 * 1024, 100);
    reader.number_into(fields.get("percent"), &mut percent);
    reader.number_into(fields.get("body"), &mut body);
    reader.number_into(fields.get("in_flight"), &mut in_flight);
    let mut timeout = Duration::from_secs(5);
    reader.time_into(fields.get("timeout"), &mut timeout);
    let header = match fields.get("header") {
        None => Some("Tollgate-Shadow".to_owned()),
        Some(field) if is_off(field) => None,
        Some(field) => reader.field(field, own_header),
    };
    let host = fields.get("host").and_then(|field| reader.field(field, header::value));
    let to = reader.spanned(fields.get("to")?, address::upstream)?;
    Some(Mirror { to, percent, body, in_flight, timeout, header, host })
}
