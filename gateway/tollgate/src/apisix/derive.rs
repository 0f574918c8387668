//! Derives documents of the gateway's own kinds from APISIX objects.

use serde_json::json;

use super::fields::Fields;
use super::names::resource_name;
use super::objects::{Id, Objects, Of, named};
use super::parts::{Documents, Service, described, service_upstream};
use super::plugins::{self, Effect, Origin};
use super::{consumer, route, ssl, upstream};

/// Derives the documents of one object. Other objects contribute to it: a route also has the plugins of its
/// service.
///
/// # Errors
/// Names a setting that has no counterpart here.
pub fn documents(objects: &Objects, (of, id): &Id) -> Result<Documents, String> {
    let mut out = Documents::new();
    let Some(object) = objects.get(*of, id) else { return Ok(out) };
    let mut fields = Fields::new(object.clone(), "");
    described(&mut fields)?;
    match of {
        Of::Routes => return route::documents(objects, id, fields),
        Of::Upstreams => {
            out.insert(("upstreams", resource_name(id)), upstream::written(fields)?.resource);
        }
        Of::Services => {
            let service = Service::of(fields)?;
            if let Some(id) =
                service.upstream_id.as_ref().filter(|id| objects.get(Of::Upstreams, id).is_none())
            {
                return Err(format!("`upstream_id`: there is no upstream `{id}`"));
            }
            if let Some(own) = service.upstream {
                out.insert(("upstreams", service_upstream(id)), own.resource);
            }
            // Reports errors of its plugins to the client that writes the service, not later to one that writes a route.
            Effect::default().all(&service.plugins, &Origin::service(id))?;
        }
        Of::PluginConfigs | Of::GlobalRules => {
            let plugins = fields.take("plugins").ok_or_else(|| fields.wrong("plugins", "an object"))?;
            fields.end()?;
            Effect::default().all(&plugins::map(plugins)?, &Origin::shared(*of, id))?;
        }
        Of::ConsumerGroups => {
            let plugins = fields.take("plugins").unwrap_or(json!({}));
            fields.end()?;
            if let Some(name) = plugins::map(plugins)?.keys().next() {
                return Err(format!(
                    "`plugins/{name}`: a group of consumers has no plugins here; write it at the route, with `consumer_name` as \
                     the key of a limit, or `consumer-restriction` with `type` `consumer_group_id`"
                ));
            }
        }
        Of::Consumers => {
            let group = fields.take("group_id").map(|group| named(&group).ok_or("`group_id` is to be an id"));
            let group = group.transpose()?;
            if let Some(group) =
                group.as_ref().filter(|group| objects.get(Of::ConsumerGroups, group).is_none())
            {
                return Err(format!("`group_id`: there is no consumer group `{group}`"));
            }
            out.insert(("consumers", id.clone()), consumer::document(objects, id, group, fields)?);
        }
        Of::Credentials => drop(consumer::credential(object.clone())?),
        Of::Ssls => {}
    }
    Ok(out)
}

/// Derives the documents of a certificate object. The key is only in these documents, so they are made as it
/// is written.
pub use ssl::documents as certificates;
