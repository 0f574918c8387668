//! Plugins that limit rates and concurrency.

use serde_json::{Map, Value, json};

use super::super::fields::ObjectFields;
use super::{PluginEffect, PluginOrigin};

/// Converts `limit-count` to `rate_limit`.
pub fn count(
    effect: &mut PluginEffect,
    fields: &mut ObjectFields,
    origin: &PluginOrigin,
) -> Result<(), String> {
    let mut common = Map::new();
    status(fields, &mut common)?;
    let shows = fields.flag("show_limit_quota_header")?.unwrap_or(true);
    common.insert("headers".to_owned(), json!(shows));
    let group = fields.text("group")?.map(|group| format!("apisix/group/{group}"));
    let name = group.or_else(|| origin.scope.clone());
    redis(fields, &mut common)?;
    // The gateway spreads a rate evenly over time, so it has no window of either kind.
    fields.only("window_type", &[json!("fixed"), json!("sliding")])?;
    if fields.take("sync_interval").is_some_and(|interval| interval.as_f64() != Some(-1.0)) {
        return Err(format!(
            "{}: the count is always in the Redis here; write `policies.rate_limit` with `lease`, over /api/v1",
            fields.place("sync_interval")
        ));
    }
    let Some(rules) = fields.take("rules") else {
        let mut limit = common;
        rate(fields, &mut limit)?;
        key(fields, &mut limit, Some("remote_addr"))?;
        scope(&mut limit, name, "limit-count");
        effect.limit("rate_limit", limit);
        return Ok(());
    };
    let rules = rules.as_array().filter(|rules| !rules.is_empty()).cloned();
    for (index, rule) in rules.ok_or_else(|| fields.wrong("rules", "a list"))?.into_iter().enumerate() {
        let mut rule = ObjectFields::of(rule, &format!("plugins/limit-count/rules/{index}"))?;
        let mut limit = common.clone();
        rate(&mut rule, &mut limit)?;
        let text = rule.text("key")?.ok_or_else(|| rule.wrong("key", "variables such as `$remote_addr`"))?;
        limit.insert("by".to_owned(), combined_key(&text, &rule)?);
        scope(&mut limit, name.clone(), &format!("limit-count/{index}"));
        rule.end()?;
        effect.limit("rate_limit", limit);
    }
    Ok(())
}

/// Converts `count` and `time_window` to a rate.
fn rate(fields: &mut ObjectFields, limit: &mut Map<String, Value>) -> Result<(), String> {
    for name in ["count", "time_window"] {
        if fields.peek(name).is_some_and(Value::is_string) {
            return Err(format!(
                "{}: a number that a variable gives has no counterpart here; write a route for each case, with `vars`",
                fields.place(name)
            ));
        }
    }
    let count = positive(fields, "count")?;
    let window = positive(fields, "time_window")?;
    limit.insert("rate".to_owned(), json!(format!("{count}/{window}s")));
    Ok(())
}

/// Converts `limit-req` to `rate_limit`. Requests within the burst, which APISIX delays, pass at once.
pub fn requests(
    effect: &mut PluginEffect,
    fields: &mut ObjectFields,
    origin: &PluginOrigin,
) -> Result<(), String> {
    let rate = fields
        .take("rate")
        .and_then(|rate| rate.as_f64())
        .filter(|rate| *rate > 0.0 && *rate <= 10_000_000.0);
    let rate = rate.ok_or_else(|| fields.wrong("rate", "requests a second, more than 0"))?;
    let burst =
        fields.take("burst").and_then(|burst| burst.as_f64()).filter(|burst| (0.0..=1e9).contains(burst));
    let burst = burst.ok_or_else(|| fields.wrong("burst", "a number of requests, 0 or more"))?;
    let nodelay = fields.flag("nodelay")?;
    if burst >= 1.0 && nodelay == Some(false) {
        return Err("`plugins/limit-req/nodelay` must be true if there is a `burst`: this gateway does not delay requests".to_owned());
    }
    let mut limit = Map::new();
    // A rate is a whole number per period, so a fractional rate is written per minute or per hour.
    let written = match rate.fract() {
        0.0 => format!("{rate}/s"),
        _ if rate * 60.0 >= 1.0 && (rate * 60.0).fract() == 0.0 => format!("{}/m", rate * 60.0),
        _ => format!("{}/h", (rate * 3600.0).round().max(1.0)),
    };
    limit.insert("rate".to_owned(), json!(written));
    limit.insert("burst".to_owned(), json!(burst.floor() as u64 + 1));
    key(fields, &mut limit, None)?;
    status(fields, &mut limit)?;
    scope(&mut limit, origin.scope.clone(), "limit-req");
    redis(fields, &mut limit)?;
    effect.limit("rate_limit", limit);
    Ok(())
}

/// Converts `limit-conn` to `concurrency`. Requests within the burst, which APISIX delays, pass at once.
pub fn connections(
    effect: &mut PluginEffect,
    fields: &mut ObjectFields,
    origin: &PluginOrigin,
) -> Result<(), String> {
    let conn = positive(fields, "conn")?;
    let burst = fields.number("burst")?.ok_or_else(|| fields.wrong("burst", "a whole number"))?;
    // How long APISIX delays requests beyond `conn`. The gateway does not delay them.
    let delay = fields.take("default_conn_delay");
    if delay.as_ref().is_some_and(|delay| !delay.is_number()) {
        return Err(fields.wrong("default_conn_delay", "seconds"));
    }
    fields.flag("only_use_default_delay")?;
    let mut limit = Map::new();
    limit.insert("limit".to_owned(), json!(conn.saturating_add(burst)));
    key(fields, &mut limit, None)?;
    status(fields, &mut limit)?;
    scope(&mut limit, origin.scope.clone(), "limit-conn");
    if fields.take("policy").is_some_and(|policy| policy != "local") {
        return Err(format!(
            "{}: requests under way are counted by each gateway for itself here: leave it away, or write `limit-req` with `policy` \
             `redis`",
            fields.place("policy")
        ));
    }
    effect.limit("concurrency", limit);
    Ok(())
}

fn positive(fields: &mut ObjectFields, key: &str) -> Result<u64, String> {
    let number = fields.number(key)?.filter(|number| *number > 0);
    number.ok_or_else(|| fields.wrong(key, "a whole number, at least 1"))
}

/// Converts the key by which a limit counts.
fn key(
    fields: &mut ObjectFields,
    limit: &mut Map<String, Value>,
    default: Option<&str>,
) -> Result<(), String> {
    let kind = fields.text("key_type")?.unwrap_or_else(|| "var".to_owned());
    let key = fields.text("key")?.or_else(|| default.map(str::to_owned));
    let key = key.ok_or_else(|| fields.wrong("key", "the property by which requests are counted"))?;
    let by = match kind.as_str() {
        "constant" => return Ok(()),
        "var" => json!(count_key(&key, fields)?),
        "var_combination" => combined_key(&key, fields)?,
        _ => return Err(fields.wrong("key_type", "`var`, `var_combination` or `constant`")),
    };
    limit.insert("by".to_owned(), by);
    Ok(())
}

/// Converts a key of several variables, separated by spaces.
fn combined_key(key: &str, fields: &ObjectFields) -> Result<Value, String> {
    let words = key.split_ascii_whitespace();
    let parts =
        words.map(|word| match word.strip_prefix('$') {
            Some(name) => count_key(name.trim_start_matches('{').trim_end_matches('}'), fields),
            None => Err(fields
                .wrong("key", "variables with blanks between them, such as `$remote_addr $consumer_name`")),
        });
    Ok(json!(parts.collect::<Result<Vec<_>, _>>()?))
}

fn count_key(variable: &str, fields: &ObjectFields) -> Result<String, String> {
    let named = |prefix: &str| variable.strip_prefix(prefix).filter(|name| !name.is_empty());
    let text = match variable {
        "remote_addr" | "binary_remote_addr" => "address",
        "consumer_name" => "consumer",
        "host" | "http_host" => "host",
        "uri" => "path",
        "request_method" => "method",
        "route_id" | "route_name" => "route",
        _ => {
            return match (named("http_"), named("arg_"), named("cookie_")) {
                (Some(name), ..) => Ok(format!("header {}", name.replace('_', "-"))),
                (_, Some(name), _) => Ok(format!("query {name}")),
                (.., Some(name)) => Ok(format!("cookie {name}")),
                _ => Err(fields.wrong(
                    "key",
                    "`remote_addr`, `consumer_name`, `host`, `uri`, `request_method`, `route_id`, `http_NAME`, `arg_NAME` or \
                     `cookie_NAME`",
                )),
            };
        }
    };
    Ok(text.to_owned())
}

/// Sets the status of refused requests; like in APISIX, 503 is the default.
fn status(fields: &mut ObjectFields, limit: &mut Map<String, Value>) -> Result<(), String> {
    let status = fields.number("rejected_code")?.unwrap_or(503);
    if !(400..=599).contains(&status) {
        return Err(fields.wrong("rejected_code", "a status from 400 to 599"));
    }
    limit.insert("status".to_owned(), json!(status));
    match fields.take("rejected_msg") {
        None => Ok(()),
        Some(_) => Err(format!(
            "{}: the gateway's error responses state their reason; `errors` in the file sets their format",
            fields.place("rejected_msg")
        )),
    }
}

/// Sets the scope of a limit that is written once for several routes and counts them together.
fn scope(limit: &mut Map<String, Value>, scope: Option<String>, plugin: &str) {
    if let Some(scope) = scope {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_./".contains(c) { c } else { '-' };
        limit.insert(
            "scope".to_owned(),
            json!(format!("{}/{plugin}", scope.chars().map(plain).collect::<String>())),
        );
    }
}

/// Converts `policy` and the settings of Redis.
fn redis(fields: &mut ObjectFields, limit: &mut Map<String, Value>) -> Result<(), String> {
    let policy = fields.text("policy")?;
    let degrade = fields.flag("allow_degradation")?.unwrap_or(false);
    let mut redis = Map::new();
    let (user, password) = (fields.text("redis_username")?, fields.text("redis_password")?);
    let mut timeout = fields.number("redis_timeout")?;
    // The gateway always keeps its connections to Redis open.
    for key in ["redis_keepalive_timeout", "redis_keepalive_pool"] {
        fields.number(key)?;
    }
    match policy.as_deref() {
        None | Some("local") => {
            if user.is_some() || password.is_some() || timeout.is_some() {
                return Err(fields.wrong("policy", "`redis` or `redis-cluster` where there is `redis_...`"));
            }
            return Ok(());
        }
        Some("redis") => {
            let host = fields.text("redis_host")?.ok_or_else(|| fields.wrong("redis_host", "a host"))?;
            let port = fields.number("redis_port")?.unwrap_or(6379);
            let database = fields.number("redis_database")?.unwrap_or(0);
            let tls = fields.flag("redis_ssl")?.unwrap_or(false);
            if tls {
                require_verification(fields, "redis_ssl_verify")?;
            } else {
                fields.flag("redis_ssl_verify")?;
            }
            let scheme = if tls { "rediss" } else { "redis" };
            let user = user.map(|user| format!("{user}@")).unwrap_or_default();
            if user.contains(['/', ':', '%', '#', '?']) {
                return Err(fields.wrong("redis_username", "a name of letters, digits, `-` and `_`"));
            }
            redis.insert("url".to_owned(), json!(format!("{scheme}://{user}{host}:{port}/{database}")));
        }
        Some("redis-cluster") => {
            let nodes = fields.texts("redis_cluster_nodes")?;
            let nodes = nodes.ok_or_else(|| fields.wrong("redis_cluster_nodes", "a list of `host:port`"))?;
            redis.insert("cluster".to_owned(), json!(nodes));
            // APISIX's internal name of the cluster.
            fields.text("redis_cluster_name")?;
            if fields.flag("redis_cluster_ssl")?.unwrap_or(false) {
                require_verification(fields, "redis_cluster_ssl_verify")?;
                redis.insert("tls".to_owned(), json!(true));
            } else {
                fields.flag("redis_cluster_ssl_verify")?;
            }
            redis.extend(user.map(|user| ("user".to_owned(), json!(user))));
        }
        Some("redis-sentinel") => {
            let master = fields.text("redis_master_name")?;
            let master = master.ok_or_else(|| fields.wrong("redis_master_name", "the name of a master"))?;
            let mut sentinel = Map::from_iter([
                ("master".to_owned(), json!(master)),
                ("addresses".to_owned(), json!(sentinels(fields)?)),
            ]);
            for (theirs, ours) in [("sentinel_username", "user"), ("sentinel_password", "password")] {
                sentinel.extend(fields.text(theirs)?.map(|text| (ours.to_owned(), json!(text))));
            }
            fields.only("redis_role", &[json!("master")])?;
            redis.insert("sentinel".to_owned(), Value::Object(sentinel));
            redis.extend(
                fields.number("redis_database")?.map(|number| ("database".to_owned(), json!(number))),
            );
            redis.extend(user.map(|user| ("user".to_owned(), json!(user))));
            let times = [fields.number("redis_connect_timeout")?, fields.number("redis_read_timeout")?];
            timeout = timeout.or(times.into_iter().flatten().max());
        }
        Some(_) => {
            return Err(fields.wrong("policy", "`local`, `redis`, `redis-cluster` or `redis-sentinel`"));
        }
    }
    redis.extend(password.map(|password| ("password".to_owned(), json!(password))));
    let timeout = timeout.unwrap_or(1000).clamp(1, 5000);
    redis.insert("timeout".to_owned(), json!(format!("{timeout}ms")));
    redis.insert("on_failure".to_owned(), json!(if degrade { "open" } else { "closed" }));
    limit.insert("redis".to_owned(), Value::Object(redis));
    Ok(())
}

/// Converts `redis_sentinels`.
fn sentinels(fields: &mut ObjectFields) -> Result<Vec<String>, String> {
    let all = fields.take("redis_sentinels").and_then(|all| all.as_array().cloned()).unwrap_or_default();
    let all: Option<Vec<_>> = all
        .iter()
        .map(|one| Some(format!("{}:{}", one.get("host")?.as_str()?, one.get("port")?.as_u64()?)))
        .collect();
    let all = all.filter(|all| !all.is_empty());
    all.ok_or_else(|| fields.wrong("redis_sentinels", "a list of `host` and `port`"))
}

/// Checks that TLS is verified: the gateway has no other mode.
fn require_verification(fields: &mut ObjectFields, key: &str) -> Result<(), String> {
    match fields.flag(key)? {
        Some(true) => Ok(()),
        _ => Err(format!("{} can only be true here: a certificate is verified", fields.place(key))),
    }
}
