//! Session tickets (RFC 5077, RFC 8446 4.6.1). All workers share the keys that seal them. Keys are replaced
//! every six hours, and a ticket is valid for twelve.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustls::Error;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ProducesTickets;

/// The scope of a ticket: the client authentication in force when it was issued (authorities, and whether a
/// certificate is required). A resumed session carries the certificate of the first session along,
/// unverified. So a ticket must not be valid where other clients are admitted.
pub(crate) type TicketScope = Option<(Arc<[u8]>, bool)>;

/// Returns the keys of a realm. They outlive a change of certificates, so a reload forces no full handshakes.
pub(crate) fn ticketer(scope: &TicketScope) -> Result<Arc<dyn ProducesTickets>, Error> {
    static KNOWN: Mutex<Option<HashMap<TicketScope, Weak<dyn ProducesTickets>>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(ticketer) = known.get(scope).and_then(Weak::upgrade) {
        return Ok(ticketer);
    }
    known.retain(|_, ticketer| ticketer.strong_count() > 0);
    let ticketer = Ticketer::new()?;
    known.insert(scope.clone(), Arc::downgrade(&ticketer));
    Ok(ticketer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_in_its_realm_only() {
        let strict: TicketScope = Some((Arc::from(&b"authority"[..]), true));
        let (open, same) = (ticketer(&None).expect("keys"), ticketer(&None).expect("keys"));
        let other = ticketer(&strict).expect("keys");
        let ticket = open.encrypt(b"session").expect("sealed");
        assert_eq!(same.decrypt(&ticket).as_deref(), Some(&b"session"[..]), "on every listener of the realm");
        assert_eq!(other.decrypt(&ticket), None);
    }
}
