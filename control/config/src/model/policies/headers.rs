//! `headers`.

/// Fields that requests gain and lose on their way upstream, and responses on their way back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Of requests.
    pub request: HeaderChange,
    /// Of responses.
    pub response: HeaderChange,
}

/// What changes in the fields of a message: first some go, then others come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderChange {
    /// Fields that go.
    pub remove: Vec<String>,
    /// Fields that take the place of those of their name.
    pub set: Vec<(String, String)>,
    /// Fields that come beside those of their name.
    pub add: Vec<(String, String)>,
}
