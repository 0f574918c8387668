//! The history that etcd keeps: past changes, rollbacks, and the gateways that are connected.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_etcd::{Error, Handle, Order, RangeRequest};
use tollgate_store::{Entry, NewEntry};

use super::{GUARD, key, resource};
use crate::request::{Change, Condition, Refusal, To};
use crate::sources::Sources;

/// Returns at most `limit` versions before this one, the newest first.
///
/// # Errors
/// Returns an error if etcd does not answer.
pub async fn versions(handle: &Handle, before: Option<u64>, limit: usize) -> Result<Vec<Entry>, Error> {
    let until = match before {
        Some(0 | 1) => return Ok(Vec::new()),
        Some(before) => before - 1,
        None => 0,
    };
    let under = RangeRequest::under(&handle.settings().history());
    let request = RangeRequest { limit: limit.max(1), order: Order::Newest, until, ..under };
    let listed = handle.run(move |client| async move { client.list(&request).await }).await?;
    let read = listed.entries.into_iter().filter_map(|entry| {
        let new: NewEntry = serde_json::from_slice(entry.value.as_deref()?).ok()?;
        Some(Entry { version: entry.revision, entry: new })
    });
    Ok(read.collect())
}

/// Returns the connected gateways by name, with the text of each one's key.
///
/// # Errors
/// Returns an error if etcd does not answer.
pub async fn gateways(handle: &Handle) -> Result<BTreeMap<String, Value>, Error> {
    let prefix = handle.settings().gateways();
    let request = RangeRequest::under(&prefix);
    let listed = handle.run(move |client| async move { client.list(&request).await }).await?;
    let said = listed.entries.into_iter().map(|entry| {
        let name = entry.key.strip_prefix(&prefix).unwrap_or(&entry.key).to_owned();
        let value = serde_json::from_slice(&entry.value.unwrap_or_default()).unwrap_or_default();
        (name, value)
    });
    Ok(said.collect())
}

impl Sources {
    /// Returns the changes that lead back to a revision, which etcd must still have.
    pub(crate) fn back_in_etcd(&self, revision: u64) -> Result<Vec<Change>, Refusal> {
        let shared = self.shared.as_ref().ok_or(Refusal::NoStore)?;
        let prefix = shared.handle.settings().watched();
        let mut then: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        // Revision 0 is the empty state; etcd would read it as the current revision.
        if revision > 0 {
            let request = RangeRequest { revision, ..RangeRequest::under(&prefix) };
            let listed = shared.handle.wait(move |client| async move { client.list(&request).await });
            let listed = listed.map_err(|error| match error {
                Error::Compacted(_) => Refusal::NoVersion(format!("etcd has compacted revision {revision}")),
                Error::Refused(_, why) if why.contains("future revision") => {
                    Refusal::NoVersion(format!("there is no version {revision}"))
                }
                error => Refusal::Away(error.to_string()),
            })?;
            then.extend(
                listed
                    .entries
                    .into_iter()
                    .filter_map(|entry| Some((entry.key.strip_prefix(&prefix)?.to_owned(), entry.value?))),
            );
        }
        let mut changes = Vec::new();
        for kind in &tollgate_config::KINDS {
            for document in
                self.documents.of(kind).filter(|document| !then.contains_key(&key(kind, &document.name)))
            {
                changes.push(Change {
                    kind,
                    name: document.name.clone(),
                    to: To::Gone,
                    condition: Condition::None,
                });
            }
        }
        for (key, value) in then.into_iter().filter(|(key, _)| key != GUARD) {
            let Some((kind, name)) = resource(&key) else { continue };
            let value = super::intake::parsed(&value).map_err(Refusal::Invalid)?;
            if self.documents.get(kind, name).is_none_or(|document| *document.value != value) {
                let (name, to) = (name.to_owned(), To::Value(value));
                changes.push(Change { kind, name, to, condition: Condition::None });
            }
        }
        Ok(changes)
    }
}
