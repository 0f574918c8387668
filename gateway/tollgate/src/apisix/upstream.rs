//! Converts APISIX upstreams to the gateway's, and back.

use serde_json::{Map, Value, json};

use super::checks;
use super::fields::ObjectFields;

/// A converted upstream.
#[derive(Clone, Debug)]
pub struct ConvertedUpstream {
    /// The gateway's resource.
    pub resource: Value,
    /// The `Host` that its endpoints get: a name, or `endpoint` for each endpoint's own; `None`: the
    /// request's.
    pub host: Option<String>,
}

/// Converts an APISIX upstream.
///
/// # Errors
/// Names a setting that has no counterpart here.
pub fn convert(mut fields: ObjectFields) -> Result<ConvertedUpstream, String> {
    super::parts::take_description(&mut fields)?;
    let (scheme, speaks_http2) = scheme(&mut fields)?;
    let mut out = Map::new();
    let (key, endpoints) = endpoints_or_discovery(&mut fields, scheme)?;
    out.insert(key.to_owned(), endpoints);
    if speaks_http2 {
        out.insert("http2".to_owned(), json!("on"));
    }
    let balance = balance(&mut fields)?;
    let checks = fields.take("checks").map(|checks| checks::convert_checks(checks, scheme)).transpose()?;
    let balance = if checks.is_some() { Some(with_panic_threshold(balance)) } else { balance };
    out.extend(balance.map(|balance| ("balance".to_owned(), balance)));
    out.extend(checks.into_iter().flatten());
    out.extend(retry(&mut fields)?.map(|retry| ("retry".to_owned(), retry)));
    out.extend(timeouts(&mut fields)?.map(|timeouts| ("timeouts".to_owned(), timeouts)));
    if let Some(pool) = fields.take("keepalive_pool") {
        out.insert("pool".to_owned(), convert_pool(ObjectFields::of(pool, "upstream/keepalive_pool")?)?);
    }
    if let Some(tls) = fields.take("tls") {
        let tls = convert_tls(ObjectFields::of(tls, "upstream/tls")?)?;
        // Without TLS the setting has no effect.
        out.extend(tls.filter(|_| scheme == "https://").map(|tls| ("tls".to_owned(), tls)));
    }
    let host = host(&mut fields)?;
    fields.end()?;
    Ok(ConvertedUpstream { resource: Value::Object(out), host })
}

/// Converts `scheme`. Returns the start of the endpoints' addresses, and whether they speak HTTP/2 over TLS.
fn scheme(fields: &mut ObjectFields) -> Result<(&'static str, bool), String> {
    match fields.text("scheme")?.as_deref() {
        None | Some("http") => Ok(("", false)),
        Some("https") => Ok(("https://", false)),
        Some("grpcs") => Ok(("https://", true)),
        Some("grpc") => Ok(("h2c://", false)),
        Some(_) => Err(fields.wrong(
            "scheme",
            "`http`, `https`, `grpc` or `grpcs`; for TCP and UDP write `streams`, over /api/v1",
        )),
    }
}

/// Converts `type`, `hash_on` and `key`; `None`: the default, round robin.
fn balance(fields: &mut ObjectFields) -> Result<Option<Value>, String> {
    let kind = fields.text("type")?;
    let (on, key) = (fields.text("hash_on")?, fields.text("key")?);
    let balance = match kind.as_deref() {
        None | Some("roundrobin") => None,
        Some("least_conn") => Some(json!("least_requests")),
        Some("chash") => {
            let by = hash_key(on.as_deref(), key.as_deref(), fields)?;
            return Ok(Some(json!({ "policy": "hash", "by": by })));
        }
        Some("ewma") => {
            return Err(
                "`upstream/type`: this gateway does not balance by latency: write `least_conn`".to_owned()
            );
        }
        Some(_) => return Err(fields.wrong("type", "`roundrobin`, `chash` or `least_conn`")),
    };
    if on.is_some() || key.is_some() {
        return Err(fields.wrong("type", "`chash`, because there is a `key`"));
    }
    Ok(balance)
}

/// Adds the threshold at which unhealthy endpoints are used: APISIX uses them only if no healthy ones are left.
fn with_panic_threshold(balance: Option<Value>) -> Value {
    match balance {
        None => json!({ "panic_threshold": "1%" }),
        Some(Value::String(policy)) => json!({ "policy": policy, "panic_threshold": "1%" }),
        Some(mut balance) => {
            balance["panic_threshold"] = json!("1%");
            balance
        }
    }
}

/// Converts `retries` and `retry_timeout`, which is in seconds; 0 is no limit.
fn retry(fields: &mut ObjectFields) -> Result<Option<Value>, String> {
    let attempts = match fields.number("retries")? {
        None => None,
        Some(retries @ 0..=15) => Some(retries + 1),
        Some(_) => return Err(fields.wrong("retries", "a number from 0 to 15")),
    };
    let seconds = fields.take("retry_timeout").map_or(Some(0.0), |time| time.as_f64());
    let seconds = seconds.filter(|seconds| (0.0..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or_else(|| fields.wrong("retry_timeout", "seconds"))?;
    if attempts == Some(1) {
        return Ok(Some(json!("off")));
    }
    let mut out = Map::new();
    out.extend(attempts.map(|attempts| ("attempts".to_owned(), json!(attempts))));
    if seconds > 0.0 {
        out.insert("within".to_owned(), json!(milliseconds(seconds)));
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// Returns a time in seconds as the gateway writes it.
fn milliseconds(seconds: f64) -> String {
    format!("{}ms", (seconds * 1000.0).round().max(1.0))
}

/// Returns the seconds of a time that [`milliseconds`] has written.
fn seconds(time: &Value) -> Option<f64> {
    let milliseconds: f64 = time.as_str()?.strip_suffix("ms")?.parse().ok()?;
    Some(milliseconds / 1000.0)
}

/// Converts `pass_host` and `upstream_host`.
fn host(fields: &mut ObjectFields) -> Result<Option<String>, String> {
    let (pass, name) = (fields.text("pass_host")?, fields.text("upstream_host")?);
    match (pass.as_deref(), name) {
        (None | Some("pass"), _) => Ok(None),
        (Some("node"), _) => Ok(Some("endpoint".to_owned())),
        (Some("rewrite"), Some(name)) => Ok(Some(name)),
        (Some("rewrite"), None) => {
            Err(fields.wrong("upstream_host", "a host, because `pass_host` is `rewrite`"))
        }
        _ => Err(fields.wrong("pass_host", "`pass`, `node` or `rewrite`")),
    }
}

/// Converts `keepalive_pool`.
fn convert_pool(mut pool: ObjectFields) -> Result<Value, String> {
    let size = pool.number("size")?.unwrap_or(320);
    let requests = pool.number("requests")?.unwrap_or(1000).max(1);
    let idle = pool.take("idle_timeout").map_or(Some(60.0), |time| time.as_f64());
    let idle = idle.filter(|time| (0.0..=86_400.0).contains(time));
    let idle = idle.ok_or_else(|| pool.wrong("idle_timeout", "seconds"))?;
    pool.end()?;
    let mut out = json!({ "max_idle": size, "max_requests": requests });
    // In APISIX, an idle timeout of 0 keeps no connections.
    match idle {
        0.0 => out["max_idle"] = json!(0),
        idle => out["idle_timeout"] = json!(milliseconds(idle)),
    }
    Ok(out)
}

/// Converts `tls`.
fn convert_tls(mut tls: ObjectFields) -> Result<Option<Value>, String> {
    for key in ["client_cert", "client_key", "client_cert_id"] {
        if tls.take(key).is_some() {
            return Err(format!(
                "{}: a certificate for endpoints is a file of this machine: write `tls.certificate` and `tls.key` of the \
                 upstream, over /api/v1",
                tls.place(key)
            ));
        }
    }
    let verify = tls.flag("verify")?;
    tls.end()?;
    Ok(verify.map(|verify| json!({ "verify": if verify { "on" } else { "dangerously_off" } })))
}

/// Converts `nodes` or the discovery settings. Returns the key and the value for the gateway's resource.
fn endpoints_or_discovery(fields: &mut ObjectFields, scheme: &str) -> Result<(&'static str, Value), String> {
    let (kind, name) = (fields.text("discovery_type")?, fields.text("service_name")?);
    if kind.is_none() && name.is_none() {
        return Ok(("endpoints", endpoints(fields, scheme)?));
    }
    let (Some(kind), Some(name)) = (kind, name) else {
        return Err(format!("{} and `discovery_type` belong together", fields.place("service_name")));
    };
    if kind != "dns" {
        return Err(format!(
            "{}: this gateway has no discovery by `{kind}`; write `discover` of the upstream with `dns://`, `srv://` or `file:`, over /api/v1",
            fields.place("discovery_type")
        ));
    }
    if !scheme.is_empty() {
        return Err(format!("{}: discovered endpoints must have the scheme `http`", fields.place("scheme")));
    }
    let (name, port) = match name.rsplit_once(':') {
        Some((name, port)) => (name.to_owned(), port.parse().ok()),
        None => (name.clone(), Some(80_u16)),
    };
    let port = port.ok_or_else(|| fields.wrong("service_name", "a name, or a name with a port"))?;
    Ok(("discover", json!({ "dns": name, "port": port })))
}

/// Converts `nodes`, in both of its forms.
fn endpoints(fields: &mut ObjectFields, scheme: &str) -> Result<Value, String> {
    let expected = "a mapping of `host:port` to a weight, or a list of `host`, `port` and `weight`";
    let one = |host: &str, weight: &Value| json!({ "address": format!("{scheme}{host}"), "weight": weight });
    match fields.take("nodes") {
        Some(Value::Object(nodes)) if !nodes.is_empty() => {
            Ok(nodes.iter().map(|(host, weight)| one(&with_port(host, scheme), weight)).collect())
        }
        Some(Value::Array(nodes)) if !nodes.is_empty() => {
            let nodes = nodes.into_iter().enumerate().map(|(index, node)| {
                let mut node = ObjectFields::of(node, &format!("upstream/nodes/{index}"))?;
                let host = node.text("host")?.ok_or_else(|| node.wrong("host", "a host"))?;
                let port = node.number("port")?;
                let weight = node.take("weight").ok_or_else(|| node.wrong("weight", "a number"))?;
                let priority = node.take("priority").map_or(Some(0), |priority| priority.as_i64());
                let priority = priority.ok_or_else(|| node.wrong("priority", "a whole number"))?;
                node.end()?;
                let host = if host.contains(':') && !host.starts_with('[') && port.is_some() {
                    format!("[{host}]")
                } else {
                    host
                };
                let host = port.map_or_else(|| with_port(&host, scheme), |port| format!("{host}:{port}"));
                Ok((one(&host, &weight), priority))
            });
            let mut nodes = nodes.collect::<Result<Vec<_>, String>>()?;
            // In APISIX the highest priority is used first; here it is 0.
            let mut ranks: Vec<_> = nodes.iter().map(|(_, priority)| *priority).collect();
            ranks.sort_unstable_by(|one, other| other.cmp(one));
            ranks.dedup();
            if ranks.len() > 256 {
                return Err(fields.wrong("nodes", "nodes of at most 256 different priorities"));
            }
            for (node, priority) in &mut nodes {
                if let Some(rank) = ranks.iter().position(|rank| rank == priority).filter(|rank| *rank > 0) {
                    node["priority"] = json!(rank);
                }
            }
            Ok(nodes.into_iter().map(|(node, _)| node).collect())
        }
        Some(Value::Object(_) | Value::Array(_)) => {
            Err(format!("{}: an upstream must have at least one node here", fields.place("nodes")))
        }
        _ => Err(fields.wrong("nodes", expected)),
    }
}

/// Adds the default port of the scheme to a host without a port.
fn with_port(host: &str, scheme: &str) -> String {
    let bare = host.rsplit_once(':').is_none_or(|(_, port)| port.ends_with(']'));
    match bare {
        true => format!("{host}:{}", if scheme == "https://" { 443 } else { 80 }),
        false => host.to_owned(),
    }
}

/// Converts the key of consistent hashing.
fn hash_key(on: Option<&str>, key: Option<&str>, fields: &ObjectFields) -> Result<Value, String> {
    if matches!(on, Some("consumer" | "vars_combinations")) {
        return Err(fields.wrong(
            "hash_on",
            "`vars`, `header` or `cookie`: consumers and combinations cannot be hashed here; hash the header that identifies the \
             known",
        ));
    }
    let key = key.ok_or_else(|| fields.wrong("key", "the variable, header or cookie to hash"))?;
    match (on.unwrap_or("vars"), key) {
        ("vars", "remote_addr") => Ok(json!("client_address")),
        ("vars", "uri") => Ok(json!("path")),
        ("vars", key) if key.starts_with("arg_") => Ok(json!({ "query": &key[4..] })),
        ("vars", key) if key.starts_with("http_") => Ok(json!({ "header": key[5..].replace('_', "-") })),
        ("vars", key) if key.starts_with("cookie_") => Ok(json!({ "cookie": &key[7..] })),
        ("vars", _) => Err(fields.wrong(
            "key",
            "`remote_addr`, `uri`, `arg_NAME`, `http_NAME` or `cookie_NAME` if `hash_on` is `vars`",
        )),
        ("header", key) => Ok(json!({ "header": key })),
        ("cookie", key) => Ok(json!({ "cookie": key })),
        _ => Err(fields.wrong("hash_on", "`vars`, `header` or `cookie`")),
    }
}

/// Converts `timeout`, which is in seconds.
pub fn timeouts(fields: &mut ObjectFields) -> Result<Option<Value>, String> {
    let Some(value) = fields.take("timeout") else { return Ok(None) };
    let mut timeout = ObjectFields::of(value, "timeout")?;
    let mut out = Map::new();
    for (theirs, ours) in
        [("connect", &["connect"][..]), ("send", &["send"]), ("read", &["response_header", "response_body"])]
    {
        let Some(value) = timeout.take(theirs) else { continue };
        let seconds = value.as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= 86_400.0);
        let seconds = seconds.ok_or_else(|| timeout.wrong(theirs, "seconds"))?;
        let time = milliseconds(seconds);
        out.extend(ours.iter().map(|key| ((*key).to_owned(), json!(time))));
    }
    timeout.end()?;
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// Converts a resource that [`convert`] has made back to APISIX's form.
pub fn to_apisix(resource: &Value) -> Option<Map<String, Value>> {
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
        retry => {
            if let Some(attempts) = retry["attempts"].as_u64() {
                out.insert("retries".to_owned(), json!(attempts.checked_sub(1)?));
            }
            out.extend(seconds(&retry["within"]).map(|time| ("retry_timeout".to_owned(), json!(time))));
        }
    }
    out.extend(timeout_to_apisix(&resource["timeouts"]).map(|timeout| ("timeout".to_owned(), timeout)));
    Some(out)
}

/// Converts timeouts that [`timeouts`] has made back to APISIX's form.
pub fn timeout_to_apisix(timeouts: &Value) -> Option<Value> {
    let mut out = Map::new();
    for (ours, theirs) in [("connect", "connect"), ("send", "send"), ("response_header", "read")] {
        if timeouts[ours].is_string() {
            out.insert(theirs.to_owned(), json!(seconds(&timeouts[ours])?));
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}
