//! `cors`.

use std::time::Duration;

/// Which web pages may read the answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    /// Whether all may.
    pub any: bool,
    /// Origins that may, as written; a host may begin with `*.`.
    pub origins: Vec<String>,
    /// Expressions for whole origins.
    pub regexes: Vec<String>,
    /// Methods that may be used.
    pub methods: Vec<String>,
    /// Fields of a request that a page may set; `*`: any.
    pub headers: Vec<String>,
    /// Fields of an answer that a page may read.
    pub expose: Vec<String>,
    /// Whether cookies and the like may be sent along.
    pub credentials: bool,
    /// How long a browser may keep the answer to a preflight.
    pub max_age: Option<Duration>,
}
