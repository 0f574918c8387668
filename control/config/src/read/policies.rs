//! `policies`: one file a policy.

use std::sync::Arc;

use crate::model::{Attached, JwtKeys, PemFile, Policies, PolicyKind, PolicySpec};
use crate::reader::{Field, Reader};
use crate::spec::POLICIES;
use crate::tree::Scalar;

mod aggregate;
mod api_key;
mod authorize;
mod basic;
mod by;
mod canary;
mod client_certificate;
mod compression;
mod concurrency;
mod cookies;
mod cors;
mod decompression;
mod ext_authz;
mod fault;
mod forward_auth;
mod headers;
mod hmac;
mod ip;
mod jwt;
mod mirror;
mod plugins;
mod query;
mod quota;
mod rate_limit;
mod redis;
mod security_headers;
pub(super) mod shared;
pub(super) mod trace;

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

/// The files that policies name.
pub(super) fn files(policies: &mut Policies) -> Vec<&mut PemFile> {
    let specs = policies.list.iter_mut().filter_map(|attached| attached.spec.as_mut());
    specs
        .flat_map(|spec| if names_files(spec) { files_of(Arc::make_mut(spec)) } else { Vec::new() })
        .collect()
}

/// Asked first: routes of one list share what is written, and part from each other when it is changed.
fn names_files(spec: &PolicySpec) -> bool {
    match spec {
        PolicySpec::Jwt(jwt) => !matches!(jwt.keys, JwtKeys::Secret(_) | JwtKeys::Url { ca: None, .. }),
        PolicySpec::ForwardAuth(spec) => spec.ca.is_some(),
        PolicySpec::ExtAuthz(spec) => spec.ca.is_some(),
        PolicySpec::Trace(spec) => spec.collector.ca.is_some(),
        _ => false,
    }
}

fn files_of(spec: &mut PolicySpec) -> Vec<&mut PemFile> {
    match spec {
        PolicySpec::Jwt(jwt) => match &mut jwt.keys {
            JwtKeys::File(file) => vec![file],
            JwtKeys::Url { ca, .. } => ca.iter_mut().collect(),
            JwtKeys::Secret(_) => Vec::new(),
        },
        PolicySpec::ForwardAuth(spec) => spec.ca.iter_mut().collect(),
        PolicySpec::ExtAuthz(spec) => spec.ca.iter_mut().collect(),
        PolicySpec::Trace(spec) => spec.collector.ca.iter_mut().collect(),
        _ => Vec::new(),
    }
}

fn policy(reader: &mut Reader, kind: PolicyKind, field: Field<'_>) -> Option<PolicySpec> {
    match kind {
        PolicyKind::Trace => trace::trace(reader, field).map(Box::new).map(PolicySpec::Trace),
        PolicyKind::Ip => ip::ip(reader, field).map(PolicySpec::Ip),
        PolicyKind::ApiKey => api_key::api_key(reader, field).map(PolicySpec::ApiKey),
        PolicyKind::ClientCertificate => {
            client_certificate::client_certificate(reader, field).map(PolicySpec::ClientCertificate)
        }
        PolicyKind::Basic => basic::basic(reader, field).map(PolicySpec::Basic),
        PolicyKind::ExtAuthz => ext_authz::ext_authz(reader, field).map(Box::new).map(PolicySpec::ExtAuthz),
        PolicyKind::ForwardAuth => {
            forward_auth::forward_auth(reader, field).map(Box::new).map(PolicySpec::ForwardAuth)
        }
        PolicyKind::Hmac => hmac::hmac(reader, field).map(Box::new).map(PolicySpec::Hmac),
        PolicyKind::Jwt => jwt::jwt(reader, field).map(Box::new).map(PolicySpec::Jwt),
        PolicyKind::Authorize => authorize::authorize(reader, field).map(PolicySpec::Authorize),
        PolicyKind::RateLimit => rate_limit::rate_limit(reader, field).map(PolicySpec::RateLimit),
        PolicyKind::Quota => quota::quota(reader, field).map(PolicySpec::Quota),
        PolicyKind::Concurrency => concurrency::concurrency(reader, field).map(PolicySpec::Concurrency),
        PolicyKind::Fault => fault::fault(reader, field).map(PolicySpec::Fault),
        PolicyKind::Canary => canary::canary(reader, field).map(PolicySpec::Canary),
        PolicyKind::Cors => cors::cors(reader, field).map(PolicySpec::Cors),
        PolicyKind::Mirror => mirror::mirror(reader, field).map(PolicySpec::Mirror),
        PolicyKind::SecurityHeaders => {
            security_headers::security_headers(reader, field).map(PolicySpec::SecurityHeaders)
        }
        PolicyKind::Compression => compression::compression(reader, field).map(PolicySpec::Compression),
        PolicyKind::Aggregate => aggregate::aggregate(reader, field).map(PolicySpec::Aggregate),
        PolicyKind::Plugins => plugins::plugins(reader, field).map(PolicySpec::Plugins),
        PolicyKind::Decompression => {
            decompression::decompression(reader, field).map(PolicySpec::Decompression)
        }
        PolicyKind::Query => query::query(reader, field).map(PolicySpec::Query),
        PolicyKind::Cookies => cookies::cookies(reader, field).map(PolicySpec::Cookies),
        PolicyKind::Headers => headers::headers(reader, field).map(PolicySpec::Headers),
    }
}
