//! Converts plugins to policies and other settings of the gateway.
//!
//! | Module | Plugins |
//! |---|---|
//! | `limits` | `limit-count`, `limit-req`, `limit-conn` |
//! | `access` | `key-auth`, `basic-auth`, `jwt-auth`, `consumer-restriction`, `ip-restriction`, `cors` |
//! | `edits` | `proxy-rewrite`, `response-rewrite`, `redirect`, `request-id` |
//! | `traffic` | `traffic-split`, `proxy-mirror`, `api-breaker`, `uri-blocker` |
//! | `others` | plugins without a counterpart, and what to write instead |

mod access;
mod edits;
mod limits;
mod others;
mod traffic;

use serde_json::{Map, Value, json};

use super::fields::ObjectFields;
use super::objects::ObjectKind;

pub use access::{CONSUMER, TokenSettings};
pub use traffic::{SplitRule, SplitTarget};

/// The plugins that this front accepts.
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

/// The place at which a plugin is written, as far as it matters.
#[derive(Clone, Debug, Default)]
pub struct PluginOrigin {
    /// The scope in which the limits written there count together; `None`: each route counts alone.
    pub scope: Option<String>,
}

impl PluginOrigin {
    /// Returns the origin of plugins in a service.
    pub fn service(id: &str) -> Self {
        Self::shared(ObjectKind::Services, id)
    }

    /// Returns the origin of plugins in an object that several routes share.
    pub fn shared(of: ObjectKind, id: &str) -> Self {
        Self { scope: Some(format!("apisix/{}/{id}", of.name())) }
    }
}

/// The combined effect of a route's plugins.
#[derive(Debug, Default)]
pub struct PluginEffect {
    /// Policies of the route.
    pub policies: Map<String, Value>,
    /// The route's `rewrite`.
    pub rewrite: Map<String, Value>,
    /// A redirect that replaces forwarding.
    pub redirect: Option<Value>,
    /// The circuit breaker of its upstream.
    pub breaker: Option<Value>,
    /// The rules of `traffic-split`, which distribute requests by conditions.
    pub rules: Vec<SplitRule>,
    /// The address that receives mirrored requests.
    pub mirror: Option<String>,
    /// Whether consumers that no rule of `authorize` names may use every method.
    pub by_method: bool,
    /// The settings of `jwt-auth`, if the route accepts tokens.
    pub tokens: Option<TokenSettings>,
}

/// Returns the plugins of an object.
///
/// # Errors
/// The value is not an object.
pub fn plugins_object(plugins: Value) -> Result<Map<String, Value>, String> {
    match plugins {
        Value::Object(plugins) => Ok(plugins),
        _ => Err("`plugins` must be an object".to_owned()),
    }
}

impl PluginEffect {
    /// Adds the effects of all these plugins.
    ///
    /// # Errors
    /// Names a setting that has no counterpart here.
    pub fn add_all(&mut self, plugins: &Map<String, Value>, origin: &PluginOrigin) -> Result<(), String> {
        plugins.iter().try_for_each(|(name, conf)| self.add_plugin(name, conf, origin))
    }

    /// Adds the effect of one plugin.
    ///
    /// # Errors
    /// Names a setting that has no counterpart here.
    pub fn add_plugin(&mut self, name: &str, conf: &Value, origin: &PluginOrigin) -> Result<(), String> {
        if let Some(instead) = others::replacement(name) {
            return Err(format!(
                "`plugins/{name}` has no counterpart in this gateway's APISIX front: {instead}"
            ));
        }
        let mut fields = ObjectFields::of(conf.clone(), &format!("plugins/{name}"))?;
        if let Some(meta) = fields.take("_meta") {
            let mut meta = ObjectFields::of(meta, &format!("plugins/{name}/_meta"))?;
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
            // The gateway always exports Prometheus metrics, at `/metrics` of the admin listener.
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

    /// Adds a policy of a kind that a route can have only once.
    fn policy(&mut self, plugin: &str, kind: &str, value: Value) -> Result<(), String> {
        match self.policies.insert(kind.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(format!(
                "`plugins/{plugin}` is there twice, here and in a global rule: write one of them"
            )),
        }
    }

    /// Adds a rule that answers requests directly. Rules that refuse come before rules that redirect.
    fn intercept(&mut self, rule: Value) {
        let rules = self.policies.entry("intercept".to_owned()).or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            let leads = |rule: &Value| rule.get("location").or(rule.get("replace")).is_some();
            let at = if leads(&rule) { None } else { rules.iter().position(leads) };
            rules.insert(at.unwrap_or(rules.len()), rule);
        }
    }

    /// Adds a limit to the list of its kind.
    fn limit(&mut self, kind: &str, limit: Map<String, Value>) {
        let limits = self.policies.entry(kind.to_owned()).or_insert_with(|| json!([]));
        if let Value::Array(limits) = limits {
            limits.push(Value::Object(limit));
        }
    }

    /// Sets or adds a field; `direction` is `request` or `response`.
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
                    return Err(format!(
                        "{place}: the gateway can set one cookie; let the upstream set further ones"
                    ));
                }
                // One field with a list is equivalent to several fields (RFC 9110, section 5.3).
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

    /// Adds an edit of a field; `direction` is `request` or `response`.
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
