//! TollgatePolicies: the settings that they give to their targets, which of several wins, and their statuses.
//!
//! The translator collects them before everything else. Gateways, routes and backends look up the [`Settings`] of their
//! place. A policy for a whole object is the default of its parts: a policy with a `sectionName` takes precedence. If
//! two policies of one place have the same key, the older one wins. Precedence between Gateway, route and Service is
//! not decided here: the gateway itself applies the innermost policy of each kind, so the policies of a Gateway are the
//! defaults of its routes.
//!
//! Invariant: a target is never served without its policy, because the policy may deny access. If a part of it cannot
//! be resolved, such as a missing Secret, the target answers 500.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::backends::{Backend, Backends, Referrer, Wanted};
use super::conditions::{Condition, to_json};
use super::{grants, reference};
use crate::object::{GATEWAY_GROUP, Kind, Object, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{BackendReference, TargetReference, TollgatePolicy};

/// The key of a reference to an entry of a Secret.
pub const SECRET_REFERENCE: &str = "secretKeyRef";
/// The key of a reference to a port of a Service.
pub const SERVICE_REFERENCE: &str = "serviceRef";
/// The key that lists what is `off`.
const DISABLED: &str = "disabled";
/// Maximum number of entries in a status, as the definition has it.
pub const ANCESTORS_MAX: usize = 16;

/// The settings that policies give to one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Policies of the gateway.
    pub policies: Map<String, Value>,
    /// Settings of routes.
    pub route: Map<String, Value>,
    /// Settings of upstreams.
    pub upstream: Map<String, Value>,
    /// The policies that they come from.
    pub sources: BTreeSet<ObjectName>,
    /// Whether a policy of this place cannot be resolved, so that no request may pass.
    pub is_broken: bool,
}

/// The settings of an object's sections; the section of the whole object is empty.
type Sections = BTreeMap<String, Settings>;

/// The policies, and the settings of all targets.
#[derive(Debug, Default)]
pub struct Policies {
    targets: BTreeMap<Reference, Sections>,
    policies: BTreeMap<ObjectName, PolicyState>,
    /// The Secrets that policies refer to.
    pub references: BTreeSet<Reference>,
    /// The Services that were looked up.
    services: BTreeSet<ObjectName>,
    /// The policy that has a key at a place.
    holders: BTreeMap<(Reference, String, String), ObjectName>,
}

/// The names of the parts of a policy.
const PARTS: [&str; 3] = ["policies", "route", "upstream"];

/// A policy under translation.
#[derive(Debug, Default)]
struct PolicyState {
    generation: i64,
    /// Why it is not valid.
    invalid: Option<String>,
    targets: Vec<TargetState>,
    /// The Services that it refers to.
    services: Vec<BackendReference>,
}

/// A target of a policy.
#[derive(Debug)]
struct TargetState {
    object: Reference,
    section: String,
    /// The keys that older policies have, each with its policy.
    lost: Vec<(String, ObjectName)>,
    /// Whether it has a key that no older policy has.
    has_effect: bool,
}

impl Policies {
    /// Collects the policies.
    pub fn new(objects: &Objects, external_names: bool) -> Self {
        let mut all = Self::default();
        let mut backends = Backends::new(objects, BTreeMap::new(), Arc::default(), external_names);
        let mut sorted: Vec<_> = objects.tollgate_policies.values().collect();
        sorted.sort_by_key(|policy| policy.meta.precedence());
        for policy in sorted {
            let state = all.read(objects, policy, &mut backends);
            all.policies.insert(policy.meta.object_name(), state);
        }
        let found = backends.take();
        all.services = found.services;
        all.references.extend(found.references);
        all
    }

    /// Adds the settings of a policy to its targets.
    fn read<'o>(
        &mut self,
        objects: &'o Objects,
        policy: &Object<TollgatePolicy>,
        backends: &mut Backends<'o>,
    ) -> PolicyState {
        let mut state = PolicyState { generation: policy.meta.generation, ..PolicyState::default() };
        let spec = match &policy.spec {
            Ok(spec) => spec,
            Err(why) => {
                state.invalid = Some(why.clone());
                return state;
            }
        };
        let owner = reference(Kind::TollgatePolicy, &policy.meta.object_name());
        let mut resolver = Resolver {
            objects,
            owner: &owner,
            backends,
            references: &mut self.references,
            services: Vec::new(),
            problem: None,
        };
        let parts = [&spec.policies, &spec.route, &spec.upstream].map(|part| resolver.part(part));
        (state.services, state.invalid) = (resolver.services, resolver.problem);
        let mut targets: Vec<(Reference, String)> = Vec::new();
        for target in &spec.target_refs {
            let section = target.section_name.clone().unwrap_or_default();
            match target_of(&owner.name, target) {
                Some(object) if !targets.contains(&(object.clone(), section.clone())) => {
                    targets.push((object, section));
                }
                Some(_) => {}
                None => {
                    let why = format!("a target of the kind {} is not supported", target.kind);
                    state.invalid.get_or_insert(why);
                }
            }
        }
        let misplaced = targets.iter().find_map(|(target, _)| misplaced(target.kind, &parts));
        if let (None, Some(why)) = (&state.invalid, misplaced) {
            state.invalid = Some(why.to_owned());
        }
        for (object, section) in targets {
            let target = TargetState { object, section, lost: Vec::new(), has_effect: false };
            state.targets.push(self.apply(target, &owner.name, &parts, state.invalid.is_some()));
        }
        state
    }

    /// Adds the parts of a policy to the settings of a target.
    fn apply(
        &mut self,
        mut target: TargetState,
        policy: &ObjectName,
        parts: &[Map<String, Value>; 3],
        is_invalid: bool,
    ) -> TargetState {
        let sections = self.targets.entry(target.object.clone()).or_default();
        let settings = sections.entry(target.section.clone()).or_default();
        settings.sources.insert(policy.clone());
        if is_invalid {
            settings.is_broken = true;
            return target;
        }
        let Settings { policies, route, upstream, .. } = settings;
        for ((own, part), name) in [policies, route, upstream].into_iter().zip(parts).zip(PARTS) {
            for (key, value) in part {
                let key_path = format!("{name}.{key}");
                let place = (target.object.clone(), target.section.clone(), key_path.clone());
                match self.holders.get(&place) {
                    Some(older) => target.lost.push((key_path, older.clone())),
                    None => {
                        self.holders.insert(place, policy.clone());
                        own.insert(key.clone(), value.clone());
                        target.has_effect = true;
                    }
                }
            }
        }
        target
    }

    /// Returns the upstreams that policies refer to. They have the settings of their Services' policies.
    pub fn upstreams(self: &Arc<Self>, objects: &Objects, external_names: bool) -> BTreeMap<String, Wanted> {
        let mut backends = Backends::new(objects, BTreeMap::new(), self.clone(), external_names);
        let gateways = BTreeSet::new();
        for (name, policy) in &self.policies {
            let owner = reference(Kind::TollgatePolicy, name);
            let referrer = Referrer { route: &owner, rule: 0, gateways: &gateways, own: None };
            for to in &policy.services {
                // If a Service cannot be used, a condition of the policy says so already.
                let _ = backends.resolve(&referrer, to, 0);
            }
        }
        backends.take().upstreams
    }

    /// Returns whether the policies must be collected again when objects of these kinds change.
    pub fn depend_on(&self, kind: Kind) -> bool {
        match kind {
            Kind::TollgatePolicy => true,
            Kind::Secret => !self.references.is_empty(),
            Kind::Service | Kind::BackendTlsPolicy | Kind::ConfigMap => !self.services.is_empty(),
            Kind::ReferenceGrant => !self.policies.is_empty(),
            _ => false,
        }
    }

    /// Returns the targets whose settings differ from those before.
    pub fn differences(&self, before: &Self) -> BTreeSet<Reference> {
        let changed = self
            .targets
            .iter()
            .filter(|(target, sections)| before.targets.get(*target).is_none_or(|known| known != *sections));
        let gone = before.targets.keys().filter(|target| !self.targets.contains_key(*target));
        changed.map(|(target, _)| target).chain(gone).cloned().collect()
    }

    /// Returns the settings of a section of an object: a rule of a route, a listener of a Gateway, a port of a Service.
    pub fn at(&self, object: &Reference, section: Option<&str>) -> Settings {
        let Some(sections) = self.targets.get(object) else { return Settings::default() };
        let mut all = sections.get("").cloned().unwrap_or_default();
        let own = section.filter(|section| !section.is_empty()).and_then(|section| sections.get(section));
        if let Some(own) = own.cloned() {
            all.policies.extend(own.policies);
            all.route.extend(own.route);
            all.upstream.extend(own.upstream);
            all.sources.extend(own.sources);
            all.is_broken |= own.is_broken;
        }
        all
    }

    /// Returns the policies whose statuses depend on one of these objects.
    pub fn concerned(&self, objects: &BTreeSet<Reference>) -> BTreeSet<ObjectName> {
        let is_concerned =
            |policy: &PolicyState| policy.targets.iter().any(|target| objects.contains(&target.object));
        let concerned = self.policies.iter().filter(|(_, policy)| is_concerned(policy));
        concerned.map(|(name, _)| name.clone()).collect()
    }

    /// Returns whether a policy has Services as targets.
    pub fn is_for_services(&self, name: &ObjectName) -> bool {
        let policy = self.policies.get(name);
        policy.is_some_and(|policy| policy.targets.iter().any(|target| target.object.kind == Kind::Service))
    }

    /// Returns the names of all policies.
    pub fn names(&self) -> impl Iterator<Item = &ObjectName> {
        self.policies.keys()
    }

    /// Returns the status of a policy; `None`: no Gateway and no Ingress of this controller reaches its targets.
    /// `reached_by` returns the Gateways and Ingresses that reach an object.
    pub fn status(
        &self,
        name: &ObjectName,
        objects: &Objects,
        controller: &str,
        reached_by: impl Fn(&Reference) -> BTreeSet<Reference>,
    ) -> Option<Value> {
        let policy = self.policies.get(name)?;
        // A Gateway may be the ancestor of several targets: the first refusal is shown.
        let mut ancestors: Vec<(Reference, Condition, Condition)> = Vec::new();
        let mut add = |ancestor: Reference, accepted: Condition, conflicted: Condition| match ancestors
            .iter_mut()
            .find(|(known, ..)| *known == ancestor)
        {
            None => ancestors.push((ancestor, accepted, conflicted)),
            Some((_, known_accepted, known_conflicted)) => {
                if known_accepted.holds {
                    *known_accepted = accepted;
                }
                if !known_conflicted.holds {
                    *known_conflicted = conflicted;
                }
            }
        };
        let no_conflict = || Condition::no("Conflicted", "NoConflicts", "");
        let refused = |reason, why: &str| Condition::no("Accepted", reason, why);
        for target in &policy.targets {
            if let Some(missing) = target.missing(objects) {
                add(target.object.clone(), refused("TargetNotFound", &missing), no_conflict());
                continue;
            }
            let (mut accepted, mut conflicted) = (Condition::yes("Accepted", "Accepted"), no_conflict());
            if !target.lost.is_empty() {
                let lost = target.lost.iter();
                let lost: Vec<String> =
                    lost.map(|(key, older)| format!("the older policy {older} has `{key}`")).collect();
                let why = format!("{}: {}", target.object, lost.join(", "));
                conflicted = Condition { holds: true, ..Condition::no("Conflicted", "Conflicted", &*why) };
                if !target.has_effect {
                    accepted = refused("Conflicted", &why);
                }
            }
            if let Some(why) = &policy.invalid {
                accepted = refused("Invalid", why);
            }
            for ancestor in reached_by(&target.object) {
                add(ancestor, accepted.clone(), conflicted.clone());
            }
        }
        if let (true, Some(why)) = (policy.targets.is_empty(), &policy.invalid) {
            add(reference(Kind::TollgatePolicy, name), refused("Invalid", why), no_conflict());
        }
        ancestors.truncate(ANCESTORS_MAX);
        let entry = |(ancestor, accepted, conflicted): (Reference, Condition, Condition)| {
            json!({
                "ancestorRef": ancestor_reference(&ancestor),
                "controllerName": controller,
                "conditions": to_json(&[accepted, conflicted], policy.generation),
            })
        };
        let ancestors: Vec<Value> = ancestors.into_iter().map(entry).collect();
        let had_status = || {
            let status = objects.tollgate_policies.get(name).map(|policy| policy.status.value());
            let known = status.as_ref().and_then(|status| status.get("ancestors")?.as_array());
            known.into_iter().flatten().any(|entry| entry["controllerName"] == controller)
        };
        (!ancestors.is_empty() || had_status()).then(|| json!({ "ancestors": ancestors }))
    }
}

impl Settings {
    /// Returns the policies as the owners of a document.
    pub fn owners(&self) -> impl Iterator<Item = Reference> {
        self.sources.iter().map(|name| reference(Kind::TollgatePolicy, name))
    }
}

impl TargetState {
    /// Returns which part of the target does not exist; `None`: all of it exists.
    fn missing(&self, objects: &Objects) -> Option<String> {
        let name = &self.object.name;
        let sections: Option<Vec<&str>> = match self.object.kind {
            Kind::Gateway => objects.gateways.get(name).map(|object| {
                let listeners =
                    object.spec.as_ref().map(|spec| spec.listeners.as_slice()).unwrap_or_default();
                listeners.iter().map(|listener| listener.name.as_str()).collect()
            }),
            Kind::HttpRoute => objects.http_routes.get(name).map(|object| {
                let rules = object.spec.as_ref().map(|spec| spec.rules.as_slice()).unwrap_or_default();
                rules.iter().filter_map(|rule| rule.name.as_deref()).collect()
            }),
            Kind::GrpcRoute => objects.grpc_routes.get(name).map(|object| {
                let rules = object.spec.as_ref().map(|spec| spec.rules.as_slice()).unwrap_or_default();
                rules.iter().filter_map(|rule| rule.name.as_deref()).collect()
            }),
            _ => objects.services.get(name).map(|object| {
                let ports = object.spec.as_ref().map(|spec| spec.ports.as_slice()).unwrap_or_default();
                ports.iter().map(|port| port.name.as_str()).collect()
            }),
        };
        match sections {
            None => Some(format!("there is no {}", self.object)),
            Some(sections) if !self.section.is_empty() && !sections.contains(&self.section.as_str()) => {
                Some(format!("{} has no part of the name {}", self.object, self.section))
            }
            Some(_) => None,
        }
    }
}

/// Returns why a kind of target does not have all parts of a policy.
fn misplaced(kind: Kind, [_, route, upstream]: &[Map<String, Value>; 3]) -> Option<&'static str> {
    match kind {
        Kind::Gateway | Kind::Service if !route.is_empty() => {
            Some("`route` applies to HTTPRoutes and GRPCRoutes only")
        }
        Kind::Service => None,
        _ if !upstream.is_empty() => Some("`upstream` applies to Services only"),
        _ => None,
    }
}

/// Returns the target that a reference of a policy names; `None`: policies do not apply to its kind.
fn target_of(policy: &ObjectName, target: &TargetReference) -> Option<Reference> {
    let kind = match (target.group.as_str(), target.kind.as_str()) {
        (GATEWAY_GROUP, "Gateway") => Kind::Gateway,
        (GATEWAY_GROUP, "HTTPRoute") => Kind::HttpRoute,
        (GATEWAY_GROUP, "GRPCRoute") => Kind::GrpcRoute,
        ("", "Service") => Kind::Service,
        _ => return None,
    };
    Some(reference(kind, &ObjectName::new(&policy.namespace, &target.name)))
}

/// Returns the reference to an ancestor, as statuses of policies have it.
pub fn ancestor_reference(ancestor: &Reference) -> Value {
    let (group, _, kind, _) = ancestor.kind.names();
    json!({
        "group": group, "kind": kind,
        "namespace": &*ancestor.name.namespace, "name": &*ancestor.name.name,
    })
}

/// Replaces the references in a policy by the values that they refer to.
struct Resolver<'r, 'o> {
    objects: &'o Objects,
    owner: &'r Reference,
    backends: &'r mut Backends<'o>,
    references: &'r mut BTreeSet<Reference>,
    services: Vec<BackendReference>,
    /// The problem of the first reference that cannot be resolved.
    problem: Option<String>,
}

impl Resolver<'_, '_> {
    fn part(&mut self, part: &Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        for (key, value) in part.iter().filter(|(key, _)| *key != DISABLED) {
            out.insert(key.clone(), self.resolved(value));
        }
        let disabled = part.get(DISABLED).and_then(Value::as_array);
        for name in disabled.into_iter().flatten().filter_map(Value::as_str) {
            out.entry(name).or_insert(false.into());
        }
        out
    }

    fn resolved(&mut self, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.resolved(item)).collect(),
            Value::Object(fields) => {
                let only = fields.iter().next().filter(|(_, to)| fields.len() == 1 && to.is_object());
                let found = match only {
                    Some((key, to)) if key == SECRET_REFERENCE => self.secret(to),
                    Some((key, to)) if key == SERVICE_REFERENCE => self.service(to),
                    _ => {
                        let fields = fields.iter().map(|(key, value)| (key.clone(), self.resolved(value)));
                        return Value::Object(fields.collect());
                    }
                };
                found.map(Value::from).unwrap_or_else(|why| {
                    self.problem.get_or_insert(why);
                    Value::Null
                })
            }
            other => other.clone(),
        }
    }

    /// Returns the name that a reference has.
    fn name(&self, to: &Value) -> ObjectName {
        let text = |key: &str| to.get(key).and_then(Value::as_str);
        let namespace = text("namespace").unwrap_or(&self.owner.name.namespace);
        ObjectName::new(namespace, text("name").unwrap_or_default())
    }

    /// Returns the text of a Secret's entry.
    fn secret(&mut self, to: &Value) -> Result<String, String> {
        let name = self.name(to);
        let key = to.get("key").and_then(Value::as_str).unwrap_or_default();
        let from = (Kind::TollgatePolicy, &*self.owner.name.namespace);
        if !grants::is_granted(self.objects, from, (Kind::Secret, &name)) {
            return Err(format!("no ReferenceGrant permits the Secret {name}"));
        }
        self.references.insert(reference(Kind::Secret, &name));
        let secret = self.objects.secrets.get(&name).and_then(|secret| secret.spec.as_ref().ok());
        let Some(secret) = secret else { return Err(format!("there is no Secret {name}")) };
        let text = secret.data.get(key).and_then(|text| STANDARD.decode(text).ok());
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| format!("the Secret {name} has no text `{key}`"))?;
        // A file that became a Secret ends with a line break. `${` begins a variable in documents.
        Ok(text.trim_end_matches(['\r', '\n']).replace("${", "$${"))
    }

    /// Returns the upstream of a Service's port.
    fn service(&mut self, to: &Value) -> Result<String, String> {
        let ObjectName { namespace, name } = self.name(to);
        let port = to.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        let (name, namespace) = (name.to_string(), Some(namespace.to_string()));
        let to = BackendReference { name, namespace, port, ..BackendReference::default() };
        let gateways = BTreeSet::new();
        let referrer = Referrer { route: self.owner, rule: 0, gateways: &gateways, own: None };
        match self.backends.resolve(&referrer, &to, 0) {
            Ok(Backend::Upstream(upstream)) => {
                self.services.push(to);
                Ok(upstream)
            }
            Ok(Backend::Broken) => Err(format!("the TLS policy of the Service {} is not valid", to.name)),
            Err(condition) => Err(condition.message),
        }
    }
}
