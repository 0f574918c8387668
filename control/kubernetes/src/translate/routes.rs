//! Routes: their attachment to listeners, their host names, their documents and statuses. `http` and `grpc`
//! make [`Rule`]s from the two kinds of routes; everything else is the same for both.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value, json};

use super::backends::{Backend, Backends, Referrer};
use super::conditions::{Condition, to_json};
use super::filters::{Filters, Outcome};
use super::gateways::{Gateways, hostname};
use super::{Translation, TranslationSettings, add_age, grpc, http, names, reference};
use crate::object::{GATEWAY_GROUP, Kind, Meta, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{BackendReference, Filter, ParentReference, ValueMatch};

/// A route of either kind.
pub struct Route<'a> {
    pub kind: Kind,
    pub meta: &'a Meta,
    pub status: &'a Value,
    pub parents: &'a [ParentReference],
    pub hostnames: &'a [String],
    pub rules: Vec<Rule<'a>>,
}

/// A rule of either kind.
pub struct Rule<'a> {
    /// The alternatives, without hosts, in the gateway's form.
    pub matches: Vec<Map<String, Value>>,
    pub filters: &'a [Filter],
    pub backends: &'a [BackendReference],
    /// Settings of the gateway's route: `timeouts` and `retry`.
    pub settings: Map<String, Value>,
    /// What the gateway cannot do.
    pub unsupported: Option<String>,
}

/// Where a route is attached, by the document of the listener.
pub type Attachments = BTreeMap<String, Attachment>;

/// What a route serves at a listener.
#[derive(Clone, Debug, Default)]
pub struct Attachment {
    pub port: u16,
    /// The host names; an empty one is every host.
    pub hosts: BTreeSet<String>,
}

/// The result of a reference to a parent of this controller.
type Attached = Result<Attachments, Condition>;

/// Translates all routes, the oldest first.
pub fn translate_all<'a>(
    objects: &'a Objects,
    settings: &TranslationSettings,
    gateways: &mut Gateways<'a>,
    backends: &mut Backends<'a>,
    out: &mut Translation,
) {
    let mut routes: Vec<Route<'a>> = Vec::new();
    for object in objects.http_routes.values() {
        let Ok(spec) = &object.spec else { continue };
        routes.push(Route {
            kind: Kind::HttpRoute,
            meta: &object.meta,
            status: &object.status,
            parents: &spec.parent_refs,
            hostnames: &spec.hostnames,
            rules: spec.rules.iter().map(http::rule).collect(),
        });
    }
    for object in objects.grpc_routes.values() {
        let Ok(spec) = &object.spec else { continue };
        routes.push(Route {
            kind: Kind::GrpcRoute,
            meta: &object.meta,
            status: &object.status,
            parents: &spec.parent_refs,
            hostnames: &spec.hostnames,
            rules: spec.rules.iter().map(grpc::rule).collect(),
        });
    }
    routes.sort_by_key(|route| route.meta.precedence());
    // Of two equal matches on a listener the first one, which belongs to the older route, takes the requests.
    let mut taken = HashSet::new();
    for route in &routes {
        translate(route, settings, gateways, backends, &mut taken, out);
    }
}

fn translate<'a>(
    route: &Route<'a>,
    settings: &TranslationSettings,
    gateways: &mut Gateways<'a>,
    backends: &mut Backends<'a>,
    taken: &mut HashSet<(String, String)>,
    out: &mut Translation,
) {
    let Some(attached) = attach_all(route, settings, gateways, out) else { return };
    let owner = reference(route.kind, &route.meta.object_name());
    let AttachedRoute { attachments, gateways: used, .. } = &attached;
    let (mut unresolved, mut unsupported) = (None, None);
    for (number, rule) in route.rules.iter().enumerate() {
        let referrer = Referrer { route: &owner, rule: number, gateways: used, own: None };
        let filters = Filters::new(rule.filters, &referrer, backends);
        let action = action(rule, &filters, &referrer, backends);
        unresolved = unresolved.or(filters.unresolved.clone()).or(action.unresolved);
        unsupported = unsupported.or(filters.unsupported.clone()).or(rule.unsupported.clone());
        let mut value = action.value;
        value.extend(rule.settings.clone());
        emit((route.meta, rule, number), attachments, taken, &value, &owner, out);
    }
    write_status(route, settings, attached, unresolved, unsupported, out);
}

/// A route that refers to Gateways of this controller.
pub struct AttachedRoute<'a> {
    pub attachments: Attachments,
    /// The Gateways.
    pub gateways: BTreeSet<ObjectName>,
    /// The references, and why they do not attach the route.
    parents: Vec<(&'a ParentReference, Option<Condition>)>,
}

/// Attaches a route to its parents. Returns `None` if none is this controller's.
pub fn attach_all<'a>(
    route: &Route<'a>,
    settings: &TranslationSettings,
    gateways: &mut Gateways<'_>,
    out: &mut Translation,
) -> Option<AttachedRoute<'a>> {
    let mut all =
        AttachedRoute { attachments: Attachments::new(), gateways: BTreeSet::new(), parents: Vec::new() };
    for parent in route.parents {
        let Some((gateway, attached)) = attach(route, parent, gateways) else { continue };
        all.gateways.insert(gateway);
        if let Ok(attached) = &attached {
            for (listener, Attachment { port, hosts }) in attached {
                let attachment = all.attachments.entry(listener.clone()).or_default();
                attachment.port = *port;
                attachment.hosts.extend(hosts.iter().cloned());
            }
        }
        all.parents.push((parent, attached.err()));
    }
    if all.parents.is_empty() {
        // It has no parent of this controller, or no longer.
        if has_own_status(route.status, &settings.controller) {
            let owner = reference(route.kind, &route.meta.object_name());
            out.statuses.insert(owner, json!({ "parents": [] }));
        }
        return None;
    }
    Some(all)
}

/// Writes the status of a route.
pub fn write_status(
    route: &Route<'_>,
    settings: &TranslationSettings,
    attached: AttachedRoute<'_>,
    unresolved: Option<Condition>,
    unsupported: Option<String>,
    out: &mut Translation,
) {
    let generation = route.meta.generation;
    let resolved = unresolved.unwrap_or_else(|| Condition::yes("ResolvedRefs", "ResolvedRefs"));
    let parents: Vec<Value> = attached
        .parents
        .into_iter()
        .map(|(parent, refusal)| {
            let accepted = match (refusal, &unsupported) {
                (Some(refusal), _) => refusal,
                (None, Some(why)) => Condition::no("Accepted", "UnsupportedValue", why.as_str()),
                (None, None) => Condition::yes("Accepted", "Accepted"),
            };
            json!({
                "parentRef": parent_reference(parent),
                "controllerName": settings.controller,
                "conditions": to_json(&[accepted, resolved.clone()], generation),
            })
        })
        .collect();
    out.statuses.insert(reference(route.kind, &route.meta.object_name()), json!({ "parents": parents }));
}

/// Returns whether a route's status has entries of this controller.
fn has_own_status(status: &Value, controller: &str) -> bool {
    let parents = status.get("parents").and_then(Value::as_array);
    parents.into_iter().flatten().any(|parent| parent["controllerName"] == controller)
}

fn parent_reference(parent: &ParentReference) -> Value {
    let ParentReference { group, kind, namespace, name, section_name, port } = parent;
    let mut value = json!({
        "group": group.as_deref().unwrap_or(GATEWAY_GROUP),
        "kind": kind.as_deref().unwrap_or("Gateway"),
        "name": name,
    });
    if let Some(namespace) = namespace {
        value["namespace"] = namespace.as_str().into();
    }
    if let Some(section) = section_name {
        value["sectionName"] = section.as_str().into();
    }
    if let Some(port) = port {
        value["port"] = (*port).into();
    }
    value
}

/// Attaches a route to a parent. Returns `None` if the parent is none of this controller's Gateways.
fn attach(
    route: &Route<'_>,
    parent: &ParentReference,
    gateways: &mut Gateways<'_>,
) -> Option<(ObjectName, Attached)> {
    if parent.group.as_deref().unwrap_or(GATEWAY_GROUP) != GATEWAY_GROUP
        || parent.kind.as_deref().unwrap_or("Gateway") != "Gateway"
    {
        return None;
    }
    let namespace = parent.namespace.as_deref().unwrap_or(&route.meta.namespace);
    let name = ObjectName::new(namespace, &parent.name);
    let count = gateways.by_name.get(&name)?.listeners.len();
    let (mut attachments, mut found, mut allowed, mut attached) = (Attachments::new(), false, false, false);
    for index in 0..count {
        let listener = &gateways.by_name[&name].listeners[index];
        let spec = listener.spec;
        if parent.section_name.as_ref().is_some_and(|section| *section != spec.name)
            || parent.port.is_some_and(|port| port != spec.port)
        {
            continue;
        }
        found = true;
        if !listener.kinds.contains(&route.kind)
            || !gateways.allows_namespace(&name, &spec.allowed_routes, &route.meta.namespace)
        {
            continue;
        }
        allowed = true;
        let hosts = common_hosts(&hostname(spec), route.hostnames);
        if hosts.is_empty() {
            continue;
        }
        attached = true;
        for document in &listener.documents {
            let attachment: &mut Attachment = attachments.entry(document.clone()).or_default();
            attachment.port = spec.port;
            attachment.hosts.extend(hosts.iter().cloned());
        }
        if let Some(gateway) = gateways.by_name.get_mut(&name) {
            gateway.listeners[index].attached += 1;
        }
    }
    let refused = |reason, message: &str| Err(Condition::no("Accepted", reason, message));
    let result = match (found, allowed, attached) {
        (false, ..) => refused("NoMatchingParent", "the Gateway has no such listener"),
        (_, false, _) => refused("NotAllowedByListeners", "no listener allows this route"),
        (_, _, false) => {
            refused("NoMatchingListenerHostname", "no listener has one of the route's host names")
        }
        _ => Ok(attachments),
    };
    Some((name, result))
}

/// Returns the host names that a listener and a route have in common.
fn common_hosts(listener: &str, route: &[String]) -> BTreeSet<String> {
    if route.is_empty() {
        return BTreeSet::from([listener.to_owned()]);
    }
    let route = route.iter().map(|host| host.to_ascii_lowercase());
    route.filter_map(|host| common_host(listener, &host)).collect()
}

/// Returns the more specific one of two host names if one contains the other.
fn common_host(one: &str, two: &str) -> Option<String> {
    let contains = |wide: &str, narrow: &str| match wide.strip_prefix('*') {
        // `*.example.com` contains every name below, one label deeper or several.
        Some(suffix) => narrow.len() > suffix.len() && narrow.trim_start_matches('*').ends_with(suffix),
        None => wide.is_empty() || wide == narrow,
    };
    if contains(one, two) {
        Some(two.to_owned())
    } else if contains(two, one) {
        Some(one.to_owned())
    } else {
        None
    }
}

/// The action of a rule.
struct Action {
    value: Map<String, Value>,
    unresolved: Option<Condition>,
}

/// Decides what a rule does with its requests.
fn action<'a>(
    rule: &Rule<'a>,
    filters: &Filters,
    referrer: &Referrer<'_>,
    backends: &mut Backends<'a>,
) -> Action {
    let mut value = Map::new();
    let policies = filters.policies();
    if !policies.is_empty() {
        value.insert("policies".to_owned(), policies.into());
    }
    let mut unresolved = None;
    let outcome = match &filters.outcome {
        _ if filters.unsupported.is_some() || filters.unresolved.is_some() || rule.unsupported.is_some() => {
            // A request that a filter would have changed must not pass unchanged.
            None
        }
        Outcome::Redirect(redirect) => {
            value.insert("redirect".to_owned(), redirect.clone());
            return Action { value, unresolved };
        }
        Outcome::Forward(rewrite) => Some(rewrite),
    };
    let mut targets: Vec<(Value, u64)> = Vec::new();
    for (index, backend) in rule.backends.iter().enumerate() {
        let weight = u64::from(backend.weight.unwrap_or(1));
        let target = match backends.resolve(referrer, backend, index) {
            Ok(Backend::Upstream(name)) => json!({ "upstream": name }),
            Ok(Backend::Broken) => json!({ "respond": 500 }),
            Err(condition) => {
                unresolved = unresolved.or(Some(condition));
                json!({ "respond": 500 })
            }
        };
        match targets.iter_mut().find(|(known, _)| *known == target) {
            Some((_, sum)) => *sum += weight,
            None => targets.push((target, weight)),
        }
    }
    targets.retain(|(_, weight)| *weight > 0);
    let forwards = targets.iter().any(|(target, _)| target.get("upstream").is_some());
    match outcome {
        Some(rewrite) if forwards => {
            // The gateway's weights end at a million, as here, but several may have been added.
            let largest = targets.iter().map(|(_, weight)| *weight).max().unwrap_or(1);
            let divisor = largest.div_ceil(1_000_000).max(1);
            let to = targets.into_iter().map(|(mut target, weight)| {
                target["weight"] = (weight / divisor).max(1).into();
                target
            });
            value.insert("to".to_owned(), to.collect());
            if !rewrite.is_empty() {
                value.insert("rewrite".to_owned(), rewrite.clone().into());
            }
        }
        _ => {
            value.insert("respond".to_owned(), 500.into());
        }
    }
    Action { value, unresolved }
}

/// Writes the documents of a rule: one for each set of listeners on which it has the same matches.
fn emit(
    (meta, rule, number): (&Meta, &Rule<'_>, usize),
    attachments: &Attachments,
    taken: &mut HashSet<(String, String)>,
    action: &Map<String, Value>,
    owner: &Reference,
    out: &mut Translation,
) {
    // A redirect that names neither scheme nor port leads to the listener's port.
    let redirect = action.get("redirect").filter(|to| to.get("scheme").is_none() && to.get("port").is_none());
    let mut groups: Vec<(Vec<Value>, Option<u16>, Vec<&str>)> = Vec::new();
    for (listener, Attachment { port, hosts }) in attachments {
        let port = redirect.map(|_| *port);
        let mut matches = Vec::new();
        for host in hosts {
            for conditions in &rule.matches {
                let mut one = Map::new();
                if !host.is_empty() {
                    one.insert("host".to_owned(), host.as_str().into());
                }
                one.extend(conditions.clone());
                let one = Value::Object(one);
                if taken.insert((listener.clone(), one.to_string())) {
                    matches.push(one);
                }
            }
        }
        if matches.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|(known, of, _)| *known == matches && *of == port) {
            Some((.., listeners)) => listeners.push(listener),
            None => groups.push((matches, port, vec![listener])),
        }
    }
    for (group, (matches, port, listeners)) in groups.into_iter().enumerate() {
        let mut value = json!({ "match": matches, "listeners": listeners });
        if let Some(fields) = value.as_object_mut() {
            fields.extend(action.clone());
            if let (Some(port), Some(redirect)) = (port, fields.get_mut("redirect")) {
                redirect["port"] = port.into();
            }
            // A fixed answer has no attempts.
            if !fields.contains_key("to") {
                fields.shift_remove("retry");
                fields.shift_remove("timeouts");
            }
        }
        add_age(&mut value, meta);
        let name = names::route(owner.kind.name(), &owner.name, number, group);
        out.put("routes", &name, value, [owner.clone()]);
    }
}

/// Converts the matches of a rule; a rule without any matches every request. Also returns why a match is not
/// supported, if one is not.
pub fn matches<T>(
    from: &[T],
    conditions: impl Fn(&T) -> Result<Map<String, Value>, String>,
) -> (Vec<Map<String, Value>>, Option<String>) {
    let mut unsupported = None;
    let mut matches = Vec::new();
    for one in from {
        match conditions(one) {
            Ok(conditions) => matches.push(conditions),
            Err(why) => unsupported = Some(why),
        }
    }
    if from.is_empty() {
        matches.push(every_request());
    }
    (matches, unsupported)
}

/// Returns the conditions that every request fulfils.
pub fn every_request() -> Map<String, Value> {
    Map::from_iter([("path".to_owned(), json!({ "prefix": "/" }))])
}

/// Returns conditions on header fields or query parameters in the gateway's form. Of several conditions on one
/// name only the first counts.
pub fn values(conditions: &[ValueMatch], ignore_case: bool) -> Result<Option<Value>, String> {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for condition in conditions {
        let name = match ignore_case {
            true => condition.name.to_ascii_lowercase(),
            false => condition.name.clone(),
        };
        let value = match condition.kind.as_deref().unwrap_or("Exact") {
            "Exact" => json!({ "exact": condition.value }),
            "RegularExpression" => json!({ "regex": condition.value }),
            other => return Err(format!("matches of the type {other} are not supported")),
        };
        all.entry(name).or_insert(value);
    }
    Ok((!all.is_empty()).then(|| all.into_iter().collect::<Map<_, _>>().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_host_names() {
        for (one, two, common) in [
            ("", "a.example", Some("a.example")),
            ("a.example", "a.example", Some("a.example")),
            ("*.example", "a.example", Some("a.example")),
            ("*.example", "b.a.example", Some("b.a.example")),
            ("*.example", "*.a.example", Some("*.a.example")),
            ("*.a.example", "*.example", Some("*.a.example")),
            ("*.example", "example", None),
            ("*.example", "aexample", None),
            ("a.example", "b.example", None),
        ] {
            assert_eq!(common_host(one, two).as_deref(), common, "{one} and {two}");
            assert_eq!(common_host(two, one).as_deref(), common, "{two} and {one}");
        }
    }
}
