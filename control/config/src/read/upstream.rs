//! Reads `upstreams`: names, endpoints and policies. Each group of settings has a module of its own.

use std::net::IpAddr;

use super::{policies, timeouts, tls};
use crate::model::{Policies, Pool, RouteTimeouts, Rules, Spanned, Upstream};
use crate::problem::Problem;
use crate::read::Draft;
use crate::read::draft::PerTryTimeout;
use crate::reader::{Field, Fields, Reader, misnamed, misspelt};
use crate::scalar::{ScalarError, address};
use crate::section::Value;
use crate::spec::{ROOT, Shape, UPSTREAM};
use crate::tree::{Node, NodeKind, shown};

mod balance;
mod conflicts;
mod discover;
mod endpoints;
mod failure;
mod health;
mod proxy_protocol;

pub(crate) use conflicts::check_zones;
pub(crate) use endpoints::endpoints;
pub(super) use endpoints::{weights, zone};
pub(crate) use failure::check_per_try;
pub(super) use failure::{retry, wait};

/// Reads `upstreams` of a file.
pub(super) fn upstreams(reader: &mut Reader, field: Field<'_>, draft: &mut Draft) {
    let NodeKind::Map(entries) = &field.node.kind else {
        draft.upstreams_may_be_missing = true;
        let problem = Problem::error(field.node.at, format!("`upstreams` cannot be {}", field.node.noun()));
        reader.problems.push(
            problem
                .expected("a mapping of names to endpoints")
                .help("write each upstream as `name: [10.0.0.1:8080, 10.0.0.2:8080]`"),
        );
        return;
    };
    for entry in entries {
        if let Err(fault) = address::upstream(&entry.key) {
            reader.problems.push(misnamed(entry.at, &entry.key, fault));
        }
        if let Some(first) = draft.upstream_names.get(&entry.key) {
            let problem = Problem::error(entry.at, format!("two upstreams are named {}", shown(&entry.key)));
            reader.problems.push(problem.related(*first, "first written here"));
            continue;
        }
        draft.upstream_names.insert(entry.key.clone(), entry.at);
        let name = Spanned { value: entry.key.clone(), at: entry.at };
        if let Some(upstream) = upstream(reader, name, &entry.value, field, &mut draft.per_try_timeouts) {
            draft.config.upstreams.push(upstream);
        }
    }
}

/// Reads an upstream from a document, which is the value under the upstream's name in a file.
pub(crate) fn document(reader: &mut Reader, name: &str, node: &Node, draft: &mut Draft) {
    if let Err(fault) = address::upstream(name) {
        reader.problems.push(misnamed(node.at, name, fault));
    }
    let Some(key) = ROOT.keys.iter().find(|key| key.name == "upstreams") else { return };
    let name = Spanned { value: name.to_owned(), at: node.at };
    let field = Field { key, at: node.at, node };
    draft.config.upstreams.extend(upstream(reader, name, node, field, &mut draft.per_try_timeouts));
}

fn upstream(
    reader: &mut Reader,
    name: Spanned<String>,
    node: &Node,
    field: Field<'_>,
    per_try_timeouts: &mut Vec<PerTryTimeout>,
) -> Option<Upstream> {
    let mut out = Upstream {
        name,
        endpoints: Vec::new(),
        discover: None,
        timeouts: RouteTimeouts::default(),
        pool: Pool::default(),
        tls: None,
        http2: None,
        proxy_protocol: None,
        rules: Rules::default(),
        policies: Policies::default(),
    };
    if node.is_null() {
        let inner = if let Shape::MapOf(inner) = field.key.shape { inner } else { &field.key.shape };
        reader.missing(
            out.name.at,
            format!("the upstream {} has no endpoints", shown(&out.name.value)),
            inner,
        );
        return None;
    }
    if !matches!(node.kind, NodeKind::Map(_)) {
        out.endpoints = endpoints::endpoints(reader, node, true);
        return Some(out);
    }
    let start = reader.problems.len();
    let fields = reader.fields(node, &UPSTREAM)?;
    if let Some(field) = fields.get("discover") {
        out.discover = discover::discover(reader, field);
    }
    match fields.get("endpoints") {
        Some(field) => {
            out.endpoints = endpoints::endpoints(reader, field.node, fields.get("discover").is_none());
        }
        None => no_endpoints(reader, node, &fields),
    }
    if let Some(field) = fields.get("timeouts") {
        out.timeouts = timeouts::of_upstream(reader, field);
    }
    if let Some(field) = fields.get("pool") {
        out.pool = reader.section(field).unwrap_or_default();
    }
    if let Some(field) = fields.get("source_address") {
        out.pool.source =
            reader.field(field, |text| {
                let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
                match text.parse::<IpAddr>() {
                    Ok(address) if !address.is_unspecified() && !address.is_multicast() => Ok(address),
                    _ => Err(ScalarError::new("{} is not an IP address of a machine")
                        .help("write it without a port")),
                }
            });
    }
    if let Some(field) = fields.get("tls") {
        out.tls = tls::upstream(reader, field);
        tls::check_schemes(reader, &out);
    }
    if let Some(field) = fields.get("http2") {
        out.http2 = endpoints::http2(reader, field, &out.endpoints);
    }
    if let Some(field) = fields.get("proxy_protocol") {
        out.proxy_protocol = proxy_protocol::proxy_protocol(reader, field, &fields, &out);
    }
    out.policies = policies::policies(reader, fields.get("policies"));
    rules(reader, &fields, &mut out.rules);
    // A conflict cannot be judged while one of the values is invalid.
    if !reader.has_errors_since(start) {
        conflicts::of_upstream(reader, &fields, &out);
    }
    per_try_timeouts.extend(failure::wait(&fields, out.rules.retry.per_try, out.timeouts.total));
    Some(out)
}

fn rules(reader: &mut Reader, fields: &Fields<'_>, out: &mut Rules) {
    if let Some(field) = fields.get("balance") {
        out.balance = balance::balance(reader, field);
    }
    if let Some(field) = fields.get("limits") {
        out.caps = reader.section(field).unwrap_or_default();
    }
    if let Some(field) = fields.get("queue") {
        out.queue = Value::read(reader, field).unwrap_or_default();
    }
    if let Some(field) = fields.get("breaker") {
        out.breaker = failure::breaker(reader, field);
    }
    if let Some(field) = fields.get("retry") {
        out.retry = failure::retry(reader, field);
    }
    if let Some(field) = fields.get("hedge") {
        out.hedge = failure::hedge(reader, field);
    }
    if let Some(field) = fields.get("health") {
        out.health = health::health(reader, field);
    }
    if let Some(field) = fields.get("outlier") {
        out.outlier = health::outlier(reader, field);
    }
    if let Some(field) = fields.get("adaptive") {
        out.adaptive = Value::read(reader, field).unwrap_or_default();
    }
}

/// Reports an upstream with neither endpoints nor discovery.
fn no_endpoints(reader: &mut Reader, node: &Node, fields: &Fields<'_>) {
    let NodeKind::Map(entries) = &node.kind else { return };
    let given =
        |name: &str| entries.iter().any(|entry| entry.key == name) || misspelt(entries, &UPSTREAM, name);
    if !given("endpoints") && !given("discover") {
        let Some(key) = fields.key("endpoints") else { return };
        reader.missing(node.at, "an upstream has no `endpoints`".to_owned(), &key.shape);
    }
}
