//! The interface that [`any_of`](crate::AnyOfRules) uses to handle the credentials of its alternatives.

use crate::Request;

/// A policy that identifies clients, as one of several alternatives.
pub trait Authenticator {
    /// Whether the request carries a credential of this policy's type, valid or not.
    fn is_present(&self, request: &Request<'_>) -> bool;

    /// Whether a request without such a credential passes.
    fn is_optional(&self) -> bool;

    /// Returns the header line of a 401 that asks for such a credential (RFC 9110, 11.6.1), with its CRLF;
    /// empty if the policy has no authentication scheme.
    fn challenge(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Removes the identity fields that only this policy may write.
    fn reserve_fields(&self, request: &mut Request<'_>);

    /// Whether a credential in this field goes upstream when this policy has admitted the request.
    fn forwards(&self, field: &str) -> bool;

    /// Removes this policy's credential after another policy has admitted the request. `kept` returns true
    /// for fields in which that policy forwards its own credential.
    fn conceal(&self, request: &mut Request<'_>, kept: &dyn Fn(&str) -> bool);

    /// Removes the credential from the target of a refused request, because the target is logged.
    fn redact(&self, _: &mut Request<'_>) {}
}
