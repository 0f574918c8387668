//! The objects of this front, as its clients wrote them.
//!
//! Each is a document of the store, of the kind `apisix`, with a name such as `routes/1`.
//! [`derive`](super::derive) derives from them the documents that the gateway runs. Objects hold no secrets,
//! except those of tokens: others are only in the derived documents, or replaced by a hash.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tollgate_config::{KINDS, ResourceKind, kind};

/// A kind of APISIX object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    Routes,
    Upstreams,
    Services,
    Consumers,
    Credentials,
    ConsumerGroups,
    Ssls,
    PluginConfigs,
    GlobalRules,
}

impl ObjectKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Routes,
        Self::Upstreams,
        Self::Services,
        Self::Consumers,
        Self::Credentials,
        Self::ConsumerGroups,
        Self::Ssls,
        Self::PluginConfigs,
        Self::GlobalRules,
    ];

    /// Returns the name of the kind in paths.
    pub fn name(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Upstreams => "upstreams",
            Self::Services => "services",
            Self::Consumers => "consumers",
            Self::Credentials => "credentials",
            Self::ConsumerGroups => "consumer_groups",
            Self::Ssls => "ssls",
            Self::PluginConfigs => "plugin_configs",
            Self::GlobalRules => "global_rules",
        }
    }

    /// Returns the kind of this name. Version 2 of APISIX calls one `ssl`.
    pub fn id_text(name: &str) -> Option<Self> {
        let name = if name == "ssl" { "ssls" } else { name };
        Self::ALL.into_iter().find(|of| of.name() == name)
    }
}

/// The identity of an object: its kind and its id.
pub type ObjectId = (ObjectKind, String);

/// Returns the name of an object's document.
pub fn document((of, id): &ObjectId) -> String {
    format!("{}/{id}", of.name())
}

/// Returns the key by which clients know an object.
pub fn etcd_key(id: &ObjectId) -> String {
    match (id.0, id.1.split_once('/')) {
        (ObjectKind::Credentials, Some((consumer, own))) => {
            format!("/apisix/consumers/{consumer}/credentials/{own}")
        }
        _ => format!("/apisix/{}", document(id)),
    }
}

/// Returns the kind of the documents that store objects.
pub fn raw_kind() -> &'static ResourceKind {
    kind("apisix").unwrap_or(&KINDS[0])
}

/// The stored objects.
#[derive(Clone, Debug, Default)]
pub struct Objects(BTreeMap<ObjectId, Map<String, Value>>);

impl Objects {
    /// Returns an object.
    pub fn get(&self, of: ObjectKind, id: &str) -> Option<&Map<String, Value>> {
        self.0.get(&(of, id.to_owned()))
    }

    /// Returns the ids of a consumer's credentials.
    pub fn credentials(&self, consumer: &str) -> Vec<String> {
        let own = |id: &str| id.strip_prefix(consumer).is_some_and(|rest| rest.starts_with('/'));
        self.all(ObjectKind::Credentials).map(|(id, _)| id).filter(|id| own(id)).map(str::to_owned).collect()
    }

    /// Returns the objects of a kind with their ids.
    pub fn all(&self, of: ObjectKind) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
        self.0.iter().filter(move |((own, _), _)| *own == of).map(|((_, id), value)| (id.as_str(), value))
    }

    /// Writes an object; `None` removes it.
    pub fn set(&mut self, id: ObjectId, value: Option<Map<String, Value>>) {
        match value {
            Some(value) => drop(self.0.insert(id, value)),
            None => drop(self.0.remove(&id)),
        }
    }

    /// Returns the objects that refer to this one by its id.
    pub fn referrers(&self, (of, id): &ObjectId) -> Vec<ObjectId> {
        let (key, users): (&str, &[ObjectKind]) = match of {
            ObjectKind::Upstreams => ("upstream_id", &[ObjectKind::Routes, ObjectKind::Services]),
            ObjectKind::Services => ("service_id", &[ObjectKind::Routes]),
            ObjectKind::PluginConfigs => ("plugin_config_id", &[ObjectKind::Routes]),
            ObjectKind::ConsumerGroups => ("group_id", &[ObjectKind::Consumers]),
            _ => return Vec::new(),
        };
        let names = |value: &Value| id_text(value).is_some_and(|named| named == *id);
        let splits = |object: &Map<String, Value>| {
            let rules = object.get("plugins").and_then(|plugins| plugins.pointer("/traffic-split/rules"));
            let shares = rules
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|rule| rule.get("weighted_upstreams").and_then(Value::as_array));
            *of == ObjectKind::Upstreams
                && shares.flatten().filter_map(|share| share.get("upstream_id")).any(names)
        };
        let uses = |object: &Map<String, Value>| object.get(key).is_some_and(names) || splits(object);
        self.0
            .iter()
            .filter(|((of, _), object)| users.contains(of) && uses(object))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Returns the other objects whose documents may change when this one changes.
    pub fn dependents(&self, id: &ObjectId) -> Vec<ObjectId> {
        let mut out = match id.0 {
            // Every route has the plugins of the global rules, and accepts the tokens of all consumers.
            ObjectKind::GlobalRules | ObjectKind::Consumers => {
                self.all(ObjectKind::Routes).map(|(id, _)| (ObjectKind::Routes, id.to_owned())).collect()
            }
            // A credential belongs to its consumer, and may be a token.
            ObjectKind::Credentials => {
                let consumer = id.1.split('/').next().unwrap_or_default().to_owned();
                let routes = self.all(ObjectKind::Routes).map(|(id, _)| (ObjectKind::Routes, id.to_owned()));
                routes.chain([(ObjectKind::Consumers, consumer)]).collect()
            }
            _ => self.referrers(id),
        };
        // A route uses the upstream of its service.
        let services: Vec<_> = out.iter().filter(|(of, _)| *of == ObjectKind::Services).cloned().collect();
        for service in services {
            out.extend(self.referrers(&service));
        }
        out.sort();
        out.dedup();
        out
    }
}

/// Returns an id, which may be written as a number.
pub fn id_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|number| number.to_string()))
}
