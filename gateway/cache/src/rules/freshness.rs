//! How long a response can be used (RFC 9111, 4.2; RFC 5861).

use super::response_control::ResponseControl;
use crate::Moment;

/// The most seconds of a heuristic lifetime. RFC 9111, 4.2.2 names a day as typical.
pub(crate) const HEURISTIC_SECONDS_MAX: u32 = 24 * 60 * 60;
/// A heuristic lifetime is this part of the time since the last modification (RFC 9111, 4.2.2).
const HEURISTIC_PART: u64 = 10;

/// How long a stored response can be used, and on which terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// When its age was 0.
    born: Moment,
    lifetime_seconds: u32,
    stale_while_revalidate: u32,
    stale_if_error: u32,
    flags: u8,
}

/// The length of a freshness in a record of the disk tier.
pub(crate) const FRESHNESS_BYTES: usize = 21;

/// Never used without validation.
const NO_CACHE: u8 = 1;
/// Never used stale.
const MUST_REVALIDATE: u8 = 2;
/// Used stale only as far as the response allows it.
const SHARED: u8 = 4;
/// RFC 8246: its content never changes.
const IMMUTABLE: u8 = 8;
/// It was fresh when it arrived.
const ARRIVED_FRESH: u8 = 16;
/// RFC 5861, 3: the response gives a time.
const OWN_WHILE_REVALIDATE: u8 = 32;
/// RFC 5861, 4: the response gives a time.
const OWN_IF_ERROR: u8 = 64;
/// Requests with credentials may share it.
const OPEN: u8 = 128;

/// The dates of a response, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dates {
    /// `Date`.
    pub date: Option<u64>,
    /// `Expires`. The inner `None`: it is no date, and so in the past (RFC 9111, 5.3).
    pub expires: Option<Option<u64>>,
    /// `Last-Modified`.
    pub modified: Option<u64>,
}

/// The lifetime that a response gives (RFC 9111, 4.2.1). `received`: in seconds since 1970.
pub(crate) fn explicit_lifetime(control: &ResponseControl, dates: &Dates, received: u64) -> Option<u32> {
    if let Some(lifetime) = control.lifetime() {
        return Some(lifetime);
    }
    if control.is_targeted {
        return None;
    }
    let expires = dates.expires?.unwrap_or(0);
    let lifetime = expires.saturating_sub(dates.date.unwrap_or(received));
    Some(u32::try_from(lifetime).unwrap_or(u32::MAX).min(super::directives::SECONDS_MAX))
}

/// A guess for a response that gives none (RFC 9111, 4.2.2).
pub(crate) fn heuristic_lifetime(dates: &Dates, received: u64, seconds_max: u32) -> u32 {
    let Some(modified) = dates.modified else { return 0 };
    let unchanged = dates.date.unwrap_or(received).saturating_sub(modified);
    u32::try_from(unchanged / HEURISTIC_PART).unwrap_or(u32::MAX).min(seconds_max)
}

/// Whether a response with this status may get a heuristic lifetime (RFC 9110, 15.1).
pub(crate) const fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

impl Freshness {
    /// Creates it for a response that arrived with this age.
    pub(crate) fn new(
        control: &ResponseControl,
        lifetime_seconds: u32,
        received: Moment,
        initial_age_millis: u64,
    ) -> Self {
        let mut flags = 0;
        for (is_set, flag) in [
            (control.no_cache, NO_CACHE),
            (control.must_revalidate || control.proxy_revalidate, MUST_REVALIDATE),
            (control.s_maxage.is_some(), SHARED),
            (control.immutable, IMMUTABLE),
            (initial_age_millis < u64::from(lifetime_seconds) * 1000, ARRIVED_FRESH),
            (control.stale_while_revalidate.is_some(), OWN_WHILE_REVALIDATE),
            (control.stale_if_error.is_some(), OWN_IF_ERROR),
            (control.allows_credentials(), OPEN),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        Self {
            born: Moment::from_millis(received.millis().saturating_sub(initial_age_millis)),
            lifetime_seconds,
            stale_while_revalidate: control.stale_while_revalidate.unwrap_or(0),
            stale_if_error: control.stale_if_error.unwrap_or(0),
            flags,
        }
    }

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Its age in milliseconds (RFC 9111, 4.2.3).
    #[must_use]
    pub const fn age_millis(&self, now: Moment) -> u64 {
        now.millis_since(self.born)
    }

    /// Milliseconds for which it stays fresh; negative if it is stale.
    #[must_use]
    pub fn left_millis(&self, now: Moment) -> i64 {
        let lifetime = i64::from(self.lifetime_seconds) * 1000;
        lifetime - i64::try_from(self.age_millis(now)).unwrap_or(i64::MAX - lifetime)
    }

    /// Whether its lifetime exceeds its age. A response that must be validated each time can be fresh.
    #[must_use]
    pub fn is_fresh(&self, now: Moment) -> bool {
        self.left_millis(now) > 0
    }

    /// The lifetime in seconds.
    #[must_use]
    pub const fn lifetime_seconds(&self) -> u32 {
        self.lifetime_seconds
    }

    /// Whether its content does not change during its lifetime (RFC 8246, 2).
    #[must_use]
    pub const fn is_immutable(&self) -> bool {
        self.has(IMMUTABLE)
    }

    /// Whether it must be validated each time (`no-cache`).
    #[must_use]
    pub const fn is_always_validated(&self) -> bool {
        self.has(NO_CACHE)
    }

    /// Whether it must not be used stale (`must-revalidate`, `proxy-revalidate`).
    #[must_use]
    pub const fn must_revalidate(&self) -> bool {
        self.has(MUST_REVALIDATE)
    }

    /// Whether it allows a shared cache to store it for a request with credentials, and to answer others with it
    /// (RFC 9111, 3.5).
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.has(OPEN)
    }

    /// Whether requests that waited for it may use it: it was fresh when it arrived, and need not be validated for
    /// each.
    #[must_use]
    pub const fn can_be_shared(&self) -> bool {
        self.has(ARRIVED_FRESH) && !self.has(NO_CACHE)
    }

    /// Seconds for which it may be served stale while it is refreshed. `default` counts if the response gives none,
    /// and no `s-maxage`, which forbids stale responses (RFC 9111, 5.2.2.10) unless the response itself allows them.
    #[must_use]
    pub const fn stale_while_revalidate(&self, default: u32) -> u32 {
        self.allowance(OWN_WHILE_REVALIDATE, self.stale_while_revalidate, default)
    }

    /// Seconds for which it may be served stale in place of an error. `default` as above.
    #[must_use]
    pub const fn stale_if_error(&self, default: u32) -> u32 {
        self.allowance(OWN_IF_ERROR, self.stale_if_error, default)
    }

    const fn allowance(&self, own_flag: u8, own: u32, default: u32) -> u32 {
        if self.has(MUST_REVALIDATE | NO_CACHE) {
            0
        } else if self.has(own_flag) {
            own
        } else if self.has(SHARED) {
            0
        } else {
            default
        }
    }

    /// Its bytes in a record of the disk tier.
    pub(crate) fn to_bytes(self) -> [u8; FRESHNESS_BYTES] {
        let mut bytes = [0; FRESHNESS_BYTES];
        bytes[..8].copy_from_slice(&self.born.millis().to_le_bytes());
        let seconds = [self.lifetime_seconds, self.stale_while_revalidate, self.stale_if_error];
        for (to, seconds) in bytes[8..20].chunks_exact_mut(4).zip(seconds) {
            to.copy_from_slice(&seconds.to_le_bytes());
        }
        bytes[20] = self.flags;
        bytes
    }

    /// The freshness that [`to_bytes`](Self::to_bytes) wrote.
    pub(crate) fn from_bytes(bytes: &[u8; FRESHNESS_BYTES]) -> Self {
        let number = |range: std::ops::Range<usize>| {
            bytes[range].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let seconds = |start: usize| number(start..start + 4) as u32;
        Self {
            born: Moment::from_millis(number(0..8)),
            lifetime_seconds: seconds(8),
            stale_while_revalidate: seconds(12),
            stale_if_error: seconds(16),
            flags: bytes[20],
        }
    }

    /// The freshness of a mark that is valid for some seconds.
    pub(crate) fn of_mark(now: Moment, seconds: u32) -> Self {
        Self { born: now, lifetime_seconds: seconds, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(text: &str) -> ResponseControl {
        ResponseControl::of_cache_control([text.as_bytes()].into_iter())
    }

    #[test]
    fn lifetimes_of_rfc_9111_4_2_1() {
        let dates = |expires| Dates { date: Some(1000), expires, modified: None };
        for (text, dates, expected) in [
            ("max-age=60", dates(None), Some(60)),
            ("max-age=60, s-maxage=30", dates(None), Some(30)),
            ("max-age=60", dates(Some(Some(5000))), Some(60)),
            ("", dates(Some(Some(1090))), Some(90)),
            ("", dates(Some(Some(900))), Some(0)),
            ("", dates(Some(None)), Some(0)),
            ("", Dates { date: None, ..dates(Some(Some(1090))) }, Some(70)),
            ("", dates(Some(Some(u64::MAX))), Some(1 << 31)),
            ("", dates(None), None),
        ] {
            assert_eq!(explicit_lifetime(&control(text), &dates, 1020), expected, "{text} {dates:?}");
        }
        let targeted = ResponseControl { is_targeted: true, ..ResponseControl::default() };
        assert_eq!(
            explicit_lifetime(&targeted, &dates(Some(Some(5000))), 0),
            None,
            "RFC 9213: no Expires either"
        );
    }

    #[test]
    fn guesses_of_rfc_9111_4_2_2() {
        for (date, modified, expected) in [
            (Some(2000), Some(1000), 100),
            (None, Some(1000), 102),
            (Some(2000), None, 0),
            (Some(2000), Some(3000), 0),
            (Some(100_000_000), Some(0), HEURISTIC_SECONDS_MAX),
        ] {
            let dates = Dates { date, expires: None, modified };
            assert_eq!(heuristic_lifetime(&dates, 2020, HEURISTIC_SECONDS_MAX), expected, "{dates:?}");
        }
        assert!(
            is_heuristically_cacheable(404)
                && is_heuristically_cacheable(206)
                && !is_heuristically_cacheable(302)
        );
    }

    #[test]
    fn fresh_until_the_age_reaches_the_lifetime() {
        let received = Moment::from_millis(100_500);
        let freshness = Freshness::new(&control("max-age=10"), 10, received, 2_000);
        let at = |millis| Moment::from_millis(millis);
        assert_eq!(freshness.age_millis(received), 2_000);
        assert!(freshness.is_fresh(at(108_499)) && !freshness.is_fresh(at(108_500)));
        assert_eq!((freshness.left_millis(at(107_500)), freshness.left_millis(at(110_000))), (1_000, -1_500));
        assert!(freshness.can_be_shared());
        let old = Freshness::new(&control(""), 2, received, 2_000);
        assert!(!old.can_be_shared() && !old.is_fresh(received));
        assert!(!Freshness::new(&control("no-cache"), 2, received, 0).can_be_shared());
    }

    #[test]
    fn directives_that_open_a_response_as_in_rfc_9111_3_5() {
        for (text, expected) in [
            ("max-age=60", false),
            ("max-age=60, proxy-revalidate", false),
            ("x=\"public\"", false),
            ("max-age=60, Public", true),
            ("s-maxage=1", true),
            ("must-revalidate", true),
        ] {
            let freshness = Freshness::new(&control(text), 1, Moment::default(), 0);
            assert_eq!(freshness.is_open(), expected, "{text}");
        }
    }

    #[test]
    fn stale_allowances_of_rfc_5861() {
        for (text, while_revalidate, if_error) in [
            ("max-age=1", 5, 6),
            ("max-age=1, stale-while-revalidate=30, stale-if-error=40", 30, 40),
            ("max-age=1, stale-while-revalidate=0, stale-if-error=0", 0, 0),
            ("max-age=1, must-revalidate, stale-while-revalidate=30, stale-if-error=40", 0, 0),
            ("max-age=1, proxy-revalidate", 0, 0),
            ("s-maxage=1", 0, 0),
            ("s-maxage=1, stale-while-revalidate=30, stale-if-error=40", 30, 40),
            ("no-cache, stale-while-revalidate=30, stale-if-error=40", 0, 0),
        ] {
            let freshness = Freshness::new(&control(text), 1, Moment::default(), 0);
            let allowed = (freshness.stale_while_revalidate(5), freshness.stale_if_error(6));
            assert_eq!(allowed, (while_revalidate, if_error), "{text}");
        }
    }
}
