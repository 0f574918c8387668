//! Appends numbers and addresses as text, without `core::fmt`, whose set-up costs more than the digits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::clock::digits;

#[inline]
pub(super) fn number(line: &mut Vec<u8>, number: u64) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends milliseconds with three decimals.
#[inline]
pub(super) fn millis(line: &mut Vec<u8>, duration: Duration) {
    let whole = duration.as_secs().saturating_mul(1_000).saturating_add(duration.subsec_millis().into());
    number(line, whole);
    let mut fraction = *b".000";
    digits(&mut fraction[1..], duration.subsec_micros() % 1_000);
    line.extend_from_slice(&fraction);
}

/// Appends each byte as two hexadecimal digits.
pub(super) fn hexadecimal(line: &mut Vec<u8>, bytes: &[u8]) {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    line.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
}

#[inline]
pub(super) fn address(line: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => v4(line, address),
        IpAddr::V6(address) => v6(line, address),
    }
}

fn v4(line: &mut Vec<u8>, address: Ipv4Addr) {
    let [first, rest @ ..] = address.octets();
    number(line, first.into());
    for octet in rest {
        line.push(b'.');
        number(line, octet.into());
    }
}

/// Appends the form of RFC 5952: lower case, no leading zeros, the longest run of two or more zero groups as
/// `::`.
fn v6(line: &mut Vec<u8>, address: Ipv6Addr) {
    if let [0, 0, 0, 0, 0, 0xffff, ..] = address.segments()
        && let Some(mapped) = address.to_ipv4_mapped()
    {
        line.extend_from_slice(b"::ffff:");
        return v4(line, mapped);
    }
    let groups = address.segments();
    let (start, length) = longest_zeros(&groups);
    let mut index = 0;
    while index < groups.len() {
        if length > 1 && index == start {
            line.extend_from_slice(b"::");
            index += length;
            continue;
        }
        if index > 0 && !(length > 1 && index == start + length) {
            line.push(b':');
        }
        group(line, groups[index]);
        index += 1;
    }
}

/// Returns start and length of the first longest run of zeros.
fn longest_zeros(groups: &[u16; 8]) -> (usize, usize) {
    let (mut best, mut start, mut length) = ((0, 0), 0, 0);
    for (index, &group) in groups.iter().enumerate() {
        if group != 0 {
            length = 0;
            continue;
        }
        if length == 0 {
            start = index;
        }
        length += 1;
        if length > best.1 {
            best = (start, length);
        }
    }
    best
}

fn group(line: &mut Vec<u8>, group: u16) {
    let mut started = false;
    for shift in [12, 8, 4, 0] {
        let digit = (group >> shift) as usize & 15;
        started |= digit != 0 || shift == 0;
        if started {
            line.push(b"0123456789abcdef"[digit]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written<T>(write: fn(&mut Vec<u8>, T), value: T) -> String {
        let mut line = Vec::new();
        write(&mut line, value);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn milliseconds() {
        let cases = [
            (Duration::ZERO, "0.000"),
            (Duration::from_nanos(999), "0.000"),
            (Duration::from_micros(1_007), "1.007"),
            (Duration::new(61, 20_345_678), "61020.345"),
        ];
        for (duration, shown) in cases {
            assert_eq!(written(millis, duration), shown);
        }
        assert_eq!(written(millis, Duration::MAX), "18446744073709551615.999");
    }

    proptest! {
        #[test]
        fn addresses_match_the_standard_library(bits: u128, zeros: u8) {
            // Random groups are hardly ever zero: blank some.
            let mut groups = Ipv6Addr::from_bits(bits).segments();
            for (index, group) in groups.iter_mut().enumerate() {
                if zeros >> index & 1 == 1 {
                    *group = 0;
                }
            }
            let v6 = Ipv6Addr::from(groups);
            let mapped = Ipv4Addr::from_bits(bits as u32).to_ipv6_mapped();
            let v4 = Ipv4Addr::from_bits(bits as u32);
            for ip in [IpAddr::V6(v6), IpAddr::V6(mapped), IpAddr::V4(v4)] {
                prop_assert_eq!(written(address, ip), ip.to_string());
            }
        }
    }
}
