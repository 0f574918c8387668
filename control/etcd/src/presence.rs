//! Maintains a key of this gateway that exists as long as the process runs. Other gateways and the API read
//! it.

use std::time::Duration;

use tokio::sync::watch;

use crate::client::EtcdClient;
use crate::members::with_jitter;

/// How long the key outlives a process that dies, in seconds.
const LEASE_SECONDS: u64 = 10;
/// How often the lease is kept alive, and the key rewritten if its text changed.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// How long a process that ends waits for its key to be deleted.
const REVOKE_TIMEOUT: Duration = Duration::from_millis(500);

/// Maintains `PREFIX/gateways/NAME` with the text in `presence_text`, until the sender of `presence_text` is dropped.
pub(crate) async fn maintain_presence(client: &EtcdClient, mut presence_text: watch::Receiver<String>) {
    let key = format!("{}{}", client.settings().gateways_prefix(), client.settings().name);
    let mut lease = None;
    let mut written = None;
    loop {
        let kept = match lease {
            Some(lease) => client.keep_alive(lease).await,
            None => Ok(false),
        };
        // While no member answers there is nothing to do; the lease may still be kept alive in time.
        if let Ok(kept) = kept {
            if !kept {
                written = None;
                lease = client.grant_lease(LEASE_SECONDS).await.ok();
            }
            let wanted = presence_text.borrow_and_update().clone();
            if let Some(lease) = lease
                && written.as_ref() != Some(&wanted)
                && client.put(&key, wanted.as_bytes(), lease).await.is_ok()
            {
                written = Some(wanted);
            }
        }
        let pause = tokio::time::sleep(with_jitter(KEEPALIVE_INTERVAL));
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                changed = presence_text.changed() => if changed.is_err() {
                    if let Some(lease) = lease {
                        // If this fails, the lease expires.
                        let _ = tokio::time::timeout(REVOKE_TIMEOUT, client.revoke_lease(lease)).await;
                    }
                    return;
                },
            }
        }
    }
}
