//! Creates, updates and deletes the Services of Gateways in the cluster, as the translation wants them.
//!
//! The source starts the writes only while this gateway leads (`election`). An annotation of each object has the
//! fingerprint of its last applied form, so an object is written only if it differs. Invariant: an object that another
//! controller or a person created is never changed.

use std::collections::BTreeSet;

use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use tokio::sync::mpsc;
use tollgate_net::component;
use tracing::warn;

use crate::connection::{api, reduce};
use crate::object::{Meta, Reference};
use crate::objects::Objects;
use crate::rights;
use crate::translate::{APPLIED, Applied, leftovers};
use crate::watch::Observation;

/// Applies wanted objects, and removes unwanted ones.
pub struct Applier {
    client: Client,
    controller: String,
    observations: mpsc::Sender<Observation>,
    wanted: Applied,
    running: BTreeSet<Reference>,
    /// Objects with a wanted name that another controller or a person created.
    foreign: BTreeSet<Reference>,
    /// Whether something may differ.
    is_due: bool,
}

impl Applier {
    /// Creates an applier, which reports each write to `observations`.
    pub fn new(client: Client, controller: String, observations: mpsc::Sender<Observation>) -> Self {
        Self {
            client,
            controller,
            observations,
            wanted: Applied::new(),
            running: BTreeSet::new(),
            foreign: BTreeSet::new(),
            is_due: true,
        }
    }

    /// Sets the objects that should exist.
    pub fn set(&mut self, wanted: &Applied) {
        if self.wanted != *wanted {
            self.wanted.clone_from(wanted);
            self.is_due = true;
        }
    }

    /// Makes the next [`start`](Self::start) compare all objects.
    pub fn check(&mut self) {
        self.is_due = true;
    }

    /// Records the end of a write. The next check compares an object again if it was not applied.
    pub fn written(&mut self, reference: &Reference, is_applied: bool) {
        self.running.remove(reference);
        // The translation may want another version by now.
        self.is_due |= is_applied;
    }

    /// Starts the writes that are due.
    pub fn start(&mut self, objects: &Objects) {
        if !std::mem::take(&mut self.is_due) {
            return;
        }
        let mut due = Vec::new();
        for (reference, value) in &self.wanted {
            let is_foreign = |meta: &Meta| !meta.annotations.contains_key(APPLIED);
            match objects.status(reference) {
                _ if self.running.contains(reference) => {}
                Some((meta, _)) if is_foreign(meta) => {
                    if self.foreign.insert(reference.clone()) {
                        warn!(target: component::KUBERNETES, "{reference} exists, and is no object of this controller");
                    }
                }
                Some((meta, _)) if value["metadata"]["annotations"][APPLIED] == meta.annotations[APPLIED] => {
                }
                _ => due.push((reference.clone(), Some(value.clone()))),
            }
        }
        let gone = leftovers(objects, &self.controller, &self.wanted).into_iter();
        due.extend(gone.filter(|object| !self.running.contains(object)).map(|object| (object, None)));
        for (reference, value) in due {
            self.running.insert(reference.clone());
            let (client, observations) = (self.client.clone(), self.observations.clone());
            let manager = self.controller.replace('/', ".");
            tokio::spawn(async move {
                let api = api(&client, reference.kind, Some(&reference.name.namespace));
                let name = &reference.name.name;
                let (verb, result) = match &value {
                    Some(value) => {
                        let parameters = PatchParams::apply(&manager).force();
                        let patched = api.patch(name, &parameters, &Patch::Apply(value)).await;
                        ("create, patch", patched.map(|object| Some(reduce(object))))
                    }
                    None => ("delete", api.delete(name, &DeleteParams::default()).await.map(|_| None)),
                };
                let object = match result {
                    Ok(object) => object,
                    Err(error) => {
                        let why = rights::explain(&error, verb, &rights::Resource::of(reference.kind));
                        warn!(target: component::KUBERNETES, "{reference} was not written: {why}");
                        None
                    }
                };
                // If the receiver is gone, the source has stopped.
                let _ = observations.send(Observation::Applied(reference, object)).await;
            });
        }
    }
}
