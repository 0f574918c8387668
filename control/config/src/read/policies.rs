//! Reads `policies` and `policy_sets`. The kinds of policies read their own keys.

use std::sync::Arc;

use super::Draft;
use crate::model::{At, Attached, PemFile, Policies, PolicySet, Spanned, UsedSet};
use crate::policy_kinds::{PolicySettings, policies_section, policy_kinds};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader, misnamed, named, one_or_many};
use crate::scalar::name::name;
use crate::section::Value;
use crate::spec::{POLICIES_SHAPE, Shape};
use crate::tree::{Node, shown};

mod shared;

pub use shared::service_url;

impl Value for Policies {
    const SHAPE: Shape = POLICIES_SHAPE;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        Some(policies(reader, Some(field)))
    }
}

/// Reads the policies of the gateway, a listener, a route or an upstream.
pub(super) fn policies(reader: &mut Reader, field: Option<Field<'_>>) -> Policies {
    let Some(fields) = field.and_then(|field| reader.fields(field.node, policies_section())) else {
        return Policies::default();
    };
    let sets = fields.get("use").map(|field| used(reader, field)).unwrap_or_default();
    Policies { sets, list: attached(reader, &fields) }
}

fn attached(reader: &mut Reader, fields: &Fields<'_>) -> Vec<Attached> {
    let mut list = Vec::new();
    for kind in policy_kinds() {
        let name = kind.key().name;
        let Some(field) = fields.get(name) else { continue };
        let spec = match field.is_off() {
            true => None,
            false => match kind.read(reader, field) {
                Some(spec) => {
                    spec.upstreams().into_iter().for_each(|name| reader.refer_by_policy(name, field.node));
                    Some(spec)
                }
                // The reader has reported the problem.
                None => continue,
            },
        };
        list.push(Attached { kind: name, at: field.at, spec });
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
pub(crate) fn policy_sets(reader: &mut Reader, field: Field<'_>) -> Option<Vec<PolicySet>> {
    Some(named(reader, Some(field), set))
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
    let fields = reader.fields(node, policies_section())?;
    if let Some(field) = fields.get("use") {
        // Nested sets would form chains or circles that readers of the configuration must follow.
        let problem = Problem::error(field.at, "a policy set cannot use other sets");
        reader.problems.push(problem.help("write both names in `use` at each place that needs them"));
    }
    let policies = Policies { sets: Vec::new(), list: attached(reader, &fields) };
    Some(PolicySet { name: Spanned { value: text.to_owned(), at }, policies })
}

/// Returns the files that policies name.
pub(crate) fn files(policies: &mut Policies) -> Vec<&mut PemFile> {
    files_in(policies.list.iter_mut())
}

/// Returns the files that attached policies name. A policy is made mutable only if it names files: the routes of
/// one list share their policies, and a shared one is copied.
pub fn files_in<'a>(list: impl Iterator<Item = &'a mut Attached>) -> Vec<&'a mut PemFile> {
    let specs = list.filter_map(|attached| attached.spec.as_mut()).filter(|spec| spec.names_files());
    specs.flat_map(files_of).collect()
}

fn files_of(spec: &mut Arc<dyn PolicySettings>) -> Vec<&mut PemFile> {
    if Arc::get_mut(spec).is_none() {
        *spec = spec.copy();
    }
    Arc::get_mut(spec).map(PolicySettings::files).unwrap_or_default()
}
