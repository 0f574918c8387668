//! `canary`.

use crate::model::Percent;
use crate::model::Spanned;

/// Which requests go to one of their route's upstreams whatever the weights are: the first rule that a request fits holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Canary {
    /// In the order in which they are tried.
    pub rules: Vec<CanaryRule>,
}

/// Requests that go to one upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryRule {
    /// The upstream's name.
    pub to: Spanned<String>,
    /// Headers that a request must have, with their values; `None`: any.
    pub headers: Vec<(String, Option<String>)>,
    /// Cookies that a request must have, with their values; `None`: any.
    pub cookies: Vec<(String, Option<String>)>,
    /// How many of a hundred.
    pub percent: Percent,
    /// Who stays on the same side.
    pub by: CanaryBy,
}

/// What decides whether a request is one of the hundred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CanaryBy {
    /// A lot for each request.
    #[default]
    Random,
    /// Who was told apart; else the address.
    Consumer,
    /// The client's address.
    Address,
    /// A header; where it is missing the address.
    Header(String),
    /// A cookie; where it is missing the address.
    Cookie(String),
}
