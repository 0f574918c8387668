//! Converts APISIX routes to the gateway's.
//!
//! A route is combined with its service, its `plugin_config` and the global rules. Most routes become one of
//! the gateway's. A route that splits traffic by conditions becomes several: `apisix-ID`,
//! `apisix-ID/split/0`.

use serde_json::{Map, Value, json};

use self::authorization::{accept_tokens, allow_other_consumers};
use self::conditions::RouteConditions;
pub use self::to_apisix::to_apisix;
use super::fields::ObjectFields;
use super::names::resource_name;
use super::objects::{ObjectKind, Objects, id_text};
use super::parts::{
    DerivedDocuments, ServiceParts, inline_or_referenced_upstream, service_upstream_name, take_description,
};
use super::plugins::{self, PluginEffect, PluginOrigin, SplitRule, SplitTarget};
use super::{upstream, vars};

mod authorization;
mod conditions;
mod to_apisix;

/// Returns the name of the upstream that is written inside a route.
pub fn route_upstream_name(id: &str) -> String {
    format!("apisix-route-{id}")
}

/// Returns the name of the upstream of a route's part, such as `mirror`.
fn part_upstream_name(part: &str, id: &str) -> String {
    format!("apisix.{part}.{id}")
}

/// Returns the plugins of a route, each with its origin. Its own plugins override its `plugin_config`,
/// which overrides its service.
fn plugins_of(
    objects: &Objects,
    fields: &mut ObjectFields,
    service: Option<(&str, &ServiceParts)>,
) -> Result<Vec<(String, Value, PluginOrigin)>, String> {
    let mut all: Vec<(String, Value, PluginOrigin)> = Vec::new();
    let mut over = |plugins: Map<String, Value>, origin: &PluginOrigin| {
        for (name, conf) in plugins {
            all.retain(|(other, ..)| *other != name);
            all.push((name, conf, origin.clone()));
        }
    };
    if let Some((id, service)) = service {
        over(service.plugins.clone(), &PluginOrigin::service(id));
    }
    if let Some(config) = fields.take("plugin_config_id") {
        let id = id_text(&config).ok_or_else(|| fields.wrong("plugin_config_id", "an id"))?;
        let config = objects.get(ObjectKind::PluginConfigs, &id);
        let config = config.ok_or_else(|| format!("`plugin_config_id`: there is no plugin config `{id}`"))?;
        let plugins = config.get("plugins").cloned().unwrap_or(json!({}));
        over(plugins::plugins_object(plugins)?, &PluginOrigin::shared(ObjectKind::PluginConfigs, &id));
    }
    if let Some(own) = fields.take("plugins") {
        over(plugins::plugins_object(own)?, &PluginOrigin::default());
    }
    Ok(all)
}

/// Returns the service of a route, with its id.
fn service(objects: &Objects, fields: &mut ObjectFields) -> Result<Option<(String, ServiceParts)>, String> {
    let Some(id) = fields.take("service_id") else { return Ok(None) };
    let id = id_text(&id).ok_or("`service_id` must be an id")?;
    let service = objects.get(ObjectKind::Services, &id);
    let service = service.ok_or_else(|| format!("`service_id`: there is no service `{id}`"))?;
    let mut fields = ObjectFields::new(service.clone(), "");
    take_description(&mut fields)?;
    Ok(Some((id, ServiceParts::of(fields)?)))
}

/// Derives the documents of a route.
///
/// # Errors
/// Names a setting that has no counterpart here.
pub fn documents(objects: &Objects, id: &str, mut fields: ObjectFields) -> Result<DerivedDocuments, String> {
    fields.only("id", &[json!(id), id.parse::<u64>().map_or(Value::Null, Value::from)])?;
    let is_on = match fields.number("status")? {
        None | Some(1) => true,
        Some(0) => false,
        Some(_) => return Err(fields.wrong("status", "0 or 1")),
    };
    refuse_unsupported(&mut fields)?;
    let upgrades = fields.flag("enable_websocket")?;
    let clients = clients(&mut fields)?;
    let (service_id, service) = match service(objects, &mut fields)? {
        Some((id, service)) => (Some(id), service),
        None => (None, ServiceParts::default()),
    };
    let conditions = RouteConditions::of(&mut fields, &service)?;
    let further = match fields.take("vars") {
        None => vec![vars::VarCondition::default()],
        Some(vars) => vars::conditions(&vars, "vars")?,
    };
    let origin = service_id.as_deref().map(|id| (id, &service));
    let mut effect = effect_of(objects, &mut fields, origin, clients)?;
    let written = inline_or_referenced_upstream(&mut fields)?;
    let timeouts = upstream::timeouts(&mut fields)?;
    fields.end()?;
    let mut out = DerivedDocuments::new();
    let (to, host) = target(objects, id, written, origin, &mut effect, &mut out)?;
    if let Some(address) = effect.mirror.take() {
        let name = part_upstream_name("mirror", id);
        out.insert(("upstreams", name.clone()), json!({ "endpoints": [{ "address": address }] }));
        effect.policies["mirror"]["to"] = json!(name);
    }
    let builder = RouteBuilder {
        id,
        conditions: &conditions,
        further: &further,
        effect: &effect,
        timeouts: timeouts.as_ref(),
        to: to.as_deref(),
        host: host.as_deref(),
        upgrades: upgrades.or(service.enable_websocket) != Some(false),
        objects,
    };
    builder.routes(&mut out)?;
    if !is_on {
        for ((kind, _), document) in &mut out {
            if *kind == "routes" {
                document["enabled"] = json!(false);
            }
        }
    }
    Ok(out)
}

/// Refuses settings of a route that this gateway does not have: numbers for the order of routes, and code.
fn refuse_unsupported(fields: &mut ObjectFields) -> Result<(), String> {
    if fields.take("priority").is_some_and(|priority| priority != 0) {
        return Err("`priority`: routes have no numbers here; of two with the same `uri` the one with `methods`, or with more `vars`, \
                    comes first (docs/matching.md): write more `vars` at it"
            .to_owned());
    }
    for key in ["filter_func", "script", "script_id"] {
        if fields.take(key).is_some() {
            return Err(format!(
                "`{key}` has no counterpart here: this gateway runs no Lua; write a plugin of your own in Rust"
            ));
        }
    }
    Ok(())
}

/// Returns the addresses of the clients that a route admits; `None`: all.
fn clients(fields: &mut ObjectFields) -> Result<Option<Vec<String>>, String> {
    match (fields.text("remote_addr")?, fields.texts("remote_addrs")?) {
        (Some(one), None) => Ok(Some(vec![one])),
        (None, many) => Ok(many),
        _ => Err("`remote_addr` and `remote_addrs` exclude each other".to_owned()),
    }
}

/// Returns the effect of the plugins of a route, its service and the global rules.
fn effect_of(
    objects: &Objects,
    fields: &mut ObjectFields,
    service: Option<(&str, &ServiceParts)>,
    clients: Option<Vec<String>>,
) -> Result<PluginEffect, String> {
    let mut effect = PluginEffect::default();
    for (rule, object) in objects.all(ObjectKind::GlobalRules) {
        let plugins = plugins::plugins_object(object.get("plugins").cloned().unwrap_or(json!({})))?;
        effect.add_all(&plugins, &PluginOrigin::shared(ObjectKind::GlobalRules, rule))?;
    }
    for (name, conf, origin) in plugins_of(objects, fields, service)? {
        effect.add_plugin(&name, &conf, &origin)?;
    }
    // The gateway's routes have no condition for the client's address, so a policy checks it.
    if let Some(clients) = clients {
        if effect.policies.contains_key("ip") {
            return Err(
                "`remote_addrs`: the route also has `ip-restriction`: write all addresses there".to_owned()
            );
        }
        effect.policies.insert("ip".to_owned(), json!({ "allow": clients }));
    }
    if effect.by_method {
        allow_other_consumers(objects, &mut effect.policies);
    }
    if let Some(tokens) = effect.tokens.take() {
        accept_tokens(objects, &tokens, &mut effect.policies)?;
    }
    Ok(effect)
}

/// Returns the name of the upstream that a route forwards to, and the `Host` that is sent to it. Adds the upstream to the
/// documents if it belongs to the route alone.
fn target(
    objects: &Objects,
    id: &str,
    (own, upstream_id): (Option<upstream::ConvertedUpstream>, Option<String>),
    service: Option<(&str, &ServiceParts)>,
    effect: &mut PluginEffect,
    out: &mut DerivedDocuments,
) -> Result<(Option<String>, Option<String>), String> {
    // The route's own upstream takes precedence over the service's.
    let (to, written) = match (own, upstream_id, service) {
        (Some(own), ..) => (Some(route_upstream_name(id)), Some(own)),
        (None, Some(named), _) => (Some(resource_name(&named)), named_upstream(objects, &named)?),
        (None, None, Some((service_id, service))) => match (&service.upstream, &service.upstream_id) {
            (Some(own), _) => (Some(service_upstream_name(service_id)), Some(own.clone())),
            (None, Some(named)) => (Some(resource_name(named)), named_upstream(objects, named)?),
            (None, None) => (None, None),
        },
        (None, None, None) => (None, None),
    };
    let is_own = to.as_ref().is_some_and(|to| *to == route_upstream_name(id));
    let host = written.as_ref().and_then(|written| written.host.clone());
    let to = match (to, written, effect.breaker.take()) {
        // A route that always redirects needs no upstream.
        _ if effect.redirect.is_some() => None,
        (None, ..) => None,
        (Some(to), Some(mut own), breaker) if is_own => {
            set_breaker(&mut own.resource, breaker);
            out.insert(("upstreams", to.clone()), own.resource);
            Some(to)
        }
        (Some(to), _, None) => Some(to),
        // A breaker is a setting of the upstream. An upstream that other routes use as well is copied, so
        // that they keep theirs.
        (Some(_), Some(mut copy), breaker) => {
            set_breaker(&mut copy.resource, breaker);
            let name = part_upstream_name("breaker", id);
            out.insert(("upstreams", name.clone()), copy.resource);
            Some(name)
        }
        (Some(_), None, Some(_)) => return Err("`upstream_id`: there is no such upstream".to_owned()),
    };
    Ok((to, host))
}

/// Returns the upstream object with this id, if this front has it.
///
/// # Errors
/// Names a setting that has no counterpart here.
fn named_upstream(objects: &Objects, id: &str) -> Result<Option<upstream::ConvertedUpstream>, String> {
    let Some(object) = objects.get(ObjectKind::Upstreams, id) else { return Ok(None) };
    let mut fields = ObjectFields::new(object.clone(), "");
    fields.take("id");
    upstream::convert(fields).map(Some)
}

fn set_breaker(upstream: &mut Value, breaker: Option<Value>) {
    if let Some(breaker) = breaker {
        upstream["breaker"] = breaker;
    }
}

/// The inputs from which a route's documents are made.
struct RouteBuilder<'a> {
    id: &'a str,
    conditions: &'a RouteConditions,
    further: &'a [vars::VarCondition],
    effect: &'a PluginEffect,
    timeouts: Option<&'a Value>,
    /// The upstream of the route, and the `Host` that is sent to it.
    to: Option<&'a str>,
    host: Option<&'a str>,
    /// Whether WebSocket upgrades are allowed.
    upgrades: bool,
    objects: &'a Objects,
}

impl RouteBuilder<'_> {
    fn routes(&self, out: &mut DerivedDocuments) -> Result<(), String> {
        let name = resource_name(self.id);
        let missing = || "`upstream` or `upstream_id` is missing".to_owned();
        let mut default_target = self.to.map(|to| (json!(to), self.host.map(str::to_owned)));
        for (index, SplitRule { conditions, shares }) in self.effect.rules.iter().enumerate() {
            let mut to = Vec::new();
            let mut hosts = Vec::new();
            for (number, share) in shares.iter().enumerate() {
                let (target, host) = match &share.to {
                    SplitTarget::RouteUpstream => {
                        (self.to.ok_or_else(missing)?.to_owned(), self.host.map(str::to_owned))
                    }
                    SplitTarget::ById(id) => {
                        (resource_name(id), named_upstream(self.objects, id)?.and_then(|named| named.host))
                    }
                    SplitTarget::Inline(written) => {
                        let name = part_upstream_name(&format!("split.{index}.{number}"), self.id);
                        out.insert(("upstreams", name.clone()), written.resource.clone());
                        (name, written.host.clone())
                    }
                };
                to.push(json!({ "upstream": target, "weight": share.weight }));
                if share.weight > 0 {
                    hosts.push(host);
                }
            }
            hosts.dedup();
            if hosts.len() > 1 && !self.effect.rewrite.contains_key("host") {
                return Err(format!(
                    "`plugins/traffic-split/rules/{index}`: the upstreams of one rule have one `pass_host`, the route's own too; \
                     or write `host` of `proxy-rewrite`"
                ));
            }
            let host = hosts.pop().flatten();
            match conditions {
                // The first rule without conditions takes all remaining requests.
                None => {
                    default_target = Some((json!(to), host));
                    break;
                }
                Some(conditions) => {
                    let mut both = Vec::new();
                    for own in self.further {
                        for more in conditions {
                            both.push(vars::combine(own, more, "plugins/traffic-split/rules")?);
                        }
                    }
                    let matches = self.conditions.matches(&both)?;
                    if !matches.is_empty() {
                        out.insert(
                            ("routes", format!("{name}/split/{index}")),
                            self.route(matches, Some((json!(to), host))),
                        );
                    }
                }
            }
        }
        let matches = self.conditions.matches(self.further)?;
        if matches.is_empty() {
            return Err(
                "`vars`: no request can meet these conditions together with the route's others".to_owned()
            );
        }
        let answers = self.effect.redirect.is_some() || self.effect.policies.contains_key("intercept");
        if default_target.is_none() && !answers {
            return Err(missing());
        }
        out.insert(("routes", name), self.route(matches, default_target));
        Ok(())
    }

    fn route(&self, matches: Vec<Value>, to: Option<(Value, Option<String>)>) -> Value {
        let PluginEffect { policies, rewrite, redirect, .. } = self.effect;
        let mut route = Map::new();
        route.insert("match".to_owned(), Value::Array(matches));
        match (redirect, to) {
            (Some(redirect), _) => drop(route.insert("redirect".to_owned(), redirect.clone())),
            // APISIX answers a route without an upstream in this way.
            (None, None) => drop(route.insert("respond".to_owned(), json!({ "status": 503 }))),
            (None, Some((to, host))) => {
                route.insert("to".to_owned(), to);
                let mut rewrite = rewrite.clone();
                if let Some(host) = host.filter(|_| !rewrite.contains_key("host")) {
                    rewrite.insert("host".to_owned(), json!(host));
                }
                if !rewrite.is_empty() {
                    route.insert("rewrite".to_owned(), Value::Object(rewrite));
                }
                if !self.upgrades {
                    route.insert("upgrade".to_owned(), json!("off"));
                }
                route.extend(self.timeouts.map(|timeouts| ("timeouts".to_owned(), timeouts.clone())));
            }
        }
        if !policies.is_empty() {
            route.insert("policies".to_owned(), Value::Object(policies.clone()));
        }
        Value::Object(route)
    }
}

#[cfg(test)]
mod tests;
