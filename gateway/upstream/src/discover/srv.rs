//! Converts SRV records (RFC 2782) to endpoints with weights and priorities.

use std::net::{IpAddr, SocketAddr};

use tollgate_net::Address;
use tollgate_plan::Endpoint;

/// Largest weight of an endpoint. As in the configuration, sums of weights stay within 32 bits.
const WEIGHT_MAX: u64 = 1_000_000;

/// One SRV record and the addresses of its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SrvTarget {
    pub(super) priority: u16,
    pub(super) weight: u16,
    pub(super) port: u16,
    pub(super) addresses: Vec<IpAddr>,
}

/// Returns the endpoints of SRV records.
///
/// - The lowest priority becomes 0, the next 1, and so on, because only their order matters.
/// - A weight belongs to a target, and its addresses share it. A host with A and AAAA records does not count
///   twice.
/// - Weight 0 means `a very small chance` (RFC 2782) and becomes 1. In the configuration, 0 would mean no
///   requests.
pub(super) fn endpoints(targets: &[SrvTarget]) -> Vec<Endpoint> {
    let mut priorities: Vec<u16> = targets.iter().map(|target| target.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    // Common multiple of the address counts, so that each share is a whole number. Beyond the bound, shares
    // are rounded.
    let shares = targets
        .iter()
        .map(|target| target.addresses.len() as u64)
        .filter(|count| *count > 0)
        .fold(1, |all, count| (all / gcd(all, count)).saturating_mul(count).min(5040));
    let weight = |target: &SrvTarget| {
        let whole = u64::from(target.weight.max(1)) * shares;
        (whole / target.addresses.len() as u64).max(1)
    };
    let served = || targets.iter().filter(|target| !target.addresses.is_empty());
    let common = served().map(weight).fold(0, gcd).max(1);
    let heaviest = served().map(weight).max().unwrap_or(1) / common;
    let scale = heaviest.div_ceil(WEIGHT_MAX).max(1);
    let mut endpoints = Vec::new();
    for target in served() {
        let rank = priorities.partition_point(|priority| *priority < target.priority);
        for address in &target.addresses {
            endpoints.push(Endpoint {
                address: Address::Socket(SocketAddr::new(*address, target.port)),
                weight: u32::try_from((weight(target) / common / scale).max(1)).unwrap_or(u32::MAX),
                priority: u8::try_from(rank).unwrap_or(u8::MAX),
                zone: None,
            });
        }
    }
    endpoints
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(priority: u16, weight: u16, addresses: u8) -> SrvTarget {
        let addresses = (0..addresses).map(|n| IpAddr::from([10, 0, 0, n])).collect();
        SrvTarget { priority, weight, port: 80, addresses }
    }

    fn shares(targets: &[SrvTarget]) -> Vec<(u8, u32)> {
        endpoints(targets).iter().map(|endpoint| (endpoint.priority, endpoint.weight)).collect()
    }

    #[test]
    fn priorities_keep_their_order_and_weights_their_ratio() {
        assert_eq!(
            shares(&[target(20, 10, 1), target(10, 60, 1), target(10, 20, 1)]),
            [(1, 1), (0, 6), (0, 2)]
        );
    }

    #[test]
    fn a_target_with_two_addresses_has_no_double_share() {
        assert_eq!(shares(&[target(0, 10, 2), target(0, 10, 1)]), [(0, 1), (0, 1), (0, 2)]);
    }

    #[test]
    fn weight_zero_is_little_and_not_nothing() {
        assert_eq!(shares(&[target(0, 0, 1), target(0, 0, 1)]), [(0, 1), (0, 1)]);
        assert_eq!(shares(&[target(0, 0, 1), target(0, 50, 1)]), [(0, 1), (0, 50)]);
    }

    #[test]
    fn a_target_without_addresses_is_left_out() {
        assert_eq!(shares(&[target(0, 1, 0), target(5, 7, 1)]), [(1, 1)]);
        assert_eq!(endpoints(&[target(0, 1, 0)]), []);
    }

    proptest! {
        #[test]
        fn shares_are_as_asked_for(
            given in prop::collection::vec((0_u16..3, any::<u16>(), 1_u8..12), 1..40)
        ) {
            let targets: Vec<_> = given.iter().map(|(p, w, n)| target(*p, *w, *n)).collect();
            let endpoints = endpoints(&targets);
            prop_assert!(endpoints.iter().all(|e| e.weight >= 1 && u64::from(e.weight) <= WEIGHT_MAX));
            let mut rest = endpoints.as_slice();
            let mut sums = Vec::new();
            for target in &targets {
                let (own, others) = rest.split_at(target.addresses.len());
                sums.push(own.iter().map(|e| f64::from(e.weight)).sum::<f64>());
                rest = others;
            }
            prop_assert!(rest.is_empty());
            // The heaviest target shows most exactly what one unit of weight became.
            let wanted = |target: &SrvTarget| f64::from(target.weight.max(1));
            let units = targets.iter().zip(&sums);
            let heaviest = units.clone().max_by(|a, b| wanted(a.0).total_cmp(&wanted(b.0))).expect("some");
            let unit = heaviest.1 / wanted(heaviest.0);
            for (target, sum) in units {
                let exact = wanted(target) * unit;
                // Each address is rounded by at most one.
                let slack = target.addresses.len() as f64 + exact * 0.02;
                prop_assert!((sum - exact).abs() <= slack, "{sum} {exact}");
            }
        }
    }

    #[test]
    fn no_weight_overflows() {
        let targets: Vec<SrvTarget> = (1..=255)
            .map(|count| SrvTarget { port: u16::MAX, ..target(u16::MAX - u16::from(count), u16::MAX, count) })
            .collect();
        let endpoints = endpoints(&targets);
        assert!(endpoints.iter().all(|one| one.weight >= 1 && u64::from(one.weight) <= WEIGHT_MAX));
        let last = endpoints.iter().map(|one| one.priority).max();
        assert_eq!(last, Some(254));
    }
}
