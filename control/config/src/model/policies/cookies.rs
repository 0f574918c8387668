//! Settings of the policy `cookies`.

/// Changes the cookies that responses set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cookies {
    /// Names of the cookies that change; empty: all.
    pub names: Vec<String>,
    /// Cookies that are removed.
    pub remove: Vec<String>,
    /// Whether they have `Secure`; `None`: as the upstream sets it. In each field below, `None` also means
    /// this.
    pub secure: Option<bool>,
    /// Whether they have `HttpOnly`.
    pub http_only: Option<bool>,
    /// Their `SameSite`; `Some(None)`: the attribute is removed.
    pub same_site: Option<Option<String>>,
    /// Their `Domain`; `Some(None)`: the attribute is removed.
    pub domain: Option<Option<String>>,
    /// Their `Path`; `Some(None)`: the attribute is removed.
    pub path: Option<Option<String>>,
}
