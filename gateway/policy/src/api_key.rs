//! `api_key`: admits requests that carry a consumer's API key.
//!
//! The gateway stores only the SHA-256 digest of a key. Keys are long and random, so a slow hash would add no
//! protection.

use std::sync::Arc;

use tollgate_observe::Reason;

use crate::credential::{CredentialPlaces, MoreThanOne, Shown};
use crate::{
    Authenticator, Consumers, CredentialPlace, Identity, Planned, Policy, Refusal, Request, Shared, Verdict,
};

/// The maximum length of a key in bytes. It bounds the cost of hashing.
const LONGEST: usize = 512;
/// RFC 9110, 11.6.1 requires a challenge with every 401, but no scheme is registered for API keys.
const CHALLENGE: &[u8] = b"WWW-Authenticate: ApiKey\r\n";

/// Admits requests that carry a consumer's API key.
#[derive(Debug)]
pub struct ApiKeyRules {
    /// The places where a request may carry the key.
    pub from: Vec<CredentialPlace>,
    /// Whether the key is sent upstream.
    pub forward: bool,
    /// Whether a request without a key passes.
    pub optional: bool,
    /// The fields that name the consumer to the upstream.
    pub identity: Identity,
    /// The consumers with their keys.
    pub consumers: Arc<Consumers>,
}

impl Planned for ApiKeyRules {
    fn kind(&self) -> &'static str {
        "api_key"
    }

    fn summary(&self) -> String {
        let places = CredentialPlaces::new(&self.from).summary();
        format!("{places}; {} keys{}", self.consumers.keys(), optionally(self.optional))
    }

    fn live(self: Arc<Self>, _: &str, _: &Arc<Shared>) -> Arc<dyn Policy> {
        let places = CredentialPlaces::new(&self.from);
        Arc::new(Live { rules: self, places })
    }
}

#[derive(Debug)]
struct Live {
    rules: Arc<ApiKeyRules>,
    places: CredentialPlaces,
}

impl Policy for Live {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let ApiKeyRules { forward, optional, identity, consumers, .. } = &*self.rules;
        identity.strip(request);
        let consumer = match self.places.find(request) {
            Ok(Shown::One(key)) if key.len() <= LONGEST => consumers.of_key(&key).cloned(),
            Ok(Shown::One(_)) => None,
            Ok(Shown::Nothing | Shown::Foreign) if *optional => {
                identity.renew(request);
                self.conceal(request, &|_| false);
                return Verdict::Continue;
            }
            Ok(Shown::Nothing | Shown::Foreign) => {
                return self.refusal(request, Reason::CredentialsMissing, None);
            }
            Err(MoreThanOne) => {
                return self.refusal(request, Reason::CredentialsRefused, Some("more than one key"));
            }
        };
        let Some(consumer) = consumer else {
            let detail = Some("no consumer has this key");
            return self.refusal(request, Reason::CredentialsRefused, detail);
        };
        if !forward {
            self.places.remove(request, &|_| false);
        }
        identity.tell(request, &consumer);
        Verdict::Continue
    }

    fn passed_over(&self, request: &mut Request<'_>) {
        self.redact(request);
    }

    fn authenticator(&self) -> Option<&dyn Authenticator> {
        Some(self)
    }
}

impl Authenticator for Live {
    fn is_shown(&self, request: &Request<'_>) -> bool {
        self.places.is_shown(request)
    }

    fn is_optional(&self) -> bool {
        self.rules.optional
    }

    fn challenge(&self) -> Vec<u8> {
        CHALLENGE.to_vec()
    }

    fn claim(&self, request: &mut Request<'_>) {
        self.rules.identity.renew(request);
    }

    fn forwards(&self, field: &str) -> bool {
        self.rules.forward && self.places.has_field(field)
    }

    fn conceal(&self, request: &mut Request<'_>, kept: &dyn Fn(&str) -> bool) {
        if !self.rules.forward {
            self.places.remove(request, kept);
        }
    }

    fn redact(&self, request: &mut Request<'_>) {
        self.places.remove_from_query(request);
    }
}

impl Live {
    fn refusal(&self, request: &mut Request<'_>, reason: Reason, detail: Option<&'static str>) -> Verdict {
        self.redact(request);
        Refusal { detail, lines: CHALLENGE.to_vec(), ..reason.into() }.into()
    }
}

/// Returns the part of a summary that mentions an optional credential.
pub(crate) const fn optionally(optional: bool) -> &'static str {
    if optional { ", or none" } else { "" }
}
