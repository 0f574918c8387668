//! Where this process itself listens, and what it is called among gateways.
//!
//! The program notes its addresses when it opens or closes some; [`Stream::connect`](crate::Stream::connect) compares with
//! them. So a connection to the gateway itself is known when it is opened, and a request on any other costs nothing.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::Address;

static ADDRESSES: RwLock<Vec<Address>> = RwLock::new(Vec::new());

/// Notes the addresses at which this process accepts connections of clients, in place of those that were noted before.
pub fn set_own_addresses(addresses: impl IntoIterator<Item = Address>) {
    let addresses = addresses.into_iter().collect();
    *ADDRESSES.write().unwrap_or_else(PoisonError::into_inner) = addresses;
}

/// Whether one of the noted addresses takes a connection to `to`. `from` gives the connection's own address.
pub(crate) fn is_own(to: SocketAddr, from: impl Fn() -> Option<IpAddr>) -> bool {
    let addresses = ADDRESSES.read().unwrap_or_else(PoisonError::into_inner);
    addresses.iter().any(|own| matches!(own, Address::Socket(own) if takes(*own, to, &from)))
}

/// Whether one of the noted addresses is the Unix socket at this path.
pub(crate) fn is_own_socket(path: &Path) -> bool {
    let addresses = ADDRESSES.read().unwrap_or_else(PoisonError::into_inner);
    addresses.iter().any(|own| matches!(own, Address::Unix(own) if own == path))
}

fn takes(own: SocketAddr, to: SocketAddr, from: &impl Fn() -> Option<IpAddr>) -> bool {
    let (own_ip, ip) = (own.ip().to_canonical(), to.ip().to_canonical());
    if own.port() != to.port() {
        return false;
    }
    // The kernel takes the unspecified address for the loopback one.
    let is_local = ip.is_loopback() || ip.is_unspecified();
    own_ip == ip
        || ip.is_unspecified() && own_ip.is_loopback()
        || own_ip.is_unspecified() && (is_local || from().is_some_and(|from| from.to_canonical() == ip))
}

/// The name of this process in `CDN-Loop` (RFC 8586): no other process has the same.
pub fn instance_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        // Without random bytes the process's number is better than nothing.
        let number = crate::secret().map_or(u128::from(std::process::id()), u128::from_be_bytes);
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
            takes(own.parse().expect("an address"), to.parse().expect("an address"), &|| from)
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
