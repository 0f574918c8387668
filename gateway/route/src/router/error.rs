//! Errors of compiling a table of routes.

use std::fmt;

/// Why a table of routes does not compile. Errors name a route by its index in the list given to
/// [`Router::build`](crate::Router::build).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The host is neither a name nor `*.` and a name.
    Host {
        /// Index of the route.
        route: u32,
        /// Description of the problem.
        message: &'static str,
    },
    /// No request can ever match the path.
    Path {
        /// Index of the route.
        route: u32,
        /// Description of the problem, with the text to write instead if that is known.
        message: String,
    },
    /// A regular expression does not compile.
    Regex {
        /// Index of the route.
        route: u32,
        /// The position of the expression in the route.
        place: RoutePosition,
        /// Description of the problem.
        message: String,
    },
    /// Two routes match exactly the same requests, so the second one would never be reached.
    Identical {
        /// Index of the earlier route.
        first: u32,
        /// Index of the route that repeats it.
        second: u32,
    },
}

/// A position in a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutePosition {
    /// The path.
    Path,
    /// The header condition with this index.
    Header(usize),
    /// The query condition with this index.
    Query(usize),
}

impl BuildError {
    /// Returns the route to change; of two identical routes, the second.
    #[must_use]
    pub fn route(&self) -> u32 {
        match *self {
            BuildError::Host { route, .. }
            | BuildError::Path { route, .. }
            | BuildError::Regex { route, .. } => route,
            BuildError::Identical { second, .. } => second,
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Host { message, .. } => f.write_str(message),
            BuildError::Path { message, .. } => f.write_str(message),
            BuildError::Regex { message, .. } => write!(f, "bad regular expression: {message}"),
            BuildError::Identical { first, .. } => {
                write!(f, "matches exactly what route {first} matches, so it is never reached")
            }
        }
    }
}

impl std::error::Error for BuildError {}
