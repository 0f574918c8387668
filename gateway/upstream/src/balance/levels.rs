//! Distributes requests over priorities, and within a priority over zones.

use tollgate_plan::Percent;

/// The full share of the requests.
pub(super) const WHOLE: u64 = 10_000;
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
    /// Returns the available share, of [`WHOLE`].
    fn share(self) -> u64 {
        // Rounded up: one healthy endpoint makes a share, however light it is.
        if self.total == 0 { 0 } else { scaled(self.available, WHOLE, self.total).max(self.available.min(1)) }
    }

    fn and(self, other: Self) -> Self {
        Self { total: self.total + other.total, available: self.available + other.available }
    }
}

/// The endpoints of one priority: `near` ones in the gateway's own zone, and `far` ones in other zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub near: Weight,
    pub far: Weight,
}

impl Level {
    fn all(self) -> Weight {
        self.near.and(self.far)
    }
}

/// The share of the requests that a level takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Share of the requests that go to the gateway's own zone, relative to all other shares.
    pub near: u64,
    /// Share of the requests that go to other zones.
    pub far: u64,
    /// Whether health is ignored.
    pub panic: bool,
}

/// Distributes requests over levels, the preferred one first. `panic_threshold` and `zone_spill` are
/// percentages, as in the configuration.
///
/// As in Envoy, each level takes its available share times 1.4, and the rest goes to the next level. If all
/// levels together cannot take everything, they share the requests in that proportion, and a level below the
/// panic threshold ignores health. If no endpoint is available, the first level takes all requests.
pub(super) fn spread(levels: &[Level], panic_threshold: Percent, zone_spill: Percent) -> Vec<Load> {
    let capacity = |level: &Level| (level.all().share() * OVERPROVISIONING / 100).min(WHOLE);
    let total: u64 = levels.iter().map(capacity).sum();
    let threshold = WHOLE * u64::from(panic_threshold.millionths());
    // Another level that can take over is better than unhealthy endpoints.
    let alone = levels.iter().filter(|level| level.all().total > 0).count() < 2;
    let mut left = WHOLE;
    let mut loads = Vec::with_capacity(levels.len());
    for level in levels {
        let load = match total {
            0 if level.all().total > 0 => std::mem::take(&mut left),
            0 => 0,
            total if total < WHOLE => scaled(capacity(level), WHOLE, total),
            _ => {
                let load = capacity(level).min(left);
                left -= load;
                load
            }
        };
        // A level without load serves only requests that failed elsewhere, and these do not justify a panic
        // either.
        let panic = load > 0 && (total < WHOLE || alone) && level.all().share() * 1_000_000 < threshold;
        loads.push(within(level, load, panic, zone_spill));
    }
    loads
}

/// Distributes the share of a level over its zones.
fn within(level: &Level, load: u64, panic: bool, zone_spill: Percent) -> Load {
    let Level { near, far } = *level;
    // If health does not count, zones do not count either: the own zone may have failed.
    let stays = if panic {
        scaled(near.total, WHOLE, level.all().total.max(1))
    } else if near.available == 0 {
        0
    } else if far.available == 0 || zone_spill.is_zero() {
        WHOLE
    } else {
        (near.share() * 1_000_000 / u64::from(zone_spill.millionths())).min(WHOLE)
    };
    Load { near: load * stays, far: load * (WHOLE - stays), panic }
}

/// Returns `value * by / of` without overflow.
fn scaled(value: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far(available: u64) -> Level {
        Level { far: Weight { total: 100, available }, ..Level::default() }
    }

    /// Returns the percentage of the requests of each level, and whether it panics.
    fn percent(available: &[u64]) -> Vec<(u64, bool)> {
        let levels: Vec<_> = available.iter().map(|available| far(*available)).collect();
        let loads = spread(&levels, Percent::whole(50), Percent::whole(70));
        let total: u64 = loads.iter().map(|load| load.far).sum();
        loads.iter().map(|load| ((load.far * 100 + total / 2) / total, load.panic)).collect()
    }

    #[test]
    fn what_a_level_cannot_take_goes_down() {
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
        let loads = spread(&[Level::default(), far(0)], Percent::whole(50), Percent::whole(70));
        assert_eq!((loads[0].far, loads[1].far > 0, loads[1].panic), (0, true, true));
    }

    #[test]
    fn one_level_alone_panics_at_its_threshold() {
        assert_eq!(percent(&[50]), [(100, false)]);
        assert_eq!(percent(&[49]), [(100, true)]);
        let panics = |available, threshold| {
            spread(&[far(available)], Percent::whole(threshold), Percent::whole(70))[0].panic
        };
        assert!(panics(89, 90) && !panics(90, 90));
        assert!(!panics(0, 0), "switched off");
        assert!(panics(99, 100) && !panics(100, 100));
        assert_eq!(percent(&[71, 10]), [(99, false), (1, false)], "the next level is there");
    }

    /// Returns the percentage of the requests that stay in the own zone, which has 10 of 20 endpoints.
    fn stays(near: u64, far: u64, spill: u8) -> u64 {
        let weight = |available| Weight { total: 10, available };
        let load = spread(
            &[Level { near: weight(near), far: weight(far) }],
            Percent::whole(30),
            Percent::whole(spill),
        )[0];
        load.near * 100 / (load.near + load.far)
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
        assert!(load(Level { far: light, ..Level::default() }).far > 0);
        assert!(load(Level { near: light, far: light }).near > 0);
    }

    #[test]
    fn large_weights_do_not_overflow() {
        let weight = Weight { total: u64::from(u32::MAX) * 100_000, available: u64::from(u32::MAX) * 50_000 };
        let loads = spread(&[Level { near: weight, far: weight }], Percent::whole(50), Percent::whole(70));
        assert_eq!(loads[0].near * 100 / (loads[0].near + loads[0].far), 71);
    }
}
