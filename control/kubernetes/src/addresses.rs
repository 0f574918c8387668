//! The pool of addresses from which Gateways get theirs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses and blocks of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPool(Vec<AddressBlock>);

/// A block of addresses, as in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    /// Its first address.
    pub first: IpAddr,
    /// How many bits its addresses share.
    pub prefix: u8,
}

impl fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// How many addresses of a block are tried for a free one.
const TRIED_MAX: u32 = 65_536;

impl AddressPool {
    /// Makes a pool.
    #[must_use]
    pub fn new(blocks: Vec<AddressBlock>) -> Self {
        Self(blocks)
    }

    /// Returns whether the pool has an address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|block| block.contains(address))
    }

    /// Returns the first addresses of each block, in order.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.0.iter().flat_map(|block| block.iter())
    }
}

impl AddressBlock {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let shift = 32_u32.saturating_sub(u32::from(self.prefix));
                u32::from(first).checked_shr(shift) == u32::from(address).checked_shr(shift)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let shift = 128_u32.saturating_sub(u32::from(self.prefix));
                u128::from(first).checked_shr(shift) == u128::from(address).checked_shr(shift)
            }
            _ => false,
        }
    }

    /// Returns its addresses, without the first one of a block of IPv4, which names the network.
    fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let skipped = u32::from(self.first.is_ipv4() && self.prefix < 31);
        (skipped..TRIED_MAX).map(|offset| self.nth(offset)).take_while(|address| self.contains(*address))
    }

    fn nth(&self, offset: u32) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(offset)).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(offset.into())).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_addresses() {
        let block = |text: &str, prefix| AddressBlock { first: text.parse().expect("an address"), prefix };
        let pool =
            AddressPool::new(vec![block("10.0.0.0", 30), block("192.0.2.7", 32), block("fd00::1", 127)]);
        let all: Vec<String> = pool.iter().map(|address| address.to_string()).collect();
        assert_eq!(all, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "192.0.2.7", "fd00::1"]);
        assert!(pool.contains("10.0.0.3".parse().expect("an address")));
        assert!(!pool.contains("10.0.0.4".parse().expect("an address")));
        assert!(block("0.0.0.0", 0).contains("255.0.0.1".parse().expect("an address")));
    }
}
