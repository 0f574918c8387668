//! What a route asks of a request, as data.

/// Which requests a route takes: all conditions must hold. [`RouteSpec::default`] takes every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteSpec {
    /// An exact host, or `*.example.com` for every name below `example.com`; `None`: any host. Without port.
    pub host: Option<String>,
    /// The path.
    pub path: PathSpec,
    /// Methods, of which one must be the request's; empty: any. Case matters (RFC 9110, section 9.1).
    pub methods: Vec<String>,
    /// Conditions on headers. Of a header that was sent several times the first is looked at.
    pub headers: Vec<FieldSpec>,
    /// Conditions on query parameters. Of a parameter that was sent several times the first is looked at.
    pub query: Vec<FieldSpec>,
}

/// How a path is matched. Texts are in normal form: the router refuses any that [`normalise`](crate::normalise)
/// would change, since no request could match it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathSpec {
    /// Every path; the same as `Prefix("")`.
    #[default]
    Any,
    /// Exactly this path.
    Exact(String),
    /// This path and everything below it, by whole segments. Without trailing slash; empty: every path.
    Prefix(String),
    /// A regular expression that must match the whole path, byte by byte (no Unicode classes).
    Regex(String),
}

/// A condition on a header or a query parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldSpec {
    /// Header names in lower case; query names as they read after decoding.
    pub name: String,
    /// What the value must be.
    pub value: ValueSpec,
}

/// What a value must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueSpec {
    /// There, also when empty.
    Present,
    /// Not there.
    Absent,
    /// Exactly these bytes.
    Exact(String),
    /// A regular expression that must match the whole value, byte by byte (no Unicode classes).
    Regex(String),
}
