//! Writes changes to etcd. Each request is one transaction, which requires that the state it was compiled
//! with is unchanged.

use tollgate_etcd::{Compare, Error, Operation, RangeRequest, Transaction};
use tollgate_store::NewEntry;

use super::{GUARD, Shared};
use crate::request::Refusal;

/// Number of versions that the history keeps.
const HISTORY: usize = 10_000;

/// The result of a transaction.
#[derive(Debug)]
pub(crate) enum Written {
    /// It was performed, as this revision.
    As(u64),
    /// Another writer changed something first.
    Overtaken,
}

impl Shared {
    /// Writes the changes of one request. An unconfirmed transaction is reported as failed; if etcd performed
    /// it, the watch will deliver it.
    pub fn write(&mut self, entry: &NewEntry) -> Result<Written, Refusal> {
        let settings = self.handle.settings();
        let (watched, history) = (settings.watched(), settings.history());
        let seen = |key: &str| self.seen.get(key).copied().unwrap_or_default();
        let demand = |key: &str| Compare { key: format!("{watched}{key}"), revision: seen(key) };
        let mut transaction = Transaction::default();
        transaction.compare.push(demand(GUARD));
        let mut keys = vec![GUARD.to_owned()];
        for change in &entry.changes {
            let key = format!("{}/{}", change.kind, change.name);
            transaction.compare.push(demand(&key));
            let whole = format!("{watched}{key}");
            transaction.operations.push(match &change.after {
                Some(text) => Operation::Put(whole, text.as_bytes().to_vec()),
                None => Operation::Delete(whole, String::new()),
            });
            keys.push(key);
        }
        let text = serde_json::to_vec(entry).map_err(|error| Refusal::Broken(error.to_string()))?;
        let brief = serde_json::json!({ "at": entry.at, "who": entry.who, "what": entry.what });
        transaction
            .operations
            .push(Operation::Put(format!("{watched}{GUARD}"), brief.to_string().into_bytes()));
        // The key starts with the time, so that the oldest entries form a range that can be deleted.
        let told = format!("{history}{:013}-{:08x}", entry.at, fastrand::u32(..));
        transaction.operations.push(Operation::Put(told, text));
        let made = self.handle.wait(move |client| async move {
            let made = client.transact(&transaction).await;
            if made.is_ok() && fastrand::u8(..) == 0 {
                forget(&client, &history).await;
            }
            made
        });
        match made {
            Ok(Some(revision)) => {
                keys.iter().for_each(|key| drop(self.refused.remove(key)));
                self.seen.extend(keys.into_iter().map(|key| (key, revision)));
                Ok(Written::As(revision))
            }
            Ok(None) => Ok(Written::Overtaken),
            Err(Error::Refused(_, why))
                if why.contains("too many operations") || why.contains("request is too large") =>
            {
                let help = "etcd's options `--max-txn-ops` and `--max-request-bytes` say how much one may be";
                Err(Refusal::Senseless(format!("etcd refuses the change: {why}; {help}")))
            }
            Err(Error::Refused(_, why)) => Err(Refusal::Away(format!("etcd refuses the change: {why}"))),
            Err(error) => Err(Refusal::Away(format!("{error}; whether the change was made will be seen"))),
        }
    }
}

/// Deletes the oldest entries of the history.
async fn forget(client: &tollgate_etcd::Client, history: &str) {
    let Ok(listed) = client.list_keys(&RangeRequest::under(history)).await else { return };
    if let Some(kept) = listed.len().checked_sub(HISTORY).and_then(|oldest| listed.get(oldest)) {
        let operations = vec![Operation::Delete(history.to_owned(), kept.clone())];
        let _ = client.transact(&Transaction { compare: Vec::new(), operations }).await;
    }
}
