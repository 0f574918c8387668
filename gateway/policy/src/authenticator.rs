//! What a policy that tells clients apart knows of its credentials. [`any_of`](crate::AnyOfRules) asks it.

use crate::Request;

/// A policy that tells clients apart, as one of several that may do so.
pub trait Authenticator {
    /// Whether the request shows a credential of this policy's kind, good or not.
    fn is_shown(&self, request: &Request<'_>) -> bool;

    /// Whether a request without such a credential passes.
    fn is_optional(&self) -> bool;

    /// The line of a 401 that asks for such a credential (RFC 9110, 11.6.1), with its CRLF; empty: no scheme asks for it.
    fn challenge(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes out the fields that say who the client is and that this policy alone writes.
    fn claim(&self, request: &mut Request<'_>);

    /// Whether a credential in this field goes upstream when this policy has let the request in.
    fn forwards(&self, field: &str) -> bool;

    /// Takes out the credential that is not to go upstream, where another policy has let the request in. `kept`: fields in which
    /// that policy lets its own go upstream.
    fn conceal(&self, request: &mut Request<'_>, kept: &dyn Fn(&str) -> bool);

    /// Takes the credential out of the target, which stands in logs: the request goes nowhere.
    fn redact(&self, _: &mut Request<'_>) {}
}
