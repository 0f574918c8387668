//! The compiled table of routes, which finds the route for a request.
//!
//! The search goes from the most specific host to the least. For each host, it walks the tree of paths once
//! and tries exact routes, then regular expressions, then suffixes and prefixes from the longest. Everything that the
//! client chooses (length of host and path, number of labels and segments) costs at most time in proportion
//! to its length. The number of routes changes only how many cache lines are cold, with two exceptions.
//! Routes that differ only in method, headers or query are tried in turn, and so are the distinct literal
//! prefixes of the expressions that a path passes.

pub(crate) mod conditions;
pub(crate) mod conflicts;
mod coverage;
pub(crate) mod error;
pub(crate) mod explain;
mod hosts;
mod map;
pub(crate) mod pattern;
mod prepared_route;
pub(crate) mod query;
pub(crate) mod routers;
#[cfg(test)]
mod test_request;
mod texts;
mod trie;

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{BuildError, Explanation, PathSpec, Request, RoutePosition, RouteSpec, Tie};
use hosts::{HostNames, Hosts};
pub use prepared_route::PreparedRoute;
use routers::{Groups, Routers};
use texts::{TextRoutes, WrittenTexts};
use trie::{RegexRoute, Trie};

/// A compiled table of routes. Immutable; share it between threads in an `Arc`.
///
/// [`find`](Router::find) allocates nothing, except that a thread's first requests fill the caches of the
/// regular expressions that they reach.
pub struct Router {
    routes: Arc<[Arc<PreparedRoute>]>,
    /// Rank of each route among the routes of equal host and path; 0 wins.
    ranks: Arc<[u32]>,
    /// The routes that it finds, in ascending order; `None`: all.
    members: Option<Box<[u32]>>,
    index: RouteIndex,
}

/// The structures that lead from host and path to the few candidate routes.
struct RouteIndex {
    hosts: Hosts,
    tables: Box<[HostTable]>,
    trie: Trie,
}

/// The routes of one host name.
struct HostTable {
    /// Root of its tree of paths.
    root: u32,
    /// The table of the next less specific host name.
    next: Option<u32>,
    /// Its routes by the text that a path begins or ends with; few hosts have any.
    texts: Option<Box<TextRoutes>>,
}

impl Router {
    /// Compiles a table. A route's index in `specs` is its number everywhere.
    ///
    /// Ties are pairs of routes that can both match a request and that only list order separates. They
    /// deserve a warning.
    ///
    /// # Errors
    /// Returns every problem, in order of the routes: hosts and paths that no request can have, regular
    /// expressions that do not compile, and routes identical to an earlier one.
    pub fn build(specs: Vec<RouteSpec>) -> Result<(Router, Vec<Tie>), Vec<BuildError>> {
        let mut errors = Vec::new();
        let mut routes = Vec::with_capacity(specs.len());
        for (route, spec) in (0..).zip(specs) {
            match PreparedRoute::new(route, spec) {
                Ok(prepared) => routes.push(Arc::new(prepared)),
                Err(more) => errors.extend(more),
            }
        }
        if errors.is_empty() { Self::from_prepared(routes) } else { Err(errors) }
    }

    /// Like [`build`](Self::build), from prepared routes: most of the remaining cost is the index.
    ///
    /// # Errors
    /// Returns routes identical to an earlier one, and expressions that are too large together.
    pub fn from_prepared(routes: Vec<Arc<PreparedRoute>>) -> Result<(Router, Vec<Tie>), Vec<BuildError>> {
        Routers::build(routes, Groups::default()).map(|(routers, ties)| (routers.first, ties))
    }

    /// Returns the number of the route that takes the request; `None`: no route does.
    #[must_use]
    pub fn find<R: Request + ?Sized>(&self, request: &R) -> Option<u32> {
        let mut next = self.index.hosts.most_specific(request.host());
        while let Some(table) = next {
            let table = &self.index.tables[table as usize];
            if let Some(route) = self.find_in(table, request) {
                return Some(route);
            }
            next = table.next;
        }
        None
    }

    /// Explains which route takes the request, and for every other route why it does not. It tests every
    /// route, so it is too slow for the request path.
    #[must_use]
    pub fn explain<R: Request + ?Sized>(&self, request: &R) -> Explanation {
        self.explain_choice(self.find(request), request)
    }

    /// Explains as [`explain`](Self::explain) does why this route was chosen, for a request that may have
    /// changed since then.
    #[must_use]
    pub fn explain_choice<R: Request + ?Sized>(&self, winner: Option<u32>, request: &R) -> Explanation {
        explain::explain(&self.routes, |route| self.has(route), winner, request)
    }

    /// Returns how many routes it may find, disabled ones included.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no caller asks whether there are none")]
    pub fn len(&self) -> usize {
        self.members.as_ref().map_or(self.routes.len(), |members| members.len())
    }

    /// Returns whether this router finds the route: it may be one of several, each with routes of its own.
    #[must_use]
    pub fn has(&self, route: u32) -> bool {
        self.members.as_ref().is_none_or(|members| members.binary_search(&route).is_ok())
    }

    /// Returns the conditions of a route.
    ///
    /// # Panics
    /// Panics if there is no such route.
    #[must_use]
    pub fn conditions(&self, route: u32) -> &RouteSpec {
        &self.routes[route as usize].spec
    }

    fn find_in<R: Request + ?Sized>(&self, table: &HostTable, request: &R) -> Option<u32> {
        let holds = |route: u32| self.routes[route as usize].conditions.hold(request);
        let trie = &self.index.trie;
        let path = request.path();
        let place = trie.walk(table.root, path);
        if let Some(&route) = trie.exact(place).iter().find(|&&route| holds(route)) {
            return Some(route);
        }
        // Expressions are equally specific at every node of the tree, so all of them compete.
        let matching = trie.regexes(place).filter_map(|regexes| regexes.first(path, holds));
        matching.min_by_key(|&route| self.ranks[route as usize]).or_else(|| match &table.texts {
            None => trie.prefixes(place).find(|&route| holds(route)),
            Some(texts) => self.find_by_text(texts, trie, place, request),
        })
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router")
            .field("routes", &self.routes.len())
            .field("hosts", &self.index.tables.len())
            .finish()
    }
}

/// Returns the routes in order of precedence among routes of equal host and path.
fn order(routes: &[Arc<PreparedRoute>]) -> Vec<u32> {
    let age = |route: u32| routes[route as usize].spec.age.as_ref();
    // The keys are copied to lie side by side. Sorting thousands of routes through their pointers takes ten times as
    // long, and every change of one route sorts them.
    let mut keys: Vec<_> = (0..)
        .zip(routes)
        .map(|(number, route)| {
            (Reverse(route.specificity), route.spec.age.as_ref().map(|age| age.created), number)
        })
        .collect();
    // Of one age the name decides. Documents are in the order of their names, so their numbers are, too.
    let has_names_in_order =
        routes.iter().filter_map(|route| Some(&route.spec.age.as_ref()?.name)).is_sorted();
    keys.sort_unstable_by(|one, other| {
        let by_name = || match has_names_in_order {
            true => Ordering::Equal,
            false => age(one.2).cmp(&age(other.2)),
        };
        // List order decides last.
        (one.0, one.1).cmp(&(other.0, other.1)).then_with(by_name).then(one.2.cmp(&other.2))
    });
    keys.into_iter().map(|(.., number)| number).collect()
}

impl RouteIndex {
    /// Builds the index from the routes, which `order` lists by precedence.
    fn new(routes: &[Arc<PreparedRoute>], order: &[u32]) -> Result<Self, Vec<BuildError>> {
        let mut trie = Trie::default();
        let mut names = HostNames::with_capacity_and_hasher(order.len(), Default::default());
        let mut roots = Vec::new();
        let mut regexes: BTreeMap<u32, Vec<RegexRoute<'_>>> = BTreeMap::new();
        let mut texts: BTreeMap<u32, WrittenTexts> = BTreeMap::new();
        let enabled = order.iter().copied().filter(|&number| !routes[number as usize].spec.disabled);
        for number in enabled {
            let route = &routes[number as usize];
            let table = match names.get(&route.host) {
                Some(table) => *table,
                None => {
                    let table = roots.len() as u32;
                    roots.push(trie.add_tree());
                    names.insert(&route.host, table);
                    table
                }
            };
            let root = roots[table as usize];
            match (&route.spec.path, &route.hir) {
                (PathSpec::Exact(path), _) => trie.add_exact(root, path, number),
                (PathSpec::Regex(text), Some(hir)) => {
                    let node = trie.node_for_regex(root, hir);
                    regexes.entry(node).or_default().push(RegexRoute { route: number, text, hir });
                }
                (PathSpec::Prefix(path), _) => trie.add_prefix(root, path, number),
                (PathSpec::RawPrefix(text), _) => texts.entry(table).or_default().add_prefix(text, number),
                (PathSpec::Suffix(text), _) => texts.entry(table).or_default().add_suffix(text, number),
                (PathSpec::Any | PathSpec::Regex(_), _) => trie.add_prefix(root, "", number),
            }
        }
        let mut errors = Vec::new();
        for (node, routes) in &regexes {
            if let Err(message) = trie.set_regexes(*node, routes) {
                errors.extend(too_large(routes, &message));
            }
        }
        if !errors.is_empty() {
            errors.sort_by_key(BuildError::route);
            return Err(errors);
        }
        trie.link();
        let hosts = Hosts::new(&names);
        let mut tables: Vec<HostTable> =
            roots.iter().map(|&root| HostTable { root, next: None, texts: None }).collect();
        for (name, &table) in &names {
            tables[table as usize].next = hosts.next(name);
        }
        for (table, written) in texts {
            tables[table as usize].texts = Some(Box::new(written.build()));
        }
        Ok(Self { hosts, tables: tables.into(), trie })
    }
}

/// Reports the expressions of disabled routes that are too large alone. They are in no set, which would find them.
fn too_large_disabled(routes: &[Arc<PreparedRoute>]) -> Vec<BuildError> {
    let disabled = (0..).zip(routes).filter(|(_, route)| route.spec.disabled);
    let errors = disabled.filter_map(|(number, route)| {
        let message = pattern::one(route.hir.as_ref()?).err()?;
        Some(BuildError::Regex { route: number, place: RoutePosition::Path, message })
    });
    errors.collect()
}

/// Reports the expressions that make a set too large; if each one compiles alone, all of them.
fn too_large(routes: &[RegexRoute<'_>], message: &str) -> Vec<BuildError> {
    let error =
        |route: u32, message: String| BuildError::Regex { route, place: RoutePosition::Path, message };
    let alone = routes.iter().filter_map(|route| Some(error(route.route, pattern::one(route.hir).err()?)));
    let alone: Vec<BuildError> = alone.collect();
    if alone.is_empty() {
        return routes.iter().map(|route| error(route.route, message.to_owned())).collect();
    }
    alone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::test_request::Get;
    use crate::{FieldSpec, MismatchReason, ValueSpec};

    #[test]
    fn every_problem_is_reported() {
        let path = |path: PathSpec| RouteSpec { path, ..RouteSpec::default() };
        let regex = |text: &str| vec![FieldSpec { name: "a".into(), value: ValueSpec::Regex(text.into()) }];
        let specs = vec![
            RouteSpec { host: Some("a:80".into()), ..path(PathSpec::Exact("a".into())) },
            path(PathSpec::Exact("/a/./b%7e".into())),
            path(PathSpec::Prefix("/a/".into())),
            path(PathSpec::Regex("/(".into())),
            RouteSpec { headers: regex("[a"), query: regex("(?P<"), ..RouteSpec::default() },
            path(PathSpec::Exact("/fine".into())),
        ];
        let errors = Router::build(specs).unwrap_err();
        assert_eq!(errors.iter().map(BuildError::route).collect::<Vec<_>>(), [0, 0, 1, 2, 3, 4, 4]);
        let texts: Vec<String> = errors.iter().map(BuildError::to_string).collect();
        assert_eq!(texts[0], "a host is matched without its port: leave the port out");
        assert_eq!(texts[1], "no request has this path: the path does not begin with a slash");
        assert_eq!(texts[2], "no request has this path; write `/a/b~`");
        assert_eq!(texts[3], "a prefix has no slash at its end");
        assert_eq!(texts[4], "bad regular expression: unclosed group (at character 2)");
        assert!(matches!(errors[5], BuildError::Regex { place: RoutePosition::Header(0), .. }));
        assert!(matches!(errors[6], BuildError::Regex { place: RoutePosition::Query(0), .. }));
    }

    #[test]
    fn an_expression_that_is_too_large_is_named() {
        let path = |text: &str| RouteSpec { path: PathSpec::Regex(text.into()), ..RouteSpec::default() };
        let errors = Router::build(vec![path("/a.*"), path("/(.{1000}){1000}")]).unwrap_err();
        assert_eq!(errors.iter().map(BuildError::route).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_disabled_route_takes_nothing_and_is_checked() {
        let disabled = |path: PathSpec| RouteSpec { path, disabled: true, ..RouteSpec::default() };
        let all = RouteSpec::default();
        let same = RouteSpec { disabled: true, ..all.clone() };
        let exact = disabled(PathSpec::Exact("/a".into()));
        let pattern = disabled(PathSpec::Regex("/a.*".into()));
        // Identical to each other and to the enabled one, which takes every request.
        let (router, ties) = Router::build(vec![same.clone(), exact, pattern, all, same]).unwrap();
        assert_eq!(ties, []);
        let request = Get("/a");
        assert_eq!(router.find(&request), Some(3));
        let others = router.explain(&request).others;
        assert_eq!(others, [0, 1, 2, 4].map(|route| (route, MismatchReason::Disabled)));
        let (router, _) = Router::build(vec![RouteSpec { disabled: true, ..RouteSpec::default() }]).unwrap();
        assert_eq!(router.find(&request), None);

        let errors = Router::build(vec![disabled(PathSpec::Exact("a".into()))]).unwrap_err();
        assert_eq!(errors.len(), 1);
        let errors = Router::build(vec![disabled(PathSpec::Regex("/(.{1000}){1000}".into()))]).unwrap_err();
        assert_eq!(errors.len(), 1);
    }

    #[test]
    fn threads_may_share_it() {
        fn shared<T: Send + Sync>() {}
        shared::<Router>();
    }
}
