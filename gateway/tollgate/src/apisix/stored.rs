//! Reads the objects of this front from the store.

use serde_json::Value;
use tollgate_config::kind;

use super::names::PREFIX;
use super::objects::{ObjectId, ObjectKind, Objects, raw_kind};
use super::{route, upstream};
use crate::admin_context::AdminContext;

/// Returns the stored objects on which `whose` can depend; all of them for `None`. A route depends on no
/// other route, and there may be very many, so those are left out.
pub fn stored(context: &AdminContext, whose: Option<&ObjectId>) -> Objects {
    let mut all = Objects::default();
    let wanted = |id: &ObjectId| match whose {
        Some(whose) if whose.kind == ObjectKind::Routes && id.kind == ObjectKind::Routes => whose == id,
        _ => true,
    };
    for item in context.view.list(raw_kind()) {
        let id = item
            .name()
            .split_once('/')
            .and_then(|(kind, id)| Some(ObjectId::new(ObjectKind::from_name(kind)?, id)));
        if let Some(id) = id.filter(wanted)
            && let Value::Object(entries) = item.value().into_owned()
        {
            all.set(id, Some(entries));
        }
    }
    // Older versions stored no objects. Their routes and upstreams are reconstructed from the documents.
    for of in [ObjectKind::Routes, ObjectKind::Upstreams] {
        let Some(documents) = kind(of.name()) else { continue };
        for item in context.view.list(documents) {
            let id =
                item.name().strip_prefix(PREFIX).filter(|id| !id.starts_with("route-") && !id.contains('/'));
            let id = id.map(|id| ObjectId::new(of, id));
            let Some(id) = id.filter(|id| wanted(id) && all.get(id.kind, &id.id).is_none()) else { continue };
            let object = match of {
                ObjectKind::Routes => {
                    let own = kind("upstreams")
                        .and_then(|kind| context.view.get(kind, &route::route_upstream_name(&id.id)));
                    route::to_apisix(&id.id, &item.value(), own.as_ref().map(|own| &own.value))
                }
                _ => upstream::to_apisix(&item.value()),
            };
            if let Some(mut object) = object {
                object.shift_remove("id");
                all.set(id, Some(object));
            }
        }
    }
    all
}
