//! The result of the translation as it stands: documents, upstreams and statuses.
//!
//! The [translator](super::translator) puts results in. Each method compares them with the present ones, and only
//! differences become part of the [`Update`] that [`Output::take_update`] returns. The documents that a route, an Ingress or
//! the Gateways made are replaced together. An upstream can have several owners: the first one adds its document, and the last
//! one removes it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tollgate_documents::Compact;

use super::backends::{Source, Wanted};
use super::{Document, DocumentKey, Statuses, conditions, reference};
use crate::object::{Kind, ObjectName, Reference};
use crate::objects::Objects;

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

/// The documents and statuses, with the changes since they were last taken.
#[derive(Default)]
pub struct Output {
    documents: BTreeMap<DocumentKey, Document>,
    statuses: BTreeMap<Reference, Compact>,
    /// The sources of the upstreams, by name.
    sources: BTreeMap<String, Source>,
    /// The objects with a refused document.
    refused: BTreeSet<Reference>,
    update: Update,
}

impl Output {
    /// Returns the documents.
    pub fn documents(&self) -> &BTreeMap<DocumentKey, Document> {
        &self.documents
    }

    /// Returns the statuses.
    pub fn statuses(&self) -> impl Iterator<Item = (&Reference, &Compact)> {
        self.statuses.iter()
    }

    /// Returns the changes since the last call.
    pub fn take_update(&mut self) -> Update {
        std::mem::take(&mut self.update)
    }

    /// Replaces earlier documents by these. Returns their keys.
    pub fn replace_documents(
        &mut self,
        before: Vec<DocumentKey>,
        documents: BTreeMap<DocumentKey, Document>,
    ) -> Vec<DocumentKey> {
        for key in before {
            if !documents.contains_key(&key) {
                self.documents.remove(&key);
                self.update.documents.insert(key);
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
                    self.update.documents.insert(key);
                }
            }
        }
        keys
    }

    /// Replaces earlier upstreams by these. Returns their names with their owners.
    pub fn replace_upstreams(
        &mut self,
        objects: &Objects,
        before: Vec<(String, Vec<Reference>)>,
        upstreams: BTreeMap<String, Wanted>,
    ) -> Vec<(String, Vec<Reference>)> {
        // Add before removing, so that an upstream that stays never lacks an owner.
        for (upstream, wanted) in &upstreams {
            for owner in &wanted.owners {
                self.put_upstream(objects, upstream, &wanted.source, owner);
            }
        }
        for (upstream, owners) in &before {
            for owner in owners {
                if upstreams.get(upstream).is_none_or(|wanted| !wanted.owners.contains(owner)) {
                    self.release_upstream(upstream, owner);
                }
            }
        }
        upstreams.into_iter().map(|(name, wanted)| (name, wanted.owners.into_iter().collect())).collect()
    }

    /// Adds an owner to an upstream, and renews its document if its source changed.
    pub fn put_upstream(&mut self, objects: &Objects, name: &str, source: &Source, owner: &Reference) {
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
            self.update.documents.insert(key.clone());
        }
        if let Some(document) = self.documents.get_mut(&key) {
            document.add_owner(owner.clone());
        }
    }

    /// Removes an owner from an upstream, and the upstream after its last owner.
    pub fn release_upstream(&mut self, name: &str, owner: &Reference) {
        let key = DocumentKey { kind: "upstreams", name: name.to_owned() };
        let Some(document) = self.documents.get_mut(&key) else { return };
        document.remove_owner(owner);
        if document.owners.is_empty() {
            self.documents.remove(&key);
            self.sources.remove(name);
            self.update.documents.insert(key);
        }
    }

    /// Renews the documents of upstreams whose endpoints changed.
    pub fn update_endpoints(&mut self, objects: &Objects, services: &BTreeSet<ObjectName>) {
        if services.is_empty() {
            return;
        }
        for (name, source) in self.sources.iter().filter(|(_, source)| services.contains(&source.service)) {
            let key = DocumentKey { kind: "upstreams", name: name.clone() };
            let Some(document) = self.documents.get_mut(&key) else { continue };
            let content = Compact::from(&source.document(objects));
            if document.content != content {
                document.content = content;
                self.update.documents.insert(key);
            }
        }
    }

    /// Replaces all statuses of some kinds.
    pub fn replace_statuses(&mut self, kinds: &[Kind], statuses: Statuses) {
        let mut gone: Vec<Reference> = Vec::new();
        for kind in kinds {
            let first = Reference { kind: *kind, name: ObjectName::default() };
            let known = self.statuses.range(first..).map(|(object, _)| object);
            let known = known.take_while(|object| object.kind == *kind);
            gone.extend(known.filter(|object| !statuses.contains_key(object)).cloned());
        }
        for object in gone {
            self.set_status(&object, None);
        }
        for (object, status) in statuses {
            self.set_status(&object, Some(status));
        }
    }

    /// Sets or removes the status of an object.
    pub fn set_status(&mut self, object: &Reference, status: Option<Value>) {
        let status = status.as_ref().map(Compact::from);
        if self.statuses.get(object) == status.as_ref() {
            return;
        }
        match status {
            Some(status) => self.statuses.insert(object.clone(), status),
            None => self.statuses.remove(object),
        };
        self.update.statuses.insert(object.clone());
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
            let policies = policies.map(|name| reference(Kind::TollgatePolicy, name));
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
}
