//! Settings of the policy `headers`.

/// Changes the fields of requests on their way upstream and of responses on their way back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Changes of requests.
    pub request: HeaderChange,
    /// Changes of responses.
    pub response: HeaderChange,
}

/// Changes of a message's fields. Removals come before `set` and `add`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderChange {
    /// Fields to remove.
    pub remove: Vec<String>,
    /// Fields that replace existing fields of the same name.
    pub set: Vec<(String, String)>,
    /// Fields that are added to existing fields of the same name.
    pub add: Vec<(String, String)>,
}
