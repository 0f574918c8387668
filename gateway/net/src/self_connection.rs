//! The addresses at which this process listens, and its name in `CDN-Loop`.
//!
//! The program sets the addresses whenever it opens or closes a listener.
//! [`Stream::connect`](crate::Stream::connect) compares each new connection with them. Invariant: a
//! connection to the gateway itself is recognised when it opens, so requests on other connections cost
//! nothing.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::Address;

static ADDRESSES: RwLock<Vec<Address>> = RwLock::new(Vec::new());

/// Sets the addresses at which this process accepts client connections.
pub fn set_own_addresses(addresses: impl IntoIterator<Item = Address>) {
    let addresses = addresses.into_iter().collect();
    *ADDRESSES.write().unwrap_or_else(PoisonError::into_inner) = addresses;
}

/// Whether this process accepts connections to `to`. `from` returns the connection's local address.
pub(crate) fn is_own_address(to: SocketAddr, from: impl Fn() -> Option<IpAddr>) -> bool {
    let addresses = ADDRESSES.read().unwrap_or_else(PoisonError::into_inner);
    addresses.iter().any(|own| matches!(own, Address::Socket(own) if accepts(*own, to, &from)))
}

/// Whether this process listens at the Unix socket with this path.
pub(crate) fn is_own_socket(path: &Path) -> bool {
    let addresses = ADDRESSES.read().unwrap_or_else(PoisonError::into_inner);
    addresses.iter().any(|own| matches!(own, Address::Unix(own) if own == path))
}

/// Returns whether a connection to `to`, which has led back to this process before, arrives at the listener `own`. A name
/// counts only if the listener has all addresses of its port.
#[must_use]
pub fn leads_to(own: SocketAddr, to: &Address) -> bool {
    match to {
        Address::Socket(to) => accepts(own, *to, &|| Some(to.ip())),
        Address::Name { port, .. } => own.port() == *port && own.ip().is_unspecified(),
        Address::Unix(_) => false,
    }
}

pub(crate) fn accepts(own: SocketAddr, to: SocketAddr, from: &impl Fn() -> Option<IpAddr>) -> bool {
    let (own_ip, ip) = (own.ip().to_canonical(), to.ip().to_canonical());
    if own.port() != to.port() {
        return false;
    }
    // The kernel treats the unspecified address as the loopback address.
    let is_local = ip.is_loopback() || ip.is_unspecified();
    own_ip == ip
        || ip.is_unspecified() && own_ip.is_loopback()
        || own_ip.is_unspecified() && (is_local || from().is_some_and(|from| from.to_canonical() == ip))
}

/// Returns the name of this process in `CDN-Loop` (RFC 8586). It is random, so no other process shares it.
pub fn instance_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        // Without random bytes, fall back to the process id.
        let number = crate::random_key().map_or(u128::from(std::process::id()), u128::from_be_bytes);
        format!("tollgate-{:016x}", number as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_addresses_are_known() {
        let is = |own: &str, to: &str, from: &str| {
            let from = from.parse::<IpAddr>().ok();
            accepts(own.parse().expect("an address"), to.parse().expect("an address"), &|| from)
        };
        for (own, to, from) in [
            ("127.0.0.1:80", "127.0.0.1:80", ""),
            ("127.0.0.1:80", "0.0.0.0:80", ""),
            ("0.0.0.0:80", "127.0.0.2:80", ""),
            ("[::]:80", "127.0.0.1:80", ""),
            ("[::]:80", "[::ffff:127.0.0.1]:80", ""),
            ("0.0.0.0:80", "192.0.2.7:80", "192.0.2.7"),
            ("[::1]:80", "[::]:80", ""),
        ] {
            assert!(is(own, to, from), "{own} {to}");
        }
        for (own, to, from) in [
            ("127.0.0.1:80", "127.0.0.1:81", ""),
            ("127.0.0.1:80", "127.0.0.2:80", ""),
            ("0.0.0.0:80", "192.0.2.7:80", "192.0.2.8"),
            ("192.0.2.7:80", "192.0.2.8:80", "192.0.2.8"),
        ] {
            assert!(!is(own, to, from), "{own} {to}");
        }
        assert_eq!(instance_name(), instance_name());
        assert_eq!(instance_name().len(), "tollgate-".len() + 16);
    }
}
