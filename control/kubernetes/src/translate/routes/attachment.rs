//! Attaches routes to listeners: name, port, kind, namespace and host name must fit.

use std::collections::{BTreeMap, BTreeSet};

use super::route::{Route, parent_of};
use crate::object::ObjectName;
use crate::objects::Objects;
use crate::resources::ParentReference;
use crate::translate::TranslationSettings;
use crate::translate::conditions::Condition;
use crate::translate::gateways::{ListenerKey, Parents};
use crate::translate::policies::Policies;

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

/// A route that refers to Gateways of this controller.
pub struct AttachedRoute<'a> {
    pub attachments: Attachments,
    /// The Gateways.
    pub gateways: BTreeSet<ObjectName>,
    /// The listeners that it is attached to, once for each reference.
    pub listeners: Vec<ListenerKey>,
    /// The references, and why they do not attach the route.
    pub(super) parents: Vec<(&'a ParentReference, Option<Condition>)>,
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
