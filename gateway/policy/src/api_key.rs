//! `api_key`: who shows a key of a consumer may come.
//!
//! Only the SHA-256 of a key is known here. Keys are random and long, so a slow hash would guard nothing.

use std::sync::Arc;

use tollgate_observe::Reason;

use crate::query_pairs::{self as query, Pairs};
use crate::{Consumers, Identity, Planned, Policy, Refusal, Request, Reserved, Shared, Verdict};

/// The longest key that is looked at, in bytes: hashing costs time.
const LONGEST: usize = 512;
/// RFC 9110, 11.6.1 wants a challenge with every 401; no scheme is registered for keys.
const CHALLENGE: &[u8] = b"WWW-Authenticate: ApiKey\r\n";

/// Who shows a key of a consumer may come.
#[derive(Debug)]
pub struct ApiKeyRules {
    /// The field that the key is in.
    pub header: Option<String>,
    /// The parameter of the query that the key may be in, too.
    pub query: Option<String>,
    /// Whether the key goes upstream.
    pub forward: bool,
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
        let header = self.header.iter().map(|name| format!("header {name}"));
        let query = self.query.iter().map(|name| format!("query {name}"));
        let places: Vec<_> = header.chain(query).collect();
        format!("{}; {} keys", places.join(" or "), self.consumers.keys())
    }

    fn live(self: Arc<Self>, _: &str, _: &Arc<Shared>) -> Arc<dyn Policy> {
        let key = Reserved::new(self.header.clone());
        Arc::new(Live { rules: self, key })
    }
}

#[derive(Debug)]
struct Live {
    rules: Arc<ApiKeyRules>,
    /// The field that the key is in, and what looks like it.
    key: Reserved,
}

impl Policy for Live {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let ApiKeyRules { header, query, forward, identity, consumers } = &*self.rules;
        identity.strip(request);
        let consumer = match shown(request, header.as_deref(), query.as_deref()) {
            Ok(Some(key)) if key.len() <= LONGEST => consumers.of_key(&key).cloned(),
            Ok(Some(_)) => None,
            Ok(None) => return refusal(Reason::CredentialsMissing, None),
            Err(detail) => return refusal(Reason::CredentialsRefused, Some(detail)),
        };
        let Some(consumer) = consumer else {
            return refusal(Reason::CredentialsRefused, Some("no consumer has this key"));
        };
        if !forward {
            request.strip(&self.key);
            if let Some(name) = query {
                query::remove(request.head, name.as_bytes());
            }
        }
        identity.tell(request, &consumer);
        Verdict::Continue
    }
}

fn refusal(reason: Reason, detail: Option<&'static str>) -> Verdict {
    Refusal { reason, detail, lines: CHALLENGE.to_vec() }.into()
}

/// The key that a request shows; an error if there is more than one, of which the upstream might take another.
fn shown(
    request: &Request<'_>,
    header: Option<&str>,
    query: Option<&str>,
) -> Result<Option<Vec<u8>>, &'static str> {
    let head = &request.head.head;
    let fields = head.fields().iter().filter(|field| {
        header.is_some_and(|name| head.slice(field.name).eq_ignore_ascii_case(name.as_bytes()))
    });
    let of_header = fields.map(|field| head.slice(field.value).to_vec());
    let pairs = Pairs::of(request.query().unwrap_or_default());
    let of_query = pairs.filter_map(|pair| query.and_then(|name| pair.value_of(name.as_bytes())));
    let mut all = of_header.chain(of_query);
    match (all.next(), all.next()) {
        (_, Some(_)) => Err("more than one key"),
        (key, None) => Ok(key.filter(|key| !key.is_empty())),
    }
}
