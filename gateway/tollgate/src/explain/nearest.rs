//! Sorts the routes that do not win by how near they came. With thousands of routes, only the nearest are
//! worth reading.

use std::cmp::Reverse;

use tollgate_config::{Match, PathMatch};
use tollgate_route::MismatchReason;

/// Sorts routes by how near they came to taking a request for `path`. First come matching routes that are
/// less specific, then those where a later condition fails, then those whose path has the longest common
/// prefix. Ties keep the order of the list.
pub fn sort(others: &mut [(u32, MismatchReason)], matches: &[&Match], path: &str) {
    others.sort_by_cached_key(|(route, why)| {
        let shared = matches.get(*route as usize).map_or(0, |matches| shared(matches, path));
        (distance(why), Reverse(shared), *route)
    });
}

/// Returns how far a route is from a match; 0 is a match.
fn distance(why: &MismatchReason) -> u8 {
    match why {
        MismatchReason::LessSpecific(_) | MismatchReason::Disabled | MismatchReason::Listener => 0,
        MismatchReason::Query(_) => 1,
        MismatchReason::Header(_) => 2,
        MismatchReason::Method => 3,
        MismatchReason::Path => 4,
        MismatchReason::Host => 5,
    }
}

/// Returns the length of the common prefix of a route's path and the request's, in bytes.
fn shared(matches: &Match, path: &str) -> usize {
    let text = match matches.path.as_ref().map(|path| &path.value) {
        None | Some(PathMatch::Suffix(_)) => "",
        Some(
            PathMatch::Exact(text)
            | PathMatch::Prefix(text)
            | PathMatch::Regex(text)
            | PathMatch::RawPrefix(text),
        ) => text,
    };
    text.bytes().zip(path.bytes()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use tollgate_config::{At, Spanned};
    use tollgate_route::Criterion;

    use super::*;

    #[test]
    fn nearest_first() {
        let exact = |path: &str| Match {
            path: Some(Spanned { value: PathMatch::Exact(path.to_owned()), at: At::default() }),
            ..Match::default()
        };
        let matches = [exact("/a"), exact("/users/7"), exact("/users/9"), exact("/"), exact("/")];
        let matches: Vec<&Match> = matches.iter().collect();
        let mut others = vec![
            (0, MismatchReason::Path),
            (1, MismatchReason::Host),
            (2, MismatchReason::Path),
            (3, MismatchReason::Method),
            (4, MismatchReason::LessSpecific(Criterion::Path)),
        ];
        sort(&mut others, &matches, "/users/7");
        let order: Vec<u32> = others.iter().map(|(route, _)| *route).collect();
        assert_eq!(order, [4, 3, 2, 0, 1]);
    }
}
