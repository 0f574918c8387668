//! TLSRoutes, TCPRoutes and UDPRoutes become streams.

use serde_json::{Map, Value, json};

use super::backends::{Backend, Backends, Referrer};
use super::claims::Taken;
use super::conditions::Condition;
use super::routes::{AttachedRoute, Attachment, Attachments};
use super::{Translation, names};
use crate::object::{Kind, Reference};
use crate::resources::StreamRule;

/// Writes the documents of a route. Returns why a reference to a backend cannot be used.
pub fn translate(
    owner: &Reference,
    rules: &[StreamRule],
    attached: &AttachedRoute<'_>,
    backends: &mut Backends<'_>,
    taken: &mut Taken<'_>,
    out: &mut Translation,
) -> Option<Condition> {
    let mut unresolved = None;
    for (number, rule) in rules.iter().enumerate() {
        let referrer = Referrer { route: owner, rule: number, gateways: &attached.gateways, own: None };
        let (action, condition) = action(rule, &referrer, backends);
        unresolved = unresolved.or(condition);
        emit((owner, number), &attached.attachments, taken, &action, out);
    }
    unresolved
}

/// Decides where the connections of a rule go. A backend that cannot be used has its share of them closed, as the
/// specification wants.
fn action(
    rule: &StreamRule,
    referrer: &Referrer<'_>,
    backends: &mut Backends<'_>,
) -> (Map<String, Value>, Option<Condition>) {
    let (mut targets, mut unresolved): (Vec<(String, u32)>, _) = (Vec::new(), None);
    let mut closing = 0_u32;
    for (index, backend) in rule.backend_refs.iter().enumerate() {
        let weight = backend.weight.unwrap_or(1);
        match backends.resolve(referrer, backend, index) {
            Ok(Backend::Upstream(name)) if weight > 0 => {
                match targets.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum = sum.saturating_add(weight).min(1_000_000),
                    None => targets.push((name, weight)),
                }
            }
            Ok(Backend::Upstream(_)) => {}
            Ok(Backend::Broken) => closing = closing.saturating_add(weight).min(1_000_000),
            Err(condition) => {
                closing = closing.saturating_add(weight).min(1_000_000);
                unresolved = unresolved.or(Some(condition));
            }
        }
    }
    let mut action = Map::new();
    if targets.is_empty() {
        action.insert("respond".to_owned(), "close".into());
    } else {
        let to = targets.into_iter().map(|(name, weight)| json!({ "upstream": name, "weight": weight }));
        let closing = (closing > 0).then(|| json!({ "respond": "close", "weight": closing }));
        action.insert("to".to_owned(), to.chain(closing).collect());
    }
    (action, unresolved)
}

/// Returns the server names of a route at a listener, with what they claim. `None` stands for all connections that no
/// server name takes.
pub fn names_at<'a>(
    kind: Kind,
    listener: &str,
    attachment: &'a Attachment,
) -> Vec<(String, Option<&'a String>)> {
    if kind != Kind::TlsRoute {
        return vec![(listener.to_owned(), None)];
    }
    let names = attachment.hosts.iter().filter(|host| !host.is_empty());
    names.map(|name| (format!("{listener} {name}"), Some(name))).collect()
}

/// Writes the streams of a rule: one for each set of listeners and server names. What an older route has is left out.
fn emit(
    (owner, number): (&Reference, usize),
    attachments: &Attachments,
    taken: &mut Taken<'_>,
    action: &Map<String, Value>,
    out: &mut Translation,
) {
    let mut groups: Vec<(Vec<&String>, bool, Vec<&str>)> = Vec::new();
    for ((listener, is_passed), attachment) in attachments {
        let names = names_at(owner.kind, listener, attachment);
        let own: Vec<_> =
            names.into_iter().filter_map(|(claim, name)| taken.take(claim).then_some(name)).collect();
        if own.is_empty() {
            continue;
        }
        let names: Vec<&String> = own.into_iter().flatten().collect();
        match groups.iter_mut().find(|(known, passed, _)| *known == names && passed == is_passed) {
            Some((.., listeners)) => listeners.push(listener),
            None => groups.push((names, *is_passed, vec![listener])),
        }
    }
    for (group, (names, is_passed, listeners)) in groups.into_iter().enumerate() {
        let mut value = json!({ "listeners": listeners });
        if !names.is_empty() {
            value["server_names"] = json!(names);
        }
        if is_passed {
            value["passthrough"] = true.into();
        }
        if let Some(fields) = value.as_object_mut() {
            fields.extend(action.clone());
        }
        let name = names::route(owner.kind.name(), &owner.name, number, group);
        out.put("streams", &name, value, [owner.clone()]);
    }
}
