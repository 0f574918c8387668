//! `jwt`: admits requests with a token that a trusted issuer has signed (RFC 7519, with the advice of RFC
//! 8725).
//!
//! aws-lc-rs, which TLS needs anyway, verifies signatures. This module parses tokens itself: that is little
//! code, and each of its rules is a security decision, such as the accepted header fields, size limits and
//! keys per algorithm.

mod algorithm;
mod cache;
mod config;
mod key;
mod pem;
mod remote;
mod token;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tollgate_observe::Reason;

pub use self::algorithm::Algorithm;
use self::cache::TokenCache;
use self::key::{VerifyingKey, keys_of_jwks};
use self::pem::{is_pem, keys_of_pem};
pub use self::remote::RemoteKeyRules;
use self::remote::{KeySet, RemoteKeySet};
use self::token::Token;
use crate::api_key::optional_suffix;
use crate::credential::{CredentialSources, FoundCredential, MoreThanOne};
use crate::{
    Authenticator, Consumer, CredentialSource, Identity, Planned, Policy, PolicyStates, Refusal, Request,
    Reserved, Verdict,
};

pub(crate) use config::JwtSettings;

/// The longest time for which a verified token is cached.
const CACHE_TIME_MAX: Duration = Duration::from_secs(3600);
/// The challenge without an error code (RFC 6750, 3).
const CHALLENGE: &[u8] = b"WWW-Authenticate: Bearer\r\n";
/// The maximum number of keys that are tried for one token.
const TRIED_KEYS_MAX: usize = 8;

/// Keys from the configuration.
#[derive(Clone, Debug, Default)]
pub struct FixedKeys(Vec<VerifyingKey>);

impl FixedKeys {
    /// Parses the keys of a file: a JWK set (RFC 7517), which may contain secrets, or public keys in PEM.
    ///
    /// # Errors
    /// When it is neither, or has no key that verifies signatures.
    pub fn of_file(text: &[u8]) -> Result<Self, &'static str> {
        let keys = if is_pem(text) { keys_of_pem(text) } else { keys_of_jwks(text, false) };
        keys.map(Self)
    }

    /// Creates a shared secret for HMAC.
    #[must_use]
    pub fn of_secret(secret: &[u8]) -> Self {
        Self(vec![VerifyingKey::secret(secret)])
    }
}

/// Admits requests with a token that a trusted issuer has signed.
#[derive(Debug)]
pub struct JwtRules {
    /// The trusted issuers. An issuer without a name must be the only one.
    pub issuers: Vec<IssuerRules>,
    /// The tolerated clock difference.
    pub leeway: Duration,
    /// The places where a request may carry the token.
    pub from: Vec<CredentialSource>,
    /// Whether the token is sent upstream; a token in the query never is.
    pub forward: bool,
    /// Whether a request without a token passes.
    pub optional: bool,
    /// Request fields that carry claims to the upstream: the name and the claim.
    pub headers: Vec<(String, String)>,
    /// The fields that name the consumer to the upstream.
    pub identity: Identity,
    /// The number of verified tokens that are cached per worker.
    pub cache: usize,
}

/// An issuer of tokens, with the keys that verify its tokens and no others.
#[derive(Debug)]
pub struct IssuerRules {
    /// The accepted values of `iss`; empty: any.
    pub names: Vec<String>,
    /// Keys from the configuration.
    pub fixed: FixedKeys,
    /// Keys that are fetched from a URL.
    pub remote: Option<RemoteKeyRules>,
    /// The accepted algorithms.
    pub algorithms: Vec<Algorithm>,
    /// The accepted values of `aud`; empty: any.
    pub audiences: Vec<String>,
    /// The claims that a token must have, each with its accepted values.
    pub claims: Vec<(String, Vec<String>)>,
    /// The claim with the consumer's name.
    pub consumer_claim: String,
    /// The claim with the consumer's groups.
    pub groups_claim: String,
}

impl Planned for JwtRules {
    fn kind(&self) -> &'static str {
        "jwt"
    }

    fn summary(&self) -> String {
        let one = |issuer: &IssuerRules| {
            let fetched = issuer.remote.as_ref().map(|remote| format!(", others from {}", remote.url));
            format!("{} keys{}", issuer.fixed.0.len(), fetched.unwrap_or_default())
        };
        let issuers = self.issuers.iter().map(one).collect::<Vec<_>>().join("; ");
        format!("{issuers}{}", optional_suffix(self.optional))
    }

    fn activate(self: Arc<Self>, _: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let remote = |issuer: &IssuerRules| {
            let config = issuer.remote.as_ref()?;
            let fits = |remote: &RemoteKeySet| remote.config == *config;
            Some(shared.state(&format!("jwks {}", config.url), fits, || RemoteKeySet::new(config.clone())))
        };
        let remotes = self.issuers.iter().map(remote).collect();
        let reserved = Reserved::new(self.headers.iter().map(|(name, _)| name.clone()));
        let (cache, places) = (TokenCache::new(self.cache), CredentialSources::new(&self.from));
        let shared = shared.clone();
        Arc::new(JwtState {
            inner: Arc::new(JwtVerifier { rules: self, remotes, reserved, places, cache, shared }),
        })
    }
}

#[derive(Debug)]
struct JwtState {
    inner: Arc<JwtVerifier>,
}

#[derive(Debug)]
struct JwtVerifier {
    rules: Arc<JwtRules>,
    /// The fetched keys, by the index of the issuer.
    remotes: Vec<Option<Arc<RemoteKeySet>>>,
    /// The fields with claims.
    reserved: Reserved,
    /// The places where a request may carry the token.
    places: CredentialSources,
    cache: TokenCache,
    shared: Arc<PolicyStates>,
}

/// The result of a successful verification.
#[derive(Debug)]
pub(crate) struct VerifiedToken {
    consumer: Arc<Consumer>,
    headers: Vec<(String, String)>,
    /// The end of its validity.
    until: Instant,
    /// The index of the issuer in the rules.
    issuer: usize,
    /// The number of the fetched key set that verified it; 0 if there was none.
    keys: u64,
}

#[cfg(test)]
impl Default for VerifiedToken {
    fn default() -> Self {
        Self { consumer: Arc::default(), headers: Vec::new(), until: Instant::now(), issuer: 0, keys: 0 }
    }
}

/// The cause for which a token is refused.
enum TokenFault {
    /// The token itself is invalid.
    Refused(&'static str),
    /// No key matches the token.
    NoKey,
    /// A matching key exists, but the signature is wrong.
    Signature,
}

impl Policy for JwtState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let inner = &self.inner;
        inner.reserve_fields(request, false);
        // Uses the current time instead of the start of the request: a slow head must not extend a token's
        // validity.
        let now = tollgate_net::now();
        let token = match inner.places.find(request) {
            Ok(FoundCredential::One(token)) => token,
            Ok(FoundCredential::Nothing | FoundCredential::Foreign) if inner.rules.optional => {
                inner.rules.identity.rewrite(request);
                self.conceal(request, &|_| false);
                return Verdict::Continue;
            }
            Ok(FoundCredential::Nothing) => return inner.refusal(request, Reason::CredentialsMissing, None),
            Ok(FoundCredential::Foreign) => {
                let detail = Some("`Authorization` has no bearer token");
                return inner.refusal(request, Reason::CredentialsRefused, detail);
            }
            Err(MoreThanOne) => {
                return inner.refusal(request, Reason::CredentialsRefused, Some("more than one token"));
            }
        };
        if let Some(verified) = inner.known(request.origin.worker, &token, now) {
            return inner.admit(request, &verified);
        }
        let token = token.into_owned();
        let issuer = match inner.issuer_of(&token) {
            Ok(issuer) => issuer,
            Err(detail) => return inner.refusal(request, Reason::CredentialsRefused, Some(detail)),
        };
        let keys = inner.remotes[issuer].as_ref().map(|remote| {
            remote.renew(&inner.shared, now);
            remote.keys(now)
        });
        match inner.verify(issuer, &token, keys.as_ref().map(|(keys, _)| &**keys), now) {
            Ok(verified) => inner.remember(request, &token, verified),
            Err(fault) => match (&inner.remotes[issuer], keys) {
                // Also retries after a wrong signature: issuers may replace a key and keep its id, or use no
                // ids.
                (Some(remote), Some((_, true))) if fault.may_be_of_other_keys() => {
                    inner.clone().wait(issuer, remote.clone(), token)
                }
                (_, keys) => inner.fault(request, fault, keys.is_some_and(|(keys, _)| keys.number == 0)),
            },
        }
    }

    fn skipped(&self, request: &mut Request<'_>) {
        self.redact(request);
    }

    fn authenticator(&self) -> Option<&dyn Authenticator> {
        Some(self)
    }
}

impl Authenticator for JwtState {
    fn is_present(&self, request: &Request<'_>) -> bool {
        self.inner.places.is_present(request)
    }

    fn is_optional(&self) -> bool {
        self.inner.rules.optional
    }

    fn challenge(&self) -> Vec<u8> {
        CHALLENGE.to_vec()
    }

    fn reserve_fields(&self, request: &mut Request<'_>) {
        self.inner.reserve_fields(request, true);
    }

    fn forwards(&self, field: &str) -> bool {
        self.inner.rules.forward && self.inner.places.has_field(field)
    }

    fn conceal(&self, request: &mut Request<'_>, kept: &dyn Fn(&str) -> bool) {
        match self.inner.rules.forward {
            true => self.redact(request),
            false => self.inner.places.remove(request, kept),
        }
    }

    fn redact(&self, request: &mut Request<'_>) {
        self.inner.places.remove_from_query(request);
    }
}

impl JwtVerifier {
    /// Removes the fields that only this policy may write. `known`: keeps the consumer that an earlier policy
    /// identified.
    fn reserve_fields(&self, request: &mut Request<'_>, known: bool) {
        if known {
            self.rules.identity.rewrite(request);
        } else {
            self.rules.identity.remove(request);
        }
        if !self.rules.headers.is_empty() {
            request.reserve(&self.reserved);
        }
    }

    /// Returns the cached result for a token if it is still valid. Refreshes the issuer's keys if they are
    /// old.
    fn known(&self, worker: usize, token: &[u8], now: Instant) -> Option<Arc<VerifiedToken>> {
        self.cache.get(worker, token, now, |issuer| {
            let Some(remote) = self.remotes.get(issuer)? else { return Some(0) };
            remote.renew(&self.shared, now);
            Some(remote.keys(now).0.number)
        })
    }

    /// Returns the issuer that the unverified token names. The signature covers this claim, so a false claim
    /// fails the verification with that issuer's keys.
    fn issuer_of(&self, token: &[u8]) -> Result<usize, &'static str> {
        let issuers = &self.rules.issuers;
        if let [only] = issuers.as_slice()
            && only.names.is_empty()
        {
            return Ok(0);
        }
        let claims = Token::new(token)?.claims()?;
        let name = claims.get("iss").and_then(Value::as_str);
        let is = |issuer: &IssuerRules| issuer.names.iter().any(|own| Some(own.as_str()) == name);
        issuers.iter().position(is).ok_or("the token is from another issuer")
    }

    /// Fetches the issuer's keys, then verifies the token again.
    fn wait(self: Arc<Self>, issuer: usize, remote: Arc<RemoteKeySet>, token: Vec<u8>) -> Verdict {
        let asked = self.shared.background().run(remote.clone().refresh());
        Verdict::Wait(Box::pin(async move {
            let _ = asked.await;
            let after = move |request: &mut Request<'_>| {
                let now = tollgate_net::now();
                let (keys, _) = remote.keys(now);
                match self.verify(issuer, &token, Some(&keys), now) {
                    Ok(verified) => self.remember(request, &token, verified),
                    Err(fault) => self.fault(request, fault, keys.number == 0),
                }
            };
            Box::new(after) as crate::Continuation
        }))
    }

    fn verify(
        &self,
        number: usize,
        text: &[u8],
        fetched: Option<&KeySet>,
        now: Instant,
    ) -> Result<VerifiedToken, TokenFault> {
        let (rules, issuer) = (&self.rules, &self.rules.issuers[number]);
        let token = Token::new(text).map_err(TokenFault::Refused)?;
        if !issuer.algorithms.contains(&token.algorithm) {
            return Err(TokenFault::Refused("the token is signed by an algorithm that is not taken"));
        }
        let fetched_keys = fetched.map_or(&[][..], |set| &set.keys);
        let named = |key: &&VerifyingKey| match (&token.key, &key.id) {
            (Some(named), Some(own)) => named == own,
            // A secret or key without an id matches all tokens.
            (_, None) => true,
            (None, Some(_)) => true,
        };
        let mut candidates = issuer
            .fixed
            .0
            .iter()
            .chain(fetched_keys)
            .filter(named)
            .filter(|key| key.supports(token.algorithm));
        let mut candidates = candidates.by_ref().take(TRIED_KEYS_MAX).peekable();
        if candidates.peek().is_none() {
            return Err(TokenFault::NoKey);
        }
        if !candidates.any(|key| key.verifies(token.algorithm, token.message, &token.tag)) {
            return Err(TokenFault::Signature);
        }
        let claims = token.claims().map_err(TokenFault::Refused)?;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let left = lasts(&claims, time, rules.leeway.as_secs_f64()).map_err(TokenFault::Refused)?;
        issuer.accepts(&claims).map_err(TokenFault::Refused)?;
        let flat = token::flat(&claims);
        let all = |claim: &str| -> Vec<String> {
            let named = flat.iter().filter(|(name, _)| name == claim);
            named.map(|(_, value)| value.clone()).collect()
        };
        let groups = all(&issuer.groups_claim).into_iter().filter(|group| is_plain(group)).collect();
        let headers = rules.headers.iter().filter_map(|(header, claim)| {
            let value = all(claim).join(",");
            (!value.is_empty()).then(|| (header.clone(), value))
        });
        let headers = headers.collect();
        let name = all(&issuer.consumer_claim).into_iter().next().unwrap_or_default();
        let consumer = Consumer { name, groups, claims: flat };
        if issuer.claims.iter().any(|(claim, values)| !consumer.has_claim(claim, values)) {
            return Err(TokenFault::Refused("the token does not say what the route's `claims` want"));
        }
        let left = Duration::try_from_secs_f64(left).unwrap_or(CACHE_TIME_MAX).min(CACHE_TIME_MAX);
        let until = now.checked_add(left).unwrap_or(now);
        let keys = fetched.map_or(0, |set| set.number);
        Ok(VerifiedToken { consumer: Arc::new(consumer), headers, until, issuer: number, keys })
    }

    fn remember(&self, request: &mut Request<'_>, token: &[u8], verified: VerifiedToken) -> Verdict {
        let verified = Arc::new(verified);
        self.cache.put(request.origin.worker, token, verified.clone());
        self.admit(request, &verified)
    }

    fn admit(&self, request: &mut Request<'_>, verified: &VerifiedToken) -> Verdict {
        match self.rules.forward {
            true => self.places.remove_from_query(request),
            false => self.places.remove(request, &|_| false),
        }
        for (name, value) in &verified.headers {
            request.append(name, value.as_bytes());
        }
        self.rules.identity.set_consumer(request, &verified.consumer);
        Verdict::Continue
    }

    /// Returns the verdict for a fault. `none_at_all`: the issuer's keys were never fetched.
    fn fault(&self, request: &mut Request<'_>, fault: TokenFault, none_at_all: bool) -> Verdict {
        let detail = match fault {
            TokenFault::Refused(detail) => detail,
            TokenFault::Signature => "the token's signature is not good",
            TokenFault::NoKey if none_at_all => {
                self.places.remove_from_query(request);
                return Verdict::unavailable("the issuer's keys could not be fetched");
            }
            TokenFault::NoKey => "no key is known for the token",
        };
        self.refusal(request, Reason::CredentialsRefused, Some(detail))
    }

    /// Refuses the request with a challenge (RFC 6750, 3), and removes the token from the query so that it is
    /// not logged.
    fn refusal(&self, request: &mut Request<'_>, reason: Reason, detail: Option<&'static str>) -> Verdict {
        self.places.remove_from_query(request);
        let challenge: &[u8] = match reason {
            Reason::CredentialsMissing => CHALLENGE,
            _ => b"WWW-Authenticate: Bearer error=\"invalid_token\"\r\n",
        };
        Refusal { detail, lines: challenge.to_vec(), ..reason.into() }.into()
    }
}

impl IssuerRules {
    /// Checks the issuer and the audience of a token.
    fn accepts(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        let Self { names, audiences, .. } = self;
        let is = |value: &Value, of: &[String]| {
            value.as_str().is_some_and(|value| of.iter().any(|own| own == value))
        };
        if !names.is_empty() && !claims.get("iss").is_some_and(|issuer| is(issuer, names)) {
            return Err("the token is from another issuer");
        }
        let is_for_audience = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(|audience| is(audience, audiences)),
            Some(one) => is(one, audiences),
            None => false,
        };
        if !audiences.is_empty() && !is_for_audience {
            return Err("the token is for another audience");
        }
        Ok(())
    }
}

/// Returns for how many seconds the token remains valid.
fn lasts(claims: &Map<String, Value>, now: f64, leeway: f64) -> Result<f64, &'static str> {
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        // RFC 7519, 2: a time is a number, which may have a fraction.
        Some(value) => {
            value.as_f64().filter(|time| time.is_finite()).map(Some).ok_or("a time in the token is none")
        }
    };
    let end = time("exp")?.ok_or("the token has no end (`exp`)")?;
    if now >= end + leeway {
        return Err("the token has expired");
    }
    if time("nbf")?.is_some_and(|begin| now + leeway < begin) {
        return Err("the token is not valid yet");
    }
    Ok(end + leeway - now)
}

/// Whether a group's name can be part of a comma-separated list.
fn is_plain(group: &str) -> bool {
    !group.is_empty() && !group.contains(|c: char| c == ',' || c.is_control())
}

impl TokenFault {
    /// Whether newer keys of the issuer may verify the token.
    const fn may_be_of_other_keys(&self) -> bool {
        matches!(self, Self::NoKey | Self::Signature)
    }
}

#[cfg(test)]
mod tests;
