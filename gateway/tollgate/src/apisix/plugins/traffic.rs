//! Plugins that decide to which upstream requests go.

use serde_json::{Map, Value, json};

use super::super::fields::ObjectFields;
use super::super::objects::id_text;
use super::super::upstream::{self, ConvertedUpstream};
use super::super::vars;
use super::PluginEffect;

/// A rule of `traffic-split`.
#[derive(Debug)]
pub struct SplitRule {
    /// Alternatives of which a request must meet one; `None`: the rule applies to all requests.
    pub conditions: Option<Vec<vars::VarCondition>>,
    /// The upstreams among which the requests are divided.
    pub shares: Vec<SplitShare>,
}

/// An upstream's share of the requests.
#[derive(Debug)]
pub struct SplitShare {
    pub to: SplitTarget,
    pub weight: u64,
}

/// The upstream of a share.
#[derive(Debug)]
pub enum SplitTarget {
    /// The route's own upstream.
    RouteUpstream,
    /// The upstream with this id.
    ById(String),
    /// An upstream written in place.
    Inline(ConvertedUpstream),
}

/// Converts `traffic-split`.
pub fn split(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    let Some(Value::Array(rules)) = fields.take("rules") else {
        return Err(fields.wrong("rules", "a list of rules"));
    };
    if !effect.rules.is_empty() {
        return Err(
            "`plugins/traffic-split` is set twice, here and in a global rule: keep one of them".to_owned()
        );
    }
    for (index, rule) in rules.into_iter().enumerate() {
        let place = format!("plugins/traffic-split/rules/{index}");
        let mut rule = ObjectFields::of(rule, &place)?;
        let conditions = match rule.take("match") {
            None => None,
            Some(Value::Array(matches)) => {
                let mut all = Vec::new();
                for one in matches {
                    let mut one = ObjectFields::of(one, &format!("{place}/match"))?;
                    let vars = one.take("vars").ok_or_else(|| one.wrong("vars", "a list of conditions"))?;
                    one.end()?;
                    all.extend(vars::conditions(&vars, &format!("{place}/match/vars"))?);
                }
                Some(all)
            }
            Some(_) => return Err(rule.wrong("match", "a list")),
        };
        let Some(Value::Array(weighted)) = rule.take("weighted_upstreams") else {
            return Err(rule.wrong("weighted_upstreams", "a list"));
        };
        let shares = weighted.into_iter().enumerate().map(|(index, share)| {
            let mut share = ObjectFields::of(share, &format!("{place}/weighted_upstreams/{index}"))?;
            let weight = share.number("weight")?.unwrap_or(1);
            let to = match (share.take("upstream"), share.take("upstream_id")) {
                (Some(_), Some(_)) => return Err(share.wrong("upstream_id", "left out beside `upstream`")),
                (Some(own), None) => {
                    SplitTarget::Inline(upstream::convert(ObjectFields::of(own, "upstream")?)?)
                }
                (None, Some(id)) => {
                    SplitTarget::ById(id_text(&id).ok_or_else(|| share.wrong("upstream_id", "an id"))?)
                }
                (None, None) => SplitTarget::RouteUpstream,
            };
            share.end()?;
            Ok(SplitShare { to, weight })
        });
        let shares = shares.collect::<Result<Vec<_>, String>>()?;
        rule.end()?;
        effect.rules.push(SplitRule { conditions, shares });
    }
    Ok(())
}

/// Converts `proxy-mirror` to `mirror`.
pub fn mirror(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    let host = fields.text("host")?.ok_or_else(|| fields.wrong("host", "`http://host:port`"))?;
    let address = host.strip_suffix('/').unwrap_or(&host);
    if !address.starts_with("http://") && !address.starts_with("https://") {
        return Err(fields.wrong("host", "`http://host:port` or `https://host:port`"));
    }
    for key in ["path", "path_concat_mode"] {
        if fields.take(key).is_some() {
            return Err(format!("{}: a mirrored request keeps its path", fields.place(key)));
        }
    }
    let mut value = Map::new();
    if let Some(ratio) = fields.take("sample_ratio") {
        let percent = ratio.as_f64().filter(|ratio| *ratio > 0.0 && *ratio <= 1.0).map(|ratio| ratio * 100.0);
        let percent = percent.ok_or_else(|| fields.wrong("sample_ratio", "a number from 0.00001 to 1"))?;
        // Four decimals hide the error of the binary fraction.
        let text = format!("{percent:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
        value.insert("percent".to_owned(), json!(format!("{text}%")));
    }
    effect.mirror = Some(address.to_owned());
    effect.policy("proxy-mirror", "mirror", Value::Object(value))
}

/// Converts `api-breaker` to `breaker` of the upstream.
pub fn breaker(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    if fields.take("break_response_code").is_some_and(|code| code != 503) {
        return Err(format!(
            "{}: an open breaker answers 503 here; write 503, and the body in `errors` of the file",
            fields.place("break_response_code")
        ));
    }
    for key in ["break_response_body", "break_response_headers"] {
        if fields.take(key).is_some() {
            return Err(format!(
                "{}: the gateway's error responses state their reason; `errors` in the file sets their format",
                fields.place(key)
            ));
        }
    }
    let mut failures = 3;
    let mut probes = 3;
    if let Some(unhealthy) = fields.take("unhealthy") {
        let mut unhealthy = ObjectFields::of(unhealthy, "plugins/api-breaker/unhealthy")?;
        failures = unhealthy.number("failures")?.unwrap_or(failures).max(1);
        if let Some(statuses) = unhealthy.take("http_statuses") {
            let all = statuses.as_array().is_some_and(|all| {
                all.iter().all(|status| status.as_u64().is_some_and(|status| (500..=599).contains(&status)))
            });
            if !all {
                return Err(unhealthy.wrong(
                    "http_statuses",
                    "a list of statuses from 500 to 599: only those count as failures here",
                ));
            }
        }
        unhealthy.end()?;
    }
    if let Some(healthy) = fields.take("healthy") {
        let mut healthy = ObjectFields::of(healthy, "plugins/api-breaker/healthy")?;
        probes = healthy.number("successes")?.unwrap_or(probes).max(1);
        healthy.take("http_statuses");
        healthy.end()?;
    }
    let longest = fields.number("max_breaker_sec")?.unwrap_or(300).max(2);
    effect.breaker = Some(json!({
        "failures": "100%",
        "minimum": failures,
        "probes": probes,
        "open": format!("{}s", longest.min(2)),
    }));
    Ok(())
}

/// Converts `uri-blocker` to `intercept`.
pub fn block(effect: &mut PluginEffect, fields: &mut ObjectFields) -> Result<(), String> {
    let rules =
        fields.texts("block_rules")?.ok_or_else(|| fields.wrong("block_rules", "a list of expressions"))?;
    let status = fields.number("rejected_code")?.unwrap_or(403);
    if !(200..=599).contains(&status) {
        return Err(fields.wrong("rejected_code", "a status from 200 to 599"));
    }
    let message = fields.text("rejected_msg")?;
    let begin = if fields.flag("case_insensitive")?.unwrap_or(false) { "(?i)" } else { "" };
    for rule in rules {
        let mut rule = json!({ "uri": format!("{begin}{rule}"), "status": status });
        if let Some(message) = &message {
            rule["body"] = json!(error_body(message));
            rule["content_type"] = json!("application/json");
        }
        effect.intercept(rule);
    }
    Ok(())
}

/// Returns a message as APISIX writes it in a body.
fn error_body(message: &str) -> String {
    format!("{}\n", json!({ "error_msg": message }))
}
