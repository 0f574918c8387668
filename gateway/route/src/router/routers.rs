//! The routers of a gateway whose listeners have different routes.
//!
//! All of them share the compiled routes and the order between them; each has an index of its own, over the
//! routes that it finds. A gateway without such listeners has one router, which finds every route.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::coverage::covered;
use super::{RouteIndex, Router, conflicts, order, too_large_disabled};
use crate::{BuildError, PreparedRoute, RouteSpec, Shadow, ShadowCause, Tie};

/// Sets of routes, each of which gets a router. Empty: there is one router, of all routes.
#[derive(Debug, Default)]
pub struct Groups {
    /// The numbers of the routes in each group, in ascending order.
    pub members: Vec<Box<[u32]>>,
}

/// The routers of a gateway. The first one always exists.
#[derive(Debug)]
pub struct Routers {
    pub(super) first: Router,
    others: Box<[Router]>,
    shadows: Box<[Shadow]>,
}

impl Routers {
    /// Compiles a router for each group. Identical routes are an error only within one group, and ties are
    /// found only there.
    ///
    /// # Errors
    /// Returns routes identical to an earlier one, and expressions that are too large together.
    pub fn build(
        routes: Vec<Arc<PreparedRoute>>,
        groups: Groups,
    ) -> Result<(Self, Vec<Tie>), Vec<BuildError>> {
        let shared = conflicts::routes_with_shared_key(&routes);
        let (shadows, ties) = conflicts_of(&routes, &shared, &groups)?;
        let order = order(&routes);
        let mut ranks = vec![0; routes.len()];
        for (rank, &route) in (0..).zip(&order) {
            ranks[route as usize] = rank;
        }
        let mut errors = too_large_disabled(&routes);
        let (routes, ranks): (Arc<[_]>, Arc<[u32]>) = (routes.into(), ranks.into());
        let mut router = |members: Option<Box<[u32]>>, order: &[u32]| match RouteIndex::new(&routes, order) {
            Ok(index) => Some(Router { routes: routes.clone(), ranks: ranks.clone(), members, index }),
            Err(more) => {
                errors.extend(more);
                None
            }
        };
        let built: Vec<Option<Router>> = if groups.members.is_empty() {
            vec![router(None, &order)]
        } else {
            let build = |members: Box<[u32]>| {
                let mut own = members.to_vec();
                own.sort_unstable_by_key(|&route| ranks[route as usize]);
                router(Some(members), &own)
            };
            groups.members.into_iter().map(build).collect()
        };
        let mut routers = built.into_iter().flatten();
        match (routers.next(), errors.is_empty()) {
            (Some(first), true) => {
                Ok((Self { first, others: routers.collect(), shadows: shadows.into() }, ties))
            }
            _ => {
                errors.sort_by_key(BuildError::route);
                // Two groups may have the same expressions.
                errors.dedup();
                Err(errors)
            }
        }
    }

    /// Returns the router of the first group.
    #[must_use]
    pub fn first(&self) -> &Router {
        &self.first
    }

    /// Returns whether there is one router for all listeners.
    #[inline]
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.others.is_empty()
    }

    /// Takes the router of the first group.
    #[must_use]
    pub fn into_first(self) -> Router {
        self.first
    }

    /// Returns the router of a group by its number. A number that no group has gets the first router.
    #[inline]
    #[must_use]
    pub fn get(&self, group: u32) -> &Router {
        match group {
            0 => &self.first,
            group => self.others.get(group as usize - 1).unwrap_or(&self.first),
        }
    }

    /// Returns all of them, in the order of their groups.
    pub fn iter(&self) -> impl Iterator<Item = &Router> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns the shadowed routes, each once. A route is shadowed if an older route has the same conditions in the
    /// router of at least one group, or if a preferred route matches all its requests in every router that has it.
    #[must_use]
    pub fn shadows(&self) -> &[Shadow] {
        &self.shadows
    }

    /// Returns the conditions of a route.
    ///
    /// # Panics
    /// Panics if there is no such route.
    #[must_use]
    pub fn conditions(&self, route: u32) -> &RouteSpec {
        self.first.conditions(route)
    }
}

/// Returns the shadowed routes and the ties within each group, in the order of the losers.
fn conflicts_of(
    routes: &[Arc<PreparedRoute>],
    shared: &[u32],
    groups: &Groups,
) -> Result<(Vec<Shadow>, Vec<Tie>), Vec<BuildError>> {
    let wider = |(route, by): (u32, u32)| Shadow { route, by, cause: ShadowCause::Wider };
    if groups.members.is_empty() {
        let (mut shadows, ties) = (conflicts::identical(routes, shared)?, conflicts::ties(routes, shared));
        shadows.extend(covered(routes, 0..routes.len() as u32, &ties).into_iter().map(wider));
        shadows.sort_unstable();
        shadows.dedup_by_key(|shadow| shadow.route);
        return Ok((shadows, ties));
    }
    // By covered route: a route that covers it, and the number of groups in which it is covered.
    let mut covered_by: HashMap<u32, (u32, usize)> = HashMap::new();
    let shared: HashSet<u32> = shared.iter().copied().collect();
    let (mut identical, mut shadows, mut ties) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for members in &groups.members {
        let own: Vec<u32> = members.iter().copied().filter(|route| shared.contains(route)).collect();
        match conflicts::identical(routes, &own) {
            Ok(found) => shadows.extend(found),
            Err(errors) => identical.extend(errors.into_iter().filter_map(|error| match error {
                BuildError::Identical { first, second } => Some((second, first)),
                _ => None,
            })),
        }
        let own_ties = conflicts::ties(routes, &own);
        for (route, by) in covered(routes, members.iter().copied(), &own_ties) {
            covered_by.entry(route).or_insert((by, 0)).1 += 1;
        }
        ties.extend(own_ties.into_iter().map(|tie| (tie.second, tie.first)));
    }
    if !identical.is_empty() {
        return Err(identical
            .into_iter()
            .map(|(second, first)| BuildError::Identical { first, second })
            .collect());
    }
    let mut counts: HashMap<u32, usize> = HashMap::new();
    if !covered_by.is_empty() {
        for route in groups.members.iter().flat_map(|members| members.iter()) {
            *counts.entry(*route).or_default() += 1;
        }
    }
    // In another group the route may be found.
    let everywhere = covered_by.into_iter().filter(|(route, (_, count))| counts.get(route) == Some(count));
    shadows.extend(everywhere.map(|(route, (by, _))| wider((route, by))));
    let ties = ties.into_iter().map(|(second, first)| Tie { first, second });
    let mut shadows: Vec<Shadow> = shadows.into_iter().collect();
    shadows.dedup_by_key(|shadow| shadow.route);
    Ok((shadows, ties.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::test_request::Get;
    use crate::{MismatchReason, PathSpec};

    fn prepared(paths: &[PathSpec]) -> Vec<Arc<PreparedRoute>> {
        let one = |(number, path): (u32, &PathSpec)| {
            let spec = RouteSpec { path: path.clone(), ..RouteSpec::default() };
            Arc::new(PreparedRoute::new(number, spec).expect("a good route"))
        };
        (0..).zip(paths).map(one).collect()
    }

    fn groups(members: &[&[u32]]) -> Groups {
        Groups { members: members.iter().map(|&members| members.into()).collect() }
    }

    #[test]
    fn each_group_finds_its_own_routes_only() {
        let exact = || PathSpec::Exact("/a".into());
        let routes = prepared(&[PathSpec::Any, exact(), exact(), PathSpec::Regex("/b[0-9]".into())]);
        let (routers, ties) = Routers::build(routes, groups(&[&[0], &[0, 1], &[2, 3]])).expect("no conflict");
        assert_eq!(ties, []);
        let found = |group: u32, path| routers.get(group).find(&Get(path));
        assert_eq!([found(0, "/a"), found(1, "/a"), found(2, "/a")], [Some(0), Some(1), Some(2)]);
        assert_eq!([found(1, "/b1"), found(2, "/b1"), found(2, "/c")], [Some(0), Some(3), None]);
        assert_eq!(found(9, "/a"), Some(0), "an unknown group gets the first router");
        let others = routers.get(1).explain(&Get("/a")).others;
        assert_eq!(others[1], (2, MismatchReason::Listener));
        assert_eq!(others[2], (3, MismatchReason::Path));
    }

    #[test]
    fn identical_routes_and_ties_concern_one_group() {
        let regex = |text: &str| PathSpec::Regex(text.into());
        let paths = [PathSpec::Any, PathSpec::Any, regex("/a.*"), regex("/ab.*")];
        let build = |members: &[&[u32]]| Routers::build(prepared(&paths), groups(members));
        let (_, ties) = build(&[&[0, 2], &[1, 3]]).expect("no group has two of a kind");
        assert_eq!(ties, []);
        let (_, ties) = build(&[&[0, 2, 3], &[1, 2, 3]]).expect("a tie is no error");
        assert_eq!(ties, [Tie { first: 2, second: 3 }], "the tie of two groups is told once");
        let errors = build(&[&[2], &[0, 1, 2], &[0, 1]]).expect_err("identical in two groups");
        assert_eq!(errors, [BuildError::Identical { first: 0, second: 1 }]);
    }
}
