//! `api_key`: who shows a key of a consumer may come.
//!
//! Only the SHA-256 of a key is known here. Keys are random and long, so a slow hash would guard nothing.

use std::sync::Arc;

use tollgate_observe::Reason;

use crate::credential::{CredentialPlaces, MoreThanOne, Shown};
use crate::{
    Authenticator, Consumers, CredentialPlace, Identity, Planned, Policy, Refusal, Request, Shared, Verdict,
};

/// The longest key that is looked at, in bytes: hashing costs time.
const LONGEST: usize = 512;
/// RFC 9110, 11.6.1 wants a challenge with every 401; no scheme is registered for keys.
const CHALLENGE: &[u8] = b"WWW-Authenticate: ApiKey\r\n";

/// Who shows a key of a consumer may come.
#[derive(Debug)]
pub struct ApiKeyRules {
    /// Where the key may be.
    pub from: Vec<CredentialPlace>,
    /// Whether the key goes upstream.
    pub forward: bool,
    /// Whether a request without a key passes.
    pub optional: bool,
    /// How the upstream is told who it is.
    pub identity: Identity,
    /// Who is known.
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

/// How a summary says that a policy lets requests without a credential pass.
pub(crate) const fn optionally(optional: bool) -> &'static str {
    if optional { ", or none" } else { "" }
}
