//! `ip`: admits or refuses requests by the client's address.
//!
//! The client's address is the peer's address, or the address that trusted proxies announce
//! (`forwarded.trusted_proxies`). A header that an untrusted client sends is ignored.

mod config;

use std::net::IpAddr;
use std::sync::Arc;

use tollgate_observe::Reason;

use crate::{Planned, Policy, PolicyStates, Refusal, Request, Verdict};

pub(crate) use config::IpSettings;

/// A CIDR block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first address of the block.
    pub address: IpAddr,
    /// The length of the prefix in bits.
    pub prefix: u8,
}

impl Block {
    /// Whether an address is in the block.
    #[must_use]
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        // A shift by the full width overflows in Rust, so the shifts are checked: a prefix of 0 contains
        // every address.
        match (self.address, address) {
            (IpAddr::V4(block), IpAddr::V4(address)) => {
                let difference = u32::from(block) ^ u32::from(address);
                difference.checked_shr(32 - u32::from(self.prefix.min(32))).unwrap_or(0) == 0
            }
            (IpAddr::V6(block), IpAddr::V6(address)) => {
                let difference = u128::from(block) ^ u128::from(address);
                difference.checked_shr(128 - u32::from(self.prefix.min(128))).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Admits or refuses requests by the client's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IpRules {
    /// Allowed addresses; empty: every address that `deny` does not contain.
    pub allow: Vec<Block>,
    /// Denied addresses; they override `allow`.
    pub deny: Vec<Block>,
}

impl IpRules {
    /// Returns the cause of a refusal; `None` if the address is allowed.
    fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        let any = |blocks: &[Block]| blocks.iter().any(|block| block.contains(address));
        if any(&self.deny) {
            Some("the address is denied")
        } else if !self.allow.is_empty() && !any(&self.allow) {
            Some("the address is not among those allowed")
        } else {
            None
        }
    }
}

impl Planned for IpRules {
    fn kind(&self) -> &'static str {
        "ip"
    }

    fn summary(&self) -> String {
        format!("{} allowed, {} denied", self.allow.len(), self.deny.len())
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        self
    }
}

impl Policy for IpRules {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        match self.refuses(request.origin.client) {
            None => Verdict::Continue,
            detail => Refusal { detail, ..Reason::AddressDenied.into() }.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        let (address, prefix) = text.split_once('/').expect("a block");
        Block { address: address.parse().expect("an address"), prefix: prefix.parse().expect("a prefix") }
    }

    fn refused(allow: &[&str], deny: &[&str], address: &str) -> bool {
        let blocks = |texts: &[&str]| texts.iter().map(|text| block(text)).collect();
        let rules = IpRules { allow: blocks(allow), deny: blocks(deny) };
        rules.refuses(address.parse().expect("an address")).is_some()
    }

    #[test]
    fn deny_wins_over_allow() {
        assert!(!refused(&[], &[], "192.0.2.1"));
        assert!(refused(&[], &["192.0.2.0/24"], "192.0.2.1"));
        assert!(refused(&["192.0.2.0/24"], &[], "198.51.100.1"));
        assert!(!refused(&["192.0.2.0/24"], &[], "192.0.2.1"));
        assert!(refused(&["192.0.2.0/24"], &["192.0.2.1/32"], "192.0.2.1"));
        assert!(refused(&["192.0.2.0/24"], &[], "2001:db8::1"));
        assert!(!refused(&["2001:db8::/32"], &[], "2001:db8::1"));
        assert!(!refused(&["0.0.0.0/0"], &[], "192.0.2.1"));
        assert!(refused(&["0.0.0.0/0"], &[], "2001:db8::1"), "the other family");
    }
}
