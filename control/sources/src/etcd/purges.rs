//! Purges of caches that all gateways with the same etcd share.
//!
//! A purge is a record under `PREFIX/purges/`, whose revision is its version. The admin API of any gateway writes it,
//! and every gateway [follows](tollgate_etcd::EtcdHandle::follow) the prefix and carries each record out once. A record
//! expires, so that the list stays short. Invariant: a record outlives every interruption after which a gateway still
//! trusts its stored responses.

use tollgate_etcd::{Error, EtcdHandle};
use tollgate_fleet::PURGE_KEPT_TIME;

/// Writes the record of a purge, and returns its version.
///
/// # Errors
/// Returns an error if etcd does not answer. The record may have been written.
pub async fn write_purge(handle: &EtcdHandle, record: Vec<u8>) -> Result<u64, Error> {
    let settings = handle.settings();
    // A unique key.
    let key = format!("{}{}-{:016x}", settings.purges_prefix(), settings.name, fastrand::u64(..));
    let seconds = PURGE_KEPT_TIME.as_secs();
    handle.run(move |client| async move { client.put_for(&key, &record, seconds).await }).await
}
