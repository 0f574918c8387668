//! The directives of a request (RFC 9111, 5.2.1 and 5.4).

use tollgate_http::{Head, Name};

use super::directives::{SECONDS_MAX, directives};

/// The directives of a request. Of a directive that occurs twice, the stricter value counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// A stored response must be validated before it is used (5.2.1.4). Also set by `Pragma: no-cache`, if there is
    /// no `Cache-Control` (5.4).
    pub no_cache: bool,
    /// The response must not be stored (5.2.1.5).
    pub no_store: bool,
    /// If there is no response that can be used, the answer is 504 (5.2.1.7).
    pub only_if_cached: bool,
    /// The client wants no response that is older, in seconds (5.2.1.1).
    pub max_age: Option<u32>,
    /// The client wants a response that stays fresh for this long, in seconds (5.2.1.3).
    pub min_fresh: Option<u32>,
    /// The client accepts a response that has been stale for at most this long, in seconds (5.2.1.2).
    pub max_stale: Option<u32>,
    /// The same if the response is an error of the endpoint (RFC 5861, 4).
    pub stale_if_error: Option<u32>,
}

impl RequestControl {
    /// Reads the fields of a request.
    #[must_use]
    pub fn read(head: &Head) -> Self {
        let mut control = Self::default();
        if !head.has(Name::CacheControl) {
            control.no_cache = head.has(Name::Other)
                && head.all_by_text(b"pragma").flat_map(directives).any(|pragma| pragma.is("no-cache"));
            return control;
        }
        for directive in head.all(Name::CacheControl).flat_map(directives) {
            // A limit that is no number must not be read as no limit.
            let limit = || Some(directive.seconds().unwrap_or(0));
            let least =
                |old: Option<u32>| Some(old.unwrap_or(u32::MAX).min(directive.seconds().unwrap_or(0)));
            match directive.name.len() {
                7 if directive.is("max-age") => control.max_age = least(control.max_age),
                8 if directive.is("no-cache") => control.no_cache = true,
                8 if directive.is("no-store") => control.no_store = true,
                9 if directive.is("min-fresh") => control.min_fresh = control.min_fresh.max(limit()),
                9 if directive.is("max-stale") && directive.value.is_none() => {
                    control.max_stale = control.max_stale.or(Some(SECONDS_MAX));
                }
                9 if directive.is("max-stale") => control.max_stale = least(control.max_stale),
                14 if directive.is("only-if-cached") => control.only_if_cached = true,
                14 if directive.is("stale-if-error") => {
                    control.stale_if_error = least(control.stale_if_error);
                }
                _ => {}
            }
        }
        control
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_messages::request;

    #[test]
    fn directives_of_rfc_9111_5_2_1() {
        let none = RequestControl::default;
        for (fields, expected) in [
            ("", none()),
            (
                "Cache-Control: max-age=60, MIN-FRESH=5\r\n",
                RequestControl { max_age: Some(60), min_fresh: Some(5), ..none() },
            ),
            (
                "Cache-Control: max-age=60\r\nCache-Control: max-age=30\r\n",
                RequestControl { max_age: Some(30), ..none() },
            ),
            ("Cache-Control: max-age=30, max-age=60\r\n", RequestControl { max_age: Some(30), ..none() }),
            ("Cache-Control: max-age=x\r\n", RequestControl { max_age: Some(0), ..none() }),
            ("Cache-Control: max-stale\r\n", RequestControl { max_stale: Some(SECONDS_MAX), ..none() }),
            ("Cache-Control: max-stale, max-stale=9\r\n", RequestControl { max_stale: Some(9), ..none() }),
            ("Cache-Control: max-stale=9, max-stale\r\n", RequestControl { max_stale: Some(9), ..none() }),
            ("Cache-Control: min-fresh=1, min-fresh=2\r\n", RequestControl { min_fresh: Some(2), ..none() }),
            (
                "Cache-Control: no-cache, no-store\r\n",
                RequestControl { no_cache: true, no_store: true, ..none() },
            ),
            ("Cache-Control: only-if-cached\r\n", RequestControl { only_if_cached: true, ..none() }),
            ("Cache-Control: stale-if-error=7\r\n", RequestControl { stale_if_error: Some(7), ..none() }),
            ("Pragma: no-cache\r\n", RequestControl { no_cache: true, ..none() }),
            ("Pragma: x, No-Cache\r\n", RequestControl { no_cache: true, ..none() }),
            // RFC 9111, 5.4: only without Cache-Control.
            ("Pragma: no-cache\r\nCache-Control: x\r\n", none()),
        ] {
            assert_eq!(RequestControl::read(&request("GET", "/", fields).head), expected, "{fields}");
        }
    }
}
