//! ListenerSets: the Gateway that each belongs to, and whether the Gateway allows it.

use std::collections::BTreeMap;

use super::parent::allows_namespace;
use crate::object::{GATEWAY_GROUP, Object, ObjectName};
use crate::objects::Objects;
use crate::resources::{Gateway, ListenerSet};

/// A ListenerSet with its contents.
pub(super) type SetRead<'a> = (&'a Object<ListenerSet>, &'a ListenerSet);

/// Returns the ListenerSets by Gateway, in the order of their precedence.
pub(super) fn sets(objects: &Objects) -> BTreeMap<ObjectName, Vec<SetRead<'_>>> {
    let mut all: BTreeMap<ObjectName, Vec<SetRead<'_>>> = BTreeMap::new();
    for set in objects.listener_sets.values() {
        let Ok(spec) = &set.spec else { continue };
        let parent = &spec.parent_ref;
        if parent.group.as_deref().unwrap_or(GATEWAY_GROUP) != GATEWAY_GROUP
            || parent.kind.as_deref().unwrap_or("Gateway") != "Gateway"
        {
            continue;
        }
        let namespace = parent.namespace.as_deref().unwrap_or(&set.meta.namespace);
        all.entry(ObjectName::new(namespace, &parent.name)).or_default().push((set, spec));
    }
    for sets in all.values_mut() {
        sets.sort_by_key(|(set, _)| set.meta.precedence());
    }
    all
}

/// Returns whether a Gateway allows the ListenerSets of a namespace.
pub(super) fn allows_set(objects: &Objects, gateway: &ObjectName, spec: &Gateway, namespace: &str) -> bool {
    let Some(allowed) = &spec.allowed_listeners else { return false };
    allows_namespace(objects, &allowed.namespaces, "None", (&gateway.namespace, namespace))
}
