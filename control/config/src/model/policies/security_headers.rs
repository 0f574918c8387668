//! Settings of the policy `security_headers`.

/// Response fields that restrict browsers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// The fields with their values.
    pub fields: Vec<(&'static str, String)>,
    /// Whether they replace fields that the upstream sets.
    pub overwrite: bool,
}
