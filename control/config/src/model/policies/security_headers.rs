//! `security_headers`.

/// Fields of responses by which browsers are told to be careful.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// The fields with their values.
    pub fields: Vec<(&'static str, String)>,
    /// Whether they take the place of what an upstream says.
    pub overwrite: bool,
}
