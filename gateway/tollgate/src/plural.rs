//! Nouns with their number, for messages.

use std::fmt::Display;

/// Returns "1 route", "2 routes" and the like.
pub fn count_noun<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    format!("{count} {noun}{}", if count == N::from(1) { "" } else { "s" })
}
