//! A key that is there as long as this process is.

use std::time::Duration;

use tokio::sync::watch;

use crate::client::Client;
use crate::reach::jittered;

/// How long the key outlives a process that ends without a word, in seconds.
const LEASE: u64 = 10;
/// How often the lease is kept, and the key written if it is to say something else.
const KEEP: Duration = Duration::from_secs(2);

/// How long a process that ends waits for its key to go.
const PARTING: Duration = Duration::from_millis(500);

/// Keeps `PREFIX/gateways/NAME`, which says what `says` holds, until that is closed.
pub(crate) async fn presence(client: &Client, mut says: watch::Receiver<String>) {
    let key = format!("{}{}", client.settings().gateways(), client.settings().name);
    let mut lease = None;
    let mut written = None;
    loop {
        let kept = match lease {
            Some(lease) => client.keep(lease).await,
            None => Ok(false),
        };
        // While nobody answers there is nothing to be done; the lease may be kept in time yet.
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
                        // Else it ends by itself.
                        let _ = tokio::time::timeout(PARTING, client.revoke(lease)).await;
                    }
                    return;
                },
            }
        }
    }
}
