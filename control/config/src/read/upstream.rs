//! `to`, `upstreams` and endpoints.

use super::{Reference, route};
use crate::model::{
    At, Endpoint, EndpointAddress, Pool, RouteTimeouts, Scheme, Spanned, Target, TargetKind, Upstream,
};
use crate::problem::Problem;
use crate::read::Draft;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::address;
use crate::spec::{ENDPOINT, ENDPOINT_SHAPE, POOL, Shape, TARGET, UPSTREAM};
use crate::tree::{Kind, Node, shown};

/// The `to` of a route.
pub(super) fn targets(
    reader: &mut Reader,
    field: Field<'_>,
    references: &mut Vec<Reference>,
) -> Option<Vec<Target>> {
    let items = one_or_many(field.node);
    if items.is_empty() {
        reader.missing(field.node.at, "`to` is an empty list".to_owned(), &field.key.shape);
    }
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let targets: Vec<Target> =
        items.iter().filter_map(|item| target(reader, item, one, references)).collect();
    if targets.len() == items.len() {
        weights(reader, field.node, targets.iter().map(|target| target.weight), "target");
    }
    Some(targets)
}

fn target(
    reader: &mut Reader,
    node: &Node,
    shape: &Shape,
    references: &mut Vec<Reference>,
) -> Option<Target> {
    if !matches!(node.kind, Kind::Map(_)) {
        let to = reader.parsed(node, "`to`", shape, address::target)?;
        match &to {
            TargetKind::Endpoint(endpoint) => built(reader, endpoint, node.at),
            TargetKind::Upstream(name) => references.push(reference(name, node)),
        }
        return Some(Target { to, weight: 1, at: node.at });
    }
    let fields = reader.fields(node, &TARGET)?;
    let mut weight = 1;
    reader.number_into(fields.get("weight"), &mut weight);
    if let Some(field) = fields.get("address") {
        let endpoint = reader.field(field, address::endpoint)?;
        built(reader, &endpoint, field.node.at);
        return Some(Target { to: TargetKind::Endpoint(endpoint), weight, at: field.node.at });
    }
    let field = fields.get("upstream")?;
    let name = reader.field(field, address::upstream)?;
    references.push(reference(&name, field.node));
    Some(Target { to: TargetKind::Upstream(name), weight, at: field.node.at })
}

fn reference(name: &str, node: &Node) -> Reference {
    let written = node.scalar().and_then(|scalar| scalar.written.clone());
    Reference { name: name.to_owned(), written, at: node.at }
}

/// Reports an endpoint that is written well and speaks what this gateway does not yet.
fn built(reader: &mut Reader, endpoint: &EndpointAddress, at: At) {
    let protocol = match endpoint.scheme {
        Scheme::Http => return,
        Scheme::Https => "TLS to an endpoint (`https://`)",
        Scheme::H2c => "HTTP/2 to an endpoint (`h2c://`)",
    };
    let problem = Problem::error(at, format!("{protocol} is not built yet"));
    reader.problems.push(problem.expected("`host:port`, `http://host:port` or `unix:/path`"));
}

fn weights(reader: &mut Reader, node: &Node, weights: impl Iterator<Item = u32>, noun: &str) {
    let mut any = false;
    let mut sum: u64 = 0;
    for weight in weights {
        any = true;
        sum += u64::from(weight);
    }
    if any && sum == 0 {
        let problem =
            Problem::error(node.at, format!("every {noun} has the weight 0: none would take a request"));
        reader.problems.push(problem.help("give one of them a weight of at least 1"));
    }
    if sum > u64::from(u32::MAX) {
        reader.problems.push(Problem::error(node.at, "the weights add up to more than 4294967295"));
    }
}

/// The `upstreams` of a file.
pub(super) fn upstreams(reader: &mut Reader, field: Field<'_>, draft: &mut Draft) {
    let Kind::Map(entries) = &field.node.kind else {
        draft.names_lost = true;
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
            let message = fault.message.replacen("{}", &shown(&entry.key), 1);
            let problem = Problem::error(entry.at, message);
            reader.problems.push(match fault.help {
                Some(help) => problem.help(help),
                None => problem,
            });
        }
        if let Some(first) = draft.upstream_names.get(&entry.key) {
            let problem = Problem::error(entry.at, format!("two upstreams are named {}", shown(&entry.key)));
            reader.problems.push(problem.see(*first, "first written here"));
            continue;
        }
        draft.upstream_names.insert(entry.key.clone(), entry.at);
        let name = Spanned { value: entry.key.clone(), at: entry.at };
        if let Some(upstream) = upstream(reader, name, &entry.value, field) {
            draft.config.upstreams.push(upstream);
        }
    }
}

fn upstream(reader: &mut Reader, name: Spanned<String>, node: &Node, field: Field<'_>) -> Option<Upstream> {
    let mut out =
        Upstream { name, endpoints: Vec::new(), timeouts: RouteTimeouts::default(), pool: Pool::default() };
    if node.is_null() {
        let inner = if let Shape::MapOf(inner) = field.key.shape { inner } else { &field.key.shape };
        reader.missing(
            out.name.at,
            format!("the upstream {} has no endpoints", shown(&out.name.value)),
            inner,
        );
        return None;
    }
    if !matches!(node.kind, Kind::Map(_)) {
        out.endpoints = endpoints(reader, node);
        return Some(out);
    }
    let fields = reader.fields(node, &UPSTREAM)?;
    if let Some(field) = fields.get("endpoints") {
        out.endpoints = endpoints(reader, field.node);
    }
    if let Some(field) = fields.get("timeouts") {
        out.timeouts = route::timeouts(reader, field);
    }
    if let Some(field) = fields.get("pool")
        && let Some(fields) = reader.fields(field.node, &POOL)
    {
        reader.number_into(fields.get("max_idle"), &mut out.pool.max_idle);
        reader.duration_into(fields.get("idle_timeout"), &mut out.pool.idle_timeout);
        reader.optional_into(fields.get("max_requests"), &mut out.pool.max_requests);
        reader.duration_into(fields.get("max_age"), &mut out.pool.max_age);
    }
    Some(out)
}

fn endpoints(reader: &mut Reader, node: &Node) -> Vec<Endpoint> {
    let items = one_or_many(node);
    if items.is_empty() {
        reader.missing(node.at, "an upstream without endpoints".to_owned(), &ENDPOINT_SHAPE);
    }
    let endpoints: Vec<Endpoint> = items.iter().filter_map(|item| endpoint(reader, item)).collect();
    if endpoints.len() == items.len() {
        weights(reader, node, endpoints.iter().map(|endpoint| endpoint.weight), "endpoint");
    }
    for (i, endpoint) in endpoints.iter().enumerate().take(1000) {
        let same = |other: &&Endpoint| other.address.value == endpoint.address.value;
        if let Some(twin) = endpoints[..i].iter().find(same) {
            let problem = Problem::warning(endpoint.address.at, "this endpoint is listed twice");
            reader.problems.push(
                problem
                    .help("give it a weight instead: `{address: ..., weight: 2}`")
                    .see(twin.address.at, "first written here"),
            );
        }
    }
    endpoints
}

fn endpoint(reader: &mut Reader, node: &Node) -> Option<Endpoint> {
    if !matches!(node.kind, Kind::Map(_)) {
        let value = reader.parsed(node, "an endpoint", &ENDPOINT_SHAPE, address::endpoint)?;
        built(reader, &value, node.at);
        return Some(Endpoint { address: Spanned { value, at: node.at }, weight: 1 });
    }
    let fields = reader.fields(node, &ENDPOINT)?;
    let mut weight = 1;
    reader.number_into(fields.get("weight"), &mut weight);
    let address = reader.spanned(fields.get("address")?, address::endpoint)?;
    built(reader, &address.value, address.at);
    Some(Endpoint { address, weight })
}
