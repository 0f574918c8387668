//! Settings of the policy `intercept`.

/// Answers requests before they are forwarded. The first rule that matches applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intercept {
    /// The rules, in the order tried.
    pub rules: Vec<InterceptRule>,
}

/// A rule: its conditions and its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterceptRule {
    /// A regular expression that occurs in the path or the query.
    pub uri: Option<String>,
    /// A regular expression that occurs in the path.
    pub path: Option<String>,
    /// Whether the client uses TLS; `None`: either.
    pub secure: Option<bool>,
    /// The methods; empty: any.
    pub methods: Vec<String>,
    /// Status of the response.
    pub status: u16,
    /// `Location` of the response, a template of parts of the request.
    pub location: Option<String>,
    /// Replacement for the match of `path`; the resulting path is the response's `Location`.
    pub replace: Option<String>,
    /// Whether the request's query is appended to `Location`.
    pub keep_query: bool,
    /// Body of the response.
    pub body: Vec<u8>,
    /// `Content-Type` of the body.
    pub content_type: String,
}
