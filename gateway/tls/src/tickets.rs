//! Session tickets (RFC 5077, RFC 8446 4.6.1): sealed by keys that all workers share, and that are replaced every six
//! hours; a ticket is good for twelve.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustls::Error;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ProducesTickets;

/// Who may use a ticket: what was asked of the client's certificate when it was issued. A resumed session brings the
/// certificate of the first one along, unverified, so a ticket must not be good where other clients are let in.
pub(crate) type Realm = Option<(Arc<[u8]>, bool)>;

/// The keys of a realm. They outlive a change of certificates: a reload costs nobody a full handshake.
pub(crate) fn ticketer(realm: &Realm) -> Result<Arc<dyn ProducesTickets>, Error> {
    static KNOWN: Mutex<Option<HashMap<Realm, Weak<dyn ProducesTickets>>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(ticketer) = known.get(realm).and_then(Weak::upgrade) {
        return Ok(ticketer);
    }
    known.retain(|_, ticketer| ticketer.strong_count() > 0);
    let ticketer = Ticketer::new()?;
    known.insert(realm.clone(), Arc::downgrade(&ticketer));
    Ok(ticketer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_in_its_realm_only() {
        let strict: Realm = Some((Arc::from(&b"authority"[..]), true));
        let (open, same) = (ticketer(&None).expect("keys"), ticketer(&None).expect("keys"));
        let other = ticketer(&strict).expect("keys");
        let ticket = open.encrypt(b"session").expect("sealed");
        assert_eq!(same.decrypt(&ticket).as_deref(), Some(&b"session"[..]), "on every listener of the realm");
        assert_eq!(other.decrypt(&ticket), None);
    }
}
