//! Derives documents of the gateway's own kinds from APISIX objects.

use serde_json::json;

use super::fields::ObjectFields;
use super::names::resource_name;
use super::objects::{ObjectId, ObjectKind, Objects, id_text};
use super::parts::{DerivedDocuments, ServiceParts, service_upstream_name, take_description};
use super::plugins::{self, PluginEffect, PluginOrigin};
use super::{consumer, route, ssl, upstream};

/// Derives the documents of one object. Other objects contribute to it: a route also has the plugins of its
/// service.
///
/// # Errors
/// Names a setting that has no counterpart here.
pub fn documents(objects: &Objects, object: &ObjectId) -> Result<DerivedDocuments, String> {
    let ObjectId { kind, id } = object;
    let mut out = DerivedDocuments::new();
    let Some(object) = objects.get(*kind, id) else { return Ok(out) };
    let mut fields = ObjectFields::new(object.clone(), "");
    take_description(&mut fields)?;
    match kind {
        ObjectKind::Routes => return route::documents(objects, id, fields),
        ObjectKind::Upstreams => {
            out.insert(("upstreams", resource_name(id)), upstream::convert(fields)?.resource);
        }
        ObjectKind::Services => {
            let service = ServiceParts::of(fields)?;
            if let Some(id) =
                service.upstream_id.as_ref().filter(|id| objects.get(ObjectKind::Upstreams, id).is_none())
            {
                return Err(format!("`upstream_id`: there is no upstream `{id}`"));
            }
            if let Some(own) = service.upstream {
                out.insert(("upstreams", service_upstream_name(id)), own.resource);
            }
            // Reports errors of its plugins to the client that writes the service, not later to the writer of a route.
            PluginEffect::default().add_all(&service.plugins, &PluginOrigin::service(id))?;
        }
        ObjectKind::PluginConfigs | ObjectKind::GlobalRules => {
            let plugins = fields.take("plugins").ok_or_else(|| fields.wrong("plugins", "an object"))?;
            fields.end()?;
            PluginEffect::default()
                .add_all(&plugins::plugins_object(plugins)?, &PluginOrigin::shared(*kind, id))?;
        }
        ObjectKind::ConsumerGroups => {
            let plugins = fields.take("plugins").unwrap_or(json!({}));
            fields.end()?;
            if let Some(name) = plugins::plugins_object(plugins)?.keys().next() {
                return Err(format!(
                    "`plugins/{name}`: a group of consumers has no plugins here; write it at the route, with `consumer_name` as \
                     the key of a limit, or `consumer-restriction` with `type` `consumer_group_id`"
                ));
            }
        }
        ObjectKind::Consumers => {
            let group =
                fields.take("group_id").map(|group| id_text(&group).ok_or("`group_id` must be an id"));
            let group = group.transpose()?;
            if let Some(group) =
                group.as_ref().filter(|group| objects.get(ObjectKind::ConsumerGroups, group).is_none())
            {
                return Err(format!("`group_id`: there is no consumer group `{group}`"));
            }
            out.insert(("consumers", id.clone()), consumer::document(objects, id, group, fields)?);
        }
        ObjectKind::Credentials => drop(consumer::credential(object.clone())?),
        ObjectKind::Ssls => {}
    }
    Ok(out)
}

/// Derives the documents of a certificate object. The key is only in these documents, so they are made as it
/// is written.
pub use ssl::documents as certificates;
