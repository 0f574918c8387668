//! What the derivations of several kinds of objects share: the resulting documents, the parts of a service, and
//! the upstream inside an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::Fields;
use super::objects::named;
use super::plugins;
use super::upstream::{self, Written};

/// Documents, by the name of their kind and their own name.
pub type Documents = BTreeMap<(&'static str, String), Value>;

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
