//! Converts APISIX routes to the gateway's.
//!
//! A route is combined with its service, its `plugin_config` and the global rules. Most routes become one of
//! the gateway's. A route that splits traffic by conditions becomes several: `apisix-ID`,
//! `apisix-ID/split/0`.

use serde_json::{Map, Value, json};

use super::fields::ObjectFields;
use super::names::{PREFIX, resource_name};
use super::objects::{ObjectKind, Objects, id_text};
use super::parts::{DerivedDocuments, ServiceParts, inline_or_referenced_upstream, service_upstream_name};
use super::plugins::{self, PluginEffect, PluginOrigin, SplitRule, SplitTarget};
use super::{consumer, upstream, vars};

/// Returns the name of the upstream that is written inside a route.
pub fn route_upstream_name(id: &str) -> String {
    format!("apisix-route-{id}")
}

/// Returns the name of the upstream of a route's part, such as `mirror`.
fn part_upstream_name(part: &str, id: &str) -> String {
    format!("apisix.{part}.{id}")
}

/// The conditions in a route's own fields.
#[derive(Debug)]
struct RouteConditions {
    paths: Vec<Value>,
    hosts: Vec<Option<String>>,
    methods: Option<Vec<String>>,
}

impl RouteConditions {
    fn of(fields: &mut ObjectFields, service: &ServiceParts) -> Result<Self, String> {
        let paths = match (fields.text("uri")?, fields.texts("uris")?) {
            (Some(one), None) => vec![one],
            (None, Some(many)) => many,
            (None, None) => return Err("`uri` is missing: `/hello`, or `/hello/*`".to_owned()),
            _ => return Err("`uri` and `uris` exclude each other".to_owned()),
        };
        let hosts = match (fields.text("host")?, fields.texts("hosts")?) {
            (Some(one), None) => vec![Some(one)],
            (None, Some(many)) => many.into_iter().map(Some).collect(),
            (None, None) => match &service.hosts {
                Some(hosts) => hosts.iter().cloned().map(Some).collect(),
                None => vec![None],
            },
            _ => return Err("`host` and `hosts` exclude each other".to_owned()),
        };
        let paths = paths.iter().map(|path| path_match(path)).collect::<Result<_, _>>()?;
        Ok(Self { paths, hosts, methods: fields.texts("methods")? })
    }

    /// Returns the entries of `match`, each combined with one of the alternatives in `further`.
    fn matches(&self, further: &[vars::VarCondition]) -> Result<Vec<Value>, String> {
        let mut out = Vec::new();
        for further in further {
            let hosts = match (&further.host, self.hosts.as_slice()) {
                (None, hosts) => hosts.to_vec(),
                (Some(host), [None]) => vec![Some(host.clone())],
                (Some(host), hosts) => {
                    hosts.iter().filter(|own| own.as_ref() == Some(host)).cloned().collect()
                }
            };
            let methods = match (&self.methods, &further.methods) {
                (Some(own), Some(further)) => {
                    Some(own.iter().filter(|own| further.contains(own)).cloned().collect())
                }
                (own, further) => own.clone().or_else(|| further.clone()),
            };
            if methods.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            for host in hosts {
                for path in &self.paths {
                    let Some(path) = further
                        .path
                        .as_ref()
                        .map_or(Ok(Some(path.clone())), |further| narrow_path(path, further))?
                    else {
                        continue;
                    };
                    let mut one = Map::new();
                    one.extend(host.as_ref().map(|host| ("host".to_owned(), json!(host))));
                    one.insert("path".to_owned(), path);
                    one.extend(
                        methods.as_ref().map(|methods: &Vec<String>| ("method".to_owned(), json!(methods))),
                    );
                    for (key, conditions) in [("headers", &further.headers), ("query", &further.query)] {
                        if !conditions.is_empty() {
                            one.insert(key.to_owned(), Value::Object(conditions.clone()));
                        }
                    }
                    let one = Value::Object(one);
                    if !out.contains(&one) {
                        out.push(one);
                    }
                }
            }
        }
        Ok(out)
    }
}

/// Combines a path condition with a second, narrower one; `None` if no path meets both.
fn narrow_path(own: &Value, further: &Value) -> Result<Option<Value>, String> {
    let exact = further["exact"].as_str();
    match (own["exact"].as_str(), own["prefix"].as_str(), exact) {
        (_, Some("/"), _) => Ok(Some(further.clone())),
        (Some(path), _, Some(exact)) => Ok((path == exact).then(|| own.clone())),
        (_, Some(prefix), Some(exact)) => {
            let below =
                exact.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            Ok(below.then(|| further.clone()))
        }
        _ => {
            Err("`vars`: `uri` is compared by an expression where the route's `uri` is `/*` alone".to_owned())
        }
    }
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
    if fields.take("priority").is_some_and(|priority| priority != 0) {
        return Err("`priority`: routes have no numbers here; of two with the same `uri` the one with `methods`, or with more `vars`, \
                    comes first (docs/matching.md): write more `vars` at it"
            .to_owned());
    }
    let upgrades = fields.flag("enable_websocket")?;
    let clients = match (fields.text("remote_addr")?, fields.texts("remote_addrs")?) {
        (Some(one), None) => Some(vec![one]),
        (None, Some(many)) => Some(many),
        (None, None) => None,
        _ => return Err("`remote_addr` and `remote_addrs` exclude each other".to_owned()),
    };
    for key in ["filter_func", "script", "script_id"] {
        if fields.take(key).is_some() {
            return Err(format!(
                "`{key}` has no counterpart here: this gateway runs no Lua; a plugin of your own is written in Rust"
            ));
        }
    }
    let service_id =
        fields.take("service_id").map(|id| id_text(&id).ok_or("`service_id` must be an id")).transpose()?;
    let service = match &service_id {
        None => ServiceParts::default(),
        Some(id) => {
            let service = objects.get(ObjectKind::Services, id);
            let service = service.ok_or_else(|| format!("`service_id`: there is no service `{id}`"))?;
            let mut fields = ObjectFields::new(service.clone(), "");
            super::parts::take_description(&mut fields)?;
            ServiceParts::of(fields)?
        }
    };
    let conditions = RouteConditions::of(&mut fields, &service)?;
    let further = match fields.take("vars") {
        None => vec![vars::VarCondition::default()],
        Some(vars) => vars::conditions(&vars, "vars")?,
    };
    let mut effect = PluginEffect::default();
    for (rule, object) in objects.all(ObjectKind::GlobalRules) {
        let plugins = plugins::plugins_object(object.get("plugins").cloned().unwrap_or(json!({})))?;
        effect.add_all(&plugins, &PluginOrigin::shared(ObjectKind::GlobalRules, rule))?;
    }
    let origin = service_id.as_deref().map(|id| (id, &service));
    for (name, conf, origin) in plugins_of(objects, &mut fields, origin)? {
        effect.add_plugin(&name, &conf, &origin)?;
    }
    // The gateway's routes have no condition for the client's address, so a policy checks it.
    if let Some(clients) = clients {
        if effect.policies.contains_key("ip") {
            return Err(
                "`remote_addrs`: `ip-restriction` is there as well: write all addresses there".to_owned()
            );
        }
        effect.policies.insert("ip".to_owned(), json!({ "allow": clients }));
    }
    if effect.by_method {
        allow_other_consumers(objects, &mut effect.policies);
    }
    if let Some(tokens) = effect.tokens.take() {
        let (policies, keys) = consumer::tokens(objects, &tokens);
        for (kind, value) in policies {
            if effect.policies.insert(kind, value).is_some() {
                return Err("`plugins/jwt-auth`: no consumer has a token, so nobody could come".to_owned());
            }
        }
        // A client with a token is identified by the token's claim, not by the consumer's name.
        for list in ["allow", "deny"] {
            let rules = effect.policies.get_mut("authorize").and_then(|it| it.get_mut(list));
            match rules {
                None => {}
                Some(Value::Array(rules)) => rules.iter_mut().for_each(|rule| name_tokens(rule, &keys)),
                Some(rule) => name_tokens(rule, &keys),
            }
        }
    }
    let (own, upstream_id) = inline_or_referenced_upstream(&mut fields)?;
    let timeouts = upstream::timeouts(&mut fields)?;
    fields.end()?;
    let mut out = DerivedDocuments::new();
    // The route's own upstream takes precedence over the service's.
    let (to, written) = match (own, upstream_id, &service_id) {
        (Some(own), ..) => (Some(route_upstream_name(id)), Some(own)),
        (None, Some(named), _) => (Some(resource_name(&named)), named_upstream(objects, &named)?),
        (None, None, Some(service_id)) => match (&service.upstream, &service.upstream_id) {
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

/// Adds to a rule of `authorize` the claims that identify the tokens of its consumers and groups.
fn name_tokens(rule: &mut Value, keys: &[consumer::TokenOwner]) {
    let known: [fn(&consumer::TokenOwner) -> Option<&String>; 2] =
        [|owner| Some(&owner.consumer), |owner| owner.group.as_ref()];
    for (kind, of) in ["consumers", "groups"].into_iter().zip(known) {
        let Some(Value::Array(named)) = rule.get_mut(kind) else { continue };
        let more: Vec<_> = keys
            .iter()
            .filter(|owner| of(owner).is_some_and(|own| named.contains(&json!(own))))
            .map(|owner| json!(owner.key))
            .collect();
        named.extend(more);
    }
}

/// Adds a rule for the consumers that no other rule of `authorize` names.
fn allow_other_consumers(objects: &Objects, policies: &mut Map<String, Value>) {
    let rules = policies.get_mut("authorize").and_then(|authorize| authorize.get_mut("allow"));
    let Some(Value::Array(rules)) = rules else { return };
    let named = |name: &str| {
        rules.iter().any(|rule| rule["consumers"].as_array().is_some_and(|all| all.contains(&json!(name))))
    };
    let others: Vec<_> = objects
        .all(ObjectKind::Consumers)
        .map(|(name, _)| name)
        .filter(|name| !named(name))
        .map(|name| json!(name))
        .collect();
    if !others.is_empty() {
        rules.push(json!({ "consumers": others }));
    }
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
        let missing = || "`upstream` is missing, or `upstream_id`".to_owned();
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
            return Err("`vars`: no request meets these conditions and the route's others".to_owned());
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

/// Converts a path to a match of the path itself or of everything below it. Unlike in APISIX, a prefix for
/// `/a/*` also matches `/a`.
fn path_match(uri: &str) -> Result<Value, String> {
    let wrong = |why: &str| Err(format!("`uri` `{uri}`: {why}"));
    match uri.strip_suffix("/*") {
        _ if !uri.starts_with('/') => wrong("it does not begin with `/`"),
        Some(prefix) if prefix.contains('*') => wrong("only one `*`, at the end"),
        Some("") => Ok(json!({ "prefix": "/" })),
        Some(prefix) => Ok(json!({ "prefix": prefix })),
        None if uri.contains('*') => wrong("a `*` must be the last segment: `/hello/*`"),
        None => Ok(json!({ "exact": uri })),
    }
}

/// Returns the APISIX form of a route that was written before objects were stored. `None` if this form cannot
/// express all of it.
pub fn to_apisix(id: &str, route: &Value, upstream: Option<&Value>) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    out.insert("id".to_owned(), json!(id));
    let (mut uris, mut hosts, mut methods) = (Vec::new(), Vec::new(), Value::Null);
    for one in route["match"].as_array()? {
        let path = &one["path"];
        let uri = match (path["exact"].as_str(), path["prefix"].as_str()) {
            (Some(exact), _) => exact.to_owned(),
            (None, Some("/")) => "/*".to_owned(),
            (None, Some(prefix)) => format!("{prefix}/*"),
            (None, None) => return None,
        };
        for (list, value) in [(&mut uris, Some(json!(uri))), (&mut hosts, one.get("host").cloned())] {
            if let Some(value) = value.filter(|value| !list.contains(value)) {
                list.push(value);
            }
        }
        methods = one["method"].clone();
    }
    for (one, many, list) in [("uri", "uris", uris), ("host", "hosts", hosts)] {
        match list.len() {
            0 => {}
            1 => out.extend(list.into_iter().map(|only| (one.to_owned(), only))),
            _ => drop(out.insert(many.to_owned(), Value::Array(list))),
        }
    }
    if !methods.is_null() {
        out.insert("methods".to_owned(), methods);
    }
    if route["enabled"] == false {
        out.insert("status".to_owned(), json!(0));
    }
    let to = route["to"].as_str()?;
    if to == route_upstream_name(id) {
        out.insert("upstream".to_owned(), Value::Object(upstream::to_apisix(upstream?)?));
    } else {
        out.insert("upstream_id".to_owned(), json!(to.strip_prefix(PREFIX)?));
    }
    out.extend(
        upstream::timeout_to_apisix(&route["timeouts"]).map(|timeout| ("timeout".to_owned(), timeout)),
    );
    // Settings that this form cannot express would be lost when a client writes it back.
    let again = documents(&Objects::default(), id, ObjectFields::new(out.clone(), "")).ok()?;
    let of = |kind, name: String| again.get(&(kind, name));
    let own = of("upstreams", route_upstream_name(id));
    let same = of("routes", resource_name(id)) == Some(route) && own.is_none_or(|own| Some(own) == upstream);
    same.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    fn builder(body: Value) -> Result<DerivedDocuments, String> {
        documents(&Objects::default(), "1", ObjectFields::new(object(body), ""))
    }

    #[test]
    fn what_was_written_before_objects_were_kept_is_read_back() {
        for body in [
            json!({"uri": "/hello", "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1980": 1}}}),
            json!({"uris": ["/a", "/b/*"], "hosts": ["a.example", "*.b.example"], "methods": ["GET", "PUT"], "upstream_id": "u1"}),
            json!({"uri": "/*", "host": "a.example", "timeout": {"connect": 0.5, "read": 3.0},
                   "upstream": {"type": "chash", "hash_on": "header", "key": "X-User", "nodes": {"h:80": 2, "i:80": 0}, "retries": 2}}),
            json!({"uri": "/s", "upstream": {"type": "least_conn", "nodes": {"h:443": 1}, "scheme": "https", "retries": 0}}),
            json!({"uri": "/off", "status": 0, "upstream_id": "u1"}),
            json!({"uri": "/q", "upstream": {"type": "chash", "hash_on": "vars", "key": "arg_user", "nodes": {"h:80": 1}}}),
        ] {
            let all = builder(body.clone()).expect("good");
            let (route, own) =
                (&all[&("routes", resource_name("1"))], all.get(&("upstreams", route_upstream_name("1"))));
            let mut shown = to_apisix("1", route, own).expect("ours");
            assert_eq!(shown.shift_remove("id"), Some(json!("1")));
            assert_eq!(Value::Object(shown), body);
        }
        let all = builder(json!({"uri": "/a", "upstream": {"nodes": {"h": 1}}})).expect("good");
        let own = &all[&("upstreams", route_upstream_name("1"))];
        assert_eq!(own["endpoints"][0]["address"], "h:80");
        let mut route = all[&("routes", resource_name("1"))].clone();
        route["policies"] = json!({"ip": {"deny": "10.0.0.0/8"}});
        assert_eq!(to_apisix("1", &route, Some(own)), None, "somebody else has said more");
    }

    #[test]
    fn what_has_no_counterpart_is_refused_by_name() {
        let nodes = json!({"h:80": 1});
        let plugin = |name: &str, conf: Value| json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {name: conf}});
        for (body, name) in [
            (plugin("openid-connect", json!({})), "`plugins/openid-connect`"),
            (plugin("limit-count", json!({"count": 1})), "`plugins/limit-count/time_window`"),
            (
                plugin("limit-count", json!({"count": 1, "time_window": 1, "rules": []})),
                "`plugins/limit-count/rules`",
            ),
            (
                plugin("limit-count", json!({"count": 1, "time_window": 1, "key": "server_addr"})),
                "`plugins/limit-count/key`",
            ),
            (
                plugin("limit-count", json!({"count": 1, "time_window": 1, "rejected_msg": "no"})),
                "`plugins/limit-count/rejected_msg`",
            ),
            (
                plugin("limit-req", json!({"rate": 1, "burst": 2, "nodelay": false, "key": "uri"})),
                "`plugins/limit-req/nodelay`",
            ),
            (plugin("key-auth", json!({"anonymous_consumer": "a"})), "`plugins/key-auth/anonymous_consumer`"),
            (
                plugin("cors", json!({"allow_origins_by_metadata": []})),
                "`plugins/cors/allow_origins_by_metadata`",
            ),
            (plugin("proxy-rewrite", json!({"method": "GET"})), "`plugins/proxy-rewrite/method`"),
            (plugin("proxy-rewrite", json!({"headers": {"X": "$nope"}})), "`$nope`"),
            (plugin("response-rewrite", json!({"body": "x"})), "`plugins/response-rewrite/body`"),
            (
                plugin("redirect", json!({"http_to_https": true, "append_query_string": true})),
                "`plugins/redirect/append_query_string`",
            ),
            (plugin("redirect", json!({"regex_uri": ["a"]})), "`plugins/redirect/regex_uri`"),
            (plugin("redirect", json!({"uri": "/$nope"})), "`$nope`"),
            (
                plugin("api-breaker", json!({"break_response_code": 502})),
                "`plugins/api-breaker/break_response_code`",
            ),
            (plugin("cors", json!({"_meta": {"priority": 1}})), "`plugins/cors/_meta/priority`"),
            (plugin("made-up", json!({})), "`plugins/made-up`"),
            (
                json!({"uri": "/a", "upstream": {"nodes": nodes}, "vars": [["remote_port", ">", 1]]}),
                "`vars/0`",
            ),
            (json!({"uri": "/a", "upstream": {"nodes": nodes, "checks": {}}}), "`upstream/checks/active`"),
            (
                json!({"uri": "/a", "upstream": {"nodes": nodes, "checks": {"active": {"http_method": "PUT"}}}}),
                "`upstream/checks/active/http_method`",
            ),
            (json!({"uri": "/a", "upstream": {"nodes": nodes, "pass_host": "x"}}), "`upstream/pass_host`"),
            (
                json!({"uri": "/a", "upstream": {"nodes": nodes, "pass_host": "rewrite"}}),
                "`upstream/upstream_host`",
            ),
            (
                json!({"uri": "/a", "upstream": {"nodes": nodes, "retry_timeout": 3}}),
                "`upstream/retry_timeout`",
            ),
            (json!({"uri": "/a", "upstream": {"nodes": nodes, "type": "ewma"}}), "`upstream/type`"),
            (
                json!({"uri": "/a", "upstream": {"nodes": [{"host": "h", "weight": 1, "metadata": {}}]}}),
                "`upstream/nodes/0/metadata`",
            ),
            (
                json!({"uri": "/a", "timeout": {"send": 1, "read": 2}, "upstream": {"nodes": nodes}}),
                "`timeout/send`",
            ),
            (json!({"uri": "/a", "status": 2, "upstream": {"nodes": nodes}}), "`status`"),
            (json!({"uri": "/a", "priority": 7, "upstream": {"nodes": nodes}}), "`priority`"),
            (json!({"uri": "/a", "service_id": "s"}), "`service_id`"),
            (
                json!({"uri": "/a", "remote_addr": "10.0.0.1", "remote_addrs": ["::1"], "upstream": {"nodes": nodes}}),
                "`remote_addr`",
            ),
            (json!({"uri": "/a*", "upstream": {"nodes": nodes}}), "`/a*`"),
            (json!({"uri": "a", "upstream": {"nodes": nodes}}), "`a`"),
            (json!({"uri": "/a"}), "`upstream`"),
            (json!({"uri": "/a", "upstream": {}}), "`upstream/nodes`"),
            (json!({"upstream": {"nodes": nodes}}), "`uri`"),
            (json!({"uri": "/a", "id": "2", "upstream": {"nodes": nodes}}), "`id`"),
            (json!({"uri": "/a", "upstream_id": "1", "upstream": {"nodes": nodes}}), "exclude"),
        ] {
            let error = builder(body.clone()).expect_err(&body.to_string());
            assert!(error.contains(name), "{body}: {error}");
        }
    }
}
