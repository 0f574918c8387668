//! Which of the idle connections that nobody needs are closed.

use std::collections::VecDeque;
use std::time::Instant;

/// Removes so many of the `first`: those that were opened last. The others keep their order.
///
/// What a burst opened lies in memory among what it has given back: a few that stay hold all its pages (256 small objects of
/// 2,000 kept 95 of 107 pages: jemalloc's statistics). Those that were there before lie together.
pub(crate) fn remove_latest<T>(
    idle: &mut VecDeque<T>,
    first: usize,
    count: usize,
    opened: impl Fn(&T) -> Instant,
) {
    let mut times: Vec<Instant> = idle.iter().take(first).map(&opened).collect();
    times.sort_unstable();
    let Some(bound) = times.len().checked_sub(count).and_then(|kept| times.get(kept)) else { return };
    let (mut place, mut left) = (0, count);
    idle.retain(|one| {
        let goes = place < first && left > 0 && opened(one) >= *bound;
        place += 1;
        left -= usize::from(goes);
        !goes
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What is left of connections that were opened so many seconds after the start.
    fn left<const N: usize>(opened: [u64; N], first: usize, count: usize) -> Vec<u64> {
        let start = Instant::now();
        let mut idle = VecDeque::from(opened);
        remove_latest(&mut idle, first, count, |seconds| start + Duration::from_secs(*seconds));
        idle.into()
    }

    #[test]
    fn those_that_were_opened_last_go() {
        assert_eq!(left([5, 1, 4, 2, 9], 4, 2), [1, 2, 9], "the last one is needed");
        assert_eq!(left([5, 1, 4, 2, 9], 5, 2), [1, 4, 2]);
        assert!(left([5, 1, 4], 3, 3).is_empty());
    }

    #[test]
    fn of_those_opened_at_once_no_more_than_so_many_go() {
        assert_eq!(left([7, 7, 7, 7], 4, 2), [7, 7]);
        assert_eq!(left([7, 7, 7, 1], 4, 2).len(), 2);
    }

    #[test]
    fn none_are_surplus() {
        assert_eq!(left([3, 2], 2, 0), [3, 2]);
        assert!(left([], 0, 0).is_empty());
    }
}
