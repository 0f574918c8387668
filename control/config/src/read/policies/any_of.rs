//! Reads `any_of`.

use std::sync::Arc;

use super::policy;
use crate::model::{AnyOf, Attached, PolicyKind};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::spec::ALTERNATIVE;
use crate::tree::{Node, NodeKind, Scalar};

/// Maximum number of alternatives. A request may be checked against all of them.
const ALTERNATIVES_MAX: usize = 256;

pub(super) fn any_of(reader: &mut Reader, field: Field<'_>) -> Option<AnyOf> {
    let NodeKind::List(items) = &field.node.kind else {
        reader.mismatch(field.node, "`any_of`", field.key.shape.expected());
        return None;
    };
    if items.is_empty() {
        let problem = Problem::error(field.at, "`any_of` has no alternative: it rejects every request");
        reader.problems.push(problem.help("write `any_of: [{api_key: on}, {jwt: ...}]`"));
    }
    if let Some(extra) = items.get(ALTERNATIVES_MAX) {
        let message = format!("`any_of` has more than {ALTERNATIVES_MAX} alternatives");
        reader.problems.push(Problem::error(extra.at, message));
    }
    let alternatives =
        items.iter().take(ALTERNATIVES_MAX).filter_map(|item| alternative(reader, item)).collect();
    Some(AnyOf { alternatives })
}

fn alternative(reader: &mut Reader, node: &Node) -> Option<Vec<Attached>> {
    let before = reader.problems.len();
    let fields = reader.fields(node, &ALTERNATIVE)?;
    let mut list = Vec::new();
    for kind in PolicyKind::ALL {
        if !ALTERNATIVE.keys.iter().any(|key| key.name == kind.as_str()) {
            continue;
        }
        let Some(field) = fields.get(kind.as_str()) else { continue };
        if field.node.scalar().is_some_and(Scalar::is_off) {
            let problem = Problem::error(field.at, format!("`{}: off` in an alternative", kind.as_str()));
            reader.problems.push(problem.help("an alternative inherits no policies: remove the key"));
            continue;
        }
        let spec = policy(reader, kind, field).map(Arc::new);
        list.extend(spec.map(|spec| Attached { kind, at: field.at, spec: Some(spec) }));
    }
    if list.is_empty() && reader.complete && !reader.has_errors_since(before) {
        let problem = Problem::error(node.at, "this alternative has no policy: it admits every request");
        reader.problems.push(problem.expected(crate::spec::names(&ALTERNATIVE)));
    }
    Some(list)
}
