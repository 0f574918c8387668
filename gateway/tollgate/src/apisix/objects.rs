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

    /// Returns the field of an object that holds its id.
    pub fn id_field(self) -> &'static str {
        if self == Self::Consumers { "username" } else { "id" }
    }

    /// Returns the kind of this name. Version 2 of APISIX calls one `ssl`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "ssl" { "ssls" } else { name };
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    pub kind: ObjectKind,
    /// The id among the objects of the kind. A credential's begins with its consumer: `CONSUMER/ID`.
    pub id: String,
}

impl ObjectId {
    pub fn new(kind: ObjectKind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }

    /// Returns the id as clients write it, without the consumer of a credential.
    pub fn own_id(&self) -> &str {
        self.id.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the name of the object's document.
    pub fn document(&self) -> String {
        format!("{}/{}", self.kind.name(), self.id)
    }

    /// Returns the key by which clients know the object.
    pub fn etcd_key(&self) -> String {
        match (self.kind, self.id.split_once('/')) {
            (ObjectKind::Credentials, Some((consumer, own))) => {
                format!("/apisix/consumers/{consumer}/credentials/{own}")
            }
            _ => format!("/apisix/{}", self.document()),
        }
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
    pub fn get(&self, kind: ObjectKind, id: &str) -> Option<&Map<String, Value>> {
        self.0.get(&ObjectId::new(kind, id))
    }

    /// Returns the ids of a consumer's credentials.
    pub fn credentials(&self, consumer: &str) -> Vec<String> {
        let own = |id: &str| id.strip_prefix(consumer).is_some_and(|rest| rest.starts_with('/'));
        self.all(ObjectKind::Credentials).map(|(id, _)| id).filter(|id| own(id)).map(str::to_owned).collect()
    }

    /// Returns the objects of a kind with their ids.
    pub fn all(&self, kind: ObjectKind) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
        self.0.iter().filter(move |(id, _)| id.kind == kind).map(|(id, value)| (id.id.as_str(), value))
    }

    /// Writes an object; `None` removes it.
    pub fn set(&mut self, id: ObjectId, value: Option<Map<String, Value>>) {
        match value {
            Some(value) => drop(self.0.insert(id, value)),
            None => drop(self.0.remove(&id)),
        }
    }

    /// Returns the objects that refer to this one by its id.
    pub fn referrers(&self, object: &ObjectId) -> Vec<ObjectId> {
        let (key, users): (&str, &[ObjectKind]) = match object.kind {
            ObjectKind::Upstreams => ("upstream_id", &[ObjectKind::Routes, ObjectKind::Services]),
            ObjectKind::Services => ("service_id", &[ObjectKind::Routes]),
            ObjectKind::PluginConfigs => ("plugin_config_id", &[ObjectKind::Routes]),
            ObjectKind::ConsumerGroups => ("group_id", &[ObjectKind::Consumers]),
            _ => return Vec::new(),
        };
        let names = |value: &Value| id_text(value).is_some_and(|named| named == object.id);
        let splits = |user: &Map<String, Value>| {
            let rules = user.get("plugins").and_then(|plugins| plugins.pointer("/traffic-split/rules"));
            let shares = rules
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|rule| rule.get("weighted_upstreams").and_then(Value::as_array));
            object.kind == ObjectKind::Upstreams
                && shares.flatten().filter_map(|share| share.get("upstream_id")).any(names)
        };
        let uses = |user: &Map<String, Value>| user.get(key).is_some_and(names) || splits(user);
        self.0
            .iter()
            .filter(|(id, user)| users.contains(&id.kind) && uses(user))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Returns the other objects whose documents may change when this one changes.
    pub fn dependents(&self, object: &ObjectId) -> Vec<ObjectId> {
        let routes = || self.all(ObjectKind::Routes).map(|(id, _)| ObjectId::new(ObjectKind::Routes, id));
        let mut out: Vec<ObjectId> = match object.kind {
            // Every route has the plugins of the global rules, and accepts the tokens of all consumers.
            ObjectKind::GlobalRules | ObjectKind::Consumers => routes().collect(),
            // A credential belongs to its consumer, and may be a token.
            ObjectKind::Credentials => {
                let consumer = object.id.split('/').next().unwrap_or_default();
                routes().chain([ObjectId::new(ObjectKind::Consumers, consumer)]).collect()
            }
            _ => self.referrers(object),
        };
        // A route uses the upstream of its service.
        let services: Vec<_> = out.iter().filter(|id| id.kind == ObjectKind::Services).cloned().collect();
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
