//! `api_key`: admits requests that carry a consumer's API key.
//!
//! The gateway stores only the SHA-256 digest of a key. Keys are long and random, so a slow hash would add no
//! protection.

mod config;

use std::sync::Arc;

use tollgate_observe::Reason;

use crate::credential::{CredentialSources, FoundCredential, MoreThanOne};
use crate::{
    Authenticator, Consumers, CredentialSource, Identity, Planned, Policy, PolicyStates, Refusal, Request,
    Verdict,
};

pub(crate) use config::ApiKeySettings;

/// The maximum length of a key in bytes. It bounds the cost of hashing.
const KEY_MAX_BYTES: usize = 512;
/// RFC 9110, 11.6.1 requires a challenge with every 401, but no scheme is registered for API keys.
const CHALLENGE: &[u8] = b"WWW-Authenticate: ApiKey\r\n";

/// Admits requests that carry a consumer's API key.
#[derive(Debug)]
pub struct ApiKeyRules {
    /// The places where a request may carry the key.
    pub from: Vec<CredentialSource>,
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
        let places = CredentialSources::new(&self.from).summary();
        format!("{places}; {} keys{}", self.consumers.key_count(), optional_suffix(self.optional))
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let places = CredentialSources::new(&self.from);
        Arc::new(ApiKeyState { rules: self, places })
    }
}

#[derive(Debug)]
struct ApiKeyState {
    rules: Arc<ApiKeyRules>,
    places: CredentialSources,
}

impl Policy for ApiKeyState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let ApiKeyRules { forward, optional, identity, consumers, .. } = &*self.rules;
        identity.remove(request);
        let consumer = match self.places.find(request) {
            Ok(FoundCredential::One(key)) if key.len() <= KEY_MAX_BYTES => {
                consumers.by_api_key(&key).cloned()
            }
            Ok(FoundCredential::One(_)) => None,
            Ok(FoundCredential::Nothing | FoundCredential::Foreign) if *optional => {
                identity.rewrite(request);
                self.conceal(request, &|_| false);
                return Verdict::Continue;
            }
            Ok(FoundCredential::Nothing | FoundCredential::Foreign) => {
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
        identity.set_consumer(request, &consumer);
        Verdict::Continue
    }

    fn skipped(&self, request: &mut Request<'_>) {
        self.redact(request);
    }

    fn authenticator(&self) -> Option<&dyn Authenticator> {
        Some(self)
    }
}

impl Authenticator for ApiKeyState {
    fn is_present(&self, request: &Request<'_>) -> bool {
        self.places.is_present(request)
    }

    fn is_optional(&self) -> bool {
        self.rules.optional
    }

    fn challenge(&self) -> Vec<u8> {
        CHALLENGE.to_vec()
    }

    fn reserve_fields(&self, request: &mut Request<'_>) {
        self.rules.identity.rewrite(request);
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

impl ApiKeyState {
    fn refusal(&self, request: &mut Request<'_>, reason: Reason, detail: Option<&'static str>) -> Verdict {
        self.redact(request);
        Refusal { detail, lines: CHALLENGE.to_vec(), ..reason.into() }.into()
    }
}

/// Returns the part of a summary that mentions an optional credential.
pub(crate) const fn optional_suffix(optional: bool) -> &'static str {
    if optional { ", or none" } else { "" }
}
