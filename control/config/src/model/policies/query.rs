//! Settings of the policy `query`.

/// Changes the query parameters of requests on their way upstream. Removals come before `set` and `add`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Parameters to remove.
    pub remove: Vec<String>,
    /// Parameters that replace existing parameters of the same name.
    pub set: Vec<(String, String)>,
    /// Parameters that are added to existing parameters of the same name.
    pub add: Vec<(String, String)>,
}
