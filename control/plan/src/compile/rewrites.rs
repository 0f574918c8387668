//! Compiles the rewrites and redirects of a route: brings written paths to their normal form, and checks the capture
//! groups that they name.

use tollgate_config as config;
use tollgate_config::{At, Problem, ReplacementPiece};
use tollgate_route::{Normalised, PathError, PathPattern, PathRules, normalise_rewritten};

use super::Compiler;
use crate::{Location, LocationGroups, PathRewrite, QueryRewrite, Redirect, Replacement};

/// The path condition of a route.
pub(super) struct PathCondition<'a> {
    pub matched: Option<&'a config::PathMatch>,
    /// The length of the prefix, if the route matches one.
    pub prefix: Option<usize>,
}

impl PathCondition<'_> {
    /// Returns the pattern whose groups a rewrite or redirect may name.
    fn pattern(&self) -> Result<PathPattern, String> {
        match self.matched {
            Some(config::PathMatch::Regex(pattern)) => PathPattern::new(pattern),
            _ => Err("this route matches no pattern with capture groups".to_owned()),
        }
    }
}

impl Compiler<'_> {
    pub(super) fn path_rewrite(
        &mut self,
        rewrite: &config::Spanned<config::PathRewrite>,
        condition: &PathCondition<'_>,
    ) -> Option<PathRewrite> {
        let compiled = match (&rewrite.value, condition.prefix) {
            (config::PathRewrite::Full(path), _) => self.normal_path(path).map(PathRewrite::Full),
            (config::PathRewrite::Groups(text), _) => self.groups(text, condition),
            (config::PathRewrite::Prefix(with), Some(matched)) => self
                .normal_path(with)
                .map(|with| PathRewrite::Prefix { matched, with: with.trim_end_matches('/').to_owned() }),
            (config::PathRewrite::Prefix(_), None) => {
                Err(Problem::error(At::default(), "this route matches no prefix to replace"))
            }
            (config::PathRewrite::Regex { pattern, replace }, _) => self.regex(pattern, replace),
        };
        compiled.map_err(|problem| self.problems.push(Problem { at: rewrite.at, ..problem })).ok()
    }

    /// Adds the query parameters that a route sets to the change of its path.
    pub(super) fn query_rewrite(
        &mut self,
        route: &config::Route,
        path: Option<PathRewrite>,
        condition: &PathCondition<'_>,
    ) -> Option<PathRewrite> {
        let parameters = &route.rewrite.query;
        if parameters.is_empty() {
            return path;
        }
        // Without a pattern, each group is reported as missing.
        match QueryRewrite::new(path, condition.pattern().ok(), parameters) {
            Ok(rewrite) => Some(PathRewrite::Query(Box::new(rewrite))),
            Err(name) => {
                self.problems.push(Problem { at: route.at, ..missing_group(name) });
                None
            }
        }
    }

    /// Returns a path from the configuration in normal form.
    fn normal_path(&self, path: &str) -> Result<String, Problem> {
        let mut normal = Vec::new();
        match normalise_rewritten(path.as_bytes(), &self.rules, &mut normal) {
            Ok(Normalised::Unchanged) => Ok(path.to_owned()),
            Ok(Normalised::Changed) => Ok(String::from_utf8_lossy(&normal).into_owned()),
            Err(error) => Err(refused_path(error)),
        }
    }

    fn groups(&self, text: &str, condition: &PathCondition<'_>) -> Result<PathRewrite, Problem> {
        let pattern = condition.pattern().map_err(without_position)?;
        let pieces = config::path_replacement(text).map_err(without_position)?;
        let to = Replacement::new(pieces, |name| pattern.group(name)).map_err(missing_group)?;
        to.check(&self.rules).map_err(refused_path)?;
        Ok(PathRewrite::Groups { pattern, to, rules: self.rules })
    }

    fn regex(&self, pattern: &str, replace: &str) -> Result<PathRewrite, Problem> {
        let pattern = regex::bytes::Regex::new(pattern).map_err(|error| {
            // The last line has the reason; the lines before it repeat the pattern.
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default();
            without_position(format!(
                "the pattern does not compile: {}",
                reason.trim_start_matches("error: ")
            ))
        })?;
        let number = |name: &str| match name.parse() {
            Ok(number) => (number < pattern.captures_len()).then_some(number),
            Err(_) => pattern.capture_names().position(|group| group == Some(name)),
        };
        let pieces = config::path_replacement(replace).map_err(without_position)?;
        let replace = Replacement::new(pieces, number).map_err(missing_group)?;
        replace.check(&self.rules).map_err(refused_path)?;
        Ok(PathRewrite::Regex { pattern, replace, rules: self.rules })
    }

    pub(super) fn redirect(
        &mut self,
        redirect: &config::Redirect,
        condition: &PathCondition<'_>,
    ) -> Redirect {
        let path = redirect.path.as_ref();
        let to = redirect.to.as_ref().and_then(|to| {
            let compiled = self.location(&to.value, condition);
            compiled.map_err(|problem| self.problems.push(Problem { at: to.at, ..problem })).ok()
        });
        Redirect {
            status: redirect.status,
            to,
            scheme: redirect.scheme.clone(),
            host: redirect.host.clone(),
            port: redirect.port,
            path: path.and_then(|path| self.path_rewrite(path, condition)),
        }
    }

    /// Compiles a whole `Location`. A path without groups is checked leniently, since it may belong to
    /// another server.
    fn location(&self, text: &str, condition: &PathCondition<'_>) -> Result<Location, Problem> {
        let split = config::location_replacement(text).map_err(without_position)?;
        let has_group = |pieces: &[ReplacementPiece]| {
            pieces.iter().any(|piece| matches!(piece, ReplacementPiece::Group(_)))
        };
        if has_group(&split.path) || has_group(&split.tail) {
            let groups =
                LocationGroups::new(split, condition.pattern().map_err(without_position)?, self.rules);
            let groups = groups.map_err(missing_group)?;
            groups.check().map_err(refused_path)?;
            return Ok(Location::Groups(Box::new(groups)));
        }
        let text = |pieces: Vec<ReplacementPiece>| -> String {
            let text = |piece| match piece {
                ReplacementPiece::Text(text) => text,
                ReplacementPiece::Group(_) => String::new(),
            };
            pieces.into_iter().map(text).collect()
        };
        let (path, tail) = (text(split.path), text(split.tail));
        if !path.is_empty() {
            let _ = normalise_rewritten(path.as_bytes(), &PathRules::LENIENT, &mut Vec::new())
                .map_err(refused_path)?;
        }
        Ok(Location::Fixed(format!("{}{path}{tail}", split.origin)))
    }
}

/// Returns an error to which the caller adds the position of the rewrite.
fn without_position(message: String) -> Problem {
    Problem::error(At::default(), message)
}

pub(super) fn refused_path(error: PathError) -> Problem {
    without_position(format!("this makes a path that is refused: {error}"))
        .help("`docs/paths.md` has the rule of each byte")
}

fn missing_group(name: String) -> Problem {
    without_position(format!("the pattern has no group `{name}`"))
}
