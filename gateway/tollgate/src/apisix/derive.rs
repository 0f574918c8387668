//! Derives documents of the gateway's own kinds from APISIX objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::objects::{Id, Objects, Of, named};
use super::plugins::{self, Effect, Origin};
use super::upstream::{self, Written};
use super::{consumer, resource_name, route, ssl};

/// Documents, by the name of their kind and their own name.
pub type Documents = BTreeMap<(&'static str, String), Value>;

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

/// Removes the fields that only describe an object.
///
/// # Errors
/// A field has the wrong type.
pub fn described(fields: &mut Fields) -> Result<(), String> {
    fields.text("name")?;
    fields.text("desc")?;
    fields.number("create_time")?;
    fields.number("update_time")?;
    match fields.take("labels") {
        None | Some(Value::Object(_)) => Ok(()),
        Some(_) => Err(fields.wrong("labels", "an object")),
    }
}

/// Returns the name of the upstream that is written inside a service.
pub fn service_upstream(id: &str) -> String {
    format!("apisix.service.{id}")
}

/// The parts of a service.
#[derive(Debug, Default)]
pub struct Service {
    /// The upstream that is written inside it.
    pub upstream: Option<Written>,
    /// The id of the upstream that it refers to.
    pub upstream_id: Option<String>,
    pub plugins: Map<String, Value>,
    pub hosts: Option<Vec<String>>,
    pub enable_websocket: Option<bool>,
}

impl Service {
    /// Parses a service.
    ///
    /// # Errors
    /// Names a setting that has no counterpart here.
    pub fn of(mut fields: Fields) -> Result<Self, String> {
        let enable_websocket = fields.flag("enable_websocket")?;
        let plugins = fields.take("plugins").map(plugins::map).transpose()?.unwrap_or_default();
        let hosts = fields.texts("hosts")?;
        let (upstream, upstream_id) = own_or_named(&mut fields)?;
        fields.end()?;
        Ok(Self { upstream, upstream_id, plugins, hosts, enable_websocket })
    }
}

/// Returns the upstream of an object: `upstream` as a resource, or `upstream_id`.
///
/// # Errors
/// Both are set, or one of them is wrong.
pub fn own_or_named(fields: &mut Fields) -> Result<(Option<Written>, Option<String>), String> {
    match (fields.take("upstream"), fields.take("upstream_id")) {
        (Some(_), Some(_)) => Err("`upstream` and `upstream_id` exclude each other".to_owned()),
        (Some(own), None) => Ok((Some(upstream::written(Fields::of(own, "upstream")?)?), None)),
        (None, Some(id)) => {
            let id = named(&id).ok_or("`upstream_id` is to be the id of an upstream")?;
            Ok((None, Some(id)))
        }
        (None, None) => Ok((None, None)),
    }
}

/// Derives the documents of a certificate object. The key is only in these documents, so they are made as it
/// is written.
pub use ssl::documents as certificates;
