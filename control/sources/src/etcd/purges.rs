//! Purges of caches that concern every gateway that shares an etcd.
//!
//! A purge is a record under `PREFIX/purges/`, whose revision is its version. The admin API of any gateway writes it, and
//! every gateway [follows](tollgate_etcd::EtcdHandle::follow) the prefix and carries each record out once. A record expires,
//! so that the list stays short. Invariant: a record outlives every interruption after which a gateway still trusts what
//! it has stored.

use std::time::Duration;

use tollgate_etcd::{Error, EtcdHandle};

/// How long a record exists. A gateway that had no contact for longer has missed records, and empties its cache.
pub const PURGE_RECORD_LIFETIME: Duration = Duration::from_secs(3600);

/// Writes the record of a purge, and returns its version.
///
/// # Errors
/// Returns an error if etcd does not answer. Whether the record was written is unknown then.
pub async fn write_purge(handle: &EtcdHandle, record: Vec<u8>) -> Result<u64, Error> {
    let settings = handle.settings();
    // Names that no two purges share.
    let key = format!("{}{}-{:016x}", settings.purges_prefix(), settings.name, fastrand::u64(..));
    let seconds = PURGE_RECORD_LIFETIME.as_secs();
    handle.run(move |client| async move { client.put_for(&key, &record, seconds).await }).await
}
