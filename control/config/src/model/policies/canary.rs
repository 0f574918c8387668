//! Settings of the policy `canary`.

use crate::model::Percent;
use crate::model::Spanned;

/// Sends matching requests to one of their route's upstreams, regardless of weights. The first rule that
/// matches applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Canary {
    /// The rules, in the order tried.
    pub rules: Vec<CanaryRule>,
}

/// Requests that go to one upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryRule {
    /// Name of the upstream.
    pub to: Spanned<String>,
    /// Headers that a request must have, with their values; `None`: any value.
    pub headers: Vec<(String, Option<String>)>,
    /// Cookies that a request must have, with their values; `None`: any value.
    pub cookies: Vec<(String, Option<String>)>,
    /// Percentage of the matching requests that go to the upstream.
    pub percent: Percent,
    /// The key that keeps a client in the same sample.
    pub by: CanaryBy,
}

/// The key that decides whether a request belongs to the percentage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CanaryBy {
    /// A random sample per request.
    #[default]
    Random,
    /// The identified consumer; otherwise the client's address.
    Consumer,
    /// The client's address.
    Address,
    /// A header; if it is missing, the client's address.
    Header(String),
    /// A cookie; if it is missing, the client's address.
    Cookie(String),
}
