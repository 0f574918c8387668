//! Keeps a translation up to date with changes of the objects.
//!
//! The [source](crate::thread) calls [`Translator::update`] with each batch of changes, and [`Translator::in_force`]
//! when the gateway has put the result in force. [`Translator::update`] translates only what depends on a change:
//!
//! | Change | Translated again |
//! |---|---|
//! | a route | the route, and the routes that claim the same matches |
//! | a Service | the routes and Ingresses that refer to it |
//! | the endpoints of a Service | the documents of its upstreams, and no route |
//! | a Gateway or a ListenerSet | all Gateways, because they are few, and the routes that see a parent differently |
//! | an Ingress | the Ingresses that share hosts with it, directly or through others |
//! | a TollgatePolicy | its targets |
//! | a ReferenceGrant, a BackendTLSPolicy or a ConfigMap | all routes |
//!
//! Invariant: the result equals a [translation](super::translate) of all objects from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tollgate_documents::Compact;

use super::backends::{Ancestors, Backends, Found, Source, Wanted};
use super::claims::{Claims, Rank, Taken};
use super::gateways::{Gateways, ListenerKey, Parents};
use super::ingress::{IngressChanges, IngressState, IngressUpdate, Ingresses};
use super::policies::Policies;
use super::routes::{self, Route, Surroundings};
use super::shared::Shared;
use super::{Applied, Document, DocumentKey, Statuses, Translation, TranslationSettings, conditions};
use crate::object::{Kind, ObjectName, Reference};
use crate::objects::{Changes, Objects};

/// The kinds of routes.
const ROUTES: [Kind; 5] = [Kind::HttpRoute, Kind::GrpcRoute, Kind::TlsRoute, Kind::TcpRoute, Kind::UdpRoute];
/// The kinds that Gateways depend on. Ingresses are among them because they share the pool of addresses.
const OF_GATEWAYS: [Kind; 9] = [
    Kind::GatewayClass,
    Kind::Gateway,
    Kind::ListenerSet,
    Kind::Namespace,
    Kind::Secret,
    Kind::ConfigMap,
    Kind::ReferenceGrant,
    Kind::Ingress,
    Kind::IngressClass,
];
/// The kinds that every route may depend on.
const OF_ALL_ROUTES: [Kind; 3] = [Kind::ReferenceGrant, Kind::BackendTlsPolicy, Kind::ConfigMap];
/// The kinds that Ingresses depend on.
const OF_INGRESSES: [Kind; 7] = [
    Kind::Ingress,
    Kind::IngressClass,
    Kind::Service,
    Kind::Secret,
    Kind::ConfigMap,
    Kind::ReferenceGrant,
    Kind::BackendTlsPolicy,
];

/// The kinds that every Ingress may depend on.
const OF_ALL_INGRESSES: [Kind; 3] = [Kind::IngressClass, Kind::ReferenceGrant, Kind::BackendTlsPolicy];

/// A translation that follows the objects.
pub struct Translator {
    settings: TranslationSettings,
    policies: Arc<Policies>,
    /// The upstreams that policies refer to, with the policies.
    policy_upstreams: Vec<(String, Vec<Reference>)>,
    gateways: Gateways,
    parents: Parents,
    /// All routes, whether they belong to this controller or not.
    routes: BTreeMap<Reference, Box<RouteState>>,
    attachments: Shared<AttachmentState>,
    used_backends: Shared<UsedBackends>,
    claims: Claims,
    /// How many routes are attached to each listener that has any.
    attached: BTreeMap<ListenerKey, usize>,
    /// The sources of the upstreams, by name.
    sources: BTreeMap<String, Source>,
    /// The documents of Gateways.
    gateway_documents: Vec<DocumentKey>,
    ingresses: IngressState,
    documents: BTreeMap<DocumentKey, Document>,
    statuses: BTreeMap<Reference, Compact>,
    references: BTreeSet<Reference>,
    notes: BTreeMap<Reference, BTreeSet<String>>,
    /// The objects with a refused document.
    refused: BTreeSet<Reference>,
}

/// The contribution of a route to the result.
#[derive(Default)]
struct RouteState {
    rank: Option<Arc<Rank>>,
    claims: Box<[Arc<str>]>,
    documents: Vec<DocumentKey>,
    attachment: Arc<AttachmentState>,
    backends: Arc<UsedBackends>,
    ancestors: Ancestors,
}

/// The attachment of a route to its parents.
#[derive(Default, PartialEq, Eq, Hash)]
struct AttachmentState {
    /// The parents that it refers to, whether they exist or not.
    parents: Vec<Reference>,
    /// The listeners that it is attached to.
    listeners: Vec<ListenerKey>,
    /// The Gateways that it refers to.
    gateways: Vec<ObjectName>,
}

/// The backends that a route uses.
#[derive(Default, PartialEq, Eq, Hash)]
struct UsedBackends {
    upstreams: Vec<String>,
    /// The Services that were looked up, whether they exist or not.
    services: Vec<ObjectName>,
}

/// The changes that an update made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Documents that were added, changed or removed.
    pub documents: BTreeSet<DocumentKey>,
    /// Objects whose statuses changed, or were removed.
    pub statuses: BTreeSet<Reference>,
}

impl Update {
    /// Adds a later update.
    pub fn extend(&mut self, later: Self) {
        self.documents.extend(later.documents);
        self.statuses.extend(later.statuses);
    }
}

impl Translator {
    /// Creates the translation of no objects.
    #[must_use]
    pub fn new(settings: TranslationSettings) -> Self {
        Self {
            settings,
            policies: Arc::default(),
            policy_upstreams: Vec::new(),
            gateways: Gateways::default(),
            parents: Parents::new(),
            routes: BTreeMap::new(),
            attachments: Shared::default(),
            used_backends: Shared::default(),
            claims: Claims::default(),
            attached: BTreeMap::new(),
            sources: BTreeMap::new(),
            gateway_documents: Vec::new(),
            ingresses: IngressState::default(),
            documents: BTreeMap::new(),
            statuses: BTreeMap::new(),
            references: BTreeSet::new(),
            notes: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Translates all objects.
    pub fn start(&mut self, objects: &Objects) -> Update {
        let kinds = Kind::WATCHED.into_iter().chain([Kind::Secret, Kind::ConfigMap]);
        let all =
            kinds.flat_map(|kind| objects.names(kind).into_iter().map(move |name| Reference { kind, name }));
        self.update(objects, &Changes { objects: all.collect(), endpoints: BTreeSet::new() })
    }

    /// Translates everything that depends on the changed objects.
    pub fn update(&mut self, objects: &Objects, changes: &Changes) -> Update {
        let mut update = Update::default();
        let kinds: BTreeSet<Kind> = changes.objects.iter().map(|object| object.kind).collect();
        let concerns = |of: &[Kind]| of.iter().any(|kind| kinds.contains(kind));
        let ingress_address = self.gateways.ingress_address;
        let targets = self.update_policies(objects, &kinds, &mut update);
        let concerns_policies = targets.is_some() || concerns(&OF_GATEWAYS);
        let targets = targets.unwrap_or_default();
        let is_target = |kind: Kind| targets.iter().any(|target| target.kind == kind);
        let mut changed_parents = BTreeSet::new();
        if concerns(&OF_GATEWAYS) || is_target(Kind::Gateway) || self.concerns_services(changes) {
            changed_parents = self.update_gateways(objects, &mut update);
        }
        let certificates = self.gateways.client_certificates();
        let external_names = self.settings.external_names;
        let mut backends = Backends::new(objects, certificates, self.policies.clone(), external_names);
        let concerned = match concerns(&OF_ALL_ROUTES) {
            true => self.all_routes(objects),
            false => self.concerned_routes(changes, &targets, &changed_parents),
        };
        let mut touched = targets.clone();
        touched.extend(changes.objects.iter().cloned());
        self.update_routes(objects, concerned, &mut backends, &mut touched, &mut update);
        if concerns(&OF_INGRESSES)
            || !changes.endpoints.is_empty()
            || is_target(Kind::Service)
            || ingress_address != self.gateways.ingress_address
        {
            let concerned = ingress_changes(changes, &targets, concerns(&OF_ALL_INGRESSES));
            let services = self.update_ingresses(objects, &concerned, &mut backends, &mut update);
            touched.extend(services.iter().map(|service| super::reference(Kind::Service, service)));
        }
        self.update_endpoints(objects, &changes.endpoints, &mut update);
        let mut out = Translation::default();
        self.gateways.statuses(&self.attached, &mut out);
        let of_gateways = [Kind::GatewayClass, Kind::Gateway, Kind::ListenerSet];
        self.replace_statuses(&of_gateways, out.statuses, &mut update);
        self.update_tls_policies(&mut backends, &mut update);
        self.update_policy_statuses(objects, &touched, concerns_policies, &mut update);
        update
    }

    /// Returns whether changes affect the Services of Gateways.
    fn concerns_services(&self, changes: &Changes) -> bool {
        let is_changed = |service: &ObjectName| {
            changes.objects.iter().any(|object| object.kind == Kind::Service && object.name == *service)
        };
        self.settings.publish_service.as_ref().is_some_and(is_changed)
            || self.settings.services.as_ref().is_some_and(|services| {
                changes.objects.iter().any(|object| object.kind == Kind::Service)
                    || changes.endpoints.contains(&services.pods)
            })
    }

    /// Returns the Services of Gateways, with their EndpointSlices.
    #[must_use]
    pub fn applied(&self) -> &Applied {
        &self.gateways.applied
    }

    /// Returns the whole translation.
    #[must_use]
    pub fn translation(&self) -> Translation {
        Translation {
            documents: self.documents.clone(),
            statuses: self.statuses.iter().map(|(object, status)| (object.clone(), status.value())).collect(),
            references: self.references.clone(),
            notes: self.notes.clone(),
        }
    }

    /// Returns a document's content.
    #[must_use]
    pub fn document(&self, key: &DocumentKey) -> Option<&Compact> {
        self.documents.get(key).map(|document| &document.content)
    }

    /// Returns the Secrets and ConfigMaps that were referred to, whether they exist or not.
    #[must_use]
    pub fn references(&self) -> &BTreeSet<Reference> {
        &self.references
    }

    /// Returns what the gateway cannot do for objects whose statuses have no conditions.
    #[must_use]
    pub fn notes(&self) -> &BTreeMap<Reference, BTreeSet<String>> {
        &self.notes
    }

    /// Returns the refusals of documents as notes of the Ingresses that they were made from: an Ingress has no conditions.
    /// Listeners are left out, because they are made from all Ingresses; the log has them.
    #[must_use]
    pub fn refusal_notes(
        &self,
        refused: &BTreeMap<DocumentKey, String>,
    ) -> BTreeMap<Reference, BTreeSet<String>> {
        let mut notes: BTreeMap<Reference, BTreeSet<String>> = BTreeMap::new();
        for (key, why) in refused.iter().filter(|(key, _)| key.kind != "listeners") {
            let owners = self.documents.get(key).into_iter().flat_map(|document| &document.owners);
            for owner in owners.filter(|owner| owner.kind == Kind::Ingress) {
                let note = format!("{}/{} is refused: {why}", key.kind, key.name);
                notes.entry(owner.clone()).or_default().insert(note);
            }
        }
        notes
    }

    /// Returns the statuses that changed (`None`: removed) once an update is in force. `refused` has all documents that
    /// the gateway refused, with the reasons: the statuses of their owners then say that they are not programmed.
    pub fn in_force(
        &mut self,
        update: Update,
        refused: &BTreeMap<DocumentKey, String>,
    ) -> BTreeMap<Reference, Option<Compact>> {
        let mut blamed: BTreeMap<Reference, Vec<(&DocumentKey, &String)>> = BTreeMap::new();
        for (key, why) in refused {
            let owners = self.documents.get(key).into_iter().flat_map(|document| &document.owners).cloned();
            let source = self.sources.get(&key.name).filter(|_| key.kind == "upstreams");
            let policies = source.into_iter().flat_map(|source| &source.policies);
            let policies = policies.map(|name| super::reference(Kind::TollgatePolicy, name));
            for owner in owners.chain(policies) {
                blamed.entry(owner).or_default().push((key, why));
            }
        }
        let now: BTreeSet<Reference> = blamed.keys().cloned().collect();
        let changed = update.statuses.iter().chain(&self.refused).chain(&now).cloned();
        let changed: BTreeSet<Reference> = changed.collect();
        let status = |object: Reference| {
            let mut status = self.statuses.get(&object).cloned();
            if let (Some(status), Some(blamed)) = (&mut status, blamed.get(&object)) {
                let mut value = status.value();
                for (key, why) in blamed {
                    conditions::refuse(object.kind, &mut value, key, why);
                }
                *status = Compact::from(&value);
            }
            (object, status)
        };
        let statuses = changed.into_iter().map(status).collect();
        self.refused = now;
        statuses
    }

    /// Collects the policies again, if they depend on one of these kinds. Returns the targets whose settings changed;
    /// `None`: the policies were not collected.
    fn update_policies(
        &mut self,
        objects: &Objects,
        kinds: &BTreeSet<Kind>,
        update: &mut Update,
    ) -> Option<BTreeSet<Reference>> {
        if !kinds.iter().any(|kind| self.policies.depend_on(*kind)) {
            return None;
        }
        let policies = Arc::new(Policies::new(objects, self.settings.external_names));
        let targets = policies.differences(&self.policies);
        self.policies = policies;
        let upstreams = self.policies.upstreams(objects, self.settings.external_names);
        let before = std::mem::take(&mut self.policy_upstreams);
        self.policy_upstreams = self.replace_upstreams(objects, before, upstreams, update);
        self.update_references();
        Some(targets)
    }

    /// Replaces earlier upstreams by these. Returns their names with their owners.
    fn replace_upstreams(
        &mut self,
        objects: &Objects,
        before: Vec<(String, Vec<Reference>)>,
        upstreams: BTreeMap<String, Wanted>,
        update: &mut Update,
    ) -> Vec<(String, Vec<Reference>)> {
        // Add before removing, so that an upstream that stays never lacks an owner.
        for (upstream, wanted) in &upstreams {
            for owner in &wanted.owners {
                self.put_upstream(objects, upstream, &wanted.source, owner, update);
            }
        }
        for (upstream, owners) in &before {
            for owner in owners {
                if upstreams.get(upstream).is_none_or(|wanted| !wanted.owners.contains(owner)) {
                    self.release_upstream(upstream, owner, update);
                }
            }
        }
        upstreams.into_iter().map(|(name, wanted)| (name, wanted.owners.into_iter().collect())).collect()
    }

    /// Collects the Gateways again. Returns the parents that routes see differently.
    fn update_gateways(&mut self, objects: &Objects, update: &mut Update) -> BTreeSet<Reference> {
        let ingresses = Ingresses::new(objects, &self.settings);
        self.gateways = Gateways::new(objects, &self.settings, &ingresses, &self.gateways);
        let parents = self.gateways.parents(&self.policies);
        let mut changed = BTreeSet::new();
        for (name, parent) in &parents {
            if self.parents.get(name) != Some(parent) {
                changed.insert(name.clone());
            }
        }
        changed.extend(self.parents.keys().filter(|name| !parents.contains_key(name)).cloned());
        self.parents = parents;
        let mut out = Translation::default();
        self.gateways.documents(&self.policies, &mut out);
        let before = std::mem::take(&mut self.gateway_documents);
        self.gateway_documents = self.replace_documents(before, out.documents, update);
        self.update_references();
        changed
    }

    fn all_routes(&self, objects: &Objects) -> BTreeSet<Reference> {
        let present = ROUTES
            .into_iter()
            .flat_map(|kind| objects.names(kind).into_iter().map(move |name| Reference { kind, name }));
        present.chain(self.routes.keys().cloned()).collect()
    }

    /// Returns the routes that changed, and the routes that depend on a changed object.
    fn concerned_routes(
        &self,
        changes: &Changes,
        targets: &BTreeSet<Reference>,
        parents: &BTreeSet<Reference>,
    ) -> BTreeSet<Reference> {
        let of = |kind: Kind| changes.objects.iter().filter(move |object| object.kind == kind);
        let mut concerned: BTreeSet<Reference> =
            changes.objects.iter().filter(|object| ROUTES.contains(&object.kind)).cloned().collect();
        concerned.extend(targets.iter().filter(|target| self.routes.contains_key(*target)).cloned());
        let target_services = targets.iter().filter(|target| target.kind == Kind::Service);
        let services: BTreeSet<&ObjectName> =
            of(Kind::Service).chain(target_services).map(|object| &object.name).collect();
        let namespaces: BTreeSet<&str> = of(Kind::Namespace).map(|object| &*object.name.name).collect();
        if parents.is_empty() && services.is_empty() && namespaces.is_empty() {
            return concerned;
        }
        for (route, state) in &self.routes {
            if state.backends.services.iter().any(|service| services.contains(service))
                || state.attachment.parents.iter().any(|parent| parents.contains(parent))
                || namespaces.contains(&*route.name.namespace)
            {
                concerned.insert(route.clone());
            }
        }
        concerned
    }

    /// Translates routes again.
    fn update_routes<'o>(
        &mut self,
        objects: &'o Objects,
        concerned: BTreeSet<Reference>,
        backends: &mut Backends<'o>,
        touched: &mut BTreeSet<Reference>,
        update: &mut Update,
    ) {
        // Add all claims before any route is translated: the translation depends on the claims of all routes.
        let mut others = BTreeSet::new();
        for name in &concerned {
            let state = self.routes.entry(name.clone()).or_default();
            if let Some(rank) = state.rank.take() {
                self.claims.remove(&rank, &std::mem::take(&mut state.claims), &mut others);
            }
            let Some(route) = Route::find(objects, name) else { continue };
            let surroundings = Surroundings {
                objects,
                settings: &self.settings,
                parents: &self.parents,
                policies: &self.policies,
            };
            let Some(attached) = routes::attach_all(&route, surroundings) else { continue };
            let rank = Arc::new(Rank::of(name.kind, route.meta));
            state.claims = self.claims.add(&rank, routes::claims(&route, &attached), &mut others);
            state.rank = Some(rank);
        }
        others.extend(concerned);
        for name in others {
            let services = |state: Option<&RouteState>| -> Vec<Reference> {
                let services = state.into_iter().flat_map(|state| &state.backends.services);
                services.map(|service| super::reference(Kind::Service, service)).collect()
            };
            touched.extend(services(self.routes.get(&name).map(AsRef::as_ref)));
            self.update_route(objects, &name, backends, update);
            touched.extend(services(self.routes.get(&name).map(AsRef::as_ref)));
            touched.insert(name);
        }
    }

    /// Translates a route whose claims are in the table.
    fn update_route<'o>(
        &mut self,
        objects: &'o Objects,
        name: &Reference,
        backends: &mut Backends<'o>,
        update: &mut Update,
    ) {
        let mut out = Translation::default();
        let mut attachment = AttachmentState::default();
        let route = Route::find(objects, name);
        if let Some(route) = &route {
            attachment.parents = route.parent_references().flatten().collect();
            let surroundings = Surroundings {
                objects,
                settings: &self.settings,
                parents: &self.parents,
                policies: &self.policies,
            };
            let rank = self.routes.get(name).and_then(|state| state.rank.clone());
            match (routes::attach_all(route, surroundings), rank) {
                (Some(attached), Some(rank)) => {
                    attachment.listeners.clone_from(&attached.listeners);
                    attachment.gateways.extend(attached.gateways.iter().cloned());
                    let mut taken = Taken::new(&self.claims, &rank);
                    routes::translate(route, attached, surroundings, backends, &mut taken, &mut out);
                }
                _ => {
                    if let Some(status) = routes::detached_status(route, &self.settings) {
                        out.statuses.insert(name.clone(), status);
                    }
                }
            }
        }
        let Found { upstreams, services, ancestors, .. } = backends.take();
        let attachment = self.attachments.get(attachment);
        let used = self.used_backends.get(UsedBackends {
            upstreams: upstreams.keys().cloned().collect(),
            services: services.into_iter().collect(),
        });
        let state = self.routes.entry(name.clone()).or_default();
        let before = std::mem::take(&mut state.documents);
        let attachment_before = std::mem::replace(&mut state.attachment, attachment.clone());
        let used_before = std::mem::replace(&mut state.backends, used);
        state.ancestors = ancestors;
        let documents = self.replace_documents(before, out.documents, update);
        if let Some(state) = self.routes.get_mut(name) {
            state.documents = documents;
        }
        // Add before removing, so that an upstream that stays never lacks an owner.
        for (upstream, wanted) in &upstreams {
            self.put_upstream(objects, upstream, &wanted.source, name, update);
        }
        for upstream in used_before.upstreams.iter().filter(|upstream| !upstreams.contains_key(*upstream)) {
            self.release_upstream(upstream, name, update);
        }
        for listener in &attachment.listeners {
            *self.attached.entry(listener.clone()).or_default() += 1;
        }
        for listener in &attachment_before.listeners {
            if let Some(count) = self.attached.get_mut(listener) {
                *count -= 1;
                if *count == 0 {
                    self.attached.remove(listener);
                }
            }
        }
        self.set_status(name, out.statuses.remove(name), update);
        if route.is_none() {
            self.routes.remove(name);
        }
    }

    /// Translates Ingresses again. Returns the Services that they refer to, or did before.
    fn update_ingresses<'o>(
        &mut self,
        objects: &'o Objects,
        concerned: &IngressChanges,
        backends: &mut Backends<'o>,
        update: &mut Update,
    ) -> BTreeSet<ObjectName> {
        let address = self.gateways.ingress_address;
        let Some(made) = self.ingresses.update(objects, &self.settings, address, concerned, backends) else {
            return BTreeSet::new();
        };
        let IngressUpdate { documents_before, documents, upstreams_before, upstreams, .. } = made;
        self.replace_documents(documents_before, documents, update);
        self.replace_upstreams(objects, upstreams_before, upstreams, update);
        for (ingress, status) in made.statuses {
            self.set_status(&ingress, status, update);
        }
        for (ingress, notes) in made.notes {
            match notes.is_empty() {
                true => drop(self.notes.remove(&ingress)),
                false => drop(self.notes.insert(ingress, notes)),
            }
        }
        self.update_references();
        made.services
    }

    /// Renews the documents of upstreams whose endpoints changed.
    fn update_endpoints(&mut self, objects: &Objects, services: &BTreeSet<ObjectName>, update: &mut Update) {
        if services.is_empty() {
            return;
        }
        for (name, source) in &self.sources {
            if services.contains(&source.service) {
                let key = DocumentKey { kind: "upstreams", name: name.clone() };
                if let Some(document) = self.documents.get_mut(&key) {
                    let content = Compact::from(&source.document(objects));
                    if document.content != content {
                        document.content = content;
                        update.documents.insert(key);
                    }
                }
            }
        }
    }

    /// Renews the statuses of the TollgatePolicies that touch these objects, or of all.
    fn update_policy_statuses(
        &mut self,
        objects: &Objects,
        touched: &BTreeSet<Reference>,
        all: bool,
        update: &mut Update,
    ) {
        let policies = self.policies.clone();
        let changed = touched.iter().filter(|object| object.kind == Kind::TollgatePolicy);
        let mut concerned: BTreeSet<ObjectName> = changed.map(|policy| policy.name.clone()).collect();
        match all {
            true => concerned.extend(policies.names().cloned()),
            false => concerned.extend(policies.concerned(touched)),
        }
        let by_service = self.reached_services(concerned.iter().any(|name| policies.is_for_services(name)));
        let reached_by = |target: &Reference| -> BTreeSet<Reference> {
            let of_route =
                || self.routes.get(target).into_iter().flat_map(|state| &state.attachment.gateways);
            match target.kind {
                Kind::Gateway => Some(target)
                    .filter(|gateway| self.gateways.contains(&gateway.name))
                    .cloned()
                    .into_iter()
                    .collect(),
                Kind::Service => by_service.get(&target.name).cloned().unwrap_or_default(),
                _ => of_route().map(|gateway| super::reference(Kind::Gateway, gateway)).collect(),
            }
        };
        let controller = &self.settings.controller;
        let status = |name: ObjectName| {
            let status = policies.status(&name, objects, controller, reached_by);
            (super::reference(Kind::TollgatePolicy, &name), status)
        };
        let statuses: Vec<_> = concerned.into_iter().map(status).collect();
        for (policy, status) in statuses {
            self.set_status(&policy, status, update);
        }
    }

    /// Returns the Gateways and Ingresses by which each Service is reached; none, if they are not needed.
    fn reached_services(&self, is_needed: bool) -> BTreeMap<ObjectName, BTreeSet<Reference>> {
        let mut all: BTreeMap<ObjectName, BTreeSet<Reference>> = BTreeMap::new();
        for state in self.routes.values().filter(|_| is_needed) {
            for service in &state.backends.services {
                let gateways = state.attachment.gateways.iter();
                let gateways = gateways.map(|gateway| super::reference(Kind::Gateway, gateway));
                all.entry(service.clone()).or_default().extend(gateways);
            }
        }
        for (ingress, services) in self.ingresses.services().filter(|_| is_needed) {
            for service in services {
                all.entry(service.clone()).or_default().insert(super::reference(Kind::Ingress, ingress));
            }
        }
        all
    }

    /// Renews the statuses of BackendTLSPolicies.
    fn update_tls_policies(&mut self, backends: &mut Backends<'_>, update: &mut Update) {
        let mut all = Ancestors::new();
        let of_routes = self.routes.values().flat_map(|state| &state.ancestors);
        for (policy, gateways) in self.ingresses.ancestors().chain(of_routes) {
            all.entry(policy.clone()).or_default().extend(gateways.iter().cloned());
        }
        let statuses = backends.policy_statuses(&self.settings, &all);
        self.replace_statuses(&[Kind::BackendTlsPolicy], statuses, update);
        let references = backends.take().references;
        self.update_references();
        self.references.extend(references);
    }

    fn update_references(&mut self) {
        let of_ingresses = self.ingresses.references();
        let all = self.gateways.references.iter().chain(of_ingresses).chain(&self.policies.references);
        self.references = all.cloned().collect();
        let default = self.settings.default_certificate.as_ref();
        self.references.extend(default.map(|secret| super::reference(Kind::Secret, secret)));
    }

    /// Replaces earlier documents by these. Returns their keys.
    fn replace_documents(
        &mut self,
        before: Vec<DocumentKey>,
        documents: BTreeMap<DocumentKey, Document>,
        update: &mut Update,
    ) -> Vec<DocumentKey> {
        for key in before {
            if !documents.contains_key(&key) {
                self.documents.remove(&key);
                update.documents.insert(key);
            }
        }
        let keys = documents.keys().cloned().collect();
        for (key, document) in documents {
            match self.documents.get_mut(&key) {
                Some(known) if known.content == document.content => known.owners = document.owners,
                _ => {
                    let content = document.content;
                    // Trim the capacity: nearly every document has one owner, and a vector's first allocation has room
                    // for four.
                    let owners = document.owners.into_boxed_slice().into_vec();
                    self.documents.insert(key.clone(), Document { content, owners });
                    update.documents.insert(key);
                }
            }
        }
        keys
    }

    /// Adds an owner to an upstream, and renews its document if its source changed.
    fn put_upstream(
        &mut self,
        objects: &Objects,
        name: &str,
        source: &Source,
        owner: &Reference,
        update: &mut Update,
    ) {
        let key = DocumentKey { kind: "upstreams", name: name.to_owned() };
        if self.sources.get(name) != Some(source) {
            self.sources.insert(name.to_owned(), source.clone());
            let content = Compact::from(&source.document(objects));
            match self.documents.get_mut(&key) {
                Some(known) => known.content = content,
                None => {
                    self.documents.insert(key.clone(), Document { content, owners: Vec::new() });
                }
            }
            update.documents.insert(key.clone());
        }
        if let Some(document) = self.documents.get_mut(&key) {
            document.add_owner(owner.clone());
        }
    }

    /// Removes an owner from an upstream, and the upstream after its last owner.
    fn release_upstream(&mut self, name: &str, owner: &Reference, update: &mut Update) {
        let key = DocumentKey { kind: "upstreams", name: name.to_owned() };
        let Some(document) = self.documents.get_mut(&key) else { return };
        document.remove_owner(owner);
        if document.owners.is_empty() {
            self.documents.remove(&key);
            self.sources.remove(name);
            update.documents.insert(key);
        }
    }

    /// Replaces all statuses of some kinds.
    fn replace_statuses(&mut self, kinds: &[Kind], statuses: Statuses, update: &mut Update) {
        let mut gone: Vec<Reference> = Vec::new();
        for kind in kinds {
            let first = Reference { kind: *kind, name: ObjectName::default() };
            let known = self.statuses.range(first..).map(|(object, _)| object);
            let known = known.take_while(|object| object.kind == *kind);
            gone.extend(known.filter(|object| !statuses.contains_key(object)).cloned());
        }
        for object in gone {
            self.set_status(&object, None, update);
        }
        for (object, status) in statuses {
            self.set_status(&object, Some(status), update);
        }
    }

    fn set_status(&mut self, object: &Reference, status: Option<Value>, update: &mut Update) {
        let status = status.as_ref().map(Compact::from);
        if self.statuses.get(object) == status.as_ref() {
            return;
        }
        match status {
            Some(status) => self.statuses.insert(object.clone(), status),
            None => self.statuses.remove(object),
        };
        update.statuses.insert(object.clone());
    }
}

/// Selects the changes that affect Ingresses. `targets`: the objects whose TollgatePolicies changed.
fn ingress_changes(changes: &Changes, targets: &BTreeSet<Reference>, is_all: bool) -> IngressChanges {
    let of = |kind: Kind| changes.objects.iter().filter(move |object| object.kind == kind);
    let targets = targets.iter().filter(|target| target.kind == Kind::Service);
    IngressChanges {
        is_all,
        ingresses: of(Kind::Ingress).map(|object| object.name.clone()).collect(),
        services: of(Kind::Service).chain(targets).map(|object| object.name.clone()).collect(),
        endpoints: changes.endpoints.clone(),
        references: of(Kind::Secret).chain(of(Kind::ConfigMap)).cloned().collect(),
    }
}
