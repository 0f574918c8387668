//! `policies`: one file a policy.

use std::sync::Arc;

use crate::model::{Attached, Policies, PolicyKind, PolicySpec};
use crate::reader::{Field, Reader};
use crate::spec::POLICIES;
use crate::tree::Scalar;

mod by;
mod concurrency;
mod fault;
mod headers;
mod ip;
mod quota;
mod rate_limit;
mod redis;

/// The policies of the gateway, a listener, a route or an upstream.
pub(super) fn policies(reader: &mut Reader, field: Option<Field<'_>>) -> Policies {
    let mut out = Policies::default();
    let Some(fields) = field.and_then(|field| reader.fields(field.node, &POLICIES)) else { return out };
    for kind in PolicyKind::ALL {
        let Some(field) = fields.get(kind.as_str()) else { continue };
        let spec = match field.node.scalar() {
            Some(scalar) if Scalar::is_off(scalar) => None,
            _ => match policy(reader, kind, field) {
                Some(spec) => Some(Arc::new(spec)),
                // It was reported.
                None => continue,
            },
        };
        out.list.push(Attached { kind, at: field.at, spec });
    }
    out
}

fn policy(reader: &mut Reader, kind: PolicyKind, field: Field<'_>) -> Option<PolicySpec> {
    match kind {
        PolicyKind::Ip => ip::ip(reader, field).map(PolicySpec::Ip),
        PolicyKind::RateLimit => rate_limit::rate_limit(reader, field).map(PolicySpec::RateLimit),
        PolicyKind::Quota => quota::quota(reader, field).map(PolicySpec::Quota),
        PolicyKind::Concurrency => concurrency::concurrency(reader, field).map(PolicySpec::Concurrency),
        PolicyKind::Fault => fault::fault(reader, field).map(PolicySpec::Fault),
        PolicyKind::Headers => headers::headers(reader, field).map(PolicySpec::Headers),
    }
}
