//! Whether to look for responses a little longer before going to sleep.

/// How long to look, nanoseconds: about what it costs both sides when a sleeping thread is woken (a system call and an
/// interrupt to the other core), so that a look in vain at most doubles that.
const LOOK: u64 = 5_000;

/// Successes that are remembered.
const MOST: u32 = 16;

/// How often to try again, in sleeps, after looking was in vain.
const PROBE: u32 = 64;

/// Remembers how looking went. A server at its limit sends a response every few microseconds; to be woken for each one
/// costs that server more than the generator, and it would be measured as slower than it is. Where responses are
/// further apart, or where the server needs this very core, looking finds nothing and is given up.
#[derive(Debug)]
pub(crate) struct Spin {
    level: u32,
    slept: u32,
}

impl Spin {
    pub(crate) fn new() -> Self {
        Self { level: MOST / 2, slept: 0 }
    }

    /// How long to look now, nanoseconds; `None` to sleep at once.
    pub(crate) fn look(&mut self) -> Option<u64> {
        if self.level == 0 {
            self.slept += 1;
            if self.slept < PROBE {
                return None;
            }
            self.slept = 0;
        }
        Some(LOOK)
    }

    /// What came of looking.
    pub(crate) fn looked(&mut self, found: bool) {
        self.level = if found { (self.level + 1).min(MOST) } else { self.level / 2 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_in_vain_is_given_up_and_tried_again_now_and_then() {
        let mut spin = Spin::new();
        let mut looks = 0;
        for _ in 0..6_400 {
            if spin.look().is_some() {
                looks += 1;
                spin.looked(false);
            }
        }
        assert!((100..110).contains(&looks), "{looks}");
    }

    #[test]
    fn looking_that_pays_goes_on() {
        let mut spin = Spin::new();
        for round in 0..1_000 {
            assert!(spin.look().is_some());
            spin.looked(round % 4 != 0);
        }
    }
}
