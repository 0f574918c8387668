//! `basic`: admits requests with a consumer's name and password (RFC 7617).
//!
//! Passwords are short, so their hashes must be slow to compute: argon2 or bcrypt, some tens of milliseconds.
//! A few dedicated threads verify them, and the number of waiting verifications is bounded. A verified
//! password is remembered for a short time under a keyed hash, so that memory does not hold the password
//! itself.

mod config;

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::sync::oneshot;
use tollgate_http::Name;
use tollgate_observe::Reason;
use zeroize::Zeroizing;

use crate::api_key::optional_suffix;
use crate::{
    Authenticator, Consumer, Consumers, Identity, Planned, Policy, PolicyStates, Refusal, Request, Verdict,
};

pub(crate) use config::BasicSettings;

/// The number of threads that verify passwords. Each verification occupies a core, and argon2 needs tens of
/// MiB.
const VERIFIER_THREADS: usize = 2;
/// The maximum number of waiting verifications; further requests are refused.
const QUEUE_MAX: usize = 64;
/// The maximum time that a request waits for the result.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum length of encoded credentials in bytes. bcrypt uses at most 72 bytes of a password.
const CREDENTIALS_MAX_BYTES: usize = 1024;
/// The maximum number of remembered passwords.
const CACHED_PASSWORDS_MAX: usize = 10_000;

/// Admits requests with a consumer's name and password.
#[derive(Debug)]
pub struct BasicRules {
    /// The realm, which the challenge shows to clients.
    pub realm: String,
    /// Whether `Authorization` is sent upstream.
    pub forward: bool,
    /// How long a verified password is accepted without another verification.
    pub cache: Duration,
    /// Whether a request without a password passes.
    pub optional: bool,
    /// The fields that name the consumer to the upstream.
    pub identity: Identity,
    /// The consumers with their password hashes.
    pub consumers: Arc<Consumers>,
}

impl Planned for BasicRules {
    fn kind(&self) -> &'static str {
        "basic"
    }

    fn summary(&self) -> String {
        format!("{} passwords{}", self.consumers.password_count(), optional_suffix(self.optional))
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let pool = shared.state("passwords", |_| true, VerifierPool::default);
        // Each entry records the hash that it was verified against, so the cache stays valid when consumers
        // change.
        let same = |known: &PasswordCache| known.wanted == self.cache;
        let known = shared.state(key, same, || PasswordCache::new(self.cache));
        Arc::new(BasicState { rules: self, pool, known, shared: shared.clone() })
    }
}

#[derive(Debug)]
struct BasicState {
    rules: Arc<BasicRules>,
    pool: Arc<VerifierPool>,
    known: Arc<PasswordCache>,
    shared: Arc<PolicyStates>,
}

impl Policy for BasicState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let rules = &self.rules;
        rules.identity.remove(request);
        if rules.optional && !self.is_present(request) {
            rules.identity.rewrite(request);
            return Verdict::Continue;
        }
        let (name, password) = match credentials_of(request) {
            Ok(Some(shown)) => shown,
            Ok(None) => return rules.refusal(Reason::CredentialsMissing, None),
            Err(detail) => return rules.refusal(Reason::CredentialsRefused, Some(detail)),
        };
        let found = rules.consumers.by_name(&name);
        let key = self.known.key(&name, &password);
        if let Some((consumer, hash)) = found
            // Uses the current time instead of the start of the request: a slow head must not extend the
            // cache time.
            && self.known.has(&key, hash, tollgate_net::now())
        {
            return rules.admit(request, consumer);
        }
        // An unknown name takes as long as a known one: the password is verified against another hash.
        let (consumer, hash) = match found {
            Some((consumer, hash)) => (Some(consumer.clone()), hash.clone()),
            None => (None, rules.consumers.any_password()),
        };
        let (pool, against) = (self.pool.clone(), hash.clone());
        let asked = self.shared.background().run(async move {
            let verified = pool.verify(against, password).ok_or("too many passwords wait to be verified")?;
            let verified = tokio::time::timeout(VERIFY_TIMEOUT, verified).await.ok().and_then(Result::ok);
            verified.ok_or("the password was not verified in time")
        });
        let (rules, known) = (self.rules.clone(), self.known.clone());
        Verdict::Wait(Box::pin(async move {
            let verified = asked.await.unwrap_or(Err("the password could not be verified"));
            let after = move |request: &mut Request<'_>| match (verified, consumer) {
                (Err(detail), _) => Verdict::unavailable(detail),
                (Ok(true), Some(consumer)) => {
                    known.put(key, hash, request.origin.now);
                    rules.admit(request, &consumer)
                }
                (Ok(_), _) => {
                    rules.refusal(Reason::CredentialsRefused, Some("no consumer has this name and password"))
                }
            };
            Box::new(after) as crate::Continuation
        }))
    }

    fn authenticator(&self) -> Option<&dyn Authenticator> {
        Some(self)
    }
}

impl Authenticator for BasicState {
    fn is_present(&self, request: &Request<'_>) -> bool {
        let head = &request.head.head;
        head.is_repeated(Name::Authorization) || head.get(Name::Authorization).is_some_and(is_basic)
    }

    fn is_optional(&self) -> bool {
        self.rules.optional
    }

    fn challenge(&self) -> Vec<u8> {
        self.rules.challenge()
    }

    fn reserve_fields(&self, request: &mut Request<'_>) {
        self.rules.identity.rewrite(request);
    }

    fn forwards(&self, field: &str) -> bool {
        self.rules.forward && field.eq_ignore_ascii_case("authorization")
    }

    fn conceal(&self, request: &mut Request<'_>, kept: &dyn Fn(&str) -> bool) {
        if !self.rules.forward && !kept("authorization") && self.is_present(request) {
            request.remove("authorization");
        }
    }
}

impl BasicRules {
    fn admit(&self, request: &mut Request<'_>, consumer: &Arc<Consumer>) -> Verdict {
        if !self.forward {
            request.remove("authorization");
        }
        self.identity.set_consumer(request, consumer);
        Verdict::Continue
    }

    fn refusal(&self, reason: Reason, detail: Option<&'static str>) -> Verdict {
        Refusal { detail, lines: self.challenge(), ..reason.into() }.into()
    }

    fn challenge(&self) -> Vec<u8> {
        format!("WWW-Authenticate: Basic realm=\"{}\", charset=\"UTF-8\"\r\n", self.realm).into_bytes()
    }
}

/// Whether a value of `Authorization` uses the `Basic` scheme.
fn is_basic(value: &[u8]) -> bool {
    value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"Basic "))
}

/// A name and a password.
type NameAndPassword = (String, Zeroizing<Vec<u8>>);

/// Returns the name and password of a request; `None` if `Authorization` is absent.
fn credentials_of(request: &Request<'_>) -> Result<Option<NameAndPassword>, &'static str> {
    let head = &request.head.head;
    if head.is_repeated(Name::Authorization) {
        return Err("more than one `Authorization`");
    }
    let Some(value) = head.get(Name::Authorization) else { return Ok(None) };
    if !is_basic(value) {
        return Err("`Authorization` is not `Basic`");
    }
    let text = &value[6..];
    if text.len() > CREDENTIALS_MAX_BYTES {
        return Err("the credentials are longer than 1 KiB");
    }
    let decoded = BASE64_STANDARD.decode(text.trim_ascii()).map_err(|_| "the credentials are not base64")?;
    let decoded = Zeroizing::new(decoded);
    let colon = decoded.iter().position(|byte| *byte == b':').ok_or("the credentials have no colon")?;
    let name = std::str::from_utf8(&decoded[..colon]).map_err(|_| "the name is not UTF-8")?;
    Ok(Some((name.to_owned(), decoded[colon + 1..].to_vec().into())))
}

/// Whether a password matches a hash.
fn verify(hash: &str, password: &[u8]) -> bool {
    if hash.starts_with("$2") {
        // bcrypt would truncate a longer password, so that a prefix of it would also match.
        return password.len() <= 72 && bcrypt::verify(password, hash).unwrap_or(false);
    }
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    argon2::Argon2::default().verify_password(password, &hash).is_ok()
}

/// Returns a hash of a password with argon2id at its default cost, in the PHC format. `None` if argon2 does
/// not take the password, or the system has no random numbers.
#[must_use]
pub fn hash_password(password: &[u8]) -> Option<String> {
    let mut salt = [0; 16];
    SystemRandom::new().fill(&mut salt).ok()?;
    let hash = argon2::Argon2::default().hash_password_with_salt(password, &salt).ok()?;
    Some(hash.to_string())
}

/// Whether a text is a supported password hash whose cost a server can afford.
#[must_use]
pub fn is_password_hash(text: &str) -> bool {
    if text.starts_with("$2") {
        let cost = text.get(4..6).and_then(|cost| cost.parse::<u32>().ok());
        return text.len() == 60 && cost.is_some_and(|cost| (4..=15).contains(&cost));
    }
    let Ok(hash) = PasswordHash::new(text) else { return false };
    let known = ["argon2id", "argon2i", "argon2d"].contains(&hash.algorithm.as_str());
    let memory = hash.params.get_decimal("m").unwrap_or(u32::MAX);
    let passes = hash.params.get_decimal("t").unwrap_or(u32::MAX);
    known && hash.hash.is_some() && memory <= 1 << 20 && passes <= 20
}

/// A password verification.
struct VerifyJob {
    hash: Arc<str>,
    password: Zeroizing<Vec<u8>>,
    result: oneshot::Sender<bool>,
}

/// The threads that verify passwords. They start on first use.
#[derive(Default)]
struct VerifierPool(Mutex<Option<SyncSender<VerifyJob>>>);

impl VerifierPool {
    /// Queues a verification; returns `None` if the queue is full.
    fn verify(&self, hash: Arc<str>, password: Zeroizing<Vec<u8>>) -> Option<oneshot::Receiver<bool>> {
        let (sender, verified) = oneshot::channel();
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = jobs.get_or_insert_with(start);
        jobs.try_send(VerifyJob { hash, password, result: sender }).ok().map(|()| verified)
    }
}

fn start() -> SyncSender<VerifyJob> {
    let (send, receive) = sync_channel(QUEUE_MAX);
    let receive = Arc::new(Mutex::new(receive));
    for _ in 0..VERIFIER_THREADS {
        let receive = receive.clone();
        // If no thread starts, the queue fills and further requests are refused.
        let _ = std::thread::Builder::new().name("passwords".to_owned()).spawn(move || work(&receive));
    }
    send
}

fn work(jobs: &Mutex<Receiver<VerifyJob>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(VerifyJob { hash, password, result: sender }) = job else { return };
        // Skips the verification if the client is gone.
        if !sender.is_closed() {
            let _ = sender.send(verify(&hash, &password));
        }
    }
}

impl Debug for VerifierPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

/// The hash that the password was verified against, and the expiry of the entry.
type VerifiedHash = (Arc<str>, Instant);

/// Recently verified names and passwords, each as an HMAC under a random key.
struct PasswordCache {
    key: hmac::Key,
    right: Mutex<HashMap<[u8; 32], VerifiedHash>>,
    /// The configured cache time, and the effective one.
    wanted: Duration,
    time: Duration,
}

impl PasswordCache {
    fn new(wanted: Duration) -> Self {
        let mut secret = [0; 32];
        // Without a random key, the cache is disabled.
        let time = SystemRandom::new().fill(&mut secret).map_or(Duration::ZERO, |()| wanted);
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &secret), right: Mutex::default(), wanted, time }
    }

    fn key(&self, name: &str, password: &[u8]) -> [u8; 32] {
        // A name contains no colon.
        let text = Zeroizing::new([name.as_bytes(), b":", password].concat());
        let mut out = [0; 32];
        out.copy_from_slice(hmac::sign(&self.key, &text).as_ref());
        out
    }

    /// Whether this password was verified recently against the current hash.
    fn has(&self, key: &[u8; 32], hash: &Arc<str>, now: Instant) -> bool {
        let right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.get(key).is_some_and(|(own, until)| own == hash && now < *until)
    }

    fn put(&self, key: [u8; 32], hash: Arc<str>, now: Instant) {
        if self.time.is_zero() {
            return;
        }
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        if right.len() >= CACHED_PASSWORDS_MAX {
            right.retain(|_, (_, until)| now < *until);
            if right.len() >= CACHED_PASSWORDS_MAX {
                right.clear();
            }
        }
        right.insert(key, (hash, now + self.time));
    }
}

impl Debug for PasswordCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remembered")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sent;
    use crate::{ConsumerEntry, Context, Origin};

    // Hashes of `correct horse`: `argon2id` with m=19456, t=2, p=1, and `bcrypt` with cost 4.
    #[test]
    fn passwords_are_verified() {
        let cheap = argon2::Params::new(64, 1, 1, None).expect("parameters");
        let argon = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, cheap);
        let hash =
            argon.hash_password_with_salt(b"correct horse", b"0123456789abcdef").expect("hashed").to_string();
        let bcrypt = bcrypt::hash("correct horse", 4).expect("hashed");
        for hash in [hash.as_str(), bcrypt.as_str()] {
            assert!(is_password_hash(hash), "{hash}");
            assert!(verify(hash, b"correct horse"), "{hash}");
            assert!(!verify(hash, b"correct hors") && !verify(hash, b""), "{hash}");
        }
        let long = "x".repeat(72);
        let hash = bcrypt::hash(&long, 4).expect("hashed");
        assert!(verify(&hash, long.as_bytes()) && !verify(&hash, format!("{long}y").as_bytes()));
        for text in [
            "",
            "secret",
            "$2b$04$short",
            "$2b$31$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuvwxyzabcdefghijk",
            "$argon2id$v=19$m=4294967295,t=1,p=1$YWJjZGVmZ2g$YWJjZGVmZ2hpamtsbW5vcA",
            "$1$abc$def",
        ] {
            assert!(!is_password_hash(text), "{text}");
        }
    }

    #[test]
    fn users_of_a_policy_replace_the_consumers() {
        let hash = bcrypt::hash("pass", 4).expect("hashed");
        let bob = ConsumerEntry {
            consumer: Consumer { name: "bob".to_owned(), ..Consumer::default() },
            password: Some(hash.clone()),
            ..ConsumerEntry::default()
        };
        let consumers = Arc::new(Consumers::new(vec![bob.clone(), bob]));
        let count = |users: &str| {
            crate::testing::planned(&format!("basic: {{realm: r{users}}}"), &consumers).summary()
        };
        assert_eq!(count(""), "1 passwords");
        assert_eq!(count(&format!(", users: {{ann: '{hash}', eve: '{hash}'}}")), "2 passwords");
    }

    #[test]
    fn a_new_plan_leaves_what_is_remembered() {
        let shared = Arc::new(PolicyStates::default());
        let activate = |cache: u64| {
            let rules = BasicRules {
                realm: String::new(),
                forward: false,
                optional: false,
                cache: Duration::from_secs(cache),
                identity: Identity::default(),
                consumers: Arc::default(),
            };
            Arc::new(rules).activate("gateway/basic", &shared)
        };
        let known =
            || shared.state("gateway/basic", |_: &PasswordCache| true, || PasswordCache::new(Duration::ZERO));
        let first = activate(60);
        let before = known();
        let second = activate(60);
        assert!(Arc::ptr_eq(&before, &known()) && before.wanted == Duration::from_secs(60));
        let third = activate(5);
        assert_eq!(known().wanted, Duration::from_secs(5), "it is to be remembered for another time");
        drop((first, second, third));
    }

    #[test]
    fn a_password_is_forgotten_while_the_head_of_a_request_is_on_its_way() {
        let hash: Arc<str> = bcrypt::hash("pass", 4).expect("hashed").into();
        let ann = ConsumerEntry {
            consumer: Consumer { name: "ann".to_owned(), ..Consumer::default() },
            password: Some(hash.to_string()),
            ..ConsumerEntry::default()
        };
        let (now, minute) = (tollgate_net::now(), Duration::from_secs(60));
        let rules = BasicRules {
            realm: String::new(),
            forward: false,
            optional: false,
            cache: minute,
            identity: Identity::default(),
            consumers: Arc::new(Consumers::new(vec![ann])),
        };
        let known = Arc::new(PasswordCache::new(minute));
        let state =
            BasicState { rules: Arc::new(rules), pool: Arc::default(), known, shared: Arc::default() };
        for (verified, is_known) in [(now, true), (now - minute, false)] {
            state.known.put(state.known.key("ann", b"pass"), hash.clone(), verified);
            let mut sent =
                Sent::new(&format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode("ann:pass")));
            let began = Origin { now: now - Duration::from_secs(10), ..sent.origin };
            let mut context = Context::default();
            let mut request = sent.request(&mut context);
            request.origin = &began;
            match state.request(&mut request) {
                Verdict::Continue => assert!(is_known),
                Verdict::Wait(_) => assert!(!is_known),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn verified_passwords_are_cached_for_a_time() {
        let (known, now) = (PasswordCache::new(Duration::from_secs(10)), Instant::now());
        let (hash, other): (Arc<str>, Arc<str>) = ("$1".into(), "$2".into());
        let key = known.key("a", b"b");
        assert!(!known.has(&key, &hash, now));
        known.put(key, hash.clone(), now);
        assert!(known.has(&key, &hash, now));
        assert!(
            !known.has(&known.key("a", b"c"), &hash, now) && !known.has(&known.key("b", b"b"), &hash, now)
        );
        assert!(!known.has(&key, &other, now), "the password was changed");
        assert!(!known.has(&key, &hash, now + Duration::from_secs(10)));
    }
}
