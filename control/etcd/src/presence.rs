//! Maintains a key of this gateway that exists as long as the process runs. Other gateways and the API read
//! it.

use std::time::Duration;

use tokio::sync::watch;

use crate::client::Client;
use crate::reach::jittered;

/// How long the key outlives a process that dies, in seconds.
const LEASE: u64 = 10;
/// How often the lease is kept alive, and the key rewritten if its text changed.
const KEEP: Duration = Duration::from_secs(2);

/// How long a process that ends waits for its key to be deleted.
const PARTING: Duration = Duration::from_millis(500);

/// Maintains `PREFIX/gateways/NAME` with the text in `says`, until the sender of `says` is dropped.
pub(crate) async fn presence(client: &Client, mut says: watch::Receiver<String>) {
    let key = format!("{}{}", client.settings().gateways(), client.settings().name);
    let mut lease = None;
    let mut written = None;
    loop {
        let kept = match lease {
            Some(lease) => client.keep(lease).await,
            None => Ok(false),
        };
        // While no member answers there is nothing to do; the lease may still be kept alive in time.
        if let Ok(kept) = kept {
            if !kept {
                written = None;
                lease = client.grant(LEASE).await.ok();
            }
            let wanted = says.borrow_and_update().clone();
            if let Some(lease) = lease
                && written.as_ref() != Some(&wanted)
                && client.put(&key, wanted.as_bytes(), lease).await.is_ok()
            {
                written = Some(wanted);
            }
        }
        let pause = tokio::time::sleep(jittered(KEEP));
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                changed = says.changed() => if changed.is_err() {
                    if let Some(lease) = lease {
                        // If this fails, the lease expires.
                        let _ = tokio::time::timeout(PARTING, client.revoke(lease)).await;
                    }
                    return;
                },
            }
        }
    }
}
