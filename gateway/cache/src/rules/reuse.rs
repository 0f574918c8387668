//! Decides whether a stored response answers a request (RFC 9111, 4 and 4.2.4; RFC 5861).

use super::directives::SECONDS_MAX;
use super::request_control::RequestControl;
use crate::{Moment, Stored};

/// For how long the configuration allows stale responses, where the response gives no time of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowances {
    /// Seconds after the end of the lifetime, while a refresh runs.
    pub stale_while_revalidate: u32,
    /// The same, in place of an error.
    pub stale_if_error: u32,
}

/// The decision about a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It is fresh: serve it.
    Fresh,
    /// It is stale, and the client accepts that: serve it.
    Stale,
    /// It is stale: serve it, and refresh it.
    StaleWhileRevalidate,
    /// It must be validated first. If the client wants [only a stored response](RequestControl::only_if_cached), the
    /// answer is 504.
    Validate,
}

/// Decides about a response that was found for a request. The caller leaves the request's directives out, if it does
/// not honour them, by the default [`RequestControl`].
#[must_use]
pub fn reuse(stored: &Stored, control: &RequestControl, allowances: &Allowances, now: Moment) -> Reuse {
    let freshness = stored.head().freshness();
    // 5.2.1.4 and 5.2.2.4.
    if control.no_cache || freshness.is_always_validated() {
        return Reuse::Validate;
    }
    let left = freshness.left_millis(now);
    let is_fresh = left > 0 && !stored.is_marked_stale();
    // 5.2.1.1. With `max-age=0` a client asks for validation, even in the millisecond in which the response arrived.
    // RFC 8246, 2: for a response that does not change, only `no-cache` does.
    let is_too_old = |limit: u32| limit == 0 || freshness.age_millis(now) > u64::from(limit) * 1000;
    let counts_age = control.max_stale.is_none() && !(is_fresh && freshness.is_immutable());
    if counts_age && control.max_age.is_some_and(is_too_old) {
        return Reuse::Validate;
    }
    if is_fresh {
        // 5.2.1.3.
        let is_long_enough = control.min_fresh.is_none_or(|seconds| left >= i64::from(seconds) * 1000);
        return if is_long_enough { Reuse::Fresh } else { Reuse::Validate };
    }
    if freshness.must_revalidate() || control.min_fresh.is_some() {
        return Reuse::Validate;
    }
    // 5.2.1.2. After a soft purge the response is known to be wrong, so `max-stale` does not cover it.
    let is_stale_by_at_most = |seconds: u32| seconds > 0 && -left <= i64::from(seconds) * 1000;
    if let Some(limit) = control.max_stale
        && !stored.is_marked_stale()
        && freshness.stale_if_error(SECONDS_MAX) > 0
        && is_stale_by_at_most(limit)
    {
        return Reuse::Stale;
    }
    let allowed = freshness.stale_while_revalidate(allowances.stale_while_revalidate);
    // A client with a limit of age accepts a stale response only with `max-stale` (5.2.1.1).
    if control.max_age.is_none() && is_stale_by_at_most(allowed) {
        return Reuse::StaleWhileRevalidate;
    }
    Reuse::Validate
}

/// Whether a response that could not be validated may be served after all, because the endpoint failed: no answer, or
/// 500, 502, 503 or 504 (RFC 5861, 4).
#[must_use]
pub fn may_serve_on_error(
    stored: &Stored,
    control: &RequestControl,
    allowances: &Allowances,
    now: Moment,
) -> bool {
    let freshness = stored.head().freshness();
    if control.no_cache || freshness.is_always_validated() || freshness.must_revalidate() {
        return false;
    }
    let left = freshness.left_millis(now);
    if left > 0 {
        return true;
    }
    let by_response = freshness.stale_if_error(allowances.stale_if_error);
    let by_request = control.stale_if_error.map_or(0, |limit| freshness.stale_if_error(limit).min(limit));
    let allowed = by_response.max(by_request);
    allowed > 0 && -left <= i64::from(allowed) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::stored::tests::stored;

    const NONE: RequestControl = RequestControl {
        no_cache: false,
        no_store: false,
        only_if_cached: false,
        max_age: None,
        min_fresh: None,
        max_stale: None,
        stale_if_error: None,
    };

    #[test]
    fn decisions_of_rfc_9111_4() {
        use Reuse::{Fresh, Stale, StaleWhileRevalidate, Validate};
        let with = |max_age, min_fresh, max_stale| RequestControl { max_age, min_fresh, max_stale, ..NONE };
        // The response arrives at second 0 with age 0.
        for (response, control, seconds, expected) in [
            ("max-age=10", NONE, 0, Fresh),
            ("max-age=10", NONE, 9, Fresh),
            ("max-age=10", NONE, 10, Validate),
            ("max-age=10, no-cache", NONE, 1, Validate),
            ("max-age=10", RequestControl { no_cache: true, ..NONE }, 1, Validate),
            // 5.2.1.1.
            ("max-age=10", with(Some(5), None, None), 5, Fresh),
            ("max-age=10", with(Some(5), None, None), 6, Validate),
            ("max-age=10", with(Some(0), None, None), 0, Validate),
            ("max-age=10", with(Some(60), None, None), 11, Validate),
            ("max-age=10, stale-while-revalidate=60", with(Some(60), None, None), 11, Validate),
            // RFC 8246.
            ("max-age=10, immutable", with(Some(0), None, None), 9, Fresh),
            ("max-age=10, immutable", with(Some(0), None, None), 10, Validate),
            ("max-age=10, immutable", RequestControl { no_cache: true, ..NONE }, 1, Validate),
            ("max-age=10, immutable, no-cache", with(Some(0), None, None), 1, Validate),
            ("max-age=10, immutable, must-revalidate", with(Some(0), None, None), 1, Fresh),
            // 5.2.1.3.
            ("max-age=10", with(None, Some(5), None), 5, Fresh),
            ("max-age=10", with(None, Some(5), None), 6, Validate),
            // 5.2.1.2.
            ("max-age=10", with(None, None, Some(5)), 15, Stale),
            ("max-age=10", with(None, None, Some(5)), 16, Validate),
            ("max-age=10", with(None, None, Some(0)), 11, Validate),
            ("max-age=10", with(Some(5), None, Some(5)), 12, Stale),
            ("max-age=10, must-revalidate", with(None, None, Some(5)), 12, Validate),
            ("max-age=10, proxy-revalidate", with(None, None, Some(5)), 12, Validate),
            ("s-maxage=10", with(None, None, Some(5)), 12, Validate),
            ("max-age=10", with(None, Some(1), Some(5)), 12, Validate),
            // RFC 5861, 3.
            ("max-age=10, stale-while-revalidate=5", NONE, 15, StaleWhileRevalidate),
            ("max-age=10, stale-while-revalidate=5", NONE, 16, Validate),
            ("max-age=10, must-revalidate, stale-while-revalidate=5", NONE, 12, Validate),
            ("s-maxage=10, stale-while-revalidate=5", NONE, 12, StaleWhileRevalidate),
        ] {
            let (stored, now) = (stored(response), Moment::from_seconds(seconds));
            let result = reuse(&stored, &control, &Allowances::default(), now);
            assert_eq!(result, expected, "{response} {control:?} at {seconds}");
        }
    }

    #[test]
    fn the_configuration_may_allow_stale_responses() {
        let allowances = Allowances { stale_while_revalidate: 5, stale_if_error: 9 };
        let at =
            |response, seconds| reuse(&stored(response), &NONE, &allowances, Moment::from_seconds(seconds));
        assert_eq!(at("max-age=10", 15), Reuse::StaleWhileRevalidate);
        assert_eq!(at("max-age=10", 16), Reuse::Validate);
        assert_eq!(at("max-age=10, stale-while-revalidate=0", 11), Reuse::Validate);
        assert_eq!(at("s-maxage=10", 11), Reuse::Validate);
    }

    #[test]
    fn errors_of_rfc_5861_4() {
        let on = |response, control, if_error, seconds| {
            let allowances = Allowances { stale_while_revalidate: 0, stale_if_error: if_error };
            may_serve_on_error(&stored(response), &control, &allowances, Moment::from_seconds(seconds))
        };
        let asks = RequestControl { stale_if_error: Some(7), ..NONE };
        for (response, control, if_error, seconds, expected) in [
            ("max-age=10", NONE, 0, 9, true),
            ("max-age=10", NONE, 0, 11, false),
            ("max-age=10", NONE, 5, 15, true),
            ("max-age=10", NONE, 5, 16, false),
            ("max-age=10, stale-if-error=9", NONE, 5, 19, true),
            ("max-age=10, stale-if-error=9", NONE, 5, 20, false),
            ("max-age=10", asks, 0, 17, true),
            ("max-age=10", asks, 0, 18, false),
            ("max-age=10, must-revalidate", asks, 5, 11, false),
            ("s-maxage=10", asks, 5, 11, false),
            ("max-age=10, no-cache, stale-if-error=9", NONE, 5, 1, false),
            ("max-age=10", RequestControl { no_cache: true, ..NONE }, 5, 1, false),
        ] {
            assert_eq!(
                on(response, control, if_error, seconds),
                expected,
                "{response} {control:?} at {seconds}"
            );
        }
    }

    #[test]
    fn a_soft_purge_ends_freshness() {
        let (stored, now) = (stored("max-age=10, stale-while-revalidate=5"), Moment::from_seconds(1));
        stored.mark_stale();
        assert_eq!(reuse(&stored, &NONE, &Allowances::default(), now), Reuse::StaleWhileRevalidate);
        let accepts = RequestControl { max_stale: Some(60), max_age: Some(60), ..NONE };
        assert_eq!(reuse(&stored, &accepts, &Allowances::default(), now), Reuse::Validate);
        assert!(may_serve_on_error(&stored, &NONE, &Allowances::default(), now));
    }
}
