//! The ConfigMap of ingress-nginx: defaults for all Ingresses, and settings of the whole gateway.

use std::collections::{BTreeMap, BTreeSet};

use super::ImportedObject;
use super::manifests::Manifests;
use crate::object::{Kind, ObjectName, Reference};
use crate::translate::{Behaviour, Finding};

/// The label of what belongs to ingress-nginx, and the names that its installations give the ConfigMap.
const LABEL: (&str, &str) = ("app.kubernetes.io/name", "ingress-nginx");
const NAMES: [&str; 3] = ["ingress-nginx-controller", "nginx-configuration", "nginx-ingress-controller"];

/// Keys that are defaults of annotations, which some of them name differently.
const DEFAULTS: [(&str, &str); 21] = [
    ("ssl-redirect", "ssl-redirect"),
    ("force-ssl-redirect", "force-ssl-redirect"),
    ("proxy-body-size", "proxy-body-size"),
    ("proxy-connect-timeout", "proxy-connect-timeout"),
    ("proxy-read-timeout", "proxy-read-timeout"),
    ("proxy-send-timeout", "proxy-send-timeout"),
    ("proxy-next-upstream", "proxy-next-upstream"),
    ("proxy-next-upstream-tries", "proxy-next-upstream-tries"),
    ("proxy-next-upstream-timeout", "proxy-next-upstream-timeout"),
    ("proxy-request-buffering", "proxy-request-buffering"),
    ("proxy-buffering", "proxy-buffering"),
    ("proxy-buffer-size", "proxy-buffer-size"),
    ("load-balance", "load-balance"),
    ("upstream-hash-by", "upstream-hash-by"),
    ("whitelist-source-range", "whitelist-source-range"),
    ("denylist-source-range", "denylist-source-range"),
    ("custom-http-errors", "custom-http-errors"),
    ("limit-rate", "limit-rate"),
    ("limit-rate-after", "limit-rate-after"),
    ("global-auth-url", "auth-url"),
    ("global-auth-signin", "auth-signin"),
];

/// Keys that become settings of the whole gateway.
const GATEWAY: [&str; 7] = [
    "hsts",
    "hsts-max-age",
    "hsts-include-subdomains",
    "hsts-preload",
    "use-forwarded-headers",
    "proxy-real-ip-cidr",
    "use-proxy-protocol",
];

/// The ConfigMap of ingress-nginx.
pub struct ControllerConfig {
    name: ObjectName,
    /// All its entries.
    entries: BTreeMap<String, String>,
    /// Annotations of Ingresses that do not have them.
    pub defaults: BTreeMap<String, String>,
}

impl ControllerConfig {
    /// Reads the ConfigMap, if it is in the manifests.
    pub fn read(manifests: &Manifests) -> Option<Self> {
        let is_theirs = |name: &ObjectName, labels: &BTreeMap<String, String>| {
            NAMES.contains(&&*name.name) || labels.get(LABEL.0).is_some_and(|value| value == LABEL.1)
        };
        let mut maps = manifests.config_maps.iter();
        let (name, map) = maps.find(|(name, map)| is_theirs(name, &map.labels))?;
        let entries = &map.entries;
        let defaults = DEFAULTS
            .iter()
            .filter_map(|(key, annotation)| {
                let value = entries.get(*key)?;
                Some((format!("nginx.ingress.kubernetes.io/{annotation}"), value.clone()))
            })
            .collect();
        Some(Self { name: name.clone(), entries: entries.clone(), defaults })
    }

    /// Returns an entry.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(String::as_str)
    }

    /// Returns whether an entry is `true`; without it, `default`.
    pub fn is_on(&self, key: &str, default: bool) -> bool {
        self.get(key).map_or(default, |value| value == "true")
    }

    /// Says which entries are used.
    pub fn report(&self) -> ImportedObject {
        let findings = self.entries.keys().map(|key| {
            let known = GATEWAY.contains(&key.as_str()) || DEFAULTS.iter().any(|(own, _)| own == key);
            let (behaviour, text) = match known {
                true => (Behaviour::Same, ""),
                false => (
                    Behaviour::Unsupported,
                    "it is not imported; the guide says what the gateway does instead",
                ),
            };
            Finding { annotation: key.clone(), behaviour, text: text.to_owned() }
        });
        let name = Reference { kind: Kind::ConfigMap, name: self.name.clone() }.to_string();
        ImportedObject { name, findings: findings.collect(), notes: BTreeSet::new() }
    }
}
