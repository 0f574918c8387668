//! Builds the router from the matches of a configuration. Paths are brought to their normal form first, and
//! each error carries the position at which the faulty part was written.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tollgate_config::{self as config, At, PartialConfig, Problem};
use tollgate_route::{
    Age, BuildError, EncodedSlash, FieldSpec, Groups, Normalised, PathRules, PathSpec, PreparedRoute,
    RoutePosition, RouteSpec, Routers, Semicolon, Shadow, ShadowCause, Tie, ValueSpec, normalise,
};

use crate::compile_cache::{CachedRoute, CompileCache};

/// The result of building the router.
pub(crate) struct Matches<'a> {
    /// `None` if a router itself cannot be built. They are complete only if there is no problem.
    pub routers: Option<Routers>,
    /// The numbers of the routers of the listeners that routes name. All other listeners have the first router.
    pub numbers: HashMap<&'a str, u32>,
    /// For each route the length of the path prefix that it matches, in normal form; `None` for other kinds
    /// of path.
    pub prefixes: Vec<Option<usize>>,
    /// The routes with policies, logs, fallbacks or endpoints of their own: few, and only they are checked for mistakes in
    /// these.
    pub special: Vec<&'a config::Route>,
    /// Errors.
    pub problems: Vec<Problem>,
    /// Warnings about routes that are equally specific.
    pub warnings: Vec<Problem>,
}

/// Checks the matches of a configuration that other errors have already made unusable, alone and against each
/// other. The user then sees all problems in one run.
#[must_use]
pub fn check_matches(readable: &PartialConfig) -> Vec<Problem> {
    let Matches { mut problems, warnings, .. } = matches(
        &readable.routes.iter().collect::<Vec<_>>(),
        &path_rules(&readable.paths),
        &mut CompileCache::default(),
    );
    problems.extend(warnings);
    problems
}

pub(crate) fn path_rules(paths: &config::Paths) -> PathRules {
    let encoded_slash = match paths.encoded_slash {
        config::EncodedSlash::Reject => EncodedSlash::Reject,
        config::EncodedSlash::Keep => EncodedSlash::Keep,
    };
    let semicolon = match paths.semicolon {
        config::Semicolon::Keep => Semicolon::Keep,
        config::Semicolon::Reject => Semicolon::Reject,
    };
    PathRules { merge_slashes: paths.merge_slashes, encoded_slash, semicolon }
}

pub(crate) fn matches<'a>(
    routes: &[&'a config::Route],
    rules: &PathRules,
    cache: &mut CompileCache,
) -> Matches<'a> {
    let mut out = Matches {
        routers: None,
        numbers: HashMap::new(),
        prefixes: Vec::with_capacity(routes.len()),
        special: Vec::new(),
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    let mut prepared = Vec::with_capacity(routes.len());
    let mut errors = Vec::new();
    // The routes that are prepared. A route whose path no request can have is left out, so that the others
    // are still checked.
    let mut kept = Vec::with_capacity(routes.len());
    cache.begin(rules);
    for route in routes {
        if let Some(known) = cache.take_over(route.identity) {
            out.prefixes.push(known.prefix);
            if !known.is_plain {
                out.special.push(*route);
            }
            kept.push(*route);
            prepared.push(known.matches.clone());
            continue;
        }
        out.special.push(*route);
        let path = path_spec(&route.matches, rules);
        let prefix = match &path {
            Ok(PathSpec::Prefix(prefix)) => Some(prefix.len()),
            Ok(PathSpec::Exact(_) | PathSpec::Regex(_) | PathSpec::RawPrefix(_) | PathSpec::Suffix(_)) => {
                None
            }
            // A path with an error gets no second error for its rewrite.
            Ok(PathSpec::Any) | Err(_) => Some(0),
        };
        out.prefixes.push(prefix);
        let path = match path {
            Ok(path) => path,
            Err(problem) => {
                out.problems.push(problem);
                continue;
            }
        };
        match PreparedRoute::new(kept.len() as u32, spec(route, path)) {
            Ok(good) => {
                let good = Arc::new(good);
                cache.store_match(route.identity, CachedRoute::new(route, prefix, good.clone()));
                prepared.push(good);
            }
            Err(more) => errors.extend(more),
        }
        kept.push(*route);
    }
    let (groups, numbers) = groups(&kept);
    out.numbers = numbers;
    let kept: Vec<&config::Match> = kept.into_iter().map(|route| &route.matches).collect();
    let built = if errors.is_empty() { Routers::build(prepared, groups) } else { Err(errors) };
    match built {
        Ok((routers, ties)) => {
            let shadows = routers.shadows();
            // A route that is never found gets no second warning.
            let is_found = |tie: &&Tie| shadows.binary_search_by_key(&tie.second, |it| it.route).is_err();
            out.warnings.extend(ties.iter().filter(is_found).map(|tie| tie_warning(&kept, tie)));
            out.warnings.extend(shadows.iter().map(|shadow| shadow_warning(&kept, shadow)));
            out.routers = Some(routers);
        }
        Err(errors) => out.problems.extend(errors.iter().map(|error| build_problem(&kept, error))),
    }
    out
}

/// Returns the routes of each listener that routes name, and the number of its group. The first group has the routes
/// that name none; listeners with the same routes share a group. There are no groups if no route names a listener.
fn groups<'a>(routes: &[&'a config::Route]) -> (Groups, HashMap<&'a str, u32>) {
    let mut named: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut everywhere = Vec::new();
    for (number, route) in (0..).zip(routes) {
        if route.listeners.is_empty() {
            everywhere.push(number);
        }
        for name in &route.listeners {
            named.entry(name.value.as_str()).or_default().push(number);
        }
    }
    if named.is_empty() {
        return (Groups::default(), HashMap::new());
    }
    let mut members: Vec<Box<[u32]>> = vec![everywhere.as_slice().into()];
    let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
    let mut numbers = HashMap::new();
    for (name, mut own) in named {
        own.extend(&everywhere);
        own.sort_unstable();
        // A route may name a listener twice.
        own.dedup();
        let number = *known.entry(own).or_insert_with_key(|own| {
            members.push(own.as_slice().into());
            members.len() as u32 - 1
        });
        numbers.insert(name, number);
    }
    (Groups { members }, numbers)
}

fn path_spec(matches: &config::Match, rules: &PathRules) -> Result<PathSpec, Problem> {
    let Some(path) = &matches.path else { return Ok(PathSpec::Any) };
    let normal = |text: &str| {
        let mut out = Vec::new();
        match normalise(text.as_bytes(), rules, &mut out) {
            Ok(Normalised::Unchanged) => Ok(text.to_owned()),
            Ok(Normalised::Changed) => Ok(String::from_utf8_lossy(&out).into_owned()),
            Err(error) => {
                let message = format!("no request can have this path: {}", error.as_str());
                Err(Problem::error(path.at, message).help("`docs/paths.md` has the rule of each byte"))
            }
        }
    };
    Ok(match &path.value {
        config::PathMatch::Exact(text) => PathSpec::Exact(normal(text)?),
        // The prefix of the root is empty, and so is no path.
        config::PathMatch::Prefix(text) if text.is_empty() => PathSpec::Any,
        config::PathMatch::Prefix(text) => PathSpec::Prefix(normal(text)?),
        config::PathMatch::Regex(pattern) => PathSpec::Regex(pattern.clone()),
        // With a character at the open end, so that this end is not taken for the end of a segment.
        config::PathMatch::RawPrefix(text) => {
            let text = normal(&format!("{text}x"))?;
            PathSpec::RawPrefix(text.strip_suffix('x').unwrap_or(&text).to_owned())
        }
        config::PathMatch::Suffix(text) => {
            let text = normal(&format!("/x{text}"))?;
            PathSpec::Suffix(text.strip_prefix("/x").unwrap_or(&text).to_owned())
        }
    })
}

fn spec(route: &config::Route, path: PathSpec) -> RouteSpec {
    let matches = &route.matches;
    RouteSpec {
        host: matches.host.as_ref().map(|host| host.value.clone()),
        path,
        methods: matches.methods.clone(),
        headers: matches.headers.iter().map(field_spec).collect(),
        query: matches.query.iter().map(field_spec).collect(),
        disabled: !route.enabled,
        age: route.created.map(|created| Age {
            created: (created.seconds, created.nanoseconds),
            name: route.display_name(),
        }),
    }
}

fn field_spec(field: &config::FieldMatch) -> FieldSpec {
    let value = match &field.value {
        config::ValueMatch::Present => ValueSpec::Present,
        config::ValueMatch::Absent => ValueSpec::Absent,
        config::ValueMatch::Exact(text) => ValueSpec::Exact(text.clone()),
        config::ValueMatch::Regex(pattern) => ValueSpec::Regex(pattern.clone()),
        config::ValueMatch::NotExact(text) => ValueSpec::NotExact(text.clone()),
        config::ValueMatch::NotRegex(pattern) => ValueSpec::NotRegex(pattern.clone()),
    };
    FieldSpec { name: field.name.clone(), value }
}

fn tie_warning(routes: &[&config::Match], tie: &Tie) -> Problem {
    let at = |route: u32| routes[route as usize].at;
    let message = "this route and an earlier one are equally specific, and a request can match both";
    Problem::warning(at(tie.second), message).related(at(tie.first), "the earlier one wins where both match")
}

fn shadow_warning(routes: &[&config::Match], shadow: &Shadow) -> Problem {
    let at = |route: u32| routes[route as usize].at;
    let (message, by) = match shadow.cause {
        ShadowCause::Older => (
            "this route is shadowed: an older one with the same conditions takes its requests",
            "the older one",
        ),
        ShadowCause::Wider => (
            "no request reaches this route: another one precedes it and takes all that it matches",
            "the other one",
        ),
    };
    Problem::warning(at(shadow.route), message).related(at(shadow.by), by)
}

fn build_problem(routes: &[&config::Match], error: &BuildError) -> Problem {
    let route = |number: u32| routes[number as usize];
    match error {
        BuildError::Identical { first, second } => {
            let message = "this match is identical to an earlier one: it could never win";
            Problem::error(route(*second).at, message).related(route(*first).at, "the earlier one")
        }
        other => Problem::error(error_position(route(other.route()), other), other.to_string()),
    }
}

/// Returns the position of the part of a match that an error is about.
fn error_position(matches: &config::Match, error: &BuildError) -> At {
    let path = matches.path.as_ref().map(|path| path.at);
    let at = match error {
        BuildError::Host { .. } => matches.host.as_ref().map(|host| host.at),
        BuildError::Path { .. } | BuildError::Regex { place: RoutePosition::Path, .. } => path,
        BuildError::Regex { place: RoutePosition::Header(index), .. } => {
            matches.headers.get(*index).map(|field| field.at)
        }
        BuildError::Regex { place: RoutePosition::Query(index), .. } => {
            matches.query.get(*index).map(|field| field.at)
        }
        BuildError::Identical { .. } => None,
    };
    at.unwrap_or(matches.at)
}

#[cfg(test)]
mod tests;
