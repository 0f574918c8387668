//! Explains why a route takes a request and why the others do not, for `tollgate explain`.
//!
//! Every route is tested separately, from its spec, without the index that
//! [`Router::find`](crate::Router::find) uses: an explanation that shared the search could not reveal its
//! mistakes.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::pattern;
use super::prepared_route::PreparedRoute;
use crate::{PathSpec, Request};

/// The result for every route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The route that takes the request; `None`: no route does.
    pub winner: Option<u32>,
    /// Every other route, in list order, and why it does not take the request.
    pub others: Vec<(u32, MismatchReason)>,
}

/// Why a route does not take a request: the first condition that fails, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MismatchReason {
    /// The host does not match.
    Host,
    /// The path does not match.
    Path,
    /// The method does not match.
    Method,
    /// The condition on this header fails.
    Header(String),
    /// The condition on this query parameter fails.
    Query(String),
    /// It matches, but it is disabled.
    Disabled,
    /// It matches, but it is attached to other listeners.
    Listener,
    /// It matches, but the winner is more specific by this criterion.
    LessSpecific(Criterion),
}

/// The criteria between two matching routes, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// The winner's host is more specific.
    Host,
    /// The winner's path is of an earlier kind (exact, regular expression, suffix, prefix), or of the same kind and
    /// longer, or it is a prefix of whole segments and the loser's one of the same length that is not.
    Path,
    /// The winner names methods.
    Method,
    /// The winner has more header conditions.
    Headers,
    /// The winner has more query conditions.
    Query,
    /// The winner is older, or of the same age with the smaller name.
    Age,
    /// The winner comes first in the list.
    Order,
}

impl fmt::Display for MismatchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MismatchReason::Host => f.write_str("the host does not match"),
            MismatchReason::Path => f.write_str("the path does not match"),
            MismatchReason::Method => f.write_str("the method does not match"),
            MismatchReason::Header(name) => write!(f, "the condition on header `{name}` does not hold"),
            MismatchReason::Query(name) => {
                write!(f, "the condition on query parameter `{name}` does not hold")
            }
            MismatchReason::Disabled => f.write_str("it matches, but it is disabled (`enabled: off`)"),
            MismatchReason::Listener => {
                f.write_str("it matches, but it is attached to other listeners (`listeners`)")
            }
            MismatchReason::LessSpecific(criterion) => write!(f, "it matches, but {criterion}"),
        }
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Criterion::Host => "its host is less specific",
            Criterion::Path => "its path is less specific",
            Criterion::Method => "it names no method",
            Criterion::Headers => "it has fewer header conditions",
            Criterion::Query => "it has fewer query conditions",
            Criterion::Age => "it is younger (`created`)",
            Criterion::Order => "it comes later in the list",
        })
    }
}

pub(super) fn explain<R: Request + ?Sized>(
    routes: &[Arc<PreparedRoute>],
    is_member: impl Fn(u32) -> bool,
    winner: Option<u32>,
    request: &R,
) -> Explanation {
    let others = (0..).zip(routes).filter(|(number, _)| Some(*number) != winner).map(|(number, route)| {
        let attached = || (!is_member(number)).then_some(MismatchReason::Listener);
        let reason = failure(route, request).or_else(attached).unwrap_or_else(|| {
            // Without a winner no route matches, so this route failed above.
            let winner = winner.map_or(route, |winner| &routes[winner as usize]);
            MismatchReason::LessSpecific(criterion(winner, route))
        });
        (number, reason)
    });
    Explanation { winner, others: others.collect() }
}

fn failure<R: Request + ?Sized>(route: &PreparedRoute, request: &R) -> Option<MismatchReason> {
    if !route.host.covers(request.host()) {
        return Some(MismatchReason::Host);
    }
    if !path_matches(&route.spec.path, request.path()) {
        return Some(MismatchReason::Path);
    }
    if !route.conditions.method_holds(request) {
        return Some(MismatchReason::Method);
    }
    let header = route.conditions.failing_header(request).map(|name| MismatchReason::Header(name.to_owned()));
    header
        .or_else(|| {
            route.conditions.failing_query(request).map(|name| MismatchReason::Query(name.to_owned()))
        })
        .or_else(|| route.spec.disabled.then_some(MismatchReason::Disabled))
}

fn path_matches(spec: &PathSpec, path: &[u8]) -> bool {
    match spec {
        PathSpec::Any => true,
        PathSpec::Exact(text) => path == text.as_bytes(),
        PathSpec::Prefix(text) => {
            let rest = path.strip_prefix(text.as_bytes());
            text.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        }
        PathSpec::Regex(text) => {
            let regex = pattern::parse(text).and_then(|hir| pattern::one(&hir));
            regex.is_ok_and(|regex| regex.is_match(path))
        }
        PathSpec::RawPrefix(text) => path.starts_with(text.as_bytes()),
        PathSpec::Suffix(text) => path.ends_with(text.as_bytes()),
    }
}

/// Returns the rank of the kind of path, then the length of a prefix or suffix, then whether a prefix has whole segments.
fn path_specificity(path: &PathSpec) -> (u8, usize, bool) {
    match path {
        PathSpec::Exact(_) => (3, 0, false),
        PathSpec::Regex(_) => (2, 0, false),
        PathSpec::Suffix(text) => (1, text.len(), false),
        PathSpec::Prefix(text) => (0, text.len(), true),
        PathSpec::RawPrefix(text) => (0, text.len(), false),
        PathSpec::Any => (0, 0, true),
    }
}

/// Returns what decides between routes that are equally specific.
fn last_criterion(winner: &PreparedRoute, loser: &PreparedRoute) -> Criterion {
    match (&winner.spec.age, &loser.spec.age) {
        (Some(_), Some(_)) => Criterion::Age,
        _ => Criterion::Order,
    }
}

fn criterion(winner: &PreparedRoute, loser: &PreparedRoute) -> Criterion {
    let (one, other) = (winner.specificity, loser.specificity);
    let decided = [
        (winner.host.specificity().cmp(&loser.host.specificity()), Criterion::Host),
        (path_specificity(&winner.spec.path).cmp(&path_specificity(&loser.spec.path)), Criterion::Path),
        (one.has_method.cmp(&other.has_method), Criterion::Method),
        (one.headers.cmp(&other.headers), Criterion::Headers),
        (one.query.cmp(&other.query), Criterion::Query),
    ];
    let first = decided.into_iter().find(|(order, _)| *order != Ordering::Equal);
    first.map_or_else(|| last_criterion(winner, loser), |(_, criterion)| criterion)
}
