//! Upstreams: APISIX's form to the gateway's, and back.

use serde_json::{Map, Value, json};

use super::fields::Fields;

/// The gateway's resource for an upstream of APISIX.
///
/// # Errors
/// What has no counterpart, by its name.
pub fn resource(mut fields: Fields) -> Result<Value, String> {
    super::derive::described(&mut fields)?;
    let scheme = match fields.text("scheme")?.as_deref() {
        None | Some("http") => "",
        Some("https") => "https://",
        Some("grpc") => "h2c://",
        Some(_) => return Err(fields.wrong("scheme", "`http`, `https` or `grpc`")),
    };
    let mut out = Map::new();
    out.insert("endpoints".to_owned(), endpoints(&mut fields, scheme)?);
    let kind = fields.text("type")?;
    let (on, key) = (fields.text("hash_on")?, fields.text("key")?);
    let balance = match kind.as_deref() {
        None | Some("roundrobin") => None,
        Some("least_conn") => Some(json!("least_requests")),
        Some("chash") => Some(json!({ "policy": "hash", "by": by(on.as_deref(), key.as_deref(), &fields)? })),
        Some(_) => return Err(fields.wrong("type", "`roundrobin`, `chash` or `least_conn`")),
    };
    if kind.as_deref() != Some("chash") && (on.is_some() || key.is_some()) {
        return Err(fields.wrong("type", "`chash` where there is a `key`"));
    }
    out.extend(balance.map(|balance| ("balance".to_owned(), balance)));
    if let Some(retries) = fields.number("retries")? {
        let retry = if retries == 0 { json!("off") } else { json!({ "attempts": retries + 1 }) };
        out.insert("retry".to_owned(), retry);
    }
    out.extend(timeouts(&mut fields)?.map(|timeouts| ("timeouts".to_owned(), timeouts)));
    fields.only("pass_host", &[json!("pass")])?;
    fields.end()?;
    Ok(Value::Object(out))
}

/// `nodes`, in both of its forms.
fn endpoints(fields: &mut Fields, scheme: &str) -> Result<Value, String> {
    let expected = "a mapping of `host:port` to a weight, or a list of `host`, `port` and `weight`";
    let one = |host: &str, weight: &Value| json!({ "address": format!("{scheme}{host}"), "weight": weight });
    match fields.take("nodes") {
        Some(Value::Object(nodes)) if !nodes.is_empty() => {
            Ok(nodes.iter().map(|(host, weight)| one(&with_port(host, scheme), weight)).collect())
        }
        Some(Value::Array(nodes)) if !nodes.is_empty() => {
            let nodes = nodes.into_iter().enumerate().map(|(index, node)| {
                let mut node = Fields::of(node, &format!("upstream/nodes/{index}"))?;
                let host = node.text("host")?.ok_or_else(|| node.wrong("host", "a host"))?;
                let port = node.number("port")?;
                let weight = node.take("weight").ok_or_else(|| node.wrong("weight", "a number"))?;
                node.only("priority", &[json!(0)])?;
                node.end()?;
                let host = port.map_or_else(|| with_port(&host, scheme), |port| format!("{host}:{port}"));
                Ok(one(&host, &weight))
            });
            nodes.collect::<Result<Vec<_>, String>>().map(Value::from)
        }
        _ => Err(fields.wrong("nodes", expected)),
    }
}

/// A host without a port has that of its scheme.
fn with_port(host: &str, scheme: &str) -> String {
    let bare = host.rsplit_once(':').is_none_or(|(_, port)| port.ends_with(']'));
    match bare {
        true => format!("{host}:{}", if scheme == "https://" { 443 } else { 80 }),
        false => host.to_owned(),
    }
}

/// What is hashed.
fn by(on: Option<&str>, key: Option<&str>, fields: &Fields) -> Result<Value, String> {
    let key = key.ok_or_else(|| fields.wrong("key", "what is hashed"))?;
    match (on.unwrap_or("vars"), key) {
        ("vars", "remote_addr") => Ok(json!("client_address")),
        ("vars", "uri") => Ok(json!("path")),
        ("vars", key) if key.starts_with("arg_") => Ok(json!({ "query": &key[4..] })),
        ("vars", _) => {
            Err(fields.wrong("key", "`remote_addr`, `uri` or `arg_NAME` where `hash_on` is `vars`"))
        }
        ("header", key) => Ok(json!({ "header": key })),
        ("cookie", key) => Ok(json!({ "cookie": key })),
        _ => Err(fields.wrong("hash_on", "`vars`, `header` or `cookie`")),
    }
}

/// `timeout`, in seconds.
pub fn timeouts(fields: &mut Fields) -> Result<Option<Value>, String> {
    let Some(value) = fields.take("timeout") else { return Ok(None) };
    let mut timeout = Fields::of(value.clone(), "timeout")?;
    // One time bounds both directions here.
    if let Some(send) = timeout.take("send").filter(|send| *send != value["read"]) {
        return Err(format!("`timeout/send` is {send}: it can only be what `timeout/read` is here"));
    }
    let mut out = Map::new();
    for (theirs, ours) in [("connect", &["connect"][..]), ("read", &["response_header", "response_body"])] {
        let Some(value) = timeout.take(theirs) else { continue };
        let seconds = value.as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= 86_400.0);
        let seconds = seconds.ok_or_else(|| timeout.wrong(theirs, "seconds"))?;
        let time = format!("{}ms", (seconds * 1000.0).round().max(1.0));
        out.extend(ours.iter().map(|key| ((*key).to_owned(), json!(time))));
    }
    timeout.end()?;
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// APISIX's form of a resource that [`resource`] has made.
pub fn shown(resource: &Value) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    let (mut nodes, mut scheme) = (Map::new(), "http");
    for endpoint in resource.get("endpoints")?.as_array()? {
        let address = endpoint["address"].as_str()?;
        let (name, host) = match address.split_once("://") {
            Some(("https", host)) => ("https", host),
            Some(("h2c", host)) => ("grpc", host),
            Some(_) => return None,
            None => ("http", address),
        };
        scheme = name;
        nodes.insert(host.to_owned(), endpoint["weight"].clone());
    }
    let balance = &resource["balance"];
    let kind = match balance.as_str() {
        Some("least_requests") => "least_conn",
        _ if balance["policy"] == "hash" => "chash",
        _ => "roundrobin",
    };
    out.insert("type".to_owned(), json!(kind));
    if kind == "chash" {
        let by = &balance["by"];
        let (on, key) = match (by.as_str(), by.as_object().and_then(|by| by.iter().next())) {
            (Some("client_address"), _) => ("vars", "remote_addr".to_owned()),
            (Some("path"), _) => ("vars", "uri".to_owned()),
            (_, Some((what, name))) if what == "query" => ("vars", format!("arg_{}", name.as_str()?)),
            (_, Some((what, name))) => {
                (if what == "header" { "header" } else { "cookie" }, name.as_str()?.to_owned())
            }
            _ => return None,
        };
        out.insert("hash_on".to_owned(), json!(on));
        out.insert("key".to_owned(), json!(key));
    }
    out.insert("nodes".to_owned(), Value::Object(nodes));
    if scheme != "http" {
        out.insert("scheme".to_owned(), json!(scheme));
    }
    match &resource["retry"] {
        Value::Null => {}
        Value::String(_) => drop(out.insert("retries".to_owned(), json!(0))),
        retry => drop(out.insert("retries".to_owned(), json!(retry["attempts"].as_u64()?.checked_sub(1)?))),
    }
    out.extend(timeout_shown(&resource["timeouts"]).map(|timeout| ("timeout".to_owned(), timeout)));
    Some(out)
}

/// The times that [`timeouts`] has made.
pub fn timeout_shown(timeouts: &Value) -> Option<Value> {
    let mut out = Map::new();
    for (ours, theirs) in [("connect", "connect"), ("response_header", "read")] {
        let Some(text) = timeouts[ours].as_str() else { continue };
        let milliseconds: f64 = text.strip_suffix("ms")?.parse().ok()?;
        out.insert(theirs.to_owned(), json!(milliseconds / 1000.0));
    }
    (!out.is_empty()).then_some(Value::Object(out))
}
