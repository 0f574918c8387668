//! A route compiled on its own, before it is part of a table.
//!
//! The compiler of the plan keeps it from plan to plan, so a table of which one route changed compiles one route. Invariant:
//! a prepared route has a host and a path that some request can have, and expressions that compile.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use regex_syntax::hir::Hir;

use super::conditions::Conditions;
use super::hosts::HostName;
use super::pattern;
use crate::{BuildError, PathRules, PathSpec, RoutePosition, RouteSpec};

/// A route compiled independently of all others. Tables that differ in a few routes share the rest.
pub struct PreparedRoute {
    pub(super) conditions: Conditions,
    pub(super) spec: RouteSpec,
    pub(super) host: HostName,
    /// The syntax tree of the path, if it is a regular expression.
    pub(super) hir: Option<Hir>,
    pub(super) specificity: Specificity,
    /// A hash of host and path. Routes that could be identical, or whose order could matter, have the same
    /// hash.
    pub(super) key: u64,
}

impl PreparedRoute {
    /// Compiles the route itself. `route` is its number in the errors.
    ///
    /// # Errors
    /// Returns every problem of this route alone: a host or a path that no request can have, and regular
    /// expressions that do not compile.
    pub fn new(route: u32, spec: RouteSpec) -> Result<Self, Vec<BuildError>> {
        let mut errors = Vec::new();
        let host = HostName::parse(spec.host.as_deref()).unwrap_or_else(|message| {
            errors.push(BuildError::Host { route, message });
            HostName::Any
        });
        let hir = check_path(route, &spec.path, &mut errors);
        let conditions = Conditions::new(route, &spec, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let (specificity, key) = (Specificity::of(&spec), key(&host, &spec.path));
        Ok(Self { conditions, spec, host, hir, specificity, key })
    }
}

impl std::fmt::Debug for PreparedRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Prepared").field(&self.spec).finish()
    }
}

/// Reports a path that no request can have. Returns the syntax tree of a regular expression.
fn check_path(route: u32, path: &PathSpec, errors: &mut Vec<BuildError>) -> Option<Hir> {
    let mut fail = |message: String| errors.push(BuildError::Path { route, message });
    match path {
        PathSpec::Any => {}
        PathSpec::Prefix(text) if text.is_empty() => {}
        PathSpec::Prefix(text) if text.ends_with('/') => fail("a prefix has no slash at its end".into()),
        PathSpec::Exact(text) | PathSpec::Prefix(text) => {
            // The most lenient rules: a path that they change is never in normal form.
            let rules = PathRules::LENIENT;
            let mut normal = Vec::new();
            match crate::normalise(text.as_bytes(), &rules, &mut normal) {
                Ok(crate::Normalised::Unchanged) => {}
                Ok(crate::Normalised::Changed) => {
                    fail(format!("no request has this path; write `{}`", String::from_utf8_lossy(&normal)));
                }
                Err(error) => fail(format!("no request has this path: {error}")),
            }
        }
        PathSpec::RawPrefix(text) => check_text(text, &format!("{text}x"), &mut fail),
        PathSpec::Suffix(text) => check_text(text, &format!("/x{text}"), &mut fail),
        PathSpec::Regex(text) => match pattern::parse(text) {
            Ok(hir) => return Some(hir),
            Err(message) => errors.push(BuildError::Regex { route, place: RoutePosition::Path, message }),
        },
    }
    None
}

/// Reports a text that no path in normal form begins or ends with. `path` is the shortest path that could.
fn check_text(text: &str, path: &str, fail: &mut dyn FnMut(String)) {
    if text.is_empty() {
        return fail("the text that a path begins or ends with is empty".into());
    }
    match crate::normalise(path.as_bytes(), &PathRules::LENIENT, &mut Vec::new()) {
        Ok(crate::Normalised::Unchanged) => {}
        Ok(crate::Normalised::Changed) => fail("no path in normal form has this text".into()),
        Err(error) => fail(format!("no request has this path: {error}")),
    }
}

/// The criteria between routes of equal host and path, in order; the greater value wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Specificity {
    pub(super) has_method: bool,
    pub(super) headers: usize,
    pub(super) query: usize,
}

impl Specificity {
    fn of(spec: &RouteSpec) -> Self {
        Self { has_method: !spec.methods.is_empty(), headers: spec.headers.len(), query: spec.query.len() }
    }
}

/// Returns `Any` for the empty prefix, because both are the same path.
pub(super) fn one_spelling(path: &PathSpec) -> &PathSpec {
    match path {
        PathSpec::Prefix(text) if text.is_empty() => &PathSpec::Any,
        _ => path,
    }
}

/// Returns a hash of host and path. For a regular expression only the kind is hashed, because all expressions
/// of a host are equally specific.
fn key(host: &HostName, path: &PathSpec) -> u64 {
    // One seed for the life of the process, because keys of different tables are compared.
    static STATE: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);
    STATE.hash_one((host, kind_of(path)))
}

/// Returns the path as far as it matters for precedence; `None` for regular expressions.
pub(super) fn kind_of(path: &PathSpec) -> Option<&PathSpec> {
    match path {
        PathSpec::Regex(_) => None,
        path => Some(one_spelling(path)),
    }
}
