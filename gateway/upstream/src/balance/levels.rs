//! Distributes requests over priorities, and within a priority over zones.
//!
//! The balancer calls [`spread`] whenever the health of an endpoint changes. The result is the share of each level,
//! from which a request draws; it depends on nothing but the weights of all and of available endpoints.

use tollgate_plan::Percent;

/// The full share of the requests.
pub(super) const FULL: u64 = 10_000;
/// Factor, in percent, by which a level may exceed its share of healthy weight: a level that is 72 % healthy
/// still takes all requests. This is Envoy's overprovisioning factor.
const OVERPROVISIONING: u64 = 140;

/// The total weight of some endpoints, and the part of it that may take requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub total: u64,
    pub available: u64,
}

impl Weight {
    /// Returns the available share, of [`FULL`].
    fn share(self) -> u64 {
        // Rounded up: one healthy endpoint makes a share, however light it is.
        if self.total == 0 { 0 } else { scaled(self.available, FULL, self.total).max(self.available.min(1)) }
    }

    fn and(self, other: Self) -> Self {
        Self { total: self.total + other.total, available: self.available + other.available }
    }
}

/// The endpoints of one priority: `own_zone` ones in the gateway's own zone, and `other_zones` ones in other
/// zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub own_zone: Weight,
    pub other_zones: Weight,
}

impl Level {
    fn all(self) -> Weight {
        self.own_zone.and(self.other_zones)
    }
}

/// The share of the requests that a level takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelShare {
    /// Share of the requests that go to the gateway's own zone, relative to all other shares.
    pub own_zone: u64,
    /// Share of the requests that go to other zones.
    pub other_zones: u64,
    /// Whether health is ignored.
    pub panic: bool,
}

/// Distributes requests over levels, the preferred one first. `panic_threshold` and `zone_spill` are
/// percentages, as in the configuration.
///
/// As in Envoy, each level takes its available share times 1.4, and the rest goes to the next level. If all
/// levels together cannot take everything, they share the requests in that proportion, and a level below the
/// panic threshold ignores health. If no endpoint is available, the first level takes all requests.
pub(super) fn spread(levels: &[Level], panic_threshold: Percent, zone_spill: Percent) -> Vec<LevelShare> {
    let capacity = |level: &Level| (level.all().share() * OVERPROVISIONING / 100).min(FULL);
    let total: u64 = levels.iter().map(capacity).sum();
    let threshold = FULL * u64::from(panic_threshold.millionths());
    // Another level that can take over is better than unhealthy endpoints.
    let alone = levels.iter().filter(|level| level.all().total > 0).count() < 2;
    let mut left = FULL;
    let mut loads = Vec::with_capacity(levels.len());
    for level in levels {
        let load = match total {
            0 if level.all().total > 0 => std::mem::take(&mut left),
            0 => 0,
            total if total < FULL => scaled(capacity(level), FULL, total),
            _ => {
                let load = capacity(level).min(left);
                left -= load;
                load
            }
        };
        // A level without load serves only requests that failed elsewhere, and these do not justify a panic
        // either.
        let panic = load > 0 && (total < FULL || alone) && level.all().share() * 1_000_000 < threshold;
        loads.push(within(level, load, panic, zone_spill));
    }
    loads
}

/// Distributes the share of a level over its zones.
fn within(level: &Level, load: u64, panic: bool, zone_spill: Percent) -> LevelShare {
    let Level { own_zone, other_zones } = *level;
    // If health does not count, zones do not count either: the own zone may have failed.
    let stays = if panic {
        scaled(own_zone.total, FULL, level.all().total.max(1))
    } else if own_zone.available == 0 {
        0
    } else if other_zones.available == 0 || zone_spill.is_zero() {
        FULL
    } else {
        (own_zone.share() * 1_000_000 / u64::from(zone_spill.millionths())).min(FULL)
    };
    LevelShare { own_zone: load * stays, other_zones: load * (FULL - stays), panic }
}

/// Returns `value * by / of` without overflow.
fn scaled(value: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other_zones(available: u64) -> Level {
        Level { other_zones: Weight { total: 100, available }, ..Level::default() }
    }

    /// Returns the percentage of the requests of each level, and whether it panics.
    fn percent(available: &[u64]) -> Vec<(u64, bool)> {
        let levels: Vec<_> = available.iter().map(|available| other_zones(*available)).collect();
        let loads = spread(&levels, Percent::whole(50), Percent::whole(70));
        let total: u64 = loads.iter().map(|load| load.other_zones).sum();
        loads.iter().map(|load| ((load.other_zones * 100 + total / 2) / total, load.panic)).collect()
    }

    #[test]
    fn overflow_goes_to_the_next_level() {
        // The table in Envoy's documentation on priority levels.
        assert_eq!(percent(&[100, 100]), [(100, false), (0, false)]);
        assert_eq!(percent(&[72, 72]), [(100, false), (0, false)]);
        assert_eq!(percent(&[71, 71]), [(99, false), (1, false)]);
        assert_eq!(percent(&[50, 50]), [(70, false), (30, false)]);
        assert_eq!(percent(&[25, 100]), [(35, false), (65, false)]);
        assert_eq!(percent(&[25, 25]), [(50, true), (50, true)]);
        assert_eq!(percent(&[5, 65]), [(7, true), (93, false)]);
        assert_eq!(percent(&[0, 100]), [(0, false), (100, false)]);
        assert_eq!(percent(&[20, 20, 100]), [(28, false), (28, false), (44, false)]);
    }

    #[test]
    fn without_health_it_is_as_if_all_were_well() {
        assert_eq!(percent(&[0]), [(100, true)]);
        assert_eq!(percent(&[0, 0]), [(100, true), (0, false)]);
        // No endpoint of the first level has a weight.
        let loads = spread(&[Level::default(), other_zones(0)], Percent::whole(50), Percent::whole(70));
        assert_eq!((loads[0].other_zones, loads[1].other_zones > 0, loads[1].panic), (0, true, true));
    }

    #[test]
    fn one_level_alone_panics_at_its_threshold() {
        assert_eq!(percent(&[50]), [(100, false)]);
        assert_eq!(percent(&[49]), [(100, true)]);
        let panics = |available, threshold| {
            spread(&[other_zones(available)], Percent::whole(threshold), Percent::whole(70))[0].panic
        };
        assert!(panics(89, 90) && !panics(90, 90));
        assert!(!panics(0, 0), "switched off");
        assert!(panics(99, 100) && !panics(100, 100));
        assert_eq!(percent(&[71, 10]), [(99, false), (1, false)], "the next level is there");
    }

    /// Returns the percentage of the requests that stay in the own zone, which has 10 of 20 endpoints.
    fn stays(own_zone: u64, other_zones: u64, spill: u8) -> u64 {
        let weight = |available| Weight { total: 10, available };
        let load = spread(
            &[Level { own_zone: weight(own_zone), other_zones: weight(other_zones) }],
            Percent::whole(30),
            Percent::whole(spill),
        )[0];
        load.own_zone * 100 / (load.own_zone + load.other_zones)
    }

    #[test]
    fn the_own_zone_keeps_what_it_can_take() {
        assert_eq!(stays(10, 10, 70), 100);
        assert_eq!(stays(7, 10, 70), 100);
        assert_eq!(stays(6, 10, 70), 85);
        assert_eq!(stays(1, 10, 70), 14);
        assert_eq!(stays(0, 10, 70), 0);
        assert_eq!(stays(9, 10, 100), 90);
        assert_eq!(stays(1, 10, 0), 100);
        assert_eq!(stays(7, 0, 100), 100, "nobody else could take it");
        assert_eq!(stays(0, 5, 70), 50, "panic: zones do not count");
    }

    #[test]
    fn the_lightest_counts() {
        let light = Weight { total: 1_000_000, available: 1 };
        let load = |level| spread(&[level], Percent::default(), Percent::whole(70))[0];
        assert!(load(Level { other_zones: light, ..Level::default() }).other_zones > 0);
        assert!(load(Level { own_zone: light, other_zones: light }).own_zone > 0);
    }

    #[test]
    fn large_weights_do_not_overflow() {
        let weight = Weight { total: u64::from(u32::MAX) * 100_000, available: u64::from(u32::MAX) * 50_000 };
        let loads = spread(
            &[Level { own_zone: weight, other_zones: weight }],
            Percent::whole(50),
            Percent::whole(70),
        );
        assert_eq!(loads[0].own_zone * 100 / (loads[0].own_zone + loads[0].other_zones), 71);
    }
}
