//! Plugins: what each of them is in the gateway's own words.
//!
//! | Module | Plugins |
//! |---|---|
//! | `limits` | `limit-count`, `limit-req`, `limit-conn` |
//! | `access` | `key-auth`, `basic-auth`, `jwt-auth`, `consumer-restriction`, `ip-restriction`, `cors` |
//! | `edits` | `proxy-rewrite`, `response-rewrite`, `redirect`, `request-id` |
//! | `traffic` | `traffic-split`, `proxy-mirror`, `api-breaker`, `uri-blocker` |
//! | `others` | those that have no counterpart, and what to write instead |

mod access;
mod edits;
mod limits;
mod others;
mod traffic;

use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::objects::Of;

pub use access::{CONSUMER, Tokens};
pub use traffic::{Rule, To};

/// The plugins that there are.
pub const NAMES: [&str; 18] = [
    "api-breaker",
    "basic-auth",
    "consumer-restriction",
    "cors",
    "ip-restriction",
    "jwt-auth",
    "key-auth",
    "limit-conn",
    "limit-count",
    "limit-req",
    "prometheus",
    "proxy-mirror",
    "proxy-rewrite",
    "redirect",
    "request-id",
    "response-rewrite",
    "traffic-split",
    "uri-blocker",
];

/// Where a plugin is written, as far as that makes a difference.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// What limits count together by that are written there; nothing: each route counts for itself.
    pub scope: Option<String>,
}

impl Origin {
    /// In a service.
    pub fn service(id: &str) -> Self {
        Self::shared(Of::Services, id)
    }

    /// In an object that several routes share.
    pub fn shared(of: Of, id: &str) -> Self {
        Self { scope: Some(format!("apisix/{}/{id}", of.name())) }
    }
}

/// What plugins come to.
#[derive(Debug, Default)]
pub struct Effect {
    /// Policies of the route.
    pub policies: Map<String, Value>,
    /// The route's `rewrite`.
    pub rewrite: Map<String, Value>,
    /// The route's `redirect`, in the place of where it goes.
    pub redirect: Option<Value>,
    /// The breaker of its upstream.
    pub breaker: Option<Value>,
    /// Where its requests go, by what they are like.
    pub rules: Vec<Rule>,
    /// The address that gets copies.
    pub mirror: Option<String>,
    /// Whether the consumers that no rule of `authorize` names may do everything.
    pub by_method: bool,
    /// Where a token is, whose key a consumer has.
    pub tokens: Option<Tokens>,
}

/// The plugins of an object.
///
/// # Errors
/// It is no object.
pub fn map(plugins: Value) -> Result<Map<String, Value>, String> {
    match plugins {
        Value::Object(plugins) => Ok(plugins),
        _ => Err("`plugins` is to be an object".to_owned()),
    }
}

impl Effect {
    /// Takes in all of these plugins.
    ///
    /// # Errors
    /// What has no counterpart, by its name.
    pub fn all(&mut self, plugins: &Map<String, Value>, origin: &Origin) -> Result<(), String> {
        plugins.iter().try_for_each(|(name, conf)| self.one(name, conf, origin))
    }

    /// Takes in a plugin.
    ///
    /// # Errors
    /// What has no counterpart, by its name.
    pub fn one(&mut self, name: &str, conf: &Value, origin: &Origin) -> Result<(), String> {
        if let Some(instead) = others::instead(name) {
            return Err(format!(
                "`plugins/{name}` has no counterpart in this gateway's APISIX front: {instead}"
            ));
        }
        let mut fields = Fields::of(conf.clone(), &format!("plugins/{name}"))?;
        if let Some(meta) = fields.take("_meta") {
            let mut meta = Fields::of(meta, &format!("plugins/{name}/_meta"))?;
            let is_off = meta.flag("disable")?.unwrap_or(false);
            meta.end()?;
            if is_off {
                return Ok(());
            }
        }
        match name {
            "limit-count" => limits::count(self, &mut fields, origin)?,
            "limit-req" => limits::requests(self, &mut fields, origin)?,
            "limit-conn" => limits::connections(self, &mut fields, origin)?,
            "key-auth" => access::key(self, &mut fields)?,
            "basic-auth" => access::basic(self, &mut fields)?,
            "jwt-auth" => access::tokens(self, &mut fields)?,
            "consumer-restriction" => access::consumers(self, &mut fields)?,
            "ip-restriction" => access::addresses(self, &mut fields)?,
            "cors" => access::cors(self, &mut fields)?,
            "proxy-rewrite" => edits::request(self, &mut fields)?,
            "response-rewrite" => edits::response(self, &mut fields)?,
            "redirect" => edits::redirect(self, &mut fields)?,
            "request-id" => edits::request_id(self, &mut fields)?,
            "traffic-split" => traffic::split(self, &mut fields)?,
            "proxy-mirror" => traffic::mirror(self, &mut fields)?,
            "api-breaker" => traffic::breaker(self, &mut fields)?,
            "uri-blocker" => traffic::block(self, &mut fields)?,
            // The gateway counts for Prometheus whatever is written: `/metrics` of the admin listener.
            "prometheus" => drop(fields.flag("prefer_name")?),
            _ => {
                return Err(format!(
                    "`plugins/{name}` is not known to this gateway's APISIX front: what it can do is under `policies` of \
                     /api/v1, and a plugin of your own is written in Rust (docs/plugins.md)"
                ));
            }
        }
        fields.end()
    }

    /// Adds a policy of which there is one.
    fn policy(&mut self, plugin: &str, kind: &str, value: Value) -> Result<(), String> {
        match self.policies.insert(kind.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(format!(
                "`plugins/{plugin}` is there twice, here and in a global rule: write one of them"
            )),
        }
    }

    /// Adds a rule by which requests are answered at once. Those that refuse come before those that lead elsewhere.
    fn intercept(&mut self, rule: Value) {
        let rules = self.policies.entry("intercept".to_owned()).or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            let leads = |rule: &Value| rule.get("location").or(rule.get("replace")).is_some();
            let at = if leads(&rule) { None } else { rules.iter().position(leads) };
            rules.insert(at.unwrap_or(rules.len()), rule);
        }
    }

    /// Adds a limit beside others.
    fn limit(&mut self, kind: &str, limit: Map<String, Value>) {
        let limits = self.policies.entry(kind.to_owned()).or_insert_with(|| json!([]));
        if let Value::Array(limits) = limits {
            limits.push(Value::Object(limit));
        }
    }

    /// Adds a field in this direction.
    fn header(
        &mut self,
        direction: &str,
        how: &str,
        name: &str,
        value: &str,
        place: &str,
    ) -> Result<(), String> {
        let there = |policies: &Map<String, Value>| {
            let fields = policies.get("headers")?.get(direction)?.get(how)?.as_object()?;
            fields.keys().find(|own| own.eq_ignore_ascii_case(name)).cloned()
        };
        match there(&self.policies) {
            Some(there) if how == "add" => {
                if name.eq_ignore_ascii_case("set-cookie") {
                    return Err(format!("{place}: the gateway sets one cookie; let the upstream set more"));
                }
                // The same to whoever reads it (RFC 9110, section 5.3).
                let own = &mut self.policies["headers"][direction][how][&there];
                *own = json!(format!("{}, {value}", own.as_str().unwrap_or_default()));
                Ok(())
            }
            _ => {
                self.edit(direction, how, name, json!(value));
                Ok(())
            }
        }
    }

    /// Adds an edit of a field, in this direction.
    fn edit(&mut self, direction: &str, how: &str, name: &str, value: Value) {
        let headers = self.policies.entry("headers".to_owned()).or_insert_with(|| json!({}));
        let edits = &mut headers[direction];
        match how {
            "remove" => match edits["remove"].as_array_mut() {
                Some(names) => names.push(json!(name)),
                None => edits["remove"] = json!([name]),
            },
            how => edits[how][name] = value,
        }
    }
}
