//! The responses of one route by status, method and reason.
//!
//! Few of the possible combinations occur on a route, so each worker keeps a short list of them. The combinations
//! that occurred first are compared first, and the usual one is nearly always the first of all: to count it takes
//! one comparison. The length of the list is bounded, since an endpoint may answer with any status. Combinations
//! past the bound keep their reason, and lose their method and the exact status.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::counter::Counter;
use super::snapshot::{CODES, REASONS};
use crate::{Reason, RequestMethod};

/// Combinations that have no counter in the histogram of a route.
const FIRST: usize = 4;

/// Combinations of each further piece of the list.
const PIECE: usize = 10;

const _: () = assert!(REASONS <= 256, "a reason fits into a byte of the key");

/// Pieces of a list: 124 combinations in total.
const PIECES_MAX: usize = 12;

/// Responses by status and method. A status below 6 is a class: 0 stands for no response, 5 for a status of 5xx
/// that had no place of its own.
pub type ResponseCounts = BTreeMap<(u16, RequestMethod), u64>;

/// One worker's counts of the responses of a route, the frequent part.
#[derive(Debug, Default)]
pub(super) struct Responses(Combinations<FIRST>);

/// The part that routes with few combinations and without errors never need.
#[derive(Debug, Default)]
pub(super) struct MoreResponses {
    pieces: [OnceLock<Box<Combinations<PIECE>>>; PIECES_MAX],
    /// The combinations past the bound, by reason and class of status.
    classes: OnceLock<Box<[[Counter; CODES]; REASONS]>>,
}

#[derive(Debug)]
struct Combinations<const N: usize> {
    keys: [AtomicU32; N],
    counts: [Counter; N],
}

impl<const N: usize> Default for Combinations<N> {
    fn default() -> Self {
        Combinations {
            keys: std::array::from_fn(|_| AtomicU32::default()),
            counts: std::array::from_fn(|_| Counter::default()),
        }
    }
}

impl<const N: usize> Combinations<N> {
    /// Returns the counter of a key; `None`: all places belong to others.
    #[inline]
    fn find(&self, key: u32) -> Option<&Counter> {
        for (known, count) in self.keys.iter().zip(&self.counts) {
            let known_key = known.load(Ordering::Relaxed);
            if known_key == key {
                return Some(count);
            }
            if known_key == 0 {
                known.store(key, Ordering::Relaxed);
                return Some(count);
            }
        }
        None
    }

    fn for_each(&self, each: &mut impl FnMut(u16, RequestMethod, Reason, u64)) {
        for (key, count) in self.keys.iter().zip(&self.counts) {
            if let Some((status, method, reason)) = combination(key.load(Ordering::Relaxed)) {
                each(status, method, reason, count.get());
            }
        }
    }
}

/// Returns the key of a combination, which is not 0.
#[inline]
fn key(status: u16, method: RequestMethod, reason: Reason) -> u32 {
    (u32::from(status) << 12 | (method as u32) << 8 | reason as u32) + 1
}

fn combination(key: u32) -> Option<(u16, RequestMethod, Reason)> {
    let key = key.checked_sub(1)?;
    let method = RequestMethod::ALL.get(key as usize >> 8 & 15)?;
    let reason = Reason::ALL.get(key as usize & 255)?;
    Some((u16::try_from(key >> 12).ok()?, *method, *reason))
}

/// Returns 1 to 5 for the classes of RFC 9110, section 15; 0 for anything else.
pub(super) fn class(status: u16) -> usize {
    match usize::from(status) {
        status if status < CODES => status,
        status if status / 100 < CODES => status / 100,
        _ => 0,
    }
}

/// Returns the label of a status, in the form of [`ResponseCounts`].
pub(super) fn label(status: u16) -> String {
    match status {
        0 => "none".to_owned(),
        class @ 1..6 => format!("{class}xx"),
        status => status.to_string(),
    }
}

impl Responses {
    /// Counts a response; 0 as status: there was none.
    #[inline]
    pub(super) fn count<'a>(
        &self,
        status: u16,
        method: RequestMethod,
        reason: Reason,
        more: impl FnOnce() -> &'a MoreResponses,
    ) {
        let key = key(status, method, reason);
        match self.0.find(key) {
            Some(count) => count.increment(),
            None => more().count(key, status, reason),
        }
    }

    /// Calls `each` with status, method, reason and count of each combination. A status below 6 is a class.
    pub(super) fn for_each(
        &self,
        more: Option<&MoreResponses>,
        mut each: impl FnMut(u16, RequestMethod, Reason, u64),
    ) {
        self.0.for_each(&mut each);
        let Some(more) = more else { return };
        for piece in more.pieces.iter().map_while(|piece| piece.get()) {
            piece.for_each(&mut each);
        }
        let Some(classes) = more.classes.get() else { return };
        for (reason, counts) in Reason::ALL.iter().copied().zip(classes.iter()) {
            for (class, count) in (0..).zip(counts) {
                if count.get() > 0 {
                    each(class, RequestMethod::Other, reason, count.get());
                }
            }
        }
    }
}

impl MoreResponses {
    #[inline(never)]
    fn count(&self, key: u32, status: u16, reason: Reason) {
        let found = self.pieces.iter().find_map(|piece| piece.get_or_init(Box::default).find(key));
        let count = found.unwrap_or_else(|| {
            let none = || Box::new(std::array::from_fn(|_| std::array::from_fn(|_| Counter::default())));
            &self.classes.get_or_init(none)[reason as usize][class(status)]
        });
        count.increment();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type All = BTreeMap<(u16, RequestMethod, &'static str), u64>;

    fn counted(all: impl Iterator<Item = (u16, RequestMethod, Reason)>) -> All {
        let (responses, more) = (Responses::default(), MoreResponses::default());
        for (status, method, reason) in all {
            responses.count(status, method, reason, || &more);
        }
        let mut sum = All::new();
        responses.for_each(Some(&more), |status, method, reason, count| {
            *sum.entry((status, method, reason.as_str())).or_default() += count;
        });
        sum
    }

    #[test]
    fn classes() {
        let classes = [0, 99, 100, 204, 304, 404, 503, 600, u16::MAX].map(class);
        assert_eq!(classes, [0, 0, 1, 2, 3, 4, 5, 0, 0]);
        assert_eq!([0, 5, 99, 503].map(label), ["none", "5xx", "99", "503"]);
    }

    #[test]
    fn each_combination_has_a_count_of_its_own() {
        let methods = RequestMethod::ALL.into_iter();
        let all =
            methods.flat_map(|method| [0, 200, 429, 503, 999].map(|status| (status, method, Reason::None)));
        let limited = (429, RequestMethod::Post, Reason::RateLimited);
        let sum = counted(all.clone().chain(all).chain([limited]));
        assert_eq!(sum.len(), 5 * RequestMethod::ALL.len() + 1);
        assert_eq!(sum[&(429, RequestMethod::Post, "-")], 2);
        assert_eq!(sum[&(429, RequestMethod::Post, "rate_limited")], 1);
        assert_eq!(sum.values().sum::<u64>(), 2 * 5 * RequestMethod::ALL.len() as u64 + 1);
    }

    #[test]
    fn combinations_past_the_bound_are_counted_by_class() {
        let many = (200..600).map(|status| (status, RequestMethod::Get, Reason::None));
        let sum = counted(many.chain([(503, RequestMethod::Get, Reason::CircuitOpen)]));
        assert_eq!(sum.values().sum::<u64>(), 401);
        assert_eq!(sum[&(323, RequestMethod::Get, "-")], 1);
        let class = |class| sum[&(class, RequestMethod::Other, "-")];
        assert_eq!((class(3), class(4), class(5)), (76, 100, 100));
        assert_eq!(sum[&(5, RequestMethod::Other, "circuit_open")], 1);
        assert_eq!(sum.len(), FIRST + PIECE * PIECES_MAX + 4);
    }
}
