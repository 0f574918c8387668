//! Keeps the translation of the routes up to date with changes.
//!
//! Of several routes that claim a match, one gets it, so the translation of a route depends on the claims of all routes.
//! [`RouteStates::update`] therefore renews the claims of all routes that a change concerns before it translates any of
//! them, and also translates the other routes that claim the same matches. It remembers what each route contributed to the
//! [`Output`], so that the route's next translation replaces exactly that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attachment::{Surroundings, attach_all};
use super::route::Route;
use super::status::detached_status;
use crate::object::{Kind, ObjectName, Reference};
use crate::objects::{Changes, Objects};
use crate::translate::backends::{Ancestors, Backends, Found};
use crate::translate::claims::{Claims, Rank, Taken};
use crate::translate::gateways::ListenerKey;
use crate::translate::output::Output;
use crate::translate::shared::Shared;
use crate::translate::{DocumentKey, Translation, reference};

/// The kinds of routes.
const KINDS: [Kind; 5] = [Kind::HttpRoute, Kind::GrpcRoute, Kind::TlsRoute, Kind::TcpRoute, Kind::UdpRoute];

/// The translation of the routes.
#[derive(Default)]
pub struct RouteStates {
    /// All routes, whether they belong to this controller or not.
    all: BTreeMap<Reference, Box<RouteState>>,
    claims: Claims,
    attachments: Shared<AttachmentState>,
    used_backends: Shared<UsedBackends>,
    /// How many routes are attached to each listener that has any.
    attached: BTreeMap<ListenerKey, usize>,
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

impl RouteStates {
    /// Returns how many routes are attached to each listener that has any.
    pub fn attached(&self) -> &BTreeMap<ListenerKey, usize> {
        &self.attached
    }

    /// Returns the Gateways that a route refers to.
    pub fn gateways_of(&self, route: &Reference) -> impl Iterator<Item = &ObjectName> {
        self.all.get(route).into_iter().flat_map(|state| &state.attachment.gateways)
    }

    /// Returns the Services that each route refers to, with the Gateways that it refers to.
    pub fn services(&self) -> impl Iterator<Item = (&[ObjectName], &[ObjectName])> {
        self.all.values().map(|state| (&*state.backends.services, &*state.attachment.gateways))
    }

    /// Returns the BackendTLSPolicies of the Services that routes refer to, each with its Gateways.
    pub fn ancestors(&self) -> impl Iterator<Item = (&ObjectName, &BTreeSet<Reference>)> {
        self.all.values().flat_map(|state| &state.ancestors)
    }

    /// Returns the routes that exist, and the routes that existed at the last update.
    pub fn all(&self, objects: &Objects) -> BTreeSet<Reference> {
        let present = KINDS
            .into_iter()
            .flat_map(|kind| objects.names(kind).into_iter().map(move |name| Reference { kind, name }));
        present.chain(self.all.keys().cloned()).collect()
    }

    /// Returns the routes that changed, and the routes that depend on a changed object. `targets`: the objects whose
    /// TollgatePolicies changed; `parents`: the parents that routes see differently.
    pub fn concerned(
        &self,
        changes: &Changes,
        targets: &BTreeSet<Reference>,
        parents: &BTreeSet<Reference>,
    ) -> BTreeSet<Reference> {
        let of = |kind: Kind| changes.objects.iter().filter(move |object| object.kind == kind);
        let mut concerned: BTreeSet<Reference> =
            changes.objects.iter().filter(|object| KINDS.contains(&object.kind)).cloned().collect();
        concerned.extend(targets.iter().filter(|target| self.all.contains_key(*target)).cloned());
        let target_services = targets.iter().filter(|target| target.kind == Kind::Service);
        let services: BTreeSet<&ObjectName> =
            of(Kind::Service).chain(target_services).map(|object| &object.name).collect();
        let namespaces: BTreeSet<&str> = of(Kind::Namespace).map(|object| &*object.name.name).collect();
        if parents.is_empty() && services.is_empty() && namespaces.is_empty() {
            return concerned;
        }
        for (route, state) in &self.all {
            if state.backends.services.iter().any(|service| services.contains(service))
                || state.attachment.parents.iter().any(|parent| parents.contains(parent))
                || namespaces.contains(&*route.name.namespace)
            {
                concerned.insert(route.clone());
            }
        }
        concerned
    }

    /// Translates routes again, and the other routes that claim the same matches. Returns these routes with the Services
    /// that they refer to, or did before.
    pub fn update(
        &mut self,
        concerned: BTreeSet<Reference>,
        surroundings: Surroundings<'_>,
        backends: &mut Backends<'_>,
        output: &mut Output,
    ) -> BTreeSet<Reference> {
        let mut due = self.renew_claims(&concerned, surroundings);
        due.extend(concerned);
        let mut touched = BTreeSet::new();
        for name in due {
            touched.extend(self.services_of(&name));
            self.replace(&name, surroundings, backends, output);
            touched.extend(self.services_of(&name));
            touched.insert(name);
        }
        touched
    }

    fn services_of(&self, route: &Reference) -> impl Iterator<Item = Reference> {
        let services = self.all.get(route).into_iter().flat_map(|state| &state.backends.services);
        services.map(|service| reference(Kind::Service, service))
    }

    /// Renews the claims of some routes. Returns the other routes that claim the same matches.
    fn renew_claims(
        &mut self,
        concerned: &BTreeSet<Reference>,
        surroundings: Surroundings<'_>,
    ) -> BTreeSet<Reference> {
        let mut others = BTreeSet::new();
        for name in concerned {
            let state = self.all.entry(name.clone()).or_default();
            if let Some(rank) = state.rank.take() {
                self.claims.remove(&rank, &std::mem::take(&mut state.claims), &mut others);
            }
            let Some(route) = Route::find(surroundings.objects, name) else { continue };
            let Some(attached) = attach_all(&route, surroundings) else { continue };
            let rank = Arc::new(Rank::of(name.kind, route.meta));
            state.claims = self.claims.add(&rank, super::claims(&route, &attached), &mut others);
            state.rank = Some(rank);
        }
        others
    }

    /// Translates a route whose claims are in the table, and replaces its earlier contribution.
    fn replace(
        &mut self,
        name: &Reference,
        surroundings: Surroundings<'_>,
        backends: &mut Backends<'_>,
        output: &mut Output,
    ) {
        let route = Route::find(backends.objects(), name);
        let (attachment, mut translation) = match &route {
            Some(route) => self.translate(name, route, surroundings, backends),
            None => (AttachmentState::default(), Translation::default()),
        };
        let Found { upstreams, services, ancestors, .. } = backends.take();
        let attachment = self.attachments.get(attachment);
        let used = self.used_backends.get(UsedBackends {
            upstreams: upstreams.keys().cloned().collect(),
            services: services.into_iter().collect(),
        });
        let state = self.all.entry(name.clone()).or_default();
        state.ancestors = ancestors;
        let attachment_before = std::mem::replace(&mut state.attachment, attachment.clone());
        let used_before = std::mem::replace(&mut state.backends, used);
        let documents_before = std::mem::take(&mut state.documents);
        state.documents = output.replace_documents(documents_before, translation.documents);
        // Add before removing, so that an upstream that stays never lacks an owner.
        for (upstream, wanted) in &upstreams {
            output.put_upstream(surroundings.objects, upstream, &wanted.source, name);
        }
        for upstream in used_before.upstreams.iter().filter(|upstream| !upstreams.contains_key(*upstream)) {
            output.release_upstream(upstream, name);
        }
        output.set_status(name, translation.statuses.remove(name));
        self.count_attachments(&attachment_before, &attachment);
        if route.is_none() {
            self.all.remove(name);
        }
    }

    /// Translates a route, and returns its attachment with the translation.
    fn translate<'o>(
        &self,
        name: &Reference,
        route: &Route<'o>,
        surroundings: Surroundings<'_>,
        backends: &mut Backends<'o>,
    ) -> (AttachmentState, Translation) {
        let parents = route.parent_references().flatten().collect();
        let mut attachment = AttachmentState { parents, ..AttachmentState::default() };
        let mut translation = Translation::default();
        let rank = self.all.get(name).and_then(|state| state.rank.clone());
        match (attach_all(route, surroundings), rank) {
            (Some(attached), Some(rank)) => {
                attachment.listeners.clone_from(&attached.listeners);
                attachment.gateways.extend(attached.gateways.iter().cloned());
                let mut taken = Taken::new(&self.claims, &rank);
                super::translate(route, attached, surroundings, backends, &mut taken, &mut translation);
            }
            _ => {
                if let Some(status) = detached_status(route, surroundings.settings) {
                    translation.statuses.insert(name.clone(), status);
                }
            }
        }
        (attachment, translation)
    }

    /// Counts a route at its listeners, and no longer at the listeners that it was attached to before.
    fn count_attachments(&mut self, before: &AttachmentState, now: &AttachmentState) {
        for listener in &now.listeners {
            *self.attached.entry(listener.clone()).or_default() += 1;
        }
        for listener in &before.listeners {
            if let Some(count) = self.attached.get_mut(listener) {
                *count -= 1;
                if *count == 0 {
                    self.attached.remove(listener);
                }
            }
        }
    }
}
