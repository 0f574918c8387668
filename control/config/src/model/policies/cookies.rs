//! `cookies`.

/// What changes in the cookies that responses set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cookies {
    /// The cookies, by name; empty: all.
    pub names: Vec<String>,
    /// Cookies that are not set at all.
    pub remove: Vec<String>,
    /// Whether they have `Secure`; `None`: as the upstream says. So with the others.
    pub secure: Option<bool>,
    /// Whether they have `HttpOnly`.
    pub http_only: Option<bool>,
    /// Their `SameSite`; `Some(None)`: they have none.
    pub same_site: Option<Option<String>>,
    /// Their `Domain`.
    pub domain: Option<Option<String>>,
    /// Their `Path`.
    pub path: Option<Option<String>>,
}
