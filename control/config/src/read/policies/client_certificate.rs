//! Reads `client_certificate`.

use super::shared::{identity, optional};
use crate::model::ClientCertificate;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::sections::consumers::{certificate_name, texts};
use crate::spec::CLIENT_CERTIFICATE_POLICY;

pub(super) fn client_certificate(reader: &mut Reader, field: Field<'_>) -> Option<ClientCertificate> {
    let mut out = ClientCertificate::default();
    let Some(fields) = optional(reader, field, &CLIENT_CERTIFICATE_POLICY)? else { return Some(out) };
    out.allow = texts(reader, fields.get("allow"), certificate_name);
    // An empty `allow` would otherwise admit every certificate.
    if let Some(field) = fields.get("allow").filter(|_| out.allow.is_empty() && reader.complete) {
        reader.problems.push(
            Problem::error(field.at, "`allow` has no certificate")
                .help("remove it to admit every verified certificate"),
        );
    }
    reader.switch(fields.get("optional"), &mut out.optional);
    out.identity = identity(reader, &fields);
    Some(out)
}
