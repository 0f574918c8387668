//! Finds covered routes: routes that never receive a request, because one preferred route matches all their requests.
//!
//! [`Routers::build`](super::Routers::build) calls [`covered`] for each group of routes, and the compiler of the plan
//! warns about the result. The analysis is sound but incomplete: every reported route is unreachable, but some
//! unreachable routes are not reported. These are routes that only several others cover together, and regular
//! expressions other than a literal followed by `.*`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use regex_syntax::hir::{Hir, HirKind, Repetition};

use super::conflicts::Tie;
use super::hosts::HostName;
use super::pattern;
use super::prepared_route::PreparedRoute;
use crate::{FieldSpec, PathSpec, ValueSpec};

/// The other routes of a host are compared with at most this many of its wide routes.
const WIDE_MAX: usize = 16;

/// `.*`, for a byte that is not a line break and for any byte. A path has no line break.
static ANYTHING: LazyLock<[Hir; 2]> = LazyLock::new(|| [".*", "(?s:.*)"].map(parsed));

/// A route without conditions on anything but host and path, which takes every path with a prefix.
struct Wide {
    route: u32,
    /// The prefix.
    literal: Vec<u8>,
}

/// Returns the covered routes of `members`, each with a route that covers it. `ties`: the ties among the members.
pub(super) fn covered(
    routes: &[Arc<PreparedRoute>],
    members: impl Iterator<Item = u32> + Clone,
    ties: &[Tie],
) -> HashMap<u32, u32> {
    let of = |route: u32| &*routes[route as usize];
    let mut found: HashMap<u32, u32> = ties
        .iter()
        .filter(|tie| takes_all(of(tie.first), of(tie.second)))
        .map(|tie| (tie.second, tie.first))
        .collect();
    let enabled = members.filter(|&route| !of(route).spec.disabled);
    let mut wide: HashMap<&HostName, Vec<Wide>> = HashMap::new();
    for route in enabled.clone() {
        if let Some(literal) = wide_literal(of(route)) {
            let known = wide.entry(&of(route).host).or_default();
            if known.len() < WIDE_MAX {
                known.push(Wide { route, literal });
            }
        }
    }
    if wide.is_empty() {
        return found;
    }
    for route in enabled {
        let Some(known) = wide.get(&of(route).host) else { continue };
        let by = known.iter().find(|wide| {
            wide.route != route
                && has_wider_path(of(wide.route), &wide.literal, of(route))
                && precedes(routes, wide.route, route)
        });
        if let Some(by) = by {
            found.entry(route).or_insert(by.route);
        }
    }
    found
}

/// Returns the prefix of a wide route: it matches every request whose path has the prefix. `None`: the route is not
/// wide.
fn wide_literal(route: &PreparedRoute) -> Option<Vec<u8>> {
    let spec = &route.spec;
    if !(spec.methods.is_empty() && spec.headers.is_empty() && spec.query.is_empty()) {
        return None;
    }
    match &spec.path {
        PathSpec::Regex(_) => literal_then_anything(route.hir.as_ref()?),
        // Only `/`: a raw prefix precedes only shorter prefixes, and a longer one does not match all their paths.
        PathSpec::RawPrefix(text) if text == "/" => Some(text.clone().into_bytes()),
        _ => None,
    }
}

/// Returns whether every path has this prefix.
fn is_root(literal: &[u8]) -> bool {
    matches!(literal, b"" | b"/")
}

/// Returns whether a wide route of the same host matches every path of the other route, and its kind of path is
/// preferred or the same.
fn has_wider_path(wide: &PreparedRoute, literal: &[u8], other: &PreparedRoute) -> bool {
    if !matches!(wide.spec.path, PathSpec::Regex(_)) {
        // The prefix `/` of text: only the prefix of every path is shorter.
        return matches!(&other.spec.path, PathSpec::Any)
            || matches!(&other.spec.path, PathSpec::Prefix(text) if text.is_empty());
    }
    match &other.spec.path {
        // More specific than an expression.
        PathSpec::Exact(_) => false,
        PathSpec::Any | PathSpec::Suffix(_) => is_root(literal),
        PathSpec::Prefix(text) | PathSpec::RawPrefix(text) => {
            is_root(literal) || text.as_bytes().starts_with(literal)
        }
        PathSpec::Regex(_) => {
            is_root(literal)
                || other.hir.as_ref().is_some_and(|hir| pattern::literal_prefix(hir).starts_with(literal))
        }
    }
}

/// Returns whether the first of two routes with the same host is preferred. Returns false for two routes that are
/// ordered by age, because their order is intended.
fn precedes(routes: &[Arc<PreparedRoute>], one: u32, other: u32) -> bool {
    let of = |route: u32| &routes[route as usize];
    if of(one).spec.age.is_some() && of(other).spec.age.is_some() {
        return false;
    }
    let is_expression = |route: u32| matches!(of(route).spec.path, PathSpec::Regex(_));
    if !(is_expression(one) && is_expression(other)) {
        // The kind of its path decides, and the caller has compared that.
        return true;
    }
    let rank = |route: u32| (Reverse(of(route).specificity), &of(route).spec.age, route);
    rank(one) < rank(other)
}

/// Returns whether the first of two tied routes matches every request that the second one matches.
fn takes_all(first: &PreparedRoute, second: &PreparedRoute) -> bool {
    let (one, other) = (&first.spec, &second.spec);
    let has_path = match (&first.hir, &second.hir) {
        (Some(one), Some(other)) => {
            let wide = literal_then_anything(one);
            wide.is_some_and(|literal| {
                is_root(&literal) || pattern::literal_prefix(other).starts_with(&literal)
            }) || without_captures(one) == without_captures(other)
        }
        // Tied routes have the same path, unless their paths are regular expressions.
        _ => true,
    };
    let has_methods = one.methods.is_empty()
        || !other.methods.is_empty() && other.methods.iter().all(|method| one.methods.contains(method));
    has_path
        && has_methods
        && are_implied(&one.headers, &other.headers)
        && are_implied(&one.query, &other.query)
}

/// Returns whether every request that meets `others` also meets `conditions`.
fn are_implied(conditions: &[FieldSpec], others: &[FieldSpec]) -> bool {
    conditions.iter().all(|condition| {
        let mut same_name = others.iter().filter(|other| other.name == condition.name);
        same_name.any(|other| implies(&other.value, &condition.value))
    })
}

fn implies(one: &ValueSpec, other: &ValueSpec) -> bool {
    use ValueSpec::{Absent, Exact, NotExact, NotRegex, Present, Regex};
    let matches = |pattern: &str, text: &str| {
        let compiled = pattern::parse(pattern).and_then(|hir| pattern::one(&hir));
        compiled.map(|regex| regex.is_match(text)).ok()
    };
    match (one, other) {
        (Exact(_) | Regex(_), Present) | (Absent, NotExact(_) | NotRegex(_)) => true,
        (Exact(text), Regex(pattern)) => matches(pattern, text) == Some(true),
        (Exact(text), NotRegex(pattern)) => matches(pattern, text) == Some(false),
        (Exact(text), NotExact(not)) => text != not,
        (one, other) => one == other,
    }
}

/// Returns the literal of an expression that is a literal followed by `.*`.
fn literal_then_anything(hir: &Hir) -> Option<Vec<u8>> {
    let hir = without_captures(hir);
    if ANYTHING.contains(&hir) {
        return Some(Vec::new());
    }
    let HirKind::Concat(parts) = hir.kind() else { return None };
    match parts.as_slice() {
        [literal, rest] if ANYTHING.contains(rest) => match literal.kind() {
            HirKind::Literal(text) => Some(text.0.to_vec()),
            _ => None,
        },
        _ => None,
    }
}

/// Removes the capture groups of an expression, so that expressions that differ only in group names are equal.
fn without_captures(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Capture(capture) => without_captures(&capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(without_captures).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(without_captures).collect()),
        HirKind::Repetition(repetition) => {
            let sub = Box::new(without_captures(&repetition.sub));
            Hir::repetition(Repetition { sub, ..repetition.clone() })
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
    }
}

fn parsed(text: &str) -> Hir {
    pattern::parse(text).unwrap_or_else(|_| Hir::fail())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Age, Groups, RouteSpec, Routers};

    /// Returns the covered routes of one group, each with the route that covers it.
    fn shadows(specs: &[RouteSpec]) -> Vec<(u32, u32)> {
        in_groups(specs, Groups::default())
    }

    fn in_groups(specs: &[RouteSpec], groups: Groups) -> Vec<(u32, u32)> {
        let prepared = (0..)
            .zip(specs)
            .map(|(number, spec)| Arc::new(PreparedRoute::new(number, spec.clone()).expect("a good route")));
        let (routers, _) = Routers::build(prepared.collect(), groups).expect("no conflict");
        routers.shadows().iter().map(|shadow| (shadow.route, shadow.by)).collect()
    }

    fn path(path: PathSpec) -> RouteSpec {
        RouteSpec { path, ..RouteSpec::default() }
    }

    fn regex(text: &str) -> RouteSpec {
        path(PathSpec::Regex(text.into()))
    }

    fn methods(route: RouteSpec, methods: &[&str]) -> RouteSpec {
        RouteSpec { methods: methods.iter().map(|&method| method.to_owned()).collect(), ..route }
    }

    fn header(route: RouteSpec, name: &str, value: ValueSpec) -> RouteSpec {
        RouteSpec { headers: vec![FieldSpec { name: name.into(), value }], ..route }
    }

    #[test]
    fn an_expression_for_everything_covers_less_specific_paths() {
        let specs = [
            path(PathSpec::Exact("/a".into())),
            path(PathSpec::Suffix(".php".into())),
            methods(path(PathSpec::Prefix("/a".into())), &["GET"]),
            path(PathSpec::Any),
            regex("/.*"),
            // More specific, so the order does not matter.
            methods(regex("/x"), &["GET"]),
            regex("/[0-9]+"),
            RouteSpec { host: Some("a.example".into()), ..RouteSpec::default() },
        ];
        assert_eq!(shadows(&specs), [(1, 4), (2, 4), (3, 4), (6, 4)]);
        // It takes only GET: others remain.
        assert_eq!(shadows(&[methods(regex("/.*"), &["GET"]), path(PathSpec::Any)]), []);
    }

    #[test]
    fn an_expression_covers_what_begins_like_it() {
        let specs = [
            regex("/v1/(.*)"),
            path(PathSpec::Prefix("/v1/users".into())),
            path(PathSpec::Prefix("/v1".into())),
            regex("/v1/[a-z]+"),
            regex("/v[12]/a"),
        ];
        assert_eq!(shadows(&specs), [(1, 0), (3, 0)]);
        // Of two routes of one kind, only the earlier can cover the other.
        assert_eq!(shadows(&[regex("/v1/[a-z]+"), regex("/v1/.*")]), []);
    }

    #[test]
    fn templates_that_differ_by_names_are_the_same() {
        assert_eq!(shadows(&[regex("/users/(?<id>[^/]+)"), regex("/users/(?<name>[^/]+)")]), [(1, 0)]);
        assert_eq!(shadows(&[regex("/users/(?<id>[^/]+)"), regex("/users/(?<id>[0-9]+)")]), []);
    }

    #[test]
    fn the_text_of_the_root_covers_the_prefix_of_every_path() {
        let text = |text: &str| path(PathSpec::RawPrefix(text.into()));
        assert_eq!(shadows(&[path(PathSpec::Any), text("/"), text("/a")]), [(0, 1)]);
        assert_eq!(shadows(&[path(PathSpec::Prefix("/a".into())), text("/")]), []);
    }

    #[test]
    fn of_two_equal_paths_the_wider_conditions_cover_the_others_if_they_come_first() {
        let any = || path(PathSpec::Any);
        let exact = |text: &str| ValueSpec::Exact(text.into());
        assert_eq!(shadows(&[methods(any(), &["GET", "PUT"]), methods(any(), &["GET"])]), [(1, 0)]);
        assert_eq!(shadows(&[methods(any(), &["GET"]), methods(any(), &["GET", "PUT"])]), []);
        let one = |value: ValueSpec| header(any(), "a", value);
        assert_eq!(shadows(&[one(ValueSpec::Present), one(exact("x"))]), [(1, 0)]);
        assert_eq!(shadows(&[one(exact("x")), one(ValueSpec::Present)]), []);
        assert_eq!(shadows(&[one(ValueSpec::Regex("[a-z]".into())), one(exact("x"))]), [(1, 0)]);
        assert_eq!(shadows(&[one(ValueSpec::NotExact("y".into())), one(exact("x"))]), [(1, 0)]);
        assert_eq!(shadows(&[one(ValueSpec::NotRegex("[0-9]".into())), one(ValueSpec::Absent)]), [(1, 0)]);
        assert_eq!(shadows(&[header(any(), "b", ValueSpec::Present), one(exact("x"))]), []);
    }

    #[test]
    fn a_route_is_covered_only_if_it_is_in_each_of_its_groups() {
        let specs = [regex("/.*"), path(PathSpec::Any)];
        let groups = |members: &[&[u32]]| Groups { members: members.iter().map(|&own| own.into()).collect() };
        assert_eq!(in_groups(&specs, groups(&[&[0, 1], &[0, 1]])), [(1, 0)]);
        assert_eq!(in_groups(&specs, groups(&[&[1], &[0, 1]])), []);
        assert_eq!(in_groups(&specs, groups(&[&[0], &[0, 1]])), [(1, 0)]);
    }

    #[test]
    fn disabled_routes_and_the_order_of_age_are_left_alone() {
        let disabled = |route: RouteSpec| RouteSpec { disabled: true, ..route };
        assert_eq!(shadows(&[disabled(regex("/.*")), path(PathSpec::Any)]), []);
        assert_eq!(shadows(&[regex("/.*"), disabled(path(PathSpec::Any))]), []);
        let aged = |route: RouteSpec, created: i64| RouteSpec {
            age: Some(Age { created: (created, 0), name: created.to_string() }),
            ..route
        };
        assert_eq!(shadows(&[aged(regex("/.*"), 1), aged(path(PathSpec::Any), 2)]), []);
        assert_eq!(shadows(&[regex("/.*"), aged(path(PathSpec::Any), 2)]), [(1, 0)]);
    }
}
