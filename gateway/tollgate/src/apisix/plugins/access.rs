//! Plugins for authentication and authorization.

use serde_json::{Map, Value, json};

use super::super::fields::ObjectFields;
use super::PluginEffect;

/// The request field in which APISIX names the consumer to the upstream.
pub const CONSUMER: &str = "X-Consumer-Username";

fn anonymous(fields: &mut ObjectFields) -> Result<(), String> {
    match fields.take("anonymous_consumer") {
        None => Ok(()),
        Some(_) => Err(format!(
            "{}: an authentication policy refuses clients without credentials here",
            fields.place("anonymous_consumer")
        )),
    }
}

/// Converts `key-auth` to `api_key`.
pub fn key(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    anonymous(fields)?;
    let header = fields.text("header")?.unwrap_or_else(|| "apikey".to_owned());
    let query = fields.text("query")?.unwrap_or_else(|| "apikey".to_owned());
    let hides = fields.flag("hide_credentials")?.unwrap_or(false);
    fields.text("realm")?;
    let value = json!({ "header": header, "query": query, "forward": !hides, "consumer_header": CONSUMER });
    effect.policy("key-auth", "api_key", value)
}

/// The places and the claim of tokens that are verified with consumers' keys.
#[derive(Debug)]
pub struct TokenSettings {
    /// The value for `from` of the policy.
    pub from: Value,
    pub forward: bool,
    /// The claim that names the consumer.
    pub claim: String,
}

/// Converts `jwt-auth` to `jwt`, with the keys of consumers.
pub fn tokens(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    anonymous(fields)?;
    let header = fields.text("header")?.unwrap_or_else(|| "Authorization".to_owned());
    let query = fields.text("query")?.unwrap_or_else(|| "jwt".to_owned());
    let cookie = fields.text("cookie")?.unwrap_or_else(|| "jwt".to_owned());
    let hides = fields.flag("hide_credentials")?.unwrap_or(false);
    let claim = fields.text("key_claim_name")?.unwrap_or_else(|| "key".to_owned());
    fields.only("store_in_ctx", &[json!(false)])?;
    fields.only("use_jwks", &[json!(false)])?;
    fields.text("realm")?;
    let from = json!([{ "header": header }, { "query": query }, { "cookie": cookie }]);
    match effect.tokens.replace(TokenSettings { from, forward: !hides, claim }) {
        None => Ok(()),
        Some(_) => {
            Err("`plugins/jwt-auth` is there twice, here and in a global rule: write one of them".to_owned())
        }
    }
}

/// Converts `basic-auth` to `basic`.
pub fn basic(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    anonymous(fields)?;
    let hides = fields.flag("hide_credentials")?.unwrap_or(false);
    let mut value = Map::new();
    value.extend(fields.text("realm")?.map(|realm| ("realm".to_owned(), json!(realm))));
    value.insert("forward".to_owned(), json!(!hides));
    value.insert("consumer_header".to_owned(), json!(CONSUMER));
    effect.policy("basic-auth", "basic", Value::Object(value))
}

/// Converts `consumer-restriction` to `authorize`.
pub fn consumers(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    let key = match fields.text("type")?.as_deref() {
        None | Some("consumer_name") => "consumers",
        Some("consumer_group_id") => "groups",
        Some(_) => {
            return Err(fields.wrong(
                "type",
                "`consumer_name` or `consumer_group_id`: which route a consumer may use, write at each route",
            ));
        }
    };
    refuses_with(fields, "rejected_code", 403)?;
    let mut value = Map::new();
    if let Some(names) = fields.texts("whitelist")? {
        value.insert("allow".to_owned(), json!({ key: names }));
    }
    if let Some(names) = fields.texts("blacklist")? {
        value.insert("deny".to_owned(), json!({ key: names }));
    }
    if let Some(rules) = fields.take("allowed_by_methods") {
        if value.contains_key("allow") || key != "consumers" {
            return Err(format!(
                "{}: not beside `whitelist` or a group; write `policies.authorize` of the route, over /api/v1",
                fields.place("allowed_by_methods")
            ));
        }
        let rules = rules.as_array().cloned().unwrap_or_default();
        let mut allow = Vec::new();
        for (index, rule) in rules.into_iter().enumerate() {
            let mut rule =
                ObjectFields::of(rule, &format!("plugins/consumer-restriction/allowed_by_methods/{index}"))?;
            let user = rule.text("user")?.ok_or_else(|| rule.wrong("user", "the name of a consumer"))?;
            let methods = rule.texts("methods")?.ok_or_else(|| rule.wrong("methods", "a list of methods"))?;
            rule.end()?;
            allow.push(json!({ "consumers": [user], "methods": methods }));
        }
        // Consumers that no rule names may use every method.
        effect.by_method = true;
        value.insert("allow".to_owned(), json!(allow));
    }
    if value.is_empty() {
        return Err(fields.wrong("whitelist", "a list of names, or `blacklist`, or `allowed_by_methods`"));
    }
    effect.policy("consumer-restriction", "authorize", Value::Object(value))
}

/// Converts `ip-restriction` to `ip`.
pub fn addresses(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    refuses_with(fields, "response_code", 403)?;
    let mut value = Map::new();
    for (theirs, ours) in [("whitelist", "allow"), ("blacklist", "deny")] {
        value.extend(fields.texts(theirs)?.map(|blocks| (ours.to_owned(), json!(blocks))));
    }
    match value.len() {
        0 => Err(fields.wrong("whitelist", "a list of addresses, or `blacklist`")),
        _ => effect.policy("ip-restriction", "ip", Value::Object(value)),
    }
}

/// Checks that a plugin asks for the only status and body that its policy can refuse with.
fn refuses_with(fields: &mut ObjectFields, key: &str, status: u64) -> Result<(), String> {
    fields.only(key, &[json!(status)])?;
    for message in ["message", "rejected_msg"] {
        if fields.take(message).is_some() {
            let place = fields.place(message);
            return Err(format!(
                "{place}: the gateway's errors say their reason; `errors` in the file has their form"
            ));
        }
    }
    Ok(())
}

/// Converts `cors`.
pub fn cors(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    let list = |text: String| {
        text.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect::<Vec<_>>()
    };
    let mut value = Map::new();
    let credentials = fields.flag("allow_credential")?.unwrap_or(false);
    let regexes = fields.texts("allow_origins_by_regex")?;
    let origins = fields.text("allow_origins")?;
    if let Some(regexes) = regexes {
        // APISIX searches the expression within an origin; the gateway matches whole origins.
        let read_whole = regexes.iter().map(|regex| format!("(?s:.*)(?:{regex})(?s:.*)"));
        value.insert("regex".to_owned(), json!(read_whole.collect::<Vec<_>>()));
    }
    match origins.as_deref() {
        None if value.contains_key("regex") => {}
        None | Some("*") if !credentials => drop(value.insert("origins".to_owned(), json!("*"))),
        None | Some("*") => {
            return Err(
                "`plugins/cors/allow_credential`: not with `allow_origins` `*`; name the origins".to_owned()
            );
        }
        Some("**") => drop(value.insert("regex".to_owned(), json!([".*"]))),
        Some(origins) => drop(value.insert("origins".to_owned(), json!(list(origins.to_owned())))),
    }
    let methods = fields.text("allow_methods")?.unwrap_or_else(|| "*".to_owned());
    let methods = match methods.as_str() {
        "*" | "**" => ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"].map(str::to_owned).into(),
        _ => list(methods),
    };
    value.insert("methods".to_owned(), json!(methods));
    for (theirs, ours) in [("allow_headers", "headers"), ("expose_headers", "expose")] {
        let names = fields.text(theirs)?;
        let names = names.or_else(|| (theirs == "allow_headers").then(|| "*".to_owned()));
        match names.as_deref() {
            None => {}
            Some("*" | "**") => drop(value.insert(ours.to_owned(), json!("*"))),
            Some(names) => drop(value.insert(ours.to_owned(), json!(list(names.to_owned())))),
        }
    }
    let age = fields.take("max_age").map(|age| age.as_i64().ok_or(())).transpose();
    match age.map_err(|()| fields.wrong("max_age", "seconds"))? {
        Some(seconds) if seconds < 0 => {}
        seconds => {
            let seconds = seconds.unwrap_or(5).min(86_400);
            value.insert("max_age".to_owned(), json!(format!("{seconds}s")));
        }
    }
    for (key, instead) in [
        ("allow_origins_by_metadata", "write the origins in `allow_origins`"),
        ("timing_allow_origins", "write `response-rewrite` with the field `Timing-Allow-Origin`"),
        ("timing_allow_origins_by_regex", "write `response-rewrite` with the field `Timing-Allow-Origin`"),
    ] {
        if fields.take(key).is_some() {
            return Err(format!("{}: {instead}", fields.place(key)));
        }
    }
    if credentials {
        value.insert("credentials".to_owned(), json!(true));
    }
    effect.policy("cors", "cors", Value::Object(value))
}
