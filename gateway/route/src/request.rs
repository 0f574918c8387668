//! The router's view of a request.

/// A request as the router sees it. Every method returns bytes that the request already holds, so that
/// matching copies nothing.
pub trait Request {
    /// Returns the method, as sent.
    fn method(&self) -> &[u8];

    /// Returns the host, as sent, in any case, without port; empty if the request names none (HTTP/1.0).
    fn host(&self) -> &[u8];

    /// Returns the path in normal form (see [`normalise`](crate::normalise)), without query.
    fn path(&self) -> &[u8];

    /// Returns the text after the `?`, as sent; `None` without a `?`.
    fn query(&self) -> Option<&[u8]>;

    /// Returns the value of the *first* field line with this name, without surrounding white space. Joining
    /// all lines would copy; `docs/matching.md` documents this for users.
    fn header(&self, lower_case_name: &str) -> Option<&[u8]>;

    /// Returns whether the request has this header with an unknown value, like the headers that a CORS
    /// preflight names. Every condition on the header then holds, except that it is absent.
    fn has_unknown(&self, _lower_case_name: &str) -> bool {
        false
    }
}
