//! Writes statuses: several at a time, one at a time for each object, and only what differs.
//!
//! The source starts the writes only while this gateway leads (`election`). Until then a writer knows the
//! statuses that objects should have, so that a new leader writes at once.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::Value;
use tokio::sync::mpsc;
use tollgate_net::component;
use tracing::{debug, warn};

use crate::connection::{api, now, reduce, status_body};
use crate::object::Reference;
use crate::objects::Objects;
use crate::status;
use crate::watch::Observation;

/// How many writes run at a time.
const WRITES_MAX: usize = 16;

/// Writes the statuses of objects.
pub struct StatusWriter {
    client: Client,
    controller: String,
    observations: mpsc::Sender<Observation>,
    desired: BTreeMap<Reference, Value>,
    /// Objects whose status may differ.
    dirty: BTreeSet<Reference>,
    running: BTreeSet<Reference>,
}

impl StatusWriter {
    /// Makes a writer. It reports each write to `observations`.
    pub fn new(client: Client, controller: String, observations: mpsc::Sender<Observation>) -> Self {
        let (desired, dirty, running) = Default::default();
        Self { client, controller, observations, desired, dirty, running }
    }

    /// Sets the statuses that objects should have.
    pub fn set(&mut self, desired: BTreeMap<Reference, Value>) {
        for (reference, status) in &desired {
            if self.desired.get(reference) != Some(status) {
                self.dirty.insert(reference.clone());
            }
        }
        self.desired = desired;
    }

    /// Returns the objects whose statuses are known.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.desired.keys()
    }

    /// Checks an object's status again.
    pub fn check(&mut self, reference: Reference) {
        if self.desired.contains_key(&reference) {
            self.dirty.insert(reference);
        }
    }

    /// Records the end of a write.
    pub fn written(&mut self, reference: Reference, is_good: bool) {
        self.running.remove(&reference);
        // Another version may be wanted since. After a failure, the event of the version that was in the way
        // or the next translation tries again.
        if is_good {
            self.check(reference);
        }
    }

    /// Starts the writes that are due.
    pub fn start(&mut self, objects: &Objects) {
        let due: Vec<Reference> =
            self.dirty.iter().filter(|reference| !self.running.contains(reference)).cloned().collect();
        let time = now();
        for reference in due {
            if self.running.len() >= WRITES_MAX {
                return;
            }
            self.dirty.remove(&reference);
            let Some((meta, current)) = objects.status(&reference) else { continue };
            let Some(desired) = self.desired.get(&reference) else { continue };
            let Some(patch) = status::patch(reference.kind, &self.controller, desired, current, &time) else {
                continue;
            };
            // A list that others write, too, must be the one that was read.
            let versioned = status::shared_list(reference.kind).is_some();
            let body = status_body(reference.kind, meta, patch, versioned);
            self.running.insert(reference.clone());
            let manager = self.controller.replace('/', ".");
            let client = self.client.clone();
            let observations = self.observations.clone();
            tokio::spawn(async move {
                let parameters = PatchParams::apply(&manager).force();
                let namespace =
                    Some(reference.name.namespace.as_str()).filter(|namespace| !namespace.is_empty());
                let api = api(&client, reference.kind, namespace);
                let result = api.patch_status(&reference.name.name, &parameters, &Patch::Apply(&body)).await;
                let object = match result {
                    Ok(object) => Some(reduce(object)),
                    Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {
                        debug!(target: component::KUBERNETES, "the status of {reference} was not written: {}", status.message);
                        None
                    }
                    Err(error) => {
                        warn!(target: component::KUBERNETES, "the status of {reference} was not written: {error}");
                        None
                    }
                };
                // If the receiver is gone, the source has ended.
                let _ = observations.send(Observation::Written(reference, object)).await;
            });
        }
    }
}
