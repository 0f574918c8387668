//! Reads `upstreams`.

use super::draft::{Draft, PerTryTimeout, per_try_timeout};
use crate::model::Config;
use crate::position::Spanned;
use crate::problem::Problem;
use crate::reader::{Field, Reader, misnamed};
use crate::scalar::address;
use crate::section::Section;
use crate::sections::upstream::{UPSTREAM_VALUE, Upstream, endpoints};
use crate::tree::{Node, NodeKind, shown};

/// Reads `upstreams` of a file.
pub(crate) fn upstreams(reader: &mut Reader, field: Field<'_>, draft: &mut Draft) {
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
        if let Some(upstream) = upstream(reader, name, &entry.value, &mut draft.per_try_timeouts) {
            draft.config.upstreams.push(upstream);
        }
    }
}

/// Reads an upstream from a document, which is the value under the upstream's name in a file.
pub(crate) fn document(reader: &mut Reader, name: &str, node: &Node, draft: &mut Draft) {
    if let Err(fault) = address::upstream(name) {
        reader.problems.push(misnamed(node.at, name, fault));
    }
    let name = Spanned { value: name.to_owned(), at: node.at };
    draft.config.upstreams.extend(upstream(reader, name, node, &mut draft.per_try_timeouts));
}

fn upstream(
    reader: &mut Reader,
    name: Spanned<String>,
    node: &Node,
    per_try_timeouts: &mut Vec<PerTryTimeout>,
) -> Option<Upstream> {
    if node.is_null() {
        let message = format!("the upstream {} has no endpoints", shown(&name.value));
        reader.missing(name.at, message, &UPSTREAM_VALUE);
        return None;
    }
    if !matches!(node.kind, NodeKind::Map(_)) {
        let endpoints = endpoints(reader, node, false);
        return Some(Upstream::of_endpoints(name, endpoints));
    }
    let fields = reader.fields(node, Upstream::SPEC)?;
    let mut out = Upstream::read_keys(reader, &fields)?;
    out.name = name;
    per_try_timeouts.extend(per_try_timeout(&fields, out.rules.retry.per_try, out.timeouts.total));
    Some(out)
}

/// Returns a warning if endpoints have zones and the gateway has none. It can be decided only after all files
/// have been read.
pub(crate) fn check_zones(config: &Config) -> Option<Problem> {
    let mut endpoints = config.upstreams.iter().flat_map(|upstream| &upstream.endpoints);
    let placed = endpoints.find(|endpoint| endpoint.zone.is_some()).filter(|_| config.zone.is_none())?;
    let problem = Problem::warning(placed.address.at, "the `zone` of this endpoint has no effect");
    Some(problem.help("set the gateway's zone: `zone: NAME` at the top level"))
}
