//! The conditions of a route, as data. The configuration produces them;
//! [`Router::build`](crate::Router::build) compiles them.

/// The requests that a route takes: all conditions must hold. [`RouteSpec::default`] takes every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteSpec {
    /// An exact host, or `*.example.com` for every name below `example.com`; `None`: any host. Without port.
    pub host: Option<String>,
    /// The condition on the path.
    pub path: PathSpec,
    /// Methods, one of which must be the request's; empty: any method. Case matters (RFC 9110, section 9.1).
    pub methods: Vec<String>,
    /// Conditions on headers. If a header was sent several times, the first one counts.
    pub headers: Vec<FieldSpec>,
    /// Conditions on query parameters. If a parameter was sent several times, the first one counts.
    pub query: Vec<FieldSpec>,
    /// Whether the route takes no request, whatever the conditions. It is checked alone like any other, but is
    /// never identical to another route.
    pub disabled: bool,
    /// The age, which decides between routes that are otherwise equally specific; `None`: the list does.
    pub age: Option<Age>,
}

/// The age of a route. The smaller value wins: the older route, and of two equally old routes the smaller name. A route without an
/// age precedes every route with one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age {
    /// When the route was created: seconds since 1970, and nanoseconds.
    pub created: (i64, u32),
    /// Its name.
    pub name: String,
}

/// A condition on the path. Texts must be in normal form: the router refuses any that
/// [`normalise`](crate::normalise) would change, because no request could match it.
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
    /// Every path that begins with this text, also within a segment.
    RawPrefix(String),
    /// Every path that ends with this text, also within a segment.
    Suffix(String),
}

/// A condition on a header or a query parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldSpec {
    /// Name of the header in lower case, or decoded name of the query parameter.
    pub name: String,
    /// The condition on the value.
    pub value: ValueSpec,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueSpec {
    /// Present, even if empty.
    Present,
    /// Absent.
    Absent,
    /// Exactly these bytes.
    Exact(String),
    /// A regular expression that must match the whole value, byte by byte (no Unicode classes).
    Regex(String),
    /// Absent, or anything but exactly these bytes.
    NotExact(String),
    /// Absent, or a value that the regular expression does not match as a whole.
    NotRegex(String),
}
