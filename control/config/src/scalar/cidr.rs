//! Blocks of IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ScalarError;
use crate::tree::shown;

/// A block of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// First address of the block.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Bits before the IPv4 address in an IPv4-mapped address (RFC 4291, 2.5.5.2).
const MAPPED: u8 = 96;

/// Parses `10.0.0.0/8`, or a single address. The second value is whether bits after the prefix were set; they
/// are cleared.
///
/// A block of IPv4-mapped addresses, `::ffff:10.0.0.0/104`, becomes the IPv4 block. Client addresses are
/// compared as IPv4 too, whatever socket they arrive on.
pub(crate) fn cidr(text: &str) -> Result<(Cidr, bool), ScalarError> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return Err(ScalarError::new("{} is not an address or a block of addresses"));
    };
    let width = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        None => width,
        Some(text) => text
            .parse::<u8>()
            .ok()
            .filter(|prefix| *prefix <= width && !text.starts_with('+'))
            .ok_or_else(|| ScalarError::new("{} has a prefix that is too long for its address"))?,
    };
    let (address, prefix) = match address {
        IpAddr::V6(v6) if prefix >= MAPPED => match v6.to_ipv4_mapped() {
            Some(v4) => (IpAddr::V4(v4), prefix - MAPPED),
            None => (address, prefix),
        },
        _ => (address, prefix),
    };
    let first = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    };
    Ok((Cidr { address: first, prefix }, first != address))
}

/// Parses `10.0.0.0/8`, or a single address, for settings that are read elsewhere.
///
/// # Errors
/// Returns a message if the text is invalid or if bits after the prefix are set.
pub fn block(text: &str) -> Result<Cidr, String> {
    match cidr(text) {
        Ok((block, false)) => Ok(block),
        Ok((Cidr { address, prefix }, true)) => {
            Err(format!("{} has bits set after its prefix: write `{address}/{prefix}`", shown(text)))
        }
        Err(fault) => Err(fault.message.replacen("{}", &shown(text), 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        let read =
            |text| cidr(text).ok().map(|(block, cut)| (format!("{}/{}", block.address, block.prefix), cut));
        assert_eq!(read("10.0.0.0/8"), Some(("10.0.0.0/8".into(), false)));
        assert_eq!(read("10.1.2.3/8"), Some(("10.0.0.0/8".into(), true)));
        assert_eq!(read("10.1.2.3"), Some(("10.1.2.3/32".into(), false)));
        assert_eq!(read("0.0.0.0/0"), Some(("0.0.0.0/0".into(), false)));
        assert_eq!(read("::/0"), Some(("::/0".into(), false)));
        assert_eq!(read("fd00::1/16"), Some(("fd00::/16".into(), true)));
        assert_eq!(read("::ffff:10.1.2.3"), Some(("10.1.2.3/32".into(), false)));
        assert_eq!(read("::ffff:10.0.0.0/104"), Some(("10.0.0.0/8".into(), false)));
        assert_eq!(read("::ffff:10.1.2.3/104"), Some(("10.0.0.0/8".into(), true)));
        assert_eq!(read("::ffff:0:0/96"), Some(("0.0.0.0/0".into(), false)));
        assert_eq!(read("::fffe:10.0.0.0/104"), Some(("::fffe:a00:0/104".into(), false)));
        for text in ["", "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "::/129", "10.0.0.0/8/8"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
