//! The peers that a configuration trusts to announce clients.

use std::net::IpAddr;

use tollgate_plan::{Cidr, Forwarded};
use tollgate_policy::Block;

/// Returns whether the peer is a trusted proxy.
pub(crate) fn is_trusted(settings: &Forwarded, peer: IpAddr) -> bool {
    settings.trusted_proxies.iter().any(|block| contains(block, peer))
}

/// Returns whether an address is in a block.
pub(crate) fn contains(block: &Cidr, address: IpAddr) -> bool {
    Block { address: block.address, prefix: block.prefix }.contains(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str, prefix: u8) -> Cidr {
        Cidr { address: text.parse().expect("an address"), prefix }
    }

    #[test]
    fn blocks() {
        let holds = |block: &Cidr, text: &str| contains(block, text.parse().expect("an address"));
        assert!(holds(&block("10.0.0.0", 8), "10.255.0.1"));
        assert!(!holds(&block("10.0.0.0", 8), "11.0.0.1"));
        assert!(holds(&block("0.0.0.0", 0), "255.255.255.255"));
        assert!(!holds(&block("0.0.0.0", 0), "::1"));
        assert!(holds(&block("192.0.2.7", 32), "192.0.2.7"));
        assert!(!holds(&block("192.0.2.7", 32), "192.0.2.6"));
        assert!(holds(&block("2001:db8::", 32), "2001:db8:ffff::1"));
        assert!(holds(&block("::", 0), "2001::1"));
        assert!(!holds(&block("::1", 128), "::2"));
    }
}
