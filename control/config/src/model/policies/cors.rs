//! Settings of the policy `cors`.

use std::time::Duration;

/// Controls which web origins may read responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    /// Whether every origin may.
    pub any: bool,
    /// Allowed origins, as written; a host may begin with `*.`.
    pub origins: Vec<String>,
    /// Regular expressions that match whole origins.
    pub regexes: Vec<String>,
    /// Methods that pages may use.
    pub methods: Vec<String>,
    /// Request fields that a page may set; `*`: any.
    pub headers: Vec<String>,
    /// Response fields that a page may read.
    pub expose: Vec<String>,
    /// Whether requests may carry credentials such as cookies.
    pub credentials: bool,
    /// How long a browser may cache the response to a preflight.
    pub max_age: Option<Duration>,
}
