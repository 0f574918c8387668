//! What the router asks of a request.

/// A request as the router sees it. Every method returns bytes that the request already holds, so that
/// matching copies nothing.
pub trait Request {
    /// The method, as sent.
    fn method(&self) -> &[u8];

    /// The host, as sent, in any case, without port; empty when the request names none (HTTP/1.0).
    fn host(&self) -> &[u8];

    /// The path in normal form (see [`normalise`](crate::normalise)), without query.
    fn path(&self) -> &[u8];

    /// What follows the `?`, as sent; `None` without a `?`.
    fn query(&self) -> Option<&[u8]>;

    /// The value of the *first* field line with this name, without surrounding white space. The first line
    /// and not all of them joined, because joining would copy; `docs/matching.md` says so to users.
    fn header(&self, lower_case_name: &str) -> Option<&[u8]>;

    /// Whether it has this header with an unknown value, as a CORS preflight names headers of another request. Every condition on
    /// the header then holds, except that it is absent.
    fn has_unknown(&self, _lower_case_name: &str) -> bool {
        false
    }
}
