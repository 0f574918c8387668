//! Objects from manifests, as `kubectl get -o yaml` and charts write them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::object::{Kind, ObjectName, RawObject};
use crate::objects::Objects;

/// The namespace of manifests that name none.
const NAMESPACE: &str = "default";

/// A ConfigMap.
pub struct ConfigMapTexts {
    pub labels: BTreeMap<String, String>,
    pub entries: BTreeMap<String, String>,
}

/// The objects of manifests.
#[derive(Default)]
pub struct Manifests {
    /// The Ingresses.
    pub ingresses: BTreeMap<ObjectName, RawObject>,
    /// The controllers of IngressClasses, by the names of the classes.
    pub ingress_classes: BTreeMap<String, String>,
    /// The ConfigMaps.
    pub config_maps: BTreeMap<ObjectName, ConfigMapTexts>,
    others: Vec<(Kind, RawObject)>,
}

impl Manifests {
    /// Reads the documents of a file.
    ///
    /// # Errors
    /// Returns what is wrong with the YAML.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
        documents.into_iter().for_each(|document| self.take(document));
        Ok(())
    }

    /// Takes a document, or the items of a list. Kinds that the translation does not read are left out.
    fn take(&mut self, mut document: Value) {
        if let Some(Value::Array(items)) = document.get_mut("items").map(Value::take) {
            items.into_iter().for_each(|item| self.take(item));
            return;
        }
        let Some(kind) = document.get("kind").and_then(Value::as_str).map(str::to_owned) else { return };
        match kind.as_str() {
            "Endpoints" => return self.take_endpoints(&document),
            "Secret" => merge_plain_data(&mut document),
            _ => {}
        }
        let Some(kind) = Kind::by_name(&kind) else { return };
        let Ok(mut raw) = serde_json::from_value::<RawObject>(document) else { return };
        if raw.metadata.namespace.is_empty() && !kind.is_cluster_wide() {
            raw.metadata.namespace = NAMESPACE.into();
        }
        match kind {
            Kind::Ingress => drop(self.ingresses.insert(raw.metadata.object_name(), raw)),
            Kind::IngressClass => {
                let controller = raw.data.pointer("/spec/controller").and_then(Value::as_str);
                let controller = controller.unwrap_or_default().to_owned();
                self.ingress_classes.insert(raw.metadata.name.to_string(), controller);
            }
            Kind::ConfigMap => {
                let entries = raw.data.get("data").and_then(Value::as_object).into_iter().flatten();
                let text = |value: &Value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let entries = entries.map(|(key, value)| (key.clone(), text(value))).collect();
                let map = ConfigMapTexts { labels: raw.metadata.labels.clone(), entries };
                self.config_maps.insert(raw.metadata.object_name(), map);
                self.others.push((kind, raw));
            }
            _ => self.others.push((kind, raw)),
        }
    }

    /// Takes Endpoints, the older form of EndpointSlices.
    fn take_endpoints(&mut self, document: &Value) {
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let namespace = document.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(NAMESPACE);
        let subsets = document.get("subsets").and_then(Value::as_array).into_iter().flatten();
        for (number, subset) in subsets.enumerate() {
            let addresses = subset.get("addresses").and_then(Value::as_array).into_iter().flatten();
            let endpoints: Vec<Value> =
                addresses.filter_map(|one| one.get("ip")).map(|ip| json!({ "addresses": [ip] })).collect();
            let slice = json!({
                "metadata": {
                    "namespace": namespace, "name": format!("{name}-{number}"),
                    "labels": { "kubernetes.io/service-name": name },
                },
                "addressType": "IPv4", "endpoints": endpoints, "ports": subset["ports"],
            });
            if let Ok(slice) = serde_json::from_value(slice) {
                self.others.push((Kind::EndpointSlice, slice));
            }
        }
    }

    /// Returns the objects other than Ingresses and their classes.
    pub fn objects(&mut self) -> Objects {
        let mut objects = Objects::default();
        for (kind, raw) in std::mem::take(&mut self.others) {
            objects.put(kind, raw);
        }
        objects
    }
}

/// Puts the plain entries of a Secret among the encoded ones, as the API server does.
fn merge_plain_data(secret: &mut Value) {
    let Some(Value::Object(plain)) = secret.get_mut("stringData").map(Value::take) else { return };
    let encoded =
        plain.into_iter().filter_map(|(key, value)| Some((key, STANDARD.encode(value.as_str()?).into())));
    let encoded: Map<String, Value> = encoded.collect();
    match secret.get_mut("data").and_then(Value::as_object_mut) {
        Some(data) => data.extend(encoded),
        None => secret["data"] = encoded.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_older_endpoints_and_plain_secrets() {
        let text = "
apiVersion: v1
kind: List
items:
  - {kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}
  - {kind: Endpoints, metadata: {name: a}, subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 8080}]}]}
---
kind: Secret
metadata: {name: s, namespace: ns}
stringData: {auth: 'a:b'}
---
kind: Deployment
metadata: {name: d}
---
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
";
        let mut manifests = Manifests::default();
        manifests.read(text).expect("YAML");
        let objects = manifests.objects();
        assert!(objects.services.contains_key(&ObjectName::new("default", "a")));
        let slice = objects.endpoint_slices.get(&ObjectName::new("default", "a-0")).expect("a slice");
        let slice = slice.spec.as_ref().expect("valid");
        assert_eq!(
            (slice.endpoints[0].addresses.as_slice(), slice.ports[0].port),
            (["10.0.0.1".to_owned()].as_slice(), Some(8080))
        );
        let secret =
            objects.secrets.get(&ObjectName::new("ns", "s")).and_then(|secret| secret.spec.as_ref().ok());
        assert_eq!(secret.map(|secret| secret.data["auth"].as_str()), Some("YTpi"));
        assert_eq!(manifests.ingress_classes["nginx"], "k8s.io/ingress-nginx");
        assert!(Manifests::default().read("a: [").is_err());
    }
}
