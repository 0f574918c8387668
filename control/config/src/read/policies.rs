//! Reads `policies`; each policy has a file of its own.

use std::sync::Arc;

use super::Draft;
use super::named::named;
use crate::model::{
    At, Attached, JwtKeys, PemFile, Policies, PolicyKind, PolicySet, PolicySpec, Spanned, UsedSet,
};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader, misnamed, one_or_many};
use crate::scalar::ScalarError;
use crate::section::Value;
use crate::spec::{POLICIES, Shape};
use crate::tree::{Node, Scalar, shown};

mod aggregate;
mod any_of;
mod api_key;
mod authorize;
mod by;
mod concurrency;
mod cost;
mod credential;
mod jwt;
mod plugins;
mod quota;
mod rate_limit;
mod redis;
pub(crate) mod shared;
pub(crate) mod trace;

pub(crate) use authorize::method;

impl Value for Policies {
    const SHAPE: Shape = Shape::Section(&POLICIES);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        Some(policies(reader, Some(field)))
    }
}

/// Reads the policies of the gateway, a listener, a route or an upstream.
pub(super) fn policies(reader: &mut Reader, field: Option<Field<'_>>) -> Policies {
    let Some(fields) = field.and_then(|field| reader.fields(field.node, &POLICIES)) else {
        return Policies::default();
    };
    let sets = fields.get("use").map(|field| used(reader, field)).unwrap_or_default();
    Policies { sets, list: attached(reader, &fields) }
}

fn attached(reader: &mut Reader, fields: &Fields<'_>) -> Vec<Attached> {
    let mut list = Vec::new();
    for kind in PolicyKind::ALL {
        let Some(field) = fields.get(kind.as_str()) else { continue };
        let spec = match field.node.scalar() {
            Some(scalar) if Scalar::is_off(scalar) => None,
            _ => match policy(reader, kind, field) {
                Some(spec) => Some(Arc::new(spec)),
                // The reader has reported the problem.
                None => continue,
            },
        };
        list.push(Attached { kind, at: field.at, spec });
    }
    list
}

/// Reads the names of used sets. A repeated name is an error.
fn used(reader: &mut Reader, field: Field<'_>) -> Vec<UsedSet> {
    let one = if let Shape::OneOrMany(inner) = field.key.shape { inner } else { &field.key.shape };
    let mut out: Vec<UsedSet> = Vec::new();
    for item in one_or_many(field.node) {
        let Some(value) = reader.parsed(item, "the name of a set", one, name) else { continue };
        let written = item.scalar().and_then(|scalar| scalar.written.clone());
        if let Some(first) = out.iter().find(|set| set.name.value == value) {
            let message = format!("the set {} is used twice", shown(written.as_ref().unwrap_or(&value)));
            reader
                .problems
                .push(Problem::error(item.at, message).related(first.name.at, "first written here"));
            continue;
        }
        out.push(UsedSet { name: Spanned { value, at: item.at }, written });
    }
    if one_or_many(field.node).is_empty() {
        reader.missing(field.node.at, "`use` is an empty list".to_owned(), &field.key.shape);
    }
    out
}

/// Reads policy sets by name.
pub(super) fn sets(reader: &mut Reader, field: Option<Field<'_>>) -> Vec<PolicySet> {
    named(reader, field, set)
}

/// Reads a policy set from a document.
pub(crate) fn document(reader: &mut Reader, name: &str, node: &Node, draft: &mut Draft) {
    draft.config.policy_sets.extend(set(reader, name, node.at, node));
}

fn set(reader: &mut Reader, text: &str, at: At, node: &Node) -> Option<PolicySet> {
    if let Err(fault) = name(text) {
        reader.problems.push(misnamed(at, text, fault));
        return None;
    }
    let fields = reader.fields(node, &POLICIES)?;
    if let Some(field) = fields.get("use") {
        // Nested sets would form chains or circles that readers of the configuration must follow.
        let problem = Problem::error(field.at, "a policy set cannot use other sets");
        reader.problems.push(problem.help("write both names in `use` at each place that needs them"));
    }
    let policies = Policies { sets: Vec::new(), list: attached(reader, &fields) };
    Some(PolicySet { name: Spanned { value: text.to_owned(), at }, policies })
}

/// Checks the name of a policy set or a route.
pub(super) fn name(text: &str) -> Result<String, ScalarError> {
    let odd = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' '));
    if let Some(odd) = text.chars().position(odd) {
        return Err(ScalarError::new("{} is not a name").part(odd, 1));
    }
    if text.trim() != text || text.is_empty() || text.chars().count() > 128 {
        return Err(ScalarError::new("{} is not a name")
            .help("a name has 1 to 128 characters and no blank at its ends"));
    }
    Ok(text.to_owned())
}

/// Returns the files that policies name.
pub(crate) fn files(policies: &mut Policies) -> Vec<&mut PemFile> {
    files_in(policies.list.iter_mut())
}

fn files_in<'a>(list: impl Iterator<Item = &'a mut Attached>) -> Vec<&'a mut PemFile> {
    let specs = list.filter_map(|attached| attached.spec.as_mut());
    specs
        .flat_map(|spec| if names_files(spec) { files_of(Arc::make_mut(spec)) } else { Vec::new() })
        .collect()
}

/// Returns whether a policy names files. Only then is it made mutable: the routes of one list share their
/// policies, and a mutable borrow would copy a shared one.
fn names_files(spec: &PolicySpec) -> bool {
    match spec {
        PolicySpec::Jwt(jwt) => {
            let none = |keys: &JwtKeys| matches!(keys, JwtKeys::Secret(_) | JwtKeys::Url { ca: None, .. });
            !jwt.issuers.iter().all(|issuer| none(&issuer.keys))
        }
        PolicySpec::AnyOf(any) => {
            any.alternatives.iter().flatten().any(|one| one.spec.as_deref().is_some_and(names_files))
        }
        PolicySpec::ForwardAuth(spec) => spec.ca.is_some(),
        PolicySpec::ExtAuthz(spec) => spec.ca.is_some(),
        PolicySpec::Trace(spec) => spec.collector.ca.is_some(),
        _ => false,
    }
}

fn files_of(spec: &mut PolicySpec) -> Vec<&mut PemFile> {
    match spec {
        PolicySpec::Jwt(jwt) => {
            let keys = jwt.issuers.iter_mut().map(|issuer| &mut issuer.keys);
            keys.filter_map(|keys| match keys {
                JwtKeys::File(file) => Some(file),
                JwtKeys::Url { ca, .. } => ca.as_mut(),
                JwtKeys::Secret(_) => None,
            })
            .collect()
        }
        PolicySpec::AnyOf(any) => files_in(any.alternatives.iter_mut().flatten()),
        PolicySpec::ForwardAuth(spec) => spec.ca.iter_mut().collect(),
        PolicySpec::ExtAuthz(spec) => spec.ca.iter_mut().collect(),
        PolicySpec::Trace(spec) => spec.collector.ca.iter_mut().collect(),
        _ => Vec::new(),
    }
}

fn policy(reader: &mut Reader, kind: PolicyKind, field: Field<'_>) -> Option<PolicySpec> {
    match kind {
        PolicyKind::Trace => trace::trace(reader, field).map(Box::new).map(PolicySpec::Trace),
        PolicyKind::Ip => Value::read(reader, field).map(PolicySpec::Ip),
        PolicyKind::ApiKey => api_key::api_key(reader, field).map(PolicySpec::ApiKey),
        PolicyKind::ClientCertificate => Value::read(reader, field).map(PolicySpec::ClientCertificate),
        PolicyKind::Basic => Value::read(reader, field).map(PolicySpec::Basic),
        PolicyKind::ExtAuthz => Value::read(reader, field).map(Box::new).map(PolicySpec::ExtAuthz),
        PolicyKind::ForwardAuth => Value::read(reader, field).map(Box::new).map(PolicySpec::ForwardAuth),
        PolicyKind::Hmac => Value::read(reader, field).map(Box::new).map(PolicySpec::Hmac),
        PolicyKind::Jwt => jwt::jwt(reader, field).map(Box::new).map(PolicySpec::Jwt),
        PolicyKind::AnyOf => any_of::any_of(reader, field).map(PolicySpec::AnyOf),
        PolicyKind::Authorize => authorize::authorize(reader, field).map(PolicySpec::Authorize),
        PolicyKind::RateLimit => rate_limit::rate_limit(reader, field).map(PolicySpec::RateLimit),
        PolicyKind::Quota => quota::quota(reader, field).map(PolicySpec::Quota),
        PolicyKind::Concurrency => concurrency::concurrency(reader, field).map(PolicySpec::Concurrency),
        PolicyKind::Fault => Value::read(reader, field).map(PolicySpec::Fault),
        PolicyKind::Intercept => Value::read(reader, field).map(PolicySpec::Intercept),
        PolicyKind::Canary => Value::read(reader, field).map(PolicySpec::Canary),
        PolicyKind::Cors => Value::read(reader, field).map(PolicySpec::Cors),
        PolicyKind::Mirror => Value::read(reader, field).map(PolicySpec::Mirror),
        PolicyKind::SecurityHeaders => Value::read(reader, field).map(PolicySpec::SecurityHeaders),
        PolicyKind::Compression => Value::read(reader, field).map(PolicySpec::Compression),
        PolicyKind::Aggregate => aggregate::aggregate(reader, field).map(PolicySpec::Aggregate),
        PolicyKind::Plugins => plugins::plugins(reader, field).map(PolicySpec::Plugins),
        PolicyKind::Decompression => Value::read(reader, field).map(PolicySpec::Decompression),
        PolicyKind::Query => Value::read(reader, field).map(PolicySpec::Query),
        PolicyKind::Cookies => Value::read(reader, field).map(PolicySpec::Cookies),
        PolicyKind::Headers => Value::read(reader, field).map(PolicySpec::Headers),
    }
}
