//! The highest rate at which objectives hold. The rate doubles until they fail; then the span between the last
//! good and the first bad rate is halved until it is narrow.

/// The search ends when good and bad rate are within this factor.
const CLOSE: f64 = 1.03;

/// The first rate, in requests per second.
const FIRST: f64 = 100.0;

/// A rate that is no longer doubled: no machine sends more.
const HIGHEST: f64 = 1e7;

/// The most trials, in case that the system's limit moves while it is searched.
const MOST_TRIALS: usize = 40;

/// The result of a search, in requests per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// The highest rate that held; `None` if none did.
    pub held: Option<f64>,
    /// The lowest rate that did not; `None` if the search gave up before it found one.
    pub failed: Option<f64>,
}

/// Searches. `try_rate` runs one rate and returns whether the objectives held; `None` ends the search.
///
/// # Errors
/// The first error of `try_rate`.
pub fn find<E>(mut try_rate: impl FnMut(f64) -> Result<Option<bool>, E>) -> Result<Found, E> {
    let mut found = Found { held: None, failed: None };
    for _ in 0..MOST_TRIALS {
        let rate = match found {
            Found { held: None, failed: None } => FIRST,
            Found { held: Some(held), failed: None } if held < HIGHEST => held * 2.0,
            Found { held: None, failed: Some(failed) } if failed > 1.0 => (failed / 2.0).floor().max(1.0),
            Found { held: None, failed: Some(_) } => break,
            Found { held: Some(held), failed: Some(failed) } if failed / held > CLOSE => {
                // The middle of two rates is that of their logarithms, in whole requests where that can be.
                let middle = (held * failed).sqrt().round();
                if middle <= held || middle >= failed {
                    break;
                }
                middle
            }
            Found { .. } => break,
        };
        match try_rate(rate)? {
            Some(true) => found.held = Some(rate),
            Some(false) => found.failed = Some(rate),
            None => break,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_found_within_a_few_percent_and_few_trials() {
        for limit in [1.0, 7.0, 99.0, 100.0, 4_321.0, 250_000.0] {
            let mut trials = 0;
            let found = find(|rate| {
                trials += 1;
                Ok::<_, ()>(Some(rate <= limit))
            })
            .unwrap();
            let held = found.held.unwrap();
            assert!(held <= limit && (held >= limit / CLOSE || limit - held < 1.0), "{limit}: {held}");
            assert!(found.failed.unwrap() > limit && trials <= 25, "{limit}: {found:?}, {trials} trials");
        }
    }

    #[test]
    fn nothing_holds_and_everything_holds() {
        assert_eq!(find(|_| Ok::<_, ()>(Some(false))), Ok(Found { held: None, failed: Some(1.0) }));
        let endless = find(|_| Ok::<_, ()>(Some(true))).unwrap();
        assert!(endless.held.is_some() && endless.failed.is_none());
        assert_eq!(find(|_| Err::<Option<bool>, &str>("gone")), Err("gone"));
    }

    #[test]
    fn a_search_that_is_stopped_claims_only_what_it_tried() {
        let found = find(|rate| Ok::<_, ()>((rate < 500.0).then_some(true))).unwrap();
        assert_eq!(found, Found { held: Some(400.0), failed: None });
        assert_eq!(find(|_| Ok::<_, ()>(None)), Ok(Found { held: None, failed: None }));
    }
}
