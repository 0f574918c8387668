//! Converts `checks` of an APISIX upstream to health probes and outlier ejection.

use serde_json::{Map, Value, json};

use super::fields::ObjectFields;

/// Converts `checks` to `health` and `outlier` of the gateway's upstream.
///
/// # Errors
/// Names a setting that has no counterpart here.
pub fn convert_checks(checks: Value, scheme: &str) -> Result<Map<String, Value>, String> {
    let mut checks = ObjectFields::of(checks, "upstream/checks")?;
    let mut out = Map::new();
    match checks.take("active") {
        Some(active) => {
            out.insert(
                "health".to_owned(),
                convert_active(ObjectFields::of(active, "upstream/checks/active")?, scheme)?,
            );
        }
        None => return Err(checks.wrong("active", "an object: there are no passive checks without it")),
    }
    // In APISIX, without `passive` no ordinary response counts against a node.
    let outlier = match checks.take("passive") {
        None => json!("off"),
        Some(passive) => convert_passive(ObjectFields::of(passive, "upstream/checks/passive")?)?,
    };
    out.insert("outlier".to_owned(), outlier);
    checks.end()?;
    Ok(out)
}

fn child_object(fields: &mut ObjectFields, key: &str) -> Result<ObjectFields, String> {
    let value = fields.take(key).unwrap_or(json!({}));
    ObjectFields::of(value, &fields.bare(key))
}

fn count(fields: &mut ObjectFields, key: &str, default: u64, least: u64) -> Result<u64, String> {
    let number = fields.number(key)?.unwrap_or(default);
    match (least..=254).contains(&number) {
        true => Ok(number),
        false => Err(fields.wrong(key, &format!("a number from {least} to 254"))),
    }
}

fn statuses(fields: &mut ObjectFields) -> Result<Option<Vec<u64>>, String> {
    let Some(value) = fields.take("http_statuses") else { return Ok(None) };
    let all: Option<Vec<u64>> = value.as_array().and_then(|all| all.iter().map(Value::as_u64).collect());
    let all = all.filter(|all| !all.is_empty() && all.iter().all(|one| (200..=599).contains(one)));
    all.map(Some).ok_or_else(|| fields.wrong("http_statuses", "a list of statuses from 200 to 599"))
}

/// Converts `active` to `health`.
fn convert_active(mut active: ObjectFields, scheme: &str) -> Result<Value, String> {
    let kind = active.text("type")?.unwrap_or_else(|| "http".to_owned());
    let path = active.text("http_path")?.unwrap_or_else(|| "/".to_owned());
    let mut out = Map::new();
    let is_http = match kind.as_str() {
        "http" => true,
        "https" if scheme == "https://" => true,
        "https" => {
            return Err(active
                .wrong("type", "`https` because `scheme` is `https`: probes use the scheme of requests"));
        }
        "tcp" => false,
        _ => return Err(active.wrong("type", "`http`, `https` or `tcp`")),
    };
    match is_http {
        true => out.insert("http".to_owned(), json!(path)),
        false => out.insert("tcp".to_owned(), json!("on")),
    };
    active.only("http_method", &[json!("GET")])?;
    active.only("http_req_body", &[json!("")])?;
    active.only("https_verify_certificate", &[json!(true)])?;
    // How many nodes APISIX probes at once. The gateway has one bound for all of its probes instead.
    active.number("concurrency")?;
    let timeout = active.take("timeout").map_or(Some(1.0), |time| time.as_f64());
    let timeout = timeout.filter(|time| *time > 0.0 && *time <= 3600.0);
    let timeout = timeout.ok_or_else(|| active.wrong("timeout", "seconds"))?;
    out.insert("timeout".to_owned(), json!(format!("{}ms", (timeout * 1000.0).round().max(1.0))));
    if let Some(host) = active.text("host")?.filter(|_| is_http) {
        out.insert("host".to_owned(), json!(host));
    }
    out.extend(active.number("port")?.map(|port| ("port".to_owned(), json!(port))));
    if let Some(lines) = active.texts("req_headers")? {
        if !is_http {
            return Err(active.wrong("req_headers", "left out if `type` is `tcp`"));
        }
        let mut headers = Map::new();
        for line in lines {
            let line = line.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
            let (name, value) = line.ok_or_else(|| active.wrong("req_headers", "a list of `name: value`"))?;
            headers.insert(name.to_owned(), json!(value));
        }
        out.insert("headers".to_owned(), Value::Object(headers));
    }
    let (mut healthy, mut unhealthy) =
        (child_object(&mut active, "healthy")?, child_object(&mut active, "unhealthy")?);
    // APISIX has an interval for each state of a node. The gateway has one, so the shorter of the two is
    // used.
    let intervals = [healthy.number("interval")?, unhealthy.number("interval")?];
    let interval = intervals.into_iter().map(|interval| interval.unwrap_or(1)).min().unwrap_or(1).max(1);
    out.insert("interval".to_owned(), json!(format!("{interval}s")));
    out.insert("healthy".to_owned(), json!(count(&mut healthy, "successes", 2, 1)?));
    let good = statuses(&mut healthy)?;
    if is_http {
        out.insert("status".to_owned(), json!(good.unwrap_or_else(|| vec![200, 302])));
    }
    statuses(&mut unhealthy)?;
    let by_status = count(&mut unhealthy, "http_failures", 5, 1)?;
    let by_connection = count(&mut unhealthy, "tcp_failures", 2, 1)?;
    count(&mut unhealthy, "timeouts", 3, 1)?;
    out.insert("unhealthy".to_owned(), json!(if is_http { by_status } else { by_connection }));
    healthy.end()?;
    unhealthy.end()?;
    active.end()?;
    Ok(Value::Object(out))
}

/// Converts `passive` to `outlier`.
fn convert_passive(mut passive: ObjectFields) -> Result<Value, String> {
    if !matches!(passive.text("type")?.as_deref(), None | Some("http" | "https" | "tcp")) {
        return Err(passive.wrong("type", "`http`, `https` or `tcp`"));
    }
    let (mut healthy, mut unhealthy) =
        (child_object(&mut passive, "healthy")?, child_object(&mut passive, "unhealthy")?);
    // Here an ejected node returns after a time or by a successful probe, so successes of requests do not
    // count.
    statuses(&mut healthy)?;
    count(&mut healthy, "successes", 5, 0)?;
    let bad = statuses(&mut unhealthy)?;
    if bad.is_some_and(|bad| bad.iter().any(|status| *status < 500)) {
        return Err(unhealthy.wrong(
            "http_statuses",
            "a list of statuses from 500 to 599: only those count as failures here",
        ));
    }
    let by_status = count(&mut unhealthy, "http_failures", 5, 0)?;
    let by_connection = count(&mut unhealthy, "tcp_failures", 2, 0)?;
    let by_time = count(&mut unhealthy, "timeouts", 7, 0)?;
    healthy.end()?;
    unhealthy.end()?;
    passive.end()?;
    let or_off = |number: u64| if number == 0 { json!("off") } else { json!(number) };
    let broken = [by_connection, by_time].into_iter().filter(|number| *number > 0).min().unwrap_or(0);
    Ok(json!({
        "consecutive_5xx": or_off(by_status),
        "consecutive_gateway_errors": or_off(broken),
        "success_rate": "off",
        "max_ejected": "100%",
    }))
}
