//! The documents of HTTPRoutes and GRPCRoutes: the action of each rule, and a route of the gateway for each set of
//! listeners on which the rule has the same matches.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::attachment::{AttachedRoute, Attachment};
use super::rule::Rule;
use crate::object::{Kind, Meta, ObjectName, Reference};
use crate::translate::backends::{Backend, Backends, Referrer};
use crate::translate::claims::Taken;
use crate::translate::conditions::Condition;
use crate::translate::filters::{Filters, Outcome};
use crate::translate::gateways::{Parent, Parents};
use crate::translate::policies::{Policies, Settings};
use crate::translate::{Translation, add_age, names, reference};

/// Everything that the documents of a route depend on besides its rules.
#[derive(Clone, Copy)]
pub(super) struct RouteContext<'a> {
    /// The route.
    pub owner: &'a Reference,
    pub meta: &'a Meta,
    pub attached: &'a AttachedRoute<'a>,
    pub parents: &'a Parents,
    pub policies: &'a Policies,
}

/// The parts of a route that the gateway cannot serve.
#[derive(Default)]
pub(super) struct Shortcomings {
    /// A reference to something that does not exist or is not permitted.
    pub unresolved: Option<Condition>,
    /// A value that the gateway does not support.
    pub unsupported: Option<String>,
}

/// Writes the documents of the rules.
pub(super) fn translate<'a>(
    rules: &[Rule<'a>],
    context: RouteContext<'_>,
    backends: &mut Backends<'a>,
    taken: &mut Taken<'_>,
    out: &mut Translation,
) -> Shortcomings {
    let RouteContext { owner, meta, attached, parents, policies } = context;
    let Shortcomings { mut unresolved, mut unsupported } = Shortcomings::default();
    let parts = by_client_certificate(attached, parents);
    for (number, rule) in rules.iter().enumerate() {
        let mut group = 0;
        let settings = policies.at(owner, rule.name);
        for part in &parts {
            let referrer = Referrer { route: owner, rule: number, gateways: &part.gateways, own: None };
            let filters = Filters::new(rule.filters, &referrer, backends);
            let action = action(rule, &filters, &referrer, &settings, backends);
            unresolved = unresolved.or(filters.unresolved.clone()).or(action.unresolved);
            unsupported = unsupported.or(filters.unsupported.clone()).or(rule.unsupported.clone());
            let mut value = action.value;
            let mut keys = settings.route.clone();
            fill(&mut keys, &rule.settings);
            value.extend(keys);
            let is_broken = |(_, attachment): &(&str, &Attachment)| attachment.is_broken;
            let (broken, served): (Vec<_>, Vec<_>) = part.attachments.iter().copied().partition(is_broken);
            for (attachments, value) in [(served, value), (broken, refusing())] {
                let document = Document { owner, number, group, policies: &settings };
                group = emit((meta, rule), &attachments, taken, &value, &document, out);
            }
        }
    }
    Shortcomings { unresolved, unsupported }
}

/// The listeners of a route at Gateways that show the same certificate to backends, or none.
struct Part<'a> {
    gateways: BTreeSet<ObjectName>,
    attachments: Vec<(&'a str, &'a Attachment)>,
}

/// Divides the listeners of a route: the backends of Gateways with a certificate are upstreams of their own. There is
/// at least one part.
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
    // The route's own settings take precedence over policies that are attached to it.
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

/// Returns the matches of a rule at a listener, each with its claim.
pub(super) fn matches_at<'r>(
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

/// Writes the documents of a rule: one for each set of listeners on which it has the same matches. Returns the number
/// after the last one.
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
