//! Writes statuses: several at a time, one at a time for each object, and only what differs.
//!
//! The source starts the writes only while this gateway leads (`election`). Until then a writer knows the
//! statuses that objects should have, so that a new leader writes at once.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use kube::api::{Patch, PatchParams};
use tokio::sync::mpsc;
use tollgate_documents::Compact;
use tollgate_net::component;
use tracing::{debug, warn};

use crate::connection::{api, now, reduce, status_body};
use crate::object::Reference;
use crate::objects::Objects;
use crate::rights;
use crate::status;
use crate::watch::Observation;

/// How many writes run at a time. The API server answers one in a few milliseconds, so these are more than it can take
/// on a few cores, and few enough for its limits on one client.
const WRITES_MAX: usize = 32;

/// Writes the statuses of objects.
pub struct StatusWriter {
    client: Client,
    controller: String,
    observations: mpsc::Sender<Observation>,
    queue: Queue,
}

/// The statuses that the writer has to bring to the API server.
#[derive(Debug, Default)]
struct Queue {
    desired: BTreeMap<Reference, Compact>,
    /// Objects whose status may differ.
    dirty: BTreeSet<Reference>,
    running: BTreeSet<Reference>,
    /// Objects whose last write failed.
    failed: BTreeSet<Reference>,
}

impl StatusWriter {
    /// Makes a writer. It reports each write to `observations`.
    pub fn new(client: Client, controller: String, observations: mpsc::Sender<Observation>) -> Self {
        Self { client, controller, observations, queue: Queue::default() }
    }

    /// Sets the statuses that objects should have. `None`: none any more.
    pub fn set(&mut self, statuses: BTreeMap<Reference, Option<Compact>>) {
        for (reference, status) in statuses {
            self.queue.set(reference, status);
        }
    }

    /// Checks an object's status again.
    pub fn check(&mut self, reference: Reference) {
        self.queue.check(reference);
    }

    /// Checks all statuses again.
    pub fn check_all(&mut self) {
        self.queue.dirty = self.queue.desired.keys().cloned().collect();
    }

    /// Tries the writes again that failed.
    pub fn retry(&mut self) {
        for reference in std::mem::take(&mut self.queue.failed) {
            self.queue.check(reference);
        }
    }

    /// Records the end of a write.
    pub fn written(&mut self, reference: Reference, is_good: bool) {
        self.queue.written(reference, is_good);
    }

    /// Starts the writes that are due.
    pub fn start(&mut self, objects: &Objects) {
        let time = now();
        while let Some(reference) = self.queue.next() {
            let Some((meta, current)) = objects.status(&reference) else { continue };
            let Some(desired) = self.queue.desired.get(&reference) else { continue };
            let (desired, current) = (desired.value(), current.value());
            let patch = status::patch(reference.kind, &self.controller, &desired, &current, &time);
            let Some(patch) = patch else { continue };
            // A list that others write, too, must not have changed since it was read.
            let versioned = status::shared_list(reference.kind).is_some();
            let body = status_body(reference.kind, meta, patch, versioned);
            self.queue.running.insert(reference.clone());
            let manager = self.controller.replace('/', ".");
            let client = self.client.clone();
            let observations = self.observations.clone();
            tokio::spawn(async move {
                let parameters = PatchParams::apply(&manager).force();
                let namespace = Some(&*reference.name.namespace).filter(|namespace| !namespace.is_empty());
                let api = api(&client, reference.kind, namespace);
                let result = api.patch_status(&reference.name.name, &parameters, &Patch::Apply(&body)).await;
                let object = match result {
                    Ok(object) => Some(reduce(object)),
                    Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {
                        debug!(target: component::KUBERNETES, "the status of {reference} was not written: {}", status.message);
                        None
                    }
                    Err(error) => {
                        let resource = rights::Resource::status_of(reference.kind);
                        let why = rights::explain(&error, "patch", &resource);
                        warn!(target: component::KUBERNETES, "the status of {reference} was not written: {why}");
                        None
                    }
                };
                // If the receiver is gone, the source has stopped.
                let _ = observations.send(Observation::Written(reference, object)).await;
            });
        }
    }
}

impl Queue {
    fn set(&mut self, reference: Reference, status: Option<Compact>) {
        match status {
            None => {
                self.desired.remove(&reference);
                self.dirty.remove(&reference);
                self.failed.remove(&reference);
            }
            Some(status) => {
                if self.desired.get(&reference) != Some(&status) {
                    self.dirty.insert(reference.clone());
                }
                self.desired.insert(reference, status);
            }
        }
    }

    fn check(&mut self, reference: Reference) {
        if self.desired.contains_key(&reference) {
            self.dirty.insert(reference);
        }
    }

    fn written(&mut self, reference: Reference, is_good: bool) {
        self.running.remove(&reference);
        if is_good {
            // Another version may be wanted since.
            self.failed.remove(&reference);
            self.check(reference);
        } else {
            // The event of the version that was in the way tries again, or the next retry.
            self.failed.insert(reference);
        }
    }

    /// Takes the next object that may be written; `None`: none is due, or enough writes run.
    fn next(&mut self) -> Option<Reference> {
        if self.running.len() >= WRITES_MAX {
            return None;
        }
        let next = self.dirty.iter().find(|reference| !self.running.contains(reference)).cloned()?;
        self.dirty.remove(&next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::{Kind, ObjectName};

    fn route(name: &str) -> Reference {
        Reference { kind: Kind::HttpRoute, name: ObjectName::new("a", name) }
    }

    fn status(text: &str) -> Option<Compact> {
        Some(Compact::from(&json!({ "text": text })))
    }

    #[test]
    fn an_object_is_due_once_for_each_change_and_never_twice_at_a_time() {
        let mut queue = Queue::default();
        queue.set(route("r"), status("1"));
        queue.set(route("r"), status("1"));
        assert_eq!(queue.next(), Some(route("r")));
        queue.running.insert(route("r"));
        queue.set(route("r"), status("2"));
        assert_eq!(queue.next(), None);
        queue.written(route("r"), true);
        assert_eq!((queue.next(), queue.next()), (Some(route("r")), None));
    }

    #[test]
    fn a_failed_write_waits_for_an_event_or_a_retry() {
        let mut queue = Queue::default();
        queue.set(route("r"), status("1"));
        queue.next();
        queue.written(route("r"), false);
        assert_eq!((queue.next(), queue.failed.len()), (None, 1));
        queue.check(route("r"));
        assert_eq!(queue.next(), Some(route("r")));
        queue.set(route("r"), None);
        assert!(queue.failed.is_empty() && queue.next().is_none());
    }

    #[test]
    fn the_number_of_writes_at_a_time_is_bounded() {
        let mut queue = Queue::default();
        for number in 0..WRITES_MAX + 1 {
            queue.set(route(&number.to_string()), status("1"));
        }
        while let Some(next) = queue.next() {
            queue.running.insert(next);
        }
        assert_eq!((queue.running.len(), queue.dirty.len()), (WRITES_MAX, 1));
    }
}
