//! Chooses the listener of a request among listeners that share an address. The host decides, and over TLS the server name of
//! the handshake (SNI) must lead to the same listener: otherwise the connection would reach routes whose certificate, and
//! whose checks at a proxy in front, it never met (RFC 9110, 7.4).

use std::sync::Arc;

use tollgate_observe::Reason;
use tollgate_plan::{Plan, PlannedListener};

/// Returns the listener for a host. `server_name` is the SNI of the connection; empty if it has none, `None` without TLS.
///
/// # Errors
/// No listener of this address has the host, or the connection belongs to another one.
pub(crate) fn listener<'p>(
    plan: &'p Plan,
    at: &PlannedListener,
    host: &[u8],
    server_name: Option<&str>,
) -> Result<&'p Arc<PlannedListener>, Reason> {
    let chosen = plan.listener_for_host(&at.bind, host).ok_or(Reason::NoRoute)?;
    match server_name.map(|name| plan.listener_for_host(&at.bind, name.as_bytes())) {
        None => Ok(chosen),
        Some(Some(shaken)) if Arc::ptr_eq(shaken, chosen) => Ok(chosen),
        Some(_) => Err(Reason::MisdirectedRequest),
    }
}
