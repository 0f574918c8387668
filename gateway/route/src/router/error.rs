//! Why a table of routes does not compile.

use std::fmt;

/// Why a table of routes does not compile. Routes are named by their index in the list given to
/// [`Router::build`](crate::Router::build).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The host is neither a name nor `*.` and a name.
    Host {
        /// The route.
        route: u32,
        /// What is wrong with it.
        message: &'static str,
    },
    /// No request could ever match the path.
    Path {
        /// The route.
        route: u32,
        /// What is wrong with it, and what to write instead where that is known.
        message: String,
    },
    /// A regular expression does not compile.
    Regex {
        /// The route.
        route: u32,
        /// Which of the route's expressions.
        place: Place,
        /// What is wrong with it.
        message: String,
    },
    /// Two routes match exactly the same requests: the second would never be reached.
    Identical {
        /// The route that comes first.
        first: u32,
        /// The route that repeats it.
        second: u32,
    },
}

/// Where in a route something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In its path.
    Path,
    /// In the header condition with this index.
    Header(usize),
    /// In the query condition with this index.
    Query(usize),
}

impl BuildError {
    /// The route to change; of two identical ones the second.
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
