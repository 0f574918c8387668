//! Decides when probes make an endpoint healthy or unhealthy.

use tollgate_plan::Health;

use crate::ProbeHealth;

/// Counts results in a row that contradict the endpoint's current state.
///
/// A single result among others changes nothing. The first result, however, decides alone: before it the
/// state is unknown, and three intervals are a long time to send requests to a dead endpoint.
#[derive(Debug, Default)]
pub(super) struct HealthThreshold {
    decided: bool,
    against: u32,
}

impl HealthThreshold {
    /// Evaluates a result. If it changes the endpoint's state, returns the new state and how many results in
    /// a row led to it.
    pub(super) fn record(
        &mut self,
        now_is: ProbeHealth,
        good: bool,
        rules: &Health,
    ) -> Option<(ProbeHealth, u32)> {
        let says = if good { ProbeHealth::Healthy } else { ProbeHealth::Unhealthy };
        if now_is == says {
            (self.decided, self.against) = (true, 0);
            return None;
        }
        self.against += 1;
        let needed = if good { rules.healthy } else { rules.unhealthy };
        if self.decided && self.against < needed {
            return None;
        }
        let after = std::mem::take(&mut self.against);
        self.decided = true;
        Some((says, after))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tollgate_plan::Probe;

    use super::*;

    fn rules(healthy: u32, unhealthy: u32) -> Health {
        let second = Duration::from_secs(1);
        Health {
            probe: Probe::Tcp,
            interval: second,
            jitter: tollgate_plan::Percent::whole(0),
            timeout: second,
            healthy,
            unhealthy,
            port: None,
        }
    }

    /// Runs probes with these results, `+` or `-`. Returns the state after each: `h` or `u`.
    fn run(start: ProbeHealth, results: &str, rules: &Health) -> String {
        let (mut is, mut verdict) = (start, HealthThreshold::default());
        let mut after = |result| {
            is = verdict.record(is, result == '+', rules).map_or(is, |(next, _)| next);
            match is {
                ProbeHealth::Unknown => '?',
                ProbeHealth::Healthy => 'h',
                ProbeHealth::Unhealthy => 'u',
            }
        };
        results.chars().map(&mut after).collect()
    }

    #[test]
    fn thresholds() {
        let cases = [
            (ProbeHealth::Unknown, "+--+---+-++", "hhhhhhuuuuh"),
            (ProbeHealth::Unknown, "-+-+++", "uuuuhh"),
            // An endpoint that returned to the upstream and kept its state.
            (ProbeHealth::Unhealthy, "+", "h"),
            (ProbeHealth::Healthy, "-", "u"),
            (ProbeHealth::Unhealthy, "-+", "uu"),
        ];
        for (start, results, expected) in cases {
            assert_eq!(run(start, results, &rules(2, 3)), expected, "{results}");
        }
        assert_eq!(run(ProbeHealth::Unknown, "+-+-", &rules(1, 1)), "huhu");
    }

    proptest! {
        #[test]
        fn it_changes_after_as_many_in_a_row(
            results in prop::collection::vec(any::<bool>(), 1..100),
            healthy in 1u32..5,
            unhealthy in 1u32..5,
        ) {
            let rules = rules(healthy, unhealthy);
            let (mut is, mut verdict) = (ProbeHealth::Unknown, HealthThreshold::default());
            for (index, good) in results.iter().enumerate() {
                let before = is;
                let change = verdict.record(is, *good, &rules);
                is = change.map_or(is, |(next, _)| next);
                let row = results[..=index].iter().rev().take_while(|result| *result == good).count() as u32;
                let enough = row >= if *good { healthy } else { unhealthy };
                let says = if *good { ProbeHealth::Healthy } else { ProbeHealth::Unhealthy };
                let expected = if index == 0 || enough { says } else { before };
                prop_assert_eq!(is, expected);
                prop_assert!(change.is_none_or(|(_, after)| after == row));
            }
        }
    }
}
