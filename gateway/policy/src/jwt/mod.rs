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
use tollgate_http::Name;
use tollgate_observe::Reason;

pub use self::algorithm::Algorithm;
use self::cache::Cache;
use self::key::{Key, keys_of_jwks};
use self::pem::{is_pem, keys_of_pem};
pub use self::remote::RemoteKeys;
use self::remote::{KeySet, Remote};
use self::token::Token;
use crate::{Consumer, Identity, Planned, Policy, Refusal, Request, Reserved, Shared, Verdict};

/// The longest time that a token is taken for verified without its being verified again.
const LONGEST_CACHED: Duration = Duration::from_secs(3600);
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
    /// Keys that are known from the start.
    pub fixed: FixedKeys,
    /// Keys that are fetched.
    pub remote: Option<RemoteKeys>,
    /// Which algorithms are taken.
    pub algorithms: Vec<Algorithm>,
    /// Who may have issued it (`iss`); empty: whoever has the key.
    pub issuers: Vec<String>,
    /// For whom it has to be (`aud`), one of these; empty: whomever.
    pub audiences: Vec<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
    /// The cookie that it may be in; `None`: `Authorization` alone.
    pub cookie: Option<String>,
    /// Whether it goes upstream.
    pub forward: bool,
    /// What it has to say.
    pub claims: Vec<(String, Vec<String>)>,
    /// Fields that tell the upstream what it says: name and claim.
    pub headers: Vec<(String, String)>,
    /// The claim that is the consumer's name.
    pub consumer_claim: String,
    /// The claim that has its groups.
    pub groups_claim: String,
    /// How the upstream is told who it is.
    pub identity: Identity,
    /// Tokens that are remembered as verified, for each worker.
    pub cache: usize,
}

impl Planned for JwtRules {
    fn kind(&self) -> &'static str {
        "jwt"
    }

    fn summary(&self) -> String {
        let fetched = self.remote.as_ref().map(|remote| format!(", others from {}", remote.url));
        format!("{} keys{}", self.fixed.0.len(), fetched.unwrap_or_default())
    }

    fn live(self: Arc<Self>, _: &str, shared: &Arc<Shared>) -> Arc<dyn Policy> {
        let remote = self.remote.as_ref().map(|config| {
            let fits = |remote: &Remote| remote.config == *config;
            shared.state(&format!("jwks {}", config.url), fits, || Remote::new(config.clone()))
        });
        let reserved = Reserved::new(self.headers.iter().map(|(name, _)| name.clone()));
        let cache = Cache::new(self.cache);
        Arc::new(Live {
            inner: Arc::new(Inner { rules: self, remote, reserved, cache, shared: shared.clone() }),
        })
    }
}

#[derive(Debug)]
struct Live {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    rules: Arc<JwtRules>,
    remote: Option<Arc<Remote>>,
    /// The fields with claims.
    reserved: Reserved,
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
    /// The number of the keys that it was verified by.
    keys: u64,
}

#[cfg(test)]
impl Default for Verified {
    fn default() -> Self {
        Self { consumer: Arc::default(), headers: Vec::new(), until: Instant::now(), keys: 0 }
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
        inner.rules.identity.strip(request);
        if !inner.rules.headers.is_empty() {
            request.claim(&inner.reserved);
        }
        // Not when the request began: for as long as its head may take, a token would last past its end.
        let now = tollgate_net::now();
        let keys = inner.remote.as_ref().map(|remote| {
            remote.renew(&inner.shared, now);
            remote.keys(now)
        });
        let number = keys.as_ref().map_or(0, |(keys, _)| keys.number);
        let token = match shown(request, inner.rules.cookie.as_deref()) {
            Ok(Some(token)) => token,
            Ok(None) => return refusal(Reason::CredentialsMissing, None),
            Err(detail) => return refusal(Reason::CredentialsRefused, Some(detail)),
        };
        if let Some(verified) = inner.cache.get(request.origin.worker, token, number, now) {
            return inner.admit(request, &verified);
        }
        let token = token.to_vec();
        match inner.verify(&token, keys.as_ref().map(|(keys, _)| &**keys), now) {
            Ok(verified) => inner.remember(request, &token, verified),
            Err(fault) => match (&inner.remote, keys) {
                // Also when a key is for it that did not sign it: issuers may change a key and keep its name, or give none.
                (Some(remote), Some((_, true))) if fault.may_be_of_other_keys() => {
                    inner.clone().wait(remote.clone(), token)
                }
                (_, keys) => fault.verdict(keys.is_some_and(|(keys, _)| keys.number == 0)),
            },
        }
    }
}

impl Inner {
    /// Fetches the keys, then looks at the token again.
    fn wait(self: Arc<Self>, remote: Arc<Remote>, token: Vec<u8>) -> Verdict {
        let asked = self.shared.side().ask(remote.clone().refresh());
        Verdict::Wait(Box::pin(async move {
            let _ = asked.await;
            let after = move |request: &mut Request<'_>| {
                let now = tollgate_net::now();
                let (keys, _) = remote.keys(now);
                match self.verify(&token, Some(&keys), now) {
                    Ok(verified) => self.remember(request, &token, verified),
                    Err(fault) => fault.verdict(keys.number == 0),
                }
            };
            Box::new(after) as crate::After
        }))
    }

    fn verify(&self, text: &[u8], fetched: Option<&KeySet>, now: Instant) -> Result<Verified, Fault> {
        let rules = &self.rules;
        let token = Token::new(text).map_err(Fault::Refused)?;
        if !rules.algorithms.contains(&token.algorithm) {
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
            rules.fixed.0.iter().chain(fetched_keys).filter(named).filter(|key| key.serves(token.algorithm));
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
        self.accepts(&claims).map_err(Fault::Refused)?;
        let flat = token::flat(&claims);
        let all = |claim: &str| -> Vec<String> {
            let named = flat.iter().filter(|(name, _)| name == claim);
            named.map(|(_, value)| value.clone()).collect()
        };
        let groups = all(&rules.groups_claim).into_iter().filter(|group| is_plain(group)).collect();
        let headers = rules.headers.iter().filter_map(|(header, claim)| {
            let value = all(claim).join(",");
            (!value.is_empty()).then(|| (header.clone(), value))
        });
        let headers = headers.collect();
        let name = all(&rules.consumer_claim).into_iter().next().unwrap_or_default();
        let consumer = Consumer { name, groups, claims: flat };
        if rules.claims.iter().any(|(claim, values)| !consumer.says(claim, values)) {
            return Err(Fault::Refused("the token does not say what the route's `claims` want"));
        }
        let until = now + Duration::try_from_secs_f64(left).unwrap_or(LONGEST_CACHED).min(LONGEST_CACHED);
        let keys = fetched.map_or(0, |set| set.number);
        Ok(Verified { consumer: Arc::new(consumer), headers, until, keys })
    }

    /// Whether it comes from whom it should, and is for us.
    fn accepts(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        let JwtRules { issuers, audiences, .. } = &*self.rules;
        let is = |value: &Value, of: &[String]| {
            value.as_str().is_some_and(|value| of.iter().any(|own| own == value))
        };
        if !issuers.is_empty() && !claims.get("iss").is_some_and(|issuer| is(issuer, issuers)) {
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

    fn remember(&self, request: &mut Request<'_>, token: &[u8], verified: Verified) -> Verdict {
        let verified = Arc::new(verified);
        self.cache.put(request.origin.worker, token, verified.clone());
        self.admit(request, &verified)
    }

    fn admit(&self, request: &mut Request<'_>, verified: &Verified) -> Verdict {
        let JwtRules { forward, cookie, identity, .. } = &*self.rules;
        if !forward {
            request.remove("authorization");
            if let Some(name) = cookie {
                remove_cookie(request, name);
            }
        }
        for (name, value) in &verified.headers {
            request.append(name, value.as_bytes());
        }
        identity.tell(request, &verified.consumer);
        Verdict::Continue
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

/// The token that a request shows: in `Authorization`, else in the cookie. An error if there are two, of which the upstream
/// might take the other.
fn shown<'r>(request: &'r Request<'_>, cookie: Option<&str>) -> Result<Option<&'r [u8]>, &'static str> {
    let head = &request.head.head;
    if head.is_repeated(Name::Authorization) {
        return Err("more than one `Authorization`");
    }
    let bearer = match head.get(Name::Authorization) {
        Some(value) => {
            let (scheme, token) = value.split_at(value.len().min(7));
            match scheme.eq_ignore_ascii_case(b"Bearer ") {
                true => Some(token.trim_ascii()).filter(|token| !token.is_empty()),
                false if cookie.is_none() => return Err("`Authorization` has no bearer token"),
                false => None,
            }
        }
        None => None,
    };
    let Some(name) = cookie else { return Ok(bearer) };
    let mut cookies = head.cookies(name.as_bytes());
    match (bearer, cookies.next(), cookies.next()) {
        (_, _, Some(_)) | (Some(_), Some(_), _) => Err("more than one token"),
        (Some(token), None, None) | (None, Some(token), None) => Ok(Some(token)),
        (None, None, None) => Ok(None),
    }
}

fn remove_cookie(request: &mut Request<'_>, name: &str) {
    let kept: Vec<Vec<u8>> = request
        .head
        .head
        .all(Name::Cookie)
        .flat_map(|line| line.split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
        .filter(|pair| !pair.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    request.remove("cookie");
    if !kept.is_empty() {
        request.append("Cookie", &kept.join(&b"; "[..]));
    }
}

impl Fault {
    /// Whether the issuer may have a key by now that makes it good.
    const fn may_be_of_other_keys(&self) -> bool {
        matches!(self, Self::NoKey | Self::Signature)
    }

    /// What the client is told. `none_at_all`: the issuer's keys were never fetched.
    fn verdict(self, none_at_all: bool) -> Verdict {
        let detail = match self {
            Self::Refused(detail) => detail,
            Self::Signature => "the token's signature is not good",
            Self::NoKey if none_at_all => {
                return Verdict::unavailable("the issuer's keys could not be fetched");
            }
            Self::NoKey => "no key is known for the token",
        };
        refusal(Reason::CredentialsRefused, Some(detail))
    }
}

/// RFC 6750, 3.
fn refusal(reason: Reason, detail: Option<&'static str>) -> Verdict {
    let challenge: &[u8] = match reason {
        Reason::CredentialsMissing => b"WWW-Authenticate: Bearer\r\n",
        _ => b"WWW-Authenticate: Bearer error=\"invalid_token\"\r\n",
    };
    Refusal { reason, detail, lines: challenge.to_vec() }.into()
}

#[cfg(test)]
mod tests;
