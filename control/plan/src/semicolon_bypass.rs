//! Finds routes whose policies a client can circumvent by appending `;` to the path.
//!
//! Servlet containers, and servers built on them, cut `;` and everything after it off a segment, and serve
//! the path before it. To this gateway that is a different path, which another route may match.
//! [`compile`](crate::compile) warns about such routes.

use std::collections::HashSet;

use tollgate_config::{self as config, PathMatch, Problem, ValueMatch};
use tollgate_route::{Normalised, PathRules, Request, Routers, Semicolon, normalise};

/// In how many routers a guarded route is looked up. A route without `listeners` is in all of them, and there may be a
/// thousand.
const ROUTERS_MAX: usize = 16;

/// Returns a warning for each path that policies guard if another route matches `PATH;x` without one of these
/// policies. `guards` returns the kinds of a route's policies that decide whether a client is admitted.
pub(crate) fn warnings<'g>(
    routes: &[&config::Route],
    routers: &Routers,
    rules: &PathRules,
    guards: impl Fn(usize) -> Vec<&'g str>,
) -> Vec<Problem> {
    if rules.semicolon == Semicolon::Reject {
        return Vec::new();
    }
    let mut warned = HashSet::new();
    let mut warnings = Vec::new();
    for (number, route) in routes.iter().enumerate().filter(|(_, route)| route.enabled) {
        let Some(path) = &route.matches.path else { continue };
        let own = guards(number);
        if own.is_empty() {
            continue;
        }
        let (PathMatch::Exact(text) | PathMatch::Prefix(text)) = &path.value else { continue };
        let Some(sample) = Sample::new(&route.matches, text, rules) else { continue };
        let own_routers = routers.iter().filter(|router| router.has(number as u32)).take(ROUTERS_MAX);
        let bypass = own_routers.filter_map(|router| router.find(&sample)).find_map(|other| {
            let other = other as usize;
            let others = if other == number { return None } else { guards(other) };
            own.iter().find(|kind| !others.contains(kind)).map(|missing| (other, missing))
        });
        let Some((other, missing)) = bypass else { continue };
        if warned.insert(path.at) {
            let shown = String::from_utf8_lossy(&sample.path);
            let message = format!("a request for `{shown}` gets by the `{missing}` of this route");
            let help = "many origins read it as the path before the `;`: refuse it with `paths: {semicolon: reject}`";
            let problem = Problem::warning(path.at, message).help(help);
            warnings.push(problem.related(routes[other].at, "this route takes it"));
        }
    }
    warnings
}

/// A request that matches a route except for the `;` after its path.
struct Sample<'a> {
    matches: &'a config::Match,
    host: String,
    path: Vec<u8>,
}

impl<'a> Sample<'a> {
    fn new(matches: &'a config::Match, path: &str, rules: &PathRules) -> Option<Self> {
        let text = format!("{path};x");
        let mut normal = Vec::new();
        let path = match normalise(text.as_bytes(), rules, &mut normal).ok()? {
            Normalised::Unchanged => text.into_bytes(),
            Normalised::Changed => normal,
        };
        let host = matches.host.as_ref().map_or("", |host| host.value.as_str());
        Some(Self { matches, host: host.replacen('*', "x", 1), path })
    }
}

impl Request for Sample<'_> {
    fn method(&self) -> &[u8] {
        self.matches.methods.first().map_or(b"GET", |method| method.as_bytes())
    }

    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn path(&self) -> &[u8] {
        &self.path
    }

    fn query(&self) -> Option<&[u8]> {
        None
    }

    fn header(&self, lower_case_name: &str) -> Option<&[u8]> {
        let field = self.matches.headers.iter().find(|field| field.name == lower_case_name)?;
        match &field.value {
            ValueMatch::Absent | ValueMatch::NotExact(_) | ValueMatch::NotRegex(_) => None,
            ValueMatch::Exact(text) => Some(text.as_bytes()),
            ValueMatch::Present | ValueMatch::Regex(_) => Some(b"x"),
        }
    }
}
