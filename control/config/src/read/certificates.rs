//! Reads `certificates`: for several listeners, in addition to the listeners' own.

use std::net::{IpAddr, Ipv6Addr};

use super::named::named;
use super::{Draft, tls};
use crate::model::{At, NamedCertificate, Spanned};
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::address;
use crate::spec::NAMED_CERTIFICATE;
use crate::tree::Node;

use super::consumers::one;

/// Reads certificates by name.
pub(super) fn certificates(reader: &mut Reader, field: Option<Field<'_>>) -> Vec<NamedCertificate> {
    named(reader, field, certificate)
}

/// Reads a certificate from a document.
pub(crate) fn document(reader: &mut Reader, name: &str, node: &Node, draft: &mut Draft) {
    draft.config.certificates.extend(certificate(reader, name, node.at, node));
}

fn certificate(reader: &mut Reader, name: &str, at: At, node: &Node) -> Option<NamedCertificate> {
    let fields = reader.fields(node, &NAMED_CERTIFICATE)?;
    let all = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let mut listeners = Vec::new();
    if let Some(field) = fields.get("listeners") {
        for item in one_or_many(field.node) {
            let bind = reader.parsed(item, "a listener", one(field), |text| address::bind(text, all));
            listeners.extend(bind.map(|value| Spanned { value, at: item.at }));
        }
        if one_or_many(field.node).is_empty() {
            reader.missing(field.node.at, "`listeners` is an empty list".to_owned(), &field.key.shape);
        }
    }
    let certificate = tls::certificate_or_text(reader, &fields)?;
    Some(NamedCertificate { name: Spanned { value: name.to_owned(), at }, certificate, listeners })
}
