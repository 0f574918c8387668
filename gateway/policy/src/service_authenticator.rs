//! Authentication by a service that decides about whole requests, as `forward_auth` and `ext_authz` do.
//!
//! [`ServiceAuthenticator`] knows the fields that only the service may write. It is what both policies show to others: only
//! the service itself knows which credentials it accepts.

use tollgate_http::Name;

use crate::{Authenticator, Identity, Request, Reserved};

/// Fields that the service receives even if they are reserved: it identifies the client by them.
const CREDENTIAL_FIELDS: [&str; 2] = ["Authorization", "Cookie"];

/// The fields that a service writes, and how it authenticates requests.
#[derive(Debug)]
pub(crate) struct ServiceAuthenticator {
    /// The fields that only the service may write. Upstreams trust them.
    pub reserved: Reserved,
    /// The reserved fields that are not credentials.
    own: Reserved,
    identity: Identity,
}

impl ServiceAuthenticator {
    /// Creates it from the names of the fields that the service writes, and the fields that name the consumer.
    pub fn new(names: impl IntoIterator<Item = String>, identity: Identity) -> Self {
        let reserved = Reserved::new(names);
        Self { own: reserved.without(&CREDENTIAL_FIELDS), reserved, identity }
    }

    /// Returns whether a field is reserved for the service, so that the client's value is not passed on: the service might
    /// take it for its own. `Authorization` and `Cookie` are exceptions, because the service identifies the client by
    /// them.
    pub fn reserves(&self, id: Name, name: &[u8]) -> bool {
        !matches!(id, Name::Authorization | Name::Cookie) && self.reserved.has(name)
    }
}

impl Authenticator for ServiceAuthenticator {
    /// Only the service knows what it accepts as a credential.
    fn is_present(&self, _: &Request<'_>) -> bool {
        true
    }

    fn is_optional(&self) -> bool {
        false
    }

    fn reserve_fields(&self, request: &mut Request<'_>) {
        self.identity.rewrite(request);
        // The service identifies the client by its credentials, even if it replaces them.
        request.reserve(&self.own);
    }

    fn forwards(&self, field: &str) -> bool {
        self.reserved.has(field.as_bytes())
    }

    fn conceal(&self, request: &mut Request<'_>, kept: &dyn Fn(&str) -> bool) {
        for field in CREDENTIAL_FIELDS {
            if self.reserved.has(field.as_bytes()) && !kept(field) {
                request.remove(field);
            }
        }
    }
}
