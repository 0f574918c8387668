//! `intercept`.

/// Requests that are answered before they go anywhere: the first rule that a request fits holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intercept {
    /// In the order in which they are tried.
    pub rules: Vec<InterceptRule>,
}

/// Requests that get one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterceptRule {
    /// An expression that is found in the path or the query.
    pub uri: Option<String>,
    /// An expression that is found in the path.
    pub path: Option<String>,
    /// Whether the client has used TLS.
    pub secure: Option<bool>,
    /// The methods; empty: any.
    pub methods: Vec<String>,
    /// The answer's status.
    pub status: u16,
    /// The answer's `Location`, in which parts of the request are filled in.
    pub location: Option<String>,
    /// What replaces the match of `path`; the path that comes of it is the answer's `Location`.
    pub replace: Option<String>,
    /// Whether the query of the request follows in `Location`.
    pub keep_query: bool,
    /// The answer's body.
    pub body: Vec<u8>,
    /// The `Content-Type` of the body.
    pub content_type: String,
}
