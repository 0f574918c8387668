//! ReferenceGrant: whether an object may refer to an object in another namespace.

use crate::object::{Kind, ObjectName};
use crate::objects::Objects;

/// Returns whether an object of a kind of the Gateway API in a namespace may refer to an object.
pub fn is_granted(objects: &Objects, from: (Kind, &str), to: (Kind, &ObjectName)) -> bool {
    let (from_kind, from_namespace) = from;
    let (to_kind, to_name) = to;
    if *from_namespace == *to_name.namespace {
        return true;
    }
    let (from_group, _, from_kind, _) = from_kind.names();
    let (to_group, _, to_kind, _) = to_kind.names();
    let grants = objects.reference_grants.values().filter(|grant| grant.meta.namespace == to_name.namespace);
    grants.filter_map(|grant| grant.spec.as_ref().ok()).any(|grant| {
        let from = grant.from.iter().any(|from| {
            from.group == from_group && from.kind == from_kind && from.namespace == from_namespace
        });
        let named = |name: &Option<String>| match name.as_deref() {
            None | Some("") => true,
            Some(name) => *name == *to_name.name,
        };
        from && grant.to.iter().any(|to| to.group == to_group && to.kind == to_kind && named(&to.name))
    })
}
