//! TLSRoutes, TCPRoutes and UDPRoutes become streams.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::backends::{Backend, Backends, Referrer};
use super::conditions::Condition;
use super::gateways::Gateways;
use super::routes::{Attachments, Route, attach_all, write_status};
use super::{Translation, TranslationSettings, names, reference};
use crate::object::{Kind, Reference};
use crate::objects::Objects;
use crate::resources::StreamRule;

/// What streams have taken: a listener with a server name, or with none for everything else.
type Taken = HashSet<(String, String)>;

/// Translates all routes of layer 4, the oldest first.
pub fn translate_all<'a>(
    objects: &'a Objects,
    settings: &TranslationSettings,
    gateways: &mut Gateways<'a>,
    backends: &mut Backends<'a>,
    out: &mut Translation,
) {
    let stores = [
        (Kind::TlsRoute, &objects.tls_routes),
        (Kind::TcpRoute, &objects.tcp_routes),
        (Kind::UdpRoute, &objects.udp_routes),
    ];
    for (kind, store) in stores {
        let mut routes: Vec<(Route<'a>, &'a [StreamRule])> = Vec::new();
        for object in store.values() {
            let Ok(spec) = &object.spec else { continue };
            let route = Route {
                kind,
                meta: &object.meta,
                status: &object.status,
                parents: &spec.parent_refs,
                hostnames: &spec.hostnames,
                rules: Vec::new(),
            };
            routes.push((route, &spec.rules));
        }
        routes.sort_by_key(|(route, _)| route.meta.precedence());
        let mut taken = Taken::new();
        for (route, rules) in routes {
            translate(&route, rules, settings, gateways, backends, &mut taken, out);
        }
    }
}

fn translate<'a>(
    route: &Route<'a>,
    rules: &'a [StreamRule],
    settings: &TranslationSettings,
    gateways: &mut Gateways<'a>,
    backends: &mut Backends<'a>,
    taken: &mut Taken,
    out: &mut Translation,
) {
    let Some(attached) = attach_all(route, settings, gateways, out) else { return };
    let owner = reference(route.kind, &route.meta.object_name());
    let mut unresolved = None;
    for (number, rule) in rules.iter().enumerate() {
        let referrer = Referrer { route: &owner, rule: number, gateways: &attached.gateways, own: None };
        let (action, condition) = action(rule, &referrer, backends);
        unresolved = unresolved.or(condition);
        emit((&owner, number), &attached.attachments, taken, &action, out);
    }
    write_status(route, settings, attached, unresolved, None, out);
}

/// Decides where the connections of a rule go. A backend that cannot be used is left out.
fn action(
    rule: &StreamRule,
    referrer: &Referrer<'_>,
    backends: &mut Backends<'_>,
) -> (Map<String, Value>, Option<Condition>) {
    let (mut targets, mut unresolved): (Vec<(String, u32)>, _) = (Vec::new(), None);
    for (index, backend) in rule.backend_refs.iter().enumerate() {
        let weight = backend.weight.unwrap_or(1);
        match backends.resolve(referrer, backend, index) {
            Ok(Backend::Upstream(name)) if weight > 0 => {
                match targets.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum = sum.saturating_add(weight).min(1_000_000),
                    None => targets.push((name, weight)),
                }
            }
            Ok(_) => {}
            Err(condition) => unresolved = unresolved.or(Some(condition)),
        }
    }
    let mut action = Map::new();
    if targets.is_empty() {
        action.insert("respond".to_owned(), "close".into());
    } else {
        let to = targets.into_iter().map(|(name, weight)| json!({ "upstream": name, "weight": weight }));
        action.insert("to".to_owned(), to.collect());
    }
    (action, unresolved)
}

/// Writes the streams of a rule: one for each set of listeners and server names. What an older route has is left out.
fn emit(
    (owner, number): (&Reference, usize),
    attachments: &Attachments,
    taken: &mut Taken,
    action: &Map<String, Value>,
    out: &mut Translation,
) {
    let mut groups: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for (listener, attachment) in attachments {
        let mut free = |name: &str| taken.insert((listener.clone(), name.to_owned()));
        let names: Vec<String> = if owner.kind == Kind::TlsRoute {
            let names = attachment.hosts.iter().filter(|host| !host.is_empty() && free(host));
            names.cloned().collect()
        } else if free("") {
            Vec::new()
        } else {
            continue;
        };
        if names.is_empty() && owner.kind == Kind::TlsRoute {
            continue;
        }
        match groups.iter_mut().find(|(known, _)| *known == names) {
            Some((_, listeners)) => listeners.push(listener),
            None => groups.push((names, vec![listener])),
        }
    }
    for (group, (names, listeners)) in groups.into_iter().enumerate() {
        let mut value = json!({ "listeners": listeners });
        if !names.is_empty() {
            value["server_names"] = json!(names);
        }
        if let Some(fields) = value.as_object_mut() {
            fields.extend(action.clone());
        }
        let name = names::route(owner.kind.name(), &owner.name, number, group);
        out.put("streams", &name, value, [owner.clone()]);
    }
}
