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
//! [`RouteStates`] and [`IngressState`] translate the routes and the Ingresses, [`Output`] keeps the result. Invariant: it
//! equals a [translation](super::translate) of all objects from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tollgate_documents::Compact;

use super::backends::{Ancestors, Backends};
use super::gateways::{Gateways, Parents};
use super::ingress::{IngressChanges, IngressState, IngressUpdate, Ingresses};
use super::output::{Output, Update};
use super::policies::Policies;
use super::routes::{RouteStates, Surroundings};
use super::{Applied, DocumentKey, Translation, TranslationSettings, reference};
use crate::object::{Kind, ObjectName, Reference};
use crate::objects::{Changes, Objects};

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
    routes: RouteStates,
    /// The documents of Gateways.
    gateway_documents: Vec<DocumentKey>,
    ingresses: IngressState,
    output: Output,
    references: BTreeSet<Reference>,
    notes: BTreeMap<Reference, BTreeSet<String>>,
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
            routes: RouteStates::default(),
            gateway_documents: Vec::new(),
            ingresses: IngressState::default(),
            output: Output::default(),
            references: BTreeSet::new(),
            notes: BTreeMap::new(),
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
        let kinds: BTreeSet<Kind> = changes.objects.iter().map(|object| object.kind).collect();
        let concerns = |of: &[Kind]| of.iter().any(|kind| kinds.contains(kind));
        let ingress_address = self.gateways.ingress_address;
        let targets = self.update_policies(objects, &kinds);
        let concerns_policies = targets.is_some() || concerns(&OF_GATEWAYS);
        let targets = targets.unwrap_or_default();
        let is_target = |kind: Kind| targets.iter().any(|target| target.kind == kind);
        let mut changed_parents = BTreeSet::new();
        if concerns(&OF_GATEWAYS) || is_target(Kind::Gateway) || self.concerns_services(changes) {
            changed_parents = self.update_gateways(objects);
        }
        let certificates = self.gateways.client_certificates();
        let external_names = self.settings.external_names;
        let mut backends = Backends::new(objects, certificates, self.policies.clone(), external_names);
        let concerned = match concerns(&OF_ALL_ROUTES) {
            true => self.routes.all(objects),
            false => self.routes.concerned(changes, &targets, &changed_parents),
        };
        let surroundings = Surroundings {
            objects,
            settings: &self.settings,
            parents: &self.parents,
            policies: &self.policies,
        };
        let mut touched = self.routes.update(concerned, surroundings, &mut backends, &mut self.output);
        touched.extend(targets.iter().chain(&changes.objects).cloned());
        if concerns(&OF_INGRESSES)
            || !changes.endpoints.is_empty()
            || is_target(Kind::Service)
            || ingress_address != self.gateways.ingress_address
        {
            let concerned = ingress_changes(changes, &targets, concerns(&OF_ALL_INGRESSES));
            let services = self.update_ingresses(objects, &concerned, &mut backends);
            touched.extend(services.iter().map(|service| reference(Kind::Service, service)));
        }
        self.output.update_endpoints(objects, &changes.endpoints);
        let mut out = Translation::default();
        self.gateways.statuses(self.routes.attached(), &mut out);
        let of_gateways = [Kind::GatewayClass, Kind::Gateway, Kind::ListenerSet];
        self.output.replace_statuses(&of_gateways, out.statuses);
        self.update_tls_policies(&mut backends);
        self.update_policy_statuses(objects, &touched, concerns_policies);
        self.output.take_update()
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
            documents: self.output.documents().clone(),
            statuses: self
                .output
                .statuses()
                .map(|(object, status)| (object.clone(), status.value()))
                .collect(),
            references: self.references.clone(),
            notes: self.notes.clone(),
        }
    }

    /// Returns a document's content.
    #[must_use]
    pub fn document(&self, key: &DocumentKey) -> Option<&Compact> {
        self.output.documents().get(key).map(|document| &document.content)
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
        self.output.refusal_notes(refused)
    }

    /// Returns the statuses that changed (`None`: removed) once an update is in force. `refused` has all documents that
    /// the gateway refused, with the reasons: the statuses of their owners then say that they are not programmed.
    pub fn in_force(
        &mut self,
        update: Update,
        refused: &BTreeMap<DocumentKey, String>,
    ) -> BTreeMap<Reference, Option<Compact>> {
        self.output.in_force(update, refused)
    }

    /// Collects the policies again, if they depend on one of these kinds. Returns the targets whose settings changed;
    /// `None`: the policies were not collected.
    fn update_policies(&mut self, objects: &Objects, kinds: &BTreeSet<Kind>) -> Option<BTreeSet<Reference>> {
        if !kinds.iter().any(|kind| self.policies.depend_on(*kind)) {
            return None;
        }
        let policies = Arc::new(Policies::new(objects, self.settings.external_names));
        let targets = policies.differences(&self.policies);
        self.policies = policies;
        let upstreams = self.policies.upstreams(objects, self.settings.external_names);
        let before = std::mem::take(&mut self.policy_upstreams);
        self.policy_upstreams = self.output.replace_upstreams(objects, before, upstreams);
        self.update_references();
        Some(targets)
    }

    /// Collects the Gateways again. Returns the parents that routes see differently.
    fn update_gateways(&mut self, objects: &Objects) -> BTreeSet<Reference> {
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
        self.gateway_documents = self.output.replace_documents(before, out.documents);
        self.update_references();
        changed
    }

    /// Translates Ingresses again. Returns the Services that they refer to, or did before.
    fn update_ingresses<'o>(
        &mut self,
        objects: &'o Objects,
        concerned: &IngressChanges,
        backends: &mut Backends<'o>,
    ) -> BTreeSet<ObjectName> {
        let address = self.gateways.ingress_address;
        let Some(made) = self.ingresses.update(objects, &self.settings, address, concerned, backends) else {
            return BTreeSet::new();
        };
        let IngressUpdate { documents_before, documents, upstreams_before, upstreams, .. } = made;
        self.output.replace_documents(documents_before, documents);
        self.output.replace_upstreams(objects, upstreams_before, upstreams);
        for (ingress, status) in made.statuses {
            self.output.set_status(&ingress, status);
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

    /// Renews the statuses of the TollgatePolicies that touch these objects, or of all.
    fn update_policy_statuses(&mut self, objects: &Objects, touched: &BTreeSet<Reference>, all: bool) {
        let policies = self.policies.clone();
        let changed = touched.iter().filter(|object| object.kind == Kind::TollgatePolicy);
        let mut concerned: BTreeSet<ObjectName> = changed.map(|policy| policy.name.clone()).collect();
        match all {
            true => concerned.extend(policies.names().cloned()),
            false => concerned.extend(policies.concerned(touched)),
        }
        let by_service = self.reached_services(concerned.iter().any(|name| policies.is_for_services(name)));
        let reached_by = |target: &Reference| -> BTreeSet<Reference> {
            match target.kind {
                Kind::Gateway if self.gateways.contains(&target.name) => BTreeSet::from([target.clone()]),
                Kind::Gateway => BTreeSet::new(),
                Kind::Service => by_service.get(&target.name).cloned().unwrap_or_default(),
                _ => {
                    let gateways = self.routes.gateways_of(target);
                    gateways.map(|gateway| reference(Kind::Gateway, gateway)).collect()
                }
            }
        };
        let controller = &self.settings.controller;
        let status = |name: ObjectName| {
            let status = policies.status(&name, objects, controller, reached_by);
            (reference(Kind::TollgatePolicy, &name), status)
        };
        let statuses: Vec<_> = concerned.into_iter().map(status).collect();
        for (policy, status) in statuses {
            self.output.set_status(&policy, status);
        }
    }

    /// Returns the Gateways and Ingresses by which each Service is reached; none, if they are not needed.
    fn reached_services(&self, is_needed: bool) -> BTreeMap<ObjectName, BTreeSet<Reference>> {
        let mut all: BTreeMap<ObjectName, BTreeSet<Reference>> = BTreeMap::new();
        for (services, gateways) in self.routes.services().filter(|_| is_needed) {
            for service in services {
                let gateways = gateways.iter().map(|gateway| reference(Kind::Gateway, gateway));
                all.entry(service.clone()).or_default().extend(gateways);
            }
        }
        for (ingress, services) in self.ingresses.services().filter(|_| is_needed) {
            for service in services {
                all.entry(service.clone()).or_default().insert(reference(Kind::Ingress, ingress));
            }
        }
        all
    }

    /// Renews the statuses of BackendTLSPolicies.
    fn update_tls_policies(&mut self, backends: &mut Backends<'_>) {
        let mut all = Ancestors::new();
        for (policy, gateways) in self.ingresses.ancestors().chain(self.routes.ancestors()) {
            all.entry(policy.clone()).or_default().extend(gateways.iter().cloned());
        }
        let statuses = backends.policy_statuses(&self.settings, &all);
        self.output.replace_statuses(&[Kind::BackendTlsPolicy], statuses);
        let references = backends.take().references;
        self.update_references();
        self.references.extend(references);
    }

    fn update_references(&mut self) {
        let of_ingresses = self.ingresses.references();
        let all = self.gateways.references.iter().chain(of_ingresses).chain(&self.policies.references);
        self.references = all.cloned().collect();
        let default = self.settings.default_certificate.as_ref();
        self.references.extend(default.map(|secret| reference(Kind::Secret, secret)));
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
