//! Writes changes to etcd. Each request is one transaction, which requires that the state it was compiled
//! with is unchanged.

use tollgate_etcd::{Compare, Error, Operation, RangeRequest, Transaction};
use tollgate_store::NewVersion;

use super::{EtcdSource, GUARD_KEY};
use crate::request::ChangeError;

/// Number of versions that the history keeps.
const HISTORY_MAX: usize = 10_000;

/// The result of a transaction.
#[derive(Debug)]
pub(crate) enum WriteOutcome {
    /// It was performed, as this revision.
    Committed(u64),
    /// Another writer changed something first.
    Conflict,
}

impl EtcdSource {
    /// Writes the changes of one request. An unconfirmed transaction is reported as failed; if etcd performed
    /// it, the watch will deliver it.
    pub fn write(&mut self, entry: &NewVersion) -> Result<WriteOutcome, ChangeError> {
        let settings = self.handle.settings();
        let (watched, history) = (settings.config_prefix(), settings.history_prefix());
        let seen = |key: &str| self.seen.get(key).copied().unwrap_or_default();
        let unchanged = |key: &str| Compare { key: format!("{watched}{key}"), revision: seen(key) };
        let mut transaction = Transaction::default();
        transaction.compare.push(unchanged(GUARD_KEY));
        let mut keys = vec![GUARD_KEY.to_owned()];
        for change in &entry.changes {
            let key = format!("{}/{}", change.kind, change.name);
            transaction.compare.push(unchanged(&key));
            let whole = format!("{watched}{key}");
            transaction.operations.push(match &change.after {
                Some(text) => Operation::Put(whole, text.as_bytes().to_vec()),
                None => Operation::Delete(whole, String::new()),
            });
            keys.push(key);
        }
        let text = serde_json::to_vec(entry).map_err(|error| ChangeError::StoreFailed(error.to_string()))?;
        let summary = serde_json::json!({ "at": entry.at, "who": entry.who, "what": entry.what });
        transaction
            .operations
            .push(Operation::Put(format!("{watched}{GUARD_KEY}"), summary.to_string().into_bytes()));
        // The key starts with the time, so that the oldest entries form a range that can be deleted.
        let history_key = format!("{history}{:013}-{:08x}", entry.at, fastrand::u32(..));
        transaction.operations.push(Operation::Put(history_key, text));
        let result = self.handle.run_blocking(move |client| async move {
            let result = client.transact(&transaction).await;
            if result.is_ok() && fastrand::u8(..) == 0 {
                delete_old_history(&client, &history).await;
            }
            result
        });
        match result {
            Ok(Some(revision)) => {
                keys.iter().for_each(|key| drop(self.refused.remove(key)));
                self.seen.extend(keys.into_iter().map(|key| (key, revision)));
                Ok(WriteOutcome::Committed(revision))
            }
            Ok(None) => Ok(WriteOutcome::Conflict),
            Err(Error::Refused(_, why))
                if why.contains("too many operations") || why.contains("request is too large") =>
            {
                let help = "etcd's options `--max-txn-ops` and `--max-request-bytes` say how much one may be";
                Err(ChangeError::Malformed(format!("etcd refuses the change: {why}; {help}")))
            }
            Err(Error::Refused(_, why)) => {
                Err(ChangeError::EtcdUnavailable(format!("etcd refuses the change: {why}")))
            }
            Err(error) => Err(ChangeError::EtcdUnavailable(format!(
                "{error}; whether the change was made will be seen"
            ))),
        }
    }
}

/// Deletes the oldest entries of the history.
async fn delete_old_history(client: &tollgate_etcd::EtcdClient, history: &str) {
    let Ok(listed) = client.list_keys(&RangeRequest::with_prefix(history)).await else { return };
    if let Some(kept) = listed.len().checked_sub(HISTORY_MAX).and_then(|oldest| listed.get(oldest)) {
        let operations = vec![Operation::Delete(history.to_owned(), kept.clone())];
        let _ = client.transact(&Transaction { compare: Vec::new(), operations }).await;
    }
}
