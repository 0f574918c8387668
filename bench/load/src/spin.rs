//! Decides whether a thread polls for responses before it sleeps.

/// How long to poll, in nanoseconds. It is about what waking a sleeping thread costs both sides (a system
/// call and an interrupt to the other core), so that a fruitless poll at most doubles that cost.
const POLL_NS: u64 = 5_000;

/// The highest score of successful polls.
const SCORE_MAX: u32 = 16;

/// How many sleeps pass before another attempt, after polling was given up.
const SLEEPS_UNTIL_PROBE: u32 = 64;

/// Remembers how useful polling was. A server at its limit sends a response every few microseconds. Waking
/// the generator for each one would cost the server more than the generator, and the server would be measured
/// as slower than it is. If responses are further apart, or the server needs this core, polling finds nothing
/// and stops.
#[derive(Debug)]
pub(crate) struct Spin {
    level: u32,
    slept: u32,
}

impl Spin {
    pub(crate) fn new() -> Self {
        Self { level: SCORE_MAX / 2, slept: 0 }
    }

    /// Returns how long to poll now, in nanoseconds; `None`: sleep at once.
    pub(crate) fn poll_ns(&mut self) -> Option<u64> {
        if self.level == 0 {
            self.slept += 1;
            if self.slept < SLEEPS_UNTIL_PROBE {
                return None;
            }
            self.slept = 0;
        }
        Some(POLL_NS)
    }

    /// Records whether a poll found events.
    pub(crate) fn record(&mut self, found: bool) {
        self.level = if found { (self.level + 1).min(SCORE_MAX) } else { self.level / 2 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fruitless_polls_are_given_up_and_tried_again_later() {
        let mut spin = Spin::new();
        let mut looks = 0;
        for _ in 0..6_400 {
            if spin.poll_ns().is_some() {
                looks += 1;
                spin.record(false);
            }
        }
        assert!((100..110).contains(&looks), "{looks}");
    }

    #[test]
    fn looking_that_pays_goes_on() {
        let mut spin = Spin::new();
        for round in 0..1_000 {
            assert!(spin.poll_ns().is_some());
            spin.record(round % 4 != 0);
        }
    }
}
