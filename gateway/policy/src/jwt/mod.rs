//! `jwt`: who shows a token that somebody trusted has signed may come (RFC 7519, as RFC 8725 advises).
//!
//! The verification itself is aws-lc-rs, which is here for TLS; taking a token apart is little, and every rule of it is a
//! decision of ours: which header fields count, how large, which key for which algorithm.

mod algorithm;
mod cache;
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
use self::cache::Cache;
use self::key::{Key, keys_of_jwks};
use self::pem::{is_pem, keys_of_pem};
pub use self::remote::RemoteKeys;
use self::remote::{KeySet, Remote};
use self::token::Token;
use crate::api_key::optionally;
use crate::credential::{CredentialPlaces, MoreThanOne, Shown};
use crate::{
    Authenticator, Consumer, CredentialPlace, Identity, Planned, Policy, Refusal, Request, Reserved, Shared,
    Verdict,
};

/// The longest time that a token is taken for verified without its being verified again.
const LONGEST_CACHED: Duration = Duration::from_secs(3600);
/// RFC 6750, 3.
const CHALLENGE: &[u8] = b"WWW-Authenticate: Bearer\r\n";
/// Keys without a name that are tried for one token.
const TRIES: usize = 8;

/// Keys that are known from the start.
#[derive(Clone, Debug, Default)]
pub struct FixedKeys(Vec<Key>);

impl FixedKeys {
    /// What a file holds: a set of keys (RFC 7517), which may have secrets in it, or public keys in PEM.
    ///
    /// # Errors
    /// When it is neither, or has no key that verifies signatures.
    pub fn of_file(text: &[u8]) -> Result<Self, &'static str> {
        let keys = if is_pem(text) { keys_of_pem(text) } else { keys_of_jwks(text, false) };
        keys.map(Self)
    }

    /// A shared secret.
    #[must_use]
    pub fn of_secret(secret: &[u8]) -> Self {
        Self(vec![Key::secret(secret)])
    }
}

/// Who shows a token that somebody trusted has signed may come.
#[derive(Debug)]
pub struct JwtRules {
    /// The issuers that are trusted. One without a name is the only one.
    pub issuers: Vec<IssuerRules>,
    /// By how much clocks may differ.
    pub leeway: Duration,
    /// Where the token may be.
    pub from: Vec<CredentialPlace>,
    /// Whether it goes upstream; one from the query never does.
    pub forward: bool,
    /// Whether a request without a token passes.
    pub optional: bool,
    /// Fields that tell the upstream what it says: name and claim.
    pub headers: Vec<(String, String)>,
    /// How the upstream is told who it is.
    pub identity: Identity,
    /// Tokens that are remembered as verified, for each worker.
    pub cache: usize,
}

/// An issuer of tokens, with the keys that verify its tokens and no others.
#[derive(Debug)]
pub struct IssuerRules {
    /// What its tokens have in `iss`, one of these; empty: whatever they have.
    pub names: Vec<String>,
    /// Keys that are known from the start.
    pub fixed: FixedKeys,
    /// Keys that are fetched.
    pub remote: Option<RemoteKeys>,
    /// Which algorithms are taken.
    pub algorithms: Vec<Algorithm>,
    /// For whom a token has to be (`aud`), one of these; empty: whomever.
    pub audiences: Vec<String>,
    /// What a token has to say.
    pub claims: Vec<(String, Vec<String>)>,
    /// The claim that is the consumer's name.
    pub consumer_claim: String,
    /// The claim that has its groups.
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
        format!("{issuers}{}", optionally(self.optional))
    }

    fn live(self: Arc<Self>, _: &str, shared: &Arc<Shared>) -> Arc<dyn Policy> {
        let remote = |issuer: &IssuerRules| {
            let config = issuer.remote.as_ref()?;
            let fits = |remote: &Remote| remote.config == *config;
            Some(shared.state(&format!("jwks {}", config.url), fits, || Remote::new(config.clone())))
        };
        let remotes = self.issuers.iter().map(remote).collect();
        let reserved = Reserved::new(self.headers.iter().map(|(name, _)| name.clone()));
        let (cache, places) = (Cache::new(self.cache), CredentialPlaces::new(&self.from));
        let shared = shared.clone();
        Arc::new(Live { inner: Arc::new(Inner { rules: self, remotes, reserved, places, cache, shared }) })
    }
}

#[derive(Debug)]
struct Live {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    rules: Arc<JwtRules>,
    /// The keys that are fetched, by the number of the issuer.
    remotes: Vec<Option<Arc<Remote>>>,
    /// The fields with claims.
    reserved: Reserved,
    /// Where the token may be.
    places: CredentialPlaces,
    cache: Cache,
    shared: Arc<Shared>,
}

/// What was found out of a token.
#[derive(Debug)]
pub(crate) struct Verified {
    consumer: Arc<Consumer>,
    headers: Vec<(String, String)>,
    /// Until when it holds.
    until: Instant,
    /// The number of the issuer in the rules.
    issuer: usize,
    /// The number of the keys that it was verified by.
    keys: u64,
}

#[cfg(test)]
impl Default for Verified {
    fn default() -> Self {
        Self { consumer: Arc::default(), headers: Vec::new(), until: Instant::now(), issuer: 0, keys: 0 }
    }
}

/// Why a token is not taken.
enum Fault {
    /// It is not good.
    Refused(&'static str),
    /// None of the keys is for it.
    NoKey,
    /// Those that are for it did not sign it.
    Signature,
}

impl Policy for Live {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let inner = &self.inner;
        inner.claim(request, false);
        // Not when the request began: for as long as its head may take, a token would last past its end.
        let now = tollgate_net::now();
        let token = match inner.places.find(request) {
            Ok(Shown::One(token)) => token,
            Ok(Shown::Nothing | Shown::Foreign) if inner.rules.optional => {
                inner.rules.identity.renew(request);
                self.conceal(request, &|_| false);
                return Verdict::Continue;
            }
            Ok(Shown::Nothing) => return inner.refusal(request, Reason::CredentialsMissing, None),
            Ok(Shown::Foreign) => {
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
                // Also when a key is for it that did not sign it: issuers may change a key and keep its name, or give none.
                (Some(remote), Some((_, true))) if fault.may_be_of_other_keys() => {
                    inner.clone().wait(issuer, remote.clone(), token)
                }
                (_, keys) => inner.fault(request, fault, keys.is_some_and(|(keys, _)| keys.number == 0)),
            },
        }
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
        self.inner.places.is_shown(request)
    }

    fn is_optional(&self) -> bool {
        self.inner.rules.optional
    }

    fn challenge(&self) -> Vec<u8> {
        CHALLENGE.to_vec()
    }

    fn claim(&self, request: &mut Request<'_>) {
        self.inner.claim(request, true);
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

impl Inner {
    /// Takes out the fields that this policy alone writes. `known`: who the client is by a policy before stays told.
    fn claim(&self, request: &mut Request<'_>, known: bool) {
        if known {
            self.rules.identity.renew(request);
        } else {
            self.rules.identity.strip(request);
        }
        if !self.rules.headers.is_empty() {
            request.claim(&self.reserved);
        }
    }

    /// What was found out of a token before, if it still holds. Its issuer's keys are fetched again if they are old.
    fn known(&self, worker: usize, token: &[u8], now: Instant) -> Option<Arc<Verified>> {
        self.cache.get(worker, token, now, |issuer| {
            let Some(remote) = self.remotes.get(issuer)? else { return Some(0) };
            remote.renew(&self.shared, now);
            Some(remote.keys(now).0.number)
        })
    }

    /// The issuer whose keys have to verify a token, by what that says itself. Its signature covers that word, so a token
    /// that lies here is refused by the keys of the issuer that it names.
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

    /// Fetches the issuer's keys, then looks at the token again.
    fn wait(self: Arc<Self>, issuer: usize, remote: Arc<Remote>, token: Vec<u8>) -> Verdict {
        let asked = self.shared.side().ask(remote.clone().refresh());
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
            Box::new(after) as crate::After
        }))
    }

    fn verify(
        &self,
        number: usize,
        text: &[u8],
        fetched: Option<&KeySet>,
        now: Instant,
    ) -> Result<Verified, Fault> {
        let (rules, issuer) = (&self.rules, &self.rules.issuers[number]);
        let token = Token::new(text).map_err(Fault::Refused)?;
        if !issuer.algorithms.contains(&token.algorithm) {
            return Err(Fault::Refused("the token is signed by an algorithm that is not taken"));
        }
        let fetched_keys = fetched.map_or(&[][..], |set| &set.keys);
        let named = |key: &&Key| match (&token.key, &key.id) {
            (Some(named), Some(own)) => named == own,
            // A secret or key without a name is for all tokens.
            (_, None) => true,
            (None, Some(_)) => true,
        };
        let mut candidates =
            issuer.fixed.0.iter().chain(fetched_keys).filter(named).filter(|key| key.serves(token.algorithm));
        let mut candidates = candidates.by_ref().take(TRIES).peekable();
        if candidates.peek().is_none() {
            return Err(Fault::NoKey);
        }
        if !candidates.any(|key| key.verifies(token.algorithm, token.message, &token.tag)) {
            return Err(Fault::Signature);
        }
        let claims = token.claims().map_err(Fault::Refused)?;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let left = lasts(&claims, time, rules.leeway.as_secs_f64()).map_err(Fault::Refused)?;
        issuer.accepts(&claims).map_err(Fault::Refused)?;
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
        if issuer.claims.iter().any(|(claim, values)| !consumer.says(claim, values)) {
            return Err(Fault::Refused("the token does not say what the route's `claims` want"));
        }
        let left = Duration::try_from_secs_f64(left).unwrap_or(LONGEST_CACHED).min(LONGEST_CACHED);
        let until = now.checked_add(left).unwrap_or(now);
        let keys = fetched.map_or(0, |set| set.number);
        Ok(Verified { consumer: Arc::new(consumer), headers, until, issuer: number, keys })
    }

    fn remember(&self, request: &mut Request<'_>, token: &[u8], verified: Verified) -> Verdict {
        let verified = Arc::new(verified);
        self.cache.put(request.origin.worker, token, verified.clone());
        self.admit(request, &verified)
    }

    fn admit(&self, request: &mut Request<'_>, verified: &Verified) -> Verdict {
        match self.rules.forward {
            true => self.places.remove_from_query(request),
            false => self.places.remove(request, &|_| false),
        }
        for (name, value) in &verified.headers {
            request.append(name, value.as_bytes());
        }
        self.rules.identity.tell(request, &verified.consumer);
        Verdict::Continue
    }

    /// The answer to the client. `none_at_all`: the issuer's keys were never fetched.
    fn fault(&self, request: &mut Request<'_>, fault: Fault, none_at_all: bool) -> Verdict {
        let detail = match fault {
            Fault::Refused(detail) => detail,
            Fault::Signature => "the token's signature is not good",
            Fault::NoKey if none_at_all => {
                self.places.remove_from_query(request);
                return Verdict::unavailable("the issuer's keys could not be fetched");
            }
            Fault::NoKey => "no key is known for the token",
        };
        self.refusal(request, Reason::CredentialsRefused, Some(detail))
    }

    /// RFC 6750, 3. The token does not stand in the log.
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
    /// Whether a token comes from this issuer, and is for us.
    fn accepts(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        let Self { names, audiences, .. } = self;
        let is = |value: &Value, of: &[String]| {
            value.as_str().is_some_and(|value| of.iter().any(|own| own == value))
        };
        if !names.is_empty() && !claims.get("iss").is_some_and(|issuer| is(issuer, names)) {
            return Err("the token is from another issuer");
        }
        let meant = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(|audience| is(audience, audiences)),
            Some(one) => is(one, audiences),
            None => false,
        };
        if !audiences.is_empty() && !meant {
            return Err("the token is for another audience");
        }
        Ok(())
    }
}

/// For how many seconds it still lasts.
fn lasts(claims: &Map<String, Value>, now: f64, leeway: f64) -> Result<f64, &'static str> {
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        // RFC 7519, 2: a number, which may have a fraction.
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

/// Whether the name of a group can stand in a list with commas.
fn is_plain(group: &str) -> bool {
    !group.is_empty() && !group.contains(|c: char| c == ',' || c.is_control())
}

impl Fault {
    /// Whether the issuer may have a key by now that makes it good.
    const fn may_be_of_other_keys(&self) -> bool {
        matches!(self, Self::NoKey | Self::Signature)
    }
}

#[cfg(test)]
mod tests;
