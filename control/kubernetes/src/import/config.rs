//! Documents as a configuration file, with the defaults of ingress-nginx.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::controller::ControllerConfig;
use super::services::StandIns;
use crate::translate::{Document, DocumentKey};

/// The largest body that ingress-nginx takes without an annotation.
const BODY: &str = "1MiB";
/// How long its browsers use only `https`, in seconds.
const HSTS_MAX_AGE: &str = "31536000";

/// Makes a file of documents.
pub fn config(
    documents: &BTreeMap<DocumentKey, Document>,
    stand_ins: &StandIns,
    controller: Option<&ControllerConfig>,
) -> Map<String, Value> {
    let (mut listen, mut routes, mut streams) = (Vec::new(), Vec::new(), Vec::new());
    let mut upstreams = Map::new();
    for (DocumentKey { kind, name }, Document { content, .. }) in documents {
        let value = content.value();
        match *kind {
            "listeners" => listen.push(listener(name, &value, controller)),
            "routes" => routes.push(named(name, &value)),
            "streams" => streams.push(named(name, &value)),
            "upstreams" => {
                upstreams.insert(name.clone(), upstream(value, stand_ins));
            }
            _ => {}
        }
    }
    let mut out = Map::new();
    out.insert("listen".to_owned(), listen.into());
    out.insert("limits".to_owned(), json!({ "body": BODY }));
    out.insert("request_id".to_owned(), true.into());
    let is_on = |key| controller.is_some_and(|controller| controller.is_on(key, false));
    if is_on("use-forwarded-headers") {
        out.insert("forwarded".to_owned(), json!({ "trusted_proxies": proxies(controller) }));
    }
    // Fields that ingress-nginx sends to every endpoint, in addition to the gateway's own.
    let fields = json!({ "X-Real-IP": "{client}", "X-Scheme": "{scheme}", "X-Forwarded-Scheme": "{scheme}" });
    out.insert("policies".to_owned(), json!({ "headers": { "request": { "set": fields } } }));
    for (key, list) in [("routes", routes), ("streams", streams)] {
        if !list.is_empty() {
            out.insert(key.to_owned(), list.into());
        }
    }
    if !upstreams.is_empty() {
        out.insert("upstreams".to_owned(), upstreams.into());
    }
    out
}

/// Returns the addresses of the proxies in front.
fn proxies(controller: Option<&ControllerConfig>) -> Vec<String> {
    let text = controller.and_then(|controller| controller.get("proxy-real-ip-cidr")).unwrap_or("0.0.0.0/0");
    text.split(',').map(|block| block.trim().to_owned()).filter(|block| !block.is_empty()).collect()
}

/// A listener on its port at all addresses of the machine.
fn listener(name: &str, value: &Value, controller: Option<&ControllerConfig>) -> Value {
    let mut out = named(name, value);
    let port = value["bind"].as_str().and_then(|bind| bind.rsplit_once(':')).map_or("", |(_, port)| port);
    out["bind"] = format!(":{port}").into();
    let is_on = |key, default| controller.map_or(default, |controller| controller.is_on(key, default));
    if is_on("use-proxy-protocol", false) {
        out["proxy_protocol"] = proxies(controller).into();
    }
    if out.get("tls").is_some() && is_on("hsts", true) {
        let age = controller.and_then(|controller| controller.get("hsts-max-age")).unwrap_or(HSTS_MAX_AGE);
        out["tls"]["strict_transport_security"] = json!({
            "max_age": format!("{age}s"),
            "include_subdomains": is_on("hsts-include-subdomains", true),
            "preload": is_on("hsts-preload", false),
        });
    }
    out
}

/// An entry of a list, with its name in front.
fn named(name: &str, value: &Value) -> Value {
    let mut out = Map::from_iter([("name".to_owned(), name.into())]);
    out.extend(value.as_object().cloned().unwrap_or_default());
    out.into()
}

fn upstream(mut value: Value, stand_ins: &StandIns) -> Value {
    for endpoint in value.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        let address = match endpoint {
            Value::String(address) => address,
            _ => match endpoint.get_mut("address") {
                Some(Value::String(address)) => address,
                _ => continue,
            },
        };
        *address = stand_ins.named(address);
    }
    value
}
