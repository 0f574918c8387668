//! Finds identical routes, and routes that only their order in the list separates.

use std::collections::HashSet;
use std::sync::Arc;

use regex_automata::meta::Regex;

use super::hosts::HostName;
use super::pattern;
use super::prepared_route::{PreparedRoute, kind_of, one_spelling};
use crate::{BuildError, FieldSpec, PathSpec, RouteSpec, ValueSpec};

/// Keys come from a configuration of many routes with long texts: see [`Map`](super::map::Map) for the choice of hash.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// Two routes of equal precedence that can match the same request, so that list order decides.
///
/// Two different regular expressions are assumed to overlap unless their literal prefixes, or other
/// conditions, exclude it. For each losing route, one of the winners is named. A route is compared with at
/// most `COMPARISONS_MAX` others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The route that wins: it comes first in the list.
    pub first: u32,
    /// The route that loses.
    pub second: u32,
}

/// Bound of comparisons per route. A tie is only a warning, and a host may have 100,000 regular expressions.
const COMPARISONS_MAX: usize = 64;

/// The conditions of a route in a canonical spelling and order. Identical routes have equal values.
#[derive(PartialEq, Eq, Hash)]
struct Match<'s> {
    host: &'s HostName,
    path: &'s PathSpec,
    methods: Vec<&'s str>,
    headers: Vec<&'s FieldSpec>,
    query: Vec<&'s FieldSpec>,
}

impl<'s> Match<'s> {
    fn of(route: &'s PreparedRoute) -> Self {
        fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
            let mut items: Vec<T> = items.collect();
            items.sort_unstable();
            items.dedup();
            items
        }
        Self {
            host: &route.host,
            path: one_spelling(&route.spec.path),
            methods: sorted(route.spec.methods.iter().map(String::as_str)),
            headers: sorted(route.spec.headers.iter()),
            query: sorted(route.spec.query.iter()),
        }
    }
}

/// Returns the enabled routes that share their key with another one, in order. They are few, and only they can
/// be identical or tie: a disabled route takes no request, so it may coexist with its replacement.
pub(super) fn routes_with_shared_key(routes: &[Arc<PreparedRoute>]) -> Vec<u32> {
    let mut seen: HashMap<u64, bool> = HashMap::with_capacity_and_hasher(routes.len(), Default::default());
    for route in routes.iter().filter(|route| !route.spec.disabled) {
        seen.entry(route.key).and_modify(|several| *several = true).or_insert(false);
    }
    if !seen.values().any(|several| *several) {
        return Vec::new();
    }
    let several =
        |route: &PreparedRoute| !route.spec.disabled && seen.get(&route.key).is_some_and(|several| *several);
    (0..).zip(routes).filter(|(_, route)| several(route)).map(|(number, _)| number).collect()
}

/// A route that never receives a request, because another route receives all requests that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shadow {
    /// The route that is never found.
    pub route: u32,
    /// The route that takes its requests.
    pub by: u32,
    /// Why that one precedes.
    pub cause: ShadowCause,
}

/// Why a route shadows another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShadowCause {
    /// It has the same conditions, and is the oldest of the routes that have them.
    Older,
    /// It precedes, and takes every request that the other one matches.
    Wider,
}

/// Compares the routes in `routes_with_shared_key`. Returns the routes that an older one with the same conditions shadows.
///
/// # Errors
/// Routes that repeat an earlier one, and have no age that would decide between them.
pub(super) fn identical(
    routes: &[Arc<PreparedRoute>],
    routes_with_shared_key: &[u32],
) -> Result<Vec<Shadow>, Vec<BuildError>> {
    let mut groups: HashMap<_, Vec<u32>> =
        HashMap::with_capacity_and_hasher(routes_with_shared_key.len(), Default::default());
    for &route in routes_with_shared_key {
        groups.entry(Match::of(&routes[route as usize])).or_default().push(route);
    }
    let age = |route: u32| routes[route as usize].spec.age.as_ref();
    let (mut errors, mut shadows) = (Vec::new(), Vec::new());
    for group in groups.into_values().filter(|group| group.len() > 1) {
        match group.iter().copied().find(|&route| age(route).is_none()) {
            Some(ageless) => {
                errors.extend(group.into_iter().filter(|&route| route != ageless).map(|route| {
                    BuildError::Identical { first: ageless.min(route), second: ageless.max(route) }
                }));
            }
            None => {
                let Some(by) = group.iter().copied().min_by_key(|&route| (age(route), route)) else {
                    continue;
                };
                let others = group.into_iter().filter(|&route| route != by);
                shadows.extend(others.map(|route| Shadow { route, by, cause: ShadowCause::Older }));
            }
        }
    }
    errors.sort_unstable_by_key(|error| match error {
        BuildError::Identical { first, second } => (*second, *first),
        other => (other.route(), 0),
    });
    shadows.sort_unstable();
    if errors.is_empty() { Ok(shadows) } else { Err(errors) }
}

/// Returns a tie for every route in `routes_with_shared_key` that an earlier one of equal precedence can
/// beat. Between two routes with an age there is none: their order is intended.
pub(super) fn ties(routes: &[Arc<PreparedRoute>], routes_with_shared_key: &[u32]) -> Vec<Tie> {
    let mut groups: HashMap<_, Vec<u32>> = HashMap::default();
    for &number in routes_with_shared_key {
        let route = &routes[number as usize];
        groups.entry((&route.host, kind_of(&route.spec.path), route.specificity)).or_default().push(number);
    }
    let mut ties = Vec::new();
    for group in groups.into_values().filter(|group| group.len() > 1) {
        for bucket in by_exact_condition(routes, group) {
            ties_among(routes, bucket, &mut ties);
        }
    }
    ties.sort_unstable_by_key(|tie| tie.second);
    ties
}

/// Splits a group at the first condition for which every member requires an exact value: routes that require
/// different values cannot match the same request. A thousand tenants with one header each then become a
/// thousand small groups, not half a million pairs.
fn by_exact_condition(routes: &[Arc<PreparedRoute>], group: Vec<u32>) -> Vec<Vec<u32>> {
    fn exact<'s>(fields: &'s [FieldSpec], name: &str) -> Option<&'s str> {
        fields.iter().find_map(|field| match &field.value {
            ValueSpec::Exact(text) if field.name == name => Some(text.as_str()),
            _ => None,
        })
    }
    let spec = |route: u32| &routes[route as usize].spec;
    let sides: [fn(&RouteSpec) -> &[FieldSpec]; 2] = [|spec| &spec.headers, |spec| &spec.query];
    for fields in sides {
        for field in fields(spec(group[0])) {
            let values: Option<Vec<&str>> =
                group.iter().map(|&route| exact(fields(spec(route)), &field.name)).collect();
            if let Some(values) = values {
                let mut buckets: HashMap<&str, Vec<u32>> = HashMap::default();
                for (value, &route) in values.into_iter().zip(&group) {
                    buckets.entry(value).or_default().push(route);
                }
                return buckets.into_values().collect();
            }
        }
    }
    vec![group]
}

fn ties_among(routes: &[Arc<PreparedRoute>], group: Vec<u32>, ties: &mut Vec<Tie>) {
    let literal_prefix =
        |route: u32| routes[route as usize].hir.as_ref().map(pattern::literal_prefix).unwrap_or_default();
    let mut sorted: Vec<(Vec<u8>, u32)> =
        group.into_iter().map(|route| (literal_prefix(route), route)).collect();
    sorted.sort_unstable();
    // In sorted order, the routes whose literal is a prefix of the present literal form a stack.
    let mut stack: Vec<(Vec<u8>, u32)> = Vec::new();
    let mut losers = HashSet::new();
    let mut expressions = HashMap::default();
    let has_age = |route: u32| routes[route as usize].spec.age.is_some();
    let precedes = |one: u32, other: u32| (has_age(one), one) < (has_age(other), other);
    for (literal, route) in sorted {
        while stack.last().is_some_and(|(shorter, _)| !literal.starts_with(shorter)) {
            stack.pop();
        }
        let mut meets = |other: u32| {
            !(has_age(other) && has_age(route))
                && may_meet(&routes[other as usize].spec, &routes[route as usize].spec, &mut expressions)
        };
        let others = || stack.iter().take(COMPARISONS_MAX).map(|(_, other)| *other);
        if !losers.contains(&route)
            && let Some(first) = others().find(|&other| precedes(other, route) && meets(other))
        {
            losers.insert(route);
            ties.push(Tie { first, second: route });
        }
        for second in others().filter(|&other| precedes(route, other)) {
            if !losers.contains(&second) && meets(second) {
                losers.insert(second);
                ties.push(Tie { first: route, second });
            }
        }
        stack.push((literal, route));
    }
}

/// Expressions of fields, each compiled once; `None` for an expression that does not compile.
type Expressions<'s> = HashMap<&'s str, Option<Regex>>;

/// Returns whether one request can satisfy both routes' methods, headers and query.
fn may_meet<'s>(one: &'s RouteSpec, other: &'s RouteSpec, expressions: &mut Expressions<'s>) -> bool {
    let methods = one.methods.is_empty() && other.methods.is_empty()
        || one.methods.iter().any(|method| other.methods.contains(method));
    methods
        && fields_may_meet(&one.headers, &other.headers, expressions)
        && fields_may_meet(&one.query, &other.query, expressions)
}

fn fields_may_meet<'s>(
    one: &'s [FieldSpec],
    other: &'s [FieldSpec],
    expressions: &mut Expressions<'s>,
) -> bool {
    one.iter().all(|a| {
        let mut same_name = other.iter().filter(|b| a.name == b.name);
        same_name.all(|b| values_may_meet(&a.value, &b.value, expressions))
    })
}

fn values_may_meet<'s>(one: &'s ValueSpec, other: &'s ValueSpec, expressions: &mut Expressions<'s>) -> bool {
    use ValueSpec::{Absent, Exact, NotExact, NotRegex, Present, Regex};
    let mut matches = |pattern: &'s String, text: &str| {
        let compiled = || pattern::parse(pattern).and_then(|hir| pattern::one(&hir)).ok();
        let regex = expressions.entry(pattern).or_insert_with(compiled);
        regex.as_ref().is_some_and(|regex| regex.is_match(text))
    };
    match (one, other) {
        (Absent, Absent) => true,
        (Exact(text), NotExact(not)) | (NotExact(not), Exact(text)) => text != not,
        (Exact(text), NotRegex(pattern)) | (NotRegex(pattern), Exact(text)) => !matches(pattern, text),
        (Regex(pattern), NotRegex(not)) | (NotRegex(not), Regex(pattern)) => pattern != not,
        // Absent is neither.
        (NotExact(_) | NotRegex(_), _) | (_, NotExact(_) | NotRegex(_)) => true,
        (Absent, _) | (_, Absent) => false,
        (Exact(one), Exact(other)) => one == other,
        (Exact(text), Regex(pattern)) | (Regex(pattern), Exact(text)) => matches(pattern, text),
        (Present | Regex(_), Present | Regex(_)) | (Present, Exact(_)) | (Exact(_), Present) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Router;

    fn spec(host: Option<&str>, path: PathSpec) -> RouteSpec {
        RouteSpec { host: host.map(str::to_owned), path, ..RouteSpec::default() }
    }

    fn with(headers: &[(&str, ValueSpec)]) -> RouteSpec {
        let field =
            |(name, value): &(&str, ValueSpec)| FieldSpec { name: (*name).into(), value: value.clone() };
        RouteSpec { headers: headers.iter().map(field).collect(), ..RouteSpec::default() }
    }

    fn exact(text: &str) -> ValueSpec {
        ValueSpec::Exact(text.into())
    }

    fn tied(specs: &[RouteSpec]) -> Vec<(u32, u32)> {
        let (_, ties) = Router::build(specs.to_vec()).unwrap();
        ties.into_iter().map(|tie| (tie.first, tie.second)).collect()
    }

    #[test]
    fn identical_in_any_spelling() {
        let pairs = [
            (spec(None, PathSpec::Any), spec(None, PathSpec::Prefix(String::new()))),
            (spec(Some("A.example."), PathSpec::Any), spec(Some("a.EXAMPLE"), PathSpec::Any)),
            (with(&[("a", exact("1")), ("b", exact("2"))]), with(&[("b", exact("2")), ("a", exact("1"))])),
            (
                RouteSpec { methods: vec!["GET".into(), "PUT".into()], ..RouteSpec::default() },
                RouteSpec { methods: vec!["PUT".into(), "GET".into()], ..RouteSpec::default() },
            ),
        ];
        for (first, second) in pairs {
            let errors = Router::build(vec![first, second]).unwrap_err();
            assert_eq!(errors, [BuildError::Identical { first: 0, second: 1 }]);
        }
    }

    #[test]
    fn age_decides_between_identical_routes_and_ends_ties() {
        let aged = |created: i64, name: &str, path: PathSpec| RouteSpec {
            age: Some(crate::Age { created: (created, 0), name: name.to_owned() }),
            ..spec(None, path)
        };
        let any = || PathSpec::Any;
        let shadows = |specs: Vec<RouteSpec>| {
            let prepared =
                (0..).zip(specs).map(|(number, spec)| Arc::new(PreparedRoute::new(number, spec).unwrap()));
            let (routers, ties) = crate::Routers::build(prepared.collect(), crate::Groups::default())?;
            assert_eq!(ties, []);
            let found = routers.first().find(&crate::router::test_request::Get("/x")).expect("found");
            Ok::<_, Vec<BuildError>>((
                found,
                routers.shadows().iter().map(|it| (it.route, it.by)).collect::<Vec<_>>(),
            ))
        };
        // The older one, whatever the list says; of two of one age the smaller name.
        assert_eq!(shadows(vec![aged(2, "a", any()), aged(1, "b", any())]), Ok((1, vec![(0, 1)])));
        assert_eq!(shadows(vec![aged(1, "b", any()), aged(1, "a", any())]), Ok((1, vec![(0, 1)])));
        let three = vec![aged(3, "c", any()), aged(1, "a", any()), aged(2, "b", any())];
        assert_eq!(shadows(three), Ok((1, vec![(0, 1), (2, 1)])));
        // Without an age on both sides it stays an error.
        let identical = |first, second| BuildError::Identical { first, second };
        assert_eq!(shadows(vec![aged(1, "a", any()), spec(None, any())]), Err(vec![identical(0, 1)]));
        let mixed = vec![aged(1, "a", any()), aged(2, "b", any()), spec(None, any())];
        assert_eq!(shadows(mixed), Err(vec![identical(0, 2), identical(1, 2)]));
        // Expressions that both match: the order is intended, so there is no tie.
        let regex = |text: &str| PathSpec::Regex(text.into());
        assert_eq!(shadows(vec![aged(2, "a", regex("/x.*")), aged(1, "b", regex("/[x]"))]), Ok((1, vec![])));
        // A route without an age precedes, and that is a tie.
        assert_eq!(tied(&[aged(1, "a", regex("/x.*")), spec(None, regex("/[x]"))]), [(1, 0)]);
    }

    #[test]
    fn ties_need_a_request_that_both_take() {
        let methods = |methods: &[&str]| RouteSpec {
            methods: methods.iter().map(|&method| method.to_owned()).collect(),
            ..RouteSpec::default()
        };
        let regex = |text: &str| spec(None, PathSpec::Regex(text.into()));
        assert_eq!(tied(&[methods(&["GET", "PUT"]), methods(&["GET"])]), [(0, 1)]);
        assert_eq!(tied(&[methods(&["PUT"]), methods(&["GET"])]), []);
        assert_eq!(tied(&[methods(&["PUT"]), methods(&[])]), []);
        assert_eq!(tied(&[with(&[("a", exact("1"))]), with(&[("a", exact("2"))])]), []);
        assert_eq!(tied(&[with(&[("a", exact("1"))]), with(&[("b", exact("2"))])]), [(0, 1)]);
        assert_eq!(tied(&[with(&[("a", exact("1"))]), with(&[("a", ValueSpec::Absent)])]), []);
        assert_eq!(
            tied(&[with(&[("a", exact("1"))]), with(&[("a", ValueSpec::Regex("[0-9]".into()))])]),
            [(0, 1)]
        );
        assert_eq!(tied(&[with(&[("a", exact("x"))]), with(&[("a", ValueSpec::Regex("[0-9]".into()))])]), []);
        assert_eq!(tied(&[with(&[("a", ValueSpec::Present)]), with(&[("a", exact("x"))])]), [(0, 1)]);
        let not = |text: &str| ValueSpec::NotExact(text.into());
        let not_regex = |text: &str| ValueSpec::NotRegex(text.into());
        assert_eq!(tied(&[with(&[("a", not("x"))]), with(&[("a", exact("x"))])]), []);
        assert_eq!(tied(&[with(&[("a", not("x"))]), with(&[("a", exact("y"))])]), [(0, 1)]);
        assert_eq!(tied(&[with(&[("a", not("x"))]), with(&[("a", ValueSpec::Absent)])]), [(0, 1)]);
        assert_eq!(tied(&[with(&[("a", not_regex("[0-9]"))]), with(&[("a", exact("1"))])]), []);
        assert_eq!(tied(&[with(&[("a", not_regex("[0-9]"))]), with(&[("a", exact("x"))])]), [(0, 1)]);
        assert_eq!(
            tied(&[regex("/a/[0-9]+"), regex("/b/[0-9]+"), regex("/a/.*"), regex("/.*")]),
            [(0, 2), (0, 3)]
        );
        assert_eq!(tied(&[spec(Some("a"), PathSpec::Any), spec(Some("*.a"), PathSpec::Any)]), []);
    }

    #[test]
    fn conflicts_of_many_tenants_are_checked_quickly() {
        let tenants = (0..10_000).map(|tenant| with(&[("x-tenant", exact(&tenant.to_string()))]));
        assert_eq!(tied(&tenants.collect::<Vec<_>>()), []);
    }

    /// A comparison of all pairs would take a minute.
    #[test]
    fn many_expressions_are_compared_with_a_bounded_number() {
        let exact = (0..5_000).map(|tenant| with(&[("x-tenant", exact(&format!("t{tenant}")))]));
        let regex = (0..5_000).map(|tenant| with(&[("x-tenant", ValueSpec::Regex(format!("u{tenant}|v")))]));
        assert!(tied(&exact.chain(regex).collect::<Vec<_>>()).len() < 5_000);
    }
}
