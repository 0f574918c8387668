//! Conditions of `bypass` and `no_store` on a request. One of them is enough.

use regex::bytes::Regex;
use tollgate_http::RequestHead;

use crate::query_pairs::QueryPairs;

/// Conditions of which one is enough.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// Conditions on fields, by their names in lower case.
    pub headers: Box<[Condition]>,
    /// Conditions on query parameters.
    pub query: Box<[Condition]>,
    /// Cookies that are present.
    pub cookies: Box<[Box<str>]>,
}

/// A condition on the values of one name.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub name: Box<[u8]>,
    pub test: ValueTest,
}

/// The condition on a value.
#[derive(Clone, Debug)]
pub(crate) enum ValueTest {
    Present,
    Absent,
    Exactly(Box<[u8]>),
    Not(Box<[u8]>),
    Matches(Regex),
    MatchesNot(Regex),
}

impl Conditions {
    /// Returns whether one of them holds.
    pub fn hold(&self, request: &RequestHead) -> bool {
        let head = &request.head;
        self.headers.iter().any(|condition| condition.holds(head.all_by_text(&condition.name)))
            || self.query.iter().any(|condition| {
                let pairs = QueryPairs::of(request.query.map_or(b"", |query| request.slice(query)));
                let values: Vec<_> = pairs.filter_map(|pair| pair.value_of(&condition.name)).collect();
                condition.holds(values.iter().map(Vec::as_slice))
            })
            || self.cookies.iter().any(|name| head.cookie(name.as_bytes()).is_some())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.query.is_empty() && self.cookies.is_empty()
    }
}

impl Condition {
    /// Returns whether it holds for these values. As in a `match`, one value is enough for a positive condition, and a
    /// negative one must hold for all.
    fn holds<'v>(&self, mut values: impl Iterator<Item = &'v [u8]>) -> bool {
        match &self.test {
            ValueTest::Present => values.next().is_some(),
            ValueTest::Absent => values.next().is_none(),
            ValueTest::Exactly(wanted) => values.any(|value| *value == **wanted),
            ValueTest::Not(unwanted) => values.all(|value| *value != **unwanted),
            ValueTest::Matches(regex) => values.any(|value| regex.is_match(value)),
            ValueTest::MatchesNot(regex) => !values.any(|value| regex.is_match(value)),
        }
    }
}
