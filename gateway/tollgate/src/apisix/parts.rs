//! The code that several kinds of objects share: the derived documents, the parts of a service, and the upstream inside
//! an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::ObjectFields;
use super::objects::id_text;
use super::plugins;
use super::upstream::{self, ConvertedUpstream};

/// Documents, by the name of their kind and their own name.
pub type DerivedDocuments = BTreeMap<(&'static str, String), Value>;

/// Removes the fields that only describe an object.
///
/// # Errors
/// A field has the wrong type.
pub fn take_description(fields: &mut ObjectFields) -> Result<(), String> {
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
pub fn service_upstream_name(id: &str) -> String {
    format!("apisix.service.{id}")
}

/// The parts of a service.
#[derive(Debug, Default)]
pub struct ServiceParts {
    /// The upstream that is written inside it.
    pub upstream: Option<ConvertedUpstream>,
    /// The id of the upstream that it refers to.
    pub upstream_id: Option<String>,
    pub plugins: Map<String, Value>,
    pub hosts: Option<Vec<String>>,
    pub enable_websocket: Option<bool>,
}

impl ServiceParts {
    /// Parses a service.
    ///
    /// # Errors
    /// Names a setting that has no counterpart here.
    pub fn of(mut fields: ObjectFields) -> Result<Self, String> {
        let enable_websocket = fields.flag("enable_websocket")?;
        let plugins = fields.take("plugins").map(plugins::plugins_object).transpose()?.unwrap_or_default();
        let hosts = fields.texts("hosts")?;
        let (upstream, upstream_id) = inline_or_referenced_upstream(&mut fields)?;
        fields.end()?;
        Ok(Self { upstream, upstream_id, plugins, hosts, enable_websocket })
    }
}

/// Returns the upstream of an object: `upstream` as a resource, or `upstream_id`.
///
/// # Errors
/// Both are set, or one of them is wrong.
pub fn inline_or_referenced_upstream(
    fields: &mut ObjectFields,
) -> Result<(Option<ConvertedUpstream>, Option<String>), String> {
    match (fields.take("upstream"), fields.take("upstream_id")) {
        (Some(_), Some(_)) => Err("`upstream` and `upstream_id` exclude each other".to_owned()),
        (Some(own), None) => Ok((Some(upstream::convert(ObjectFields::of(own, "upstream")?)?), None)),
        (None, Some(id)) => {
            let id = id_text(&id).ok_or("`upstream_id` must be the id of an upstream")?;
            Ok((None, Some(id)))
        }
        (None, None) => Ok((None, None)),
    }
}
