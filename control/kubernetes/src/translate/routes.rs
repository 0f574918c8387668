//! Routes: their attachment to listeners, their host names, their documents and statuses. `http` and `grpc`
//! make [`Rule`]s from the two kinds of routes of requests; `streams` has what is different for layer 4.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value, json};
use tollgate_documents::Compact;

use super::backends::{Backend, Backends, Referrer};
use super::claims::Taken;
use super::conditions::{Condition, to_json};
use super::filters::{Filters, Outcome};
use super::gateways::{ListenerKey, Parent, Parents};
use super::policies::{Policies, Settings};
use super::{Translation, TranslationSettings, add_age, grpc, http, names, reference, streams};
use crate::object::{GATEWAY_GROUP, Kind, Meta, Object, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{BackendReference, Filter, ParentReference, StreamRule, ValueMatch};

/// A route of any kind.
pub struct Route<'a> {
    pub kind: Kind,
    pub meta: &'a Meta,
    pub status: &'a Compact,
    pub parents: &'a [ParentReference],
    pub hostnames: &'a [String],
    pub rules: Rules<'a>,
}

/// The rules of a route.
pub enum Rules<'a> {
    /// The rules of an HTTPRoute or a GRPCRoute.
    Requests(Vec<Rule<'a>>),
    /// The rules of a route of layer 4.
    Streams(&'a [StreamRule]),
}

/// A rule of an HTTPRoute or a GRPCRoute.
pub struct Rule<'a> {
    /// Its name, which policies refer to.
    pub name: Option<&'a str>,
    /// The alternatives, without hosts, in the gateway's form.
    pub matches: Vec<Map<String, Value>>,
    pub filters: &'a [Filter],
    pub backends: &'a [BackendReference],
    /// Settings of the gateway's route: `timeouts` and `retry`.
    pub settings: Map<String, Value>,
    /// The part of the rule that the gateway cannot serve.
    pub unsupported: Option<String>,
}

/// The attachments of a route, by the document of the listener, and by whether TLS is passed through although the
/// document terminates it.
pub type Attachments = BTreeMap<(String, bool), Attachment>;

/// The port and the host names that a route serves at a listener of a Gateway.
#[derive(Clone, Debug, Default)]
pub struct Attachment {
    /// The Gateway.
    pub gateway: ObjectName,
    pub port: u16,
    /// The host names; an empty one is every host.
    pub hosts: BTreeSet<String>,
    /// Whether a policy of the listener is not valid, so that no request may pass.
    pub is_broken: bool,
}

/// The result of a reference to a parent of this controller.
type Attached = Result<Attachments, Condition>;

/// Everything that the translation of a route reads besides the route.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub objects: &'a Objects,
    pub settings: &'a TranslationSettings,
    pub parents: &'a Parents,
    pub policies: &'a Policies,
}

impl<'a> Route<'a> {
    /// Returns the route with this name; `None` if there is none, or it cannot be read.
    pub fn find(objects: &'a Objects, reference: &Reference) -> Option<Self> {
        let (kind, name) = (reference.kind, &reference.name);
        match kind {
            Kind::HttpRoute => {
                let object = objects.http_routes.get(name)?;
                let spec = object.spec.as_ref().ok()?;
                let rules = Rules::Requests(spec.rules.iter().map(http::rule).collect());
                Some(Self::of(kind, object, (&spec.parent_refs, &spec.hostnames), rules))
            }
            Kind::GrpcRoute => {
                let object = objects.grpc_routes.get(name)?;
                let spec = object.spec.as_ref().ok()?;
                let rules = Rules::Requests(spec.rules.iter().map(grpc::rule).collect());
                Some(Self::of(kind, object, (&spec.parent_refs, &spec.hostnames), rules))
            }
            _ => {
                let store = match kind {
                    Kind::TlsRoute => &objects.tls_routes,
                    Kind::TcpRoute => &objects.tcp_routes,
                    Kind::UdpRoute => &objects.udp_routes,
                    _ => return None,
                };
                let object = store.get(name)?;
                let spec = object.spec.as_ref().ok()?;
                let rules = Rules::Streams(&spec.rules);
                Some(Self::of(kind, object, (&spec.parent_refs, &spec.hostnames), rules))
            }
        }
    }

    fn of<T>(
        kind: Kind,
        object: &'a Object<T>,
        (parents, hostnames): (&'a [ParentReference], &'a [String]),
        rules: Rules<'a>,
    ) -> Self {
        Self { kind, meta: &object.meta, status: &object.status, parents, hostnames, rules }
    }

    /// Returns the parents that it refers to, whether they exist or not. `None` stands for a parent of a kind that this
    /// controller does not have.
    pub fn parent_references(&self) -> impl Iterator<Item = Option<Reference>> {
        self.parents.iter().map(|parent| parent_of(self.meta, parent))
    }
}

/// Returns the claims of a route on listeners, in its own order and each once.
pub fn claims(route: &Route<'_>, attached: &AttachedRoute<'_>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    let mut add = |claim: String| {
        if seen.insert(claim.clone()) {
            all.push(claim);
        }
    };
    for ((listener, _), attachment) in &attached.attachments {
        match &route.rules {
            Rules::Requests(rules) => {
                let claims = rules.iter().flat_map(|rule| matches_at(listener, attachment, rule));
                claims.for_each(|(claim, _)| add(claim));
            }
            Rules::Streams(rules) if !rules.is_empty() => {
                streams::names_at(route.kind, listener, attachment)
                    .into_iter()
                    .for_each(|(claim, _)| add(claim));
            }
            Rules::Streams(_) => {}
        }
    }
    all
}

/// Translates a route that is attached.
pub fn translate<'a>(
    route: &Route<'a>,
    attached: AttachedRoute<'a>,
    surroundings: Surroundings<'_>,
    backends: &mut Backends<'a>,
    taken: &mut Taken<'_>,
    out: &mut Translation,
) {
    let owner = reference(route.kind, &route.meta.object_name());
    let (mut unresolved, mut unsupported) = (None, None);
    match &route.rules {
        Rules::Streams(rules) => {
            unresolved = streams::translate(&owner, rules, &attached, backends, taken, out);
        }
        Rules::Requests(rules) => {
            let parts = by_client_certificate(&attached, surroundings.parents);
            for (number, rule) in rules.iter().enumerate() {
                let mut group = 0;
                let settings = surroundings.policies.at(&owner, rule.name);
                for part in &parts {
                    let referrer =
                        Referrer { route: &owner, rule: number, gateways: &part.gateways, own: None };
                    let filters = Filters::new(rule.filters, &referrer, backends);
                    let action = action(rule, &filters, &referrer, &settings, backends);
                    unresolved = unresolved.or(filters.unresolved.clone()).or(action.unresolved);
                    unsupported = unsupported.or(filters.unsupported.clone()).or(rule.unsupported.clone());
                    let mut value = action.value;
                    let mut keys = settings.route.clone();
                    fill(&mut keys, &rule.settings);
                    value.extend(keys);
                    let is_broken = |(_, attachment): &(&str, &Attachment)| attachment.is_broken;
                    let (broken, served): (Vec<_>, Vec<_>) =
                        part.attachments.iter().copied().partition(is_broken);
                    for (attachments, value) in [(served, value), (broken, refusing())] {
                        let document = Document { owner: &owner, number, group, policies: &settings };
                        group = emit((route.meta, rule), &attachments, taken, &value, &document, out);
                    }
                }
            }
        }
    }
    write_status(route, surroundings.settings, attached, unresolved, unsupported, out);
}

/// The listeners of a route at Gateways that show the same certificate to backends, or none.
struct Part<'a> {
    gateways: BTreeSet<ObjectName>,
    attachments: Vec<(&'a str, &'a Attachment)>,
}

/// Divides the listeners of a route: the backends of Gateways with a certificate are upstreams of their own. There is at
/// least one part.
fn by_client_certificate<'r>(attached: &'r AttachedRoute<'_>, parents: &Parents) -> Vec<Part<'r>> {
    let is_apart = |gateway: &ObjectName| {
        let parent = parents.get(&reference(Kind::Gateway, gateway));
        parent.is_some_and(Parent::has_client_certificate)
    };
    let mut parts = Vec::new();
    let (apart, together): (BTreeSet<_>, BTreeSet<_>) =
        attached.gateways.iter().cloned().partition(|gateway| is_apart(gateway));
    if !together.is_empty() {
        parts.push(together);
    }
    parts.extend(apart.into_iter().map(|gateway| BTreeSet::from([gateway])));
    parts
        .into_iter()
        .map(|gateways| {
            let attachments = attached.attachments.iter();
            let own = attachments.filter(|(_, attachment)| gateways.contains(&attachment.gateway));
            let attachments =
                own.map(|((listener, _), attachment)| (listener.as_str(), attachment)).collect();
            Part { gateways, attachments }
        })
        .collect()
}

/// A route that refers to Gateways of this controller.
pub struct AttachedRoute<'a> {
    pub attachments: Attachments,
    /// The Gateways.
    pub gateways: BTreeSet<ObjectName>,
    /// The listeners that it is attached to, once for each reference.
    pub listeners: Vec<ListenerKey>,
    /// The references, and why they do not attach the route.
    parents: Vec<(&'a ParentReference, Option<Condition>)>,
}

/// Attaches a route to its parents. Returns `None` if none is this controller's.
pub fn attach_all<'a>(route: &Route<'a>, surroundings: Surroundings<'_>) -> Option<AttachedRoute<'a>> {
    let mut all = AttachedRoute {
        attachments: Attachments::new(),
        gateways: BTreeSet::new(),
        listeners: Vec::new(),
        parents: Vec::new(),
    };
    for parent in route.parents {
        let Some(attached) = attach(route, parent, surroundings, &mut all) else { continue };
        if let Ok(attached) = &attached {
            for (listener, Attachment { gateway, port, hosts, is_broken }) in attached {
                let attachment = all.attachments.entry(listener.clone()).or_default();
                (attachment.gateway, attachment.port) = (gateway.clone(), *port);
                attachment.hosts.extend(hosts.iter().cloned());
                attachment.is_broken |= is_broken;
            }
        }
        all.parents.push((parent, attached.err()));
    }
    (!all.parents.is_empty()).then_some(all)
}

/// Returns the status of a route without a parent of this controller: `None`, unless it had one.
pub fn detached_status(route: &Route<'_>, settings: &TranslationSettings) -> Option<Value> {
    has_own_status(&route.status.value(), &settings.controller).then(|| json!({ "parents": [] }))
}

/// Writes the status of a route.
fn write_status(
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

/// Returns the parent that a reference names; `None` if it is of another kind.
fn parent_of(meta: &Meta, parent: &ParentReference) -> Option<Reference> {
    let kind = match parent.kind.as_deref().unwrap_or("Gateway") {
        "Gateway" => Kind::Gateway,
        "ListenerSet" => Kind::ListenerSet,
        _ => return None,
    };
    let is_known = parent.group.as_deref().unwrap_or(GATEWAY_GROUP) == GATEWAY_GROUP;
    let namespace = parent.namespace.as_deref().unwrap_or(&meta.namespace);
    is_known.then(|| reference(kind, &ObjectName::new(namespace, &parent.name)))
}

/// Attaches a route to a parent. Returns `None` if the parent is none of this controller's.
fn attach(
    route: &Route<'_>,
    wanted: &ParentReference,
    surroundings: Surroundings<'_>,
    all: &mut AttachedRoute<'_>,
) -> Option<Attached> {
    let owner = parent_of(route.meta, wanted)?;
    let parent = surroundings.parents.get(&owner)?;
    all.gateways.insert(parent.gateway.clone());
    let (mut attachments, mut found, mut allowed, mut attached) = (Attachments::new(), false, false, false);
    for listener in &parent.listeners {
        if wanted.section_name.as_ref().is_some_and(|section| *section != listener.name)
            || wanted.port.is_some_and(|port| port != listener.port)
        {
            continue;
        }
        found = true;
        let (own, namespace) = (&owner.name.namespace, &route.meta.namespace);
        if !listener.kinds.contains(&route.kind)
            || !listener.allows_namespace(surroundings.objects, own, namespace)
        {
            continue;
        }
        allowed = true;
        let hosts = common_hosts(&listener.hostname, route.hostnames);
        if hosts.is_empty() {
            continue;
        }
        attached = true;
        for document in &listener.documents {
            let attachment: &mut Attachment =
                attachments.entry((document.clone(), listener.is_passed)).or_default();
            (attachment.gateway, attachment.port) = (parent.gateway.clone(), listener.port);
            attachment.hosts.extend(hosts.iter().cloned());
            attachment.is_broken |= listener.is_broken;
        }
        all.listeners.push(ListenerKey { owner: owner.clone(), listener: listener.name.clone() });
    }
    let refused = |reason, message: &str| Err(Condition::no("Accepted", reason, message));
    Some(match (found, allowed, attached) {
        (false, ..) => refused("NoMatchingParent", "the parent has no such listener"),
        (_, false, _) => refused("NotAllowedByListeners", "no listener allows this route"),
        (_, _, false) => {
            refused("NoMatchingListenerHostname", "no listener has one of the route's host names")
        }
        _ => Ok(attachments),
    })
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

/// Returns the action for requests that must not pass.
fn refusing() -> Map<String, Value> {
    Map::from_iter([("respond".to_owned(), 500.into())])
}

/// Puts settings in the place of others. Of mappings, only the keys that they have are replaced.
fn fill(settings: &mut Map<String, Value>, own: &Map<String, Value>) {
    for (key, value) in own {
        match (settings.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(own)) => known.extend(own.clone()),
            _ => {
                settings.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Decides what a rule does with its requests.
fn action<'a>(
    rule: &Rule<'a>,
    filters: &Filters,
    referrer: &Referrer<'_>,
    settings: &Settings,
    backends: &mut Backends<'a>,
) -> Action {
    if settings.is_broken {
        return Action { value: refusing(), unresolved: None };
    }
    let mut value = Map::new();
    // What the route itself says comes before what is attached to it.
    let mut policies = settings.policies.clone();
    policies.extend(filters.policies());
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

/// Returns the matches of a rule at a listener, with what they claim.
fn matches_at<'r>(
    listener: &'r str,
    attachment: &'r Attachment,
    rule: &'r Rule<'_>,
) -> impl Iterator<Item = (String, Value)> {
    attachment.hosts.iter().flat_map(move |host| {
        rule.matches.iter().map(move |conditions| {
            let mut one = Map::new();
            if !host.is_empty() {
                one.insert("host".to_owned(), host.as_str().into());
            }
            one.extend(conditions.clone());
            let one = Value::Object(one);
            (format!("{listener} {one}"), one)
        })
    })
}

/// The names and the owners of a rule's documents.
struct Document<'a> {
    owner: &'a Reference,
    /// The number of the rule.
    number: usize,
    /// The number of the first document.
    group: usize,
    policies: &'a Settings,
}

/// Writes the documents of a rule: one for each set of listeners on which it has the same matches. Returns the number after
/// the last one.
fn emit(
    (meta, rule): (&Meta, &Rule<'_>),
    attachments: &[(&str, &Attachment)],
    taken: &mut Taken<'_>,
    action: &Map<String, Value>,
    document: &Document<'_>,
    out: &mut Translation,
) -> usize {
    let Document { owner, number, mut group, policies } = *document;
    // A redirect that names neither scheme nor port leads to the listener's port.
    let redirect = action.get("redirect").filter(|to| to.get("scheme").is_none() && to.get("port").is_none());
    let mut groups: Vec<(Vec<Value>, Option<u16>, Vec<&str>)> = Vec::new();
    for (listener, attachment) in attachments {
        let port = redirect.map(|_| attachment.port);
        let matches = matches_at(listener, attachment, rule);
        let matches: Vec<Value> =
            matches.filter_map(|(claim, one)| taken.take(claim).then_some(one)).collect();
        if matches.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|(known, of, _)| *known == matches && *of == port) {
            Some((.., listeners)) => listeners.push(listener),
            None => groups.push((matches, port, vec![listener])),
        }
    }
    for (matches, port, listeners) in groups {
        let mut value = json!({ "match": matches, "listeners": listeners });
        if let Some(fields) = value.as_object_mut() {
            fields.extend(action.clone());
            if let (Some(port), Some(redirect)) = (port, fields.get_mut("redirect")) {
                redirect["port"] = port.into();
            }
            // A fixed answer has no attempts and no upstream.
            if !fields.contains_key("to") {
                rule.settings.keys().chain(policies.route.keys()).for_each(|key| {
                    fields.shift_remove(key);
                });
            }
        }
        add_age(&mut value, meta);
        let name = names::route(owner.kind.name(), &owner.name, number, group);
        out.put("routes", &name, value, policies.owners().chain([owner.clone()]));
        group += 1;
    }
    group
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
