//! `query`.

/// Parameters that requests gain and lose on their way upstream: first some go, then others come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Parameters that go.
    pub remove: Vec<String>,
    /// Parameters that take the place of those of their name.
    pub set: Vec<(String, String)>,
    /// Parameters that come beside those of their name.
    pub add: Vec<(String, String)>,
}
