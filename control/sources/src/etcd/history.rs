//! The history that etcd keeps: past changes, rollbacks, and the gateways that are connected.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_etcd::{Error, EtcdHandle, RangeRequest, SortOrder};
use tollgate_store::{NewVersion, VersionRecord};

use super::{GUARD_KEY, key_of, parse_key};
use crate::request::{ChangeAction, ChangeError, Precondition, ResourceChange};
use crate::sources::Sources;

/// Returns at most `limit` versions before this one, the newest first.
///
/// # Errors
/// Returns an error if etcd does not answer.
pub async fn list_versions(
    handle: &EtcdHandle,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<VersionRecord>, Error> {
    let max_revision = match before {
        Some(0 | 1) => return Ok(Vec::new()),
        Some(before) => before - 1,
        None => 0,
    };
    let history_range = RangeRequest::with_prefix(&handle.settings().history_prefix());
    let request =
        RangeRequest { limit: limit.max(1), order: SortOrder::Newest, max_revision, ..history_range };
    let listed = handle.run(move |client| async move { client.list(&request).await }).await?;
    let read = listed.entries.into_iter().filter_map(|entry| {
        let new: NewVersion = serde_json::from_slice(entry.value.as_deref()?).ok()?;
        Some(VersionRecord { version: entry.revision, content: new })
    });
    Ok(read.collect())
}

/// Returns the connected gateways by name, with the text of each one's key.
///
/// # Errors
/// Returns an error if etcd does not answer.
pub async fn list_gateways(handle: &EtcdHandle) -> Result<BTreeMap<String, Value>, Error> {
    let prefix = handle.settings().gateways_prefix();
    let request = RangeRequest::with_prefix(&prefix);
    let listed = handle.run(move |client| async move { client.list(&request).await }).await?;
    let gateways = listed.entries.into_iter().map(|entry| {
        let name = entry.key.strip_prefix(&prefix).unwrap_or(&entry.key).to_owned();
        let value = serde_json::from_slice(&entry.value.unwrap_or_default()).unwrap_or_default();
        (name, value)
    });
    Ok(gateways.collect())
}

impl Sources {
    /// Returns the changes that lead back to a revision, which etcd must still have.
    pub(crate) fn rollback_changes_in_etcd(&self, revision: u64) -> Result<Vec<ResourceChange>, ChangeError> {
        let etcd_source = self.etcd_source.as_ref().ok_or(ChangeError::NoStore)?;
        let prefix = etcd_source.handle.settings().config_prefix();
        let mut past: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        // Revision 0 is the empty state; etcd would read it as the current revision.
        if revision > 0 {
            let request = RangeRequest { revision, ..RangeRequest::with_prefix(&prefix) };
            let listed =
                etcd_source.handle.run_blocking(move |client| async move { client.list(&request).await });
            let listed = listed.map_err(|error| match error {
                Error::Compacted(_) => {
                    ChangeError::UnknownVersion(format!("etcd has compacted revision {revision}"))
                }
                Error::Refused(_, why) if why.contains("future revision") => {
                    ChangeError::UnknownVersion(format!("there is no version {revision}"))
                }
                error => ChangeError::EtcdUnavailable(error.to_string()),
            })?;
            past.extend(
                listed
                    .entries
                    .into_iter()
                    .filter_map(|entry| Some((entry.key.strip_prefix(&prefix)?.to_owned(), entry.value?))),
            );
        }
        let mut changes = Vec::new();
        for kind in &tollgate_config::KINDS {
            for document in
                self.documents.of(kind).filter(|document| !past.contains_key(&key_of(kind, &document.name)))
            {
                changes.push(ResourceChange {
                    kind,
                    name: document.name.clone(),
                    action: ChangeAction::Delete,
                    precondition: Precondition::None,
                });
            }
        }
        for (key, value) in past.into_iter().filter(|(key, _)| key != GUARD_KEY) {
            let Some((kind, name)) = parse_key(&key) else { continue };
            let value = super::apply::parse_value(&value).map_err(ChangeError::Invalid)?;
            if self.documents.get(kind, name).is_none_or(|document| document.value() != value) {
                let (name, action) = (name.to_owned(), ChangeAction::Put(value));
                changes.push(ResourceChange { kind, name, action, precondition: Precondition::None });
            }
        }
        Ok(changes)
    }
}
