//! Finds routes that take no request because another one precedes them and takes all that they match.
//!
//! [`Routers::build`](super::Routers::build) asks for each group of routes. The answer is sound and not complete: a
//! route that it names is never found; one that only several others cover together, or an expression that is not
//! understood here, is not named.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use regex_syntax::hir::{Hir, HirKind, Repetition};

use super::conflicts::Tie;
use super::hosts::HostName;
use super::{PreparedRoute, pattern};
use crate::{FieldSpec, PathSpec, ValueSpec};

/// Bound of the wide routes of a host with which its other routes are compared.
const WIDE_MAX: usize = 16;

/// `.*`, for a byte that is not a line break and for any byte. A path has no line break.
static ANYTHING: LazyLock<[Hir; 2]> = LazyLock::new(|| [".*", "(?s:.*)"].map(parsed));

/// A route without conditions on anything but host and path, which takes every path with a prefix.
struct Wide {
    route: u32,
    /// What each of its paths begins with.
    literal: Vec<u8>,
}

/// Returns, for each covered route of `members`, a route that covers it. `ties` are those of the members.
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

/// Returns what the paths of a route begin with, if it takes every path that begins so, whatever the rest of the
/// request.
fn wide_literal(route: &PreparedRoute) -> Option<Vec<u8>> {
    let spec = &route.spec;
    if !(spec.methods.is_empty() && spec.headers.is_empty() && spec.query.is_empty()) {
        return None;
    }
    match &spec.path {
        PathSpec::Regex(_) => literal_then_anything(route.hir.as_ref()?),
        // A longer one takes not all that a shorter prefix does.
        PathSpec::RawPrefix(text) if text == "/" => Some(text.clone().into_bytes()),
        _ => None,
    }
}

/// Returns whether every path begins with this.
fn is_root(literal: &[u8]) -> bool {
    matches!(literal, b"" | b"/")
}

/// Returns whether a wide route of the same host takes each path of the other one, and its kind of path precedes or is
/// the same.
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

/// Returns whether the first of two routes with the same host is preferred. Between two of one age the order is
/// intended, so the answer is no.
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

/// Returns whether the first of two routes that tie takes every request that the second one matches.
fn takes_all(first: &PreparedRoute, second: &PreparedRoute) -> bool {
    let (one, other) = (&first.spec, &second.spec);
    let has_path = match (&first.hir, &second.hir) {
        (Some(one), Some(other)) => {
            let wide = literal_then_anything(one);
            wide.is_some_and(|literal| {
                is_root(&literal) || pattern::literal_prefix(other).starts_with(&literal)
            }) || without_captures(one) == without_captures(other)
        }
        // Two that tie have the same path, unless they are expressions.
        _ => true,
    };
    let has_methods = one.methods.is_empty()
        || !other.methods.is_empty() && other.methods.iter().all(|method| one.methods.contains(method));
    has_path
        && has_methods
        && are_implied(&one.headers, &other.headers)
        && are_implied(&one.query, &other.query)
}

/// Returns whether a request that meets `others` meets `conditions`, too.
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

/// Returns the literal of an expression that is a literal and then anything.
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

/// Returns an expression that matches the same texts without groups: names of groups do not matter.
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

    /// Returns the covered routes of one group, each with the one that covers it.
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
        // The one that comes later covers none of the same kind.
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
