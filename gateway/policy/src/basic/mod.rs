//! `basic`: admits requests with a consumer's name and password (RFC 7617).
//!
//! Passwords are short, so their hashes should be slow to compute: argon2 or bcrypt, some tens of milliseconds. The
//! hashes of existing `htpasswd` files are [verified](verify) too, in every scheme that nginx and Apache read except DES.
//! A few dedicated threads verify passwords, and the number of waiting verifications is bounded. A verified password is
//! remembered for a short time under a keyed hash, so that memory does not hold the password itself.

mod config;
mod htpasswd;
mod md5_crypt;
mod verify;

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
pub use verify::{hash_password, is_password_hash};

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
        // An unknown name takes as long as a known one: the password is verified against the hash of another consumer.
        // The name decides which, so that each name takes the same time in every attempt.
        let (consumer, hash) = match found {
            Some((consumer, hash)) => (Some(consumer.clone()), hash.clone()),
            None => (None, rules.consumers.password_instead(self.known.number(&name))),
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
            let _ = sender.send(verify::verify(&hash, &password));
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

    /// Returns a number that belongs to a name and that clients cannot predict.
    fn number(&self, name: &str) -> u64 {
        self.key(name, b"").first_chunk().map_or(0, |first| u64::from_ne_bytes(*first))
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
    fn users_come_from_a_file_of_htpasswd() {
        let file = std::env::temp_dir().join(format!("tollgate-htpasswd-{}", std::process::id()));
        std::fs::write(&file, "ann:$apr1$Zk3v$zrUHnc3neMu1SxlYRVyIb.\nold:lQhul89CPXQlE\n").expect("written");
        let hash = bcrypt::hash("pass", 4).expect("hashed");
        let text = format!(
            "listen: 127.0.0.1:0\nroutes: []\npolicies: {{basic: {{users_file: {}, users: {{eve: '{hash}'}}}}}}\n",
            file.display()
        );
        crate::register();
        let loaded = tollgate_config::from_text("policy.yaml", &text, &|_| None);
        std::fs::remove_file(&file).expect("it is there");
        let config = loaded.config.expect("a configuration");
        let (paths, mut problems) = (tollgate_route::PathRules::default(), Vec::new());
        let consumers = Arc::default();
        let mut compilation =
            crate::Compilation { consumers: &consumers, paths: &paths, problems: &mut problems };
        let settings = config.policies.list[0].spec.as_deref().expect("settings");
        let planned = crate::built_in("basic").expect("a policy").compile(settings, &mut compilation);
        assert_eq!(planned.summary(), "2 passwords");
        let found: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("cannot sign in") && found[0].contains("`old` (line 2)"), "{found:?}");
        assert!(found[1].contains("`ann`"), "{found:?}");
    }

    #[test]
    fn an_unknown_name_always_costs_the_same_password() {
        let entry = |name: &str, hash: &str| ConsumerEntry {
            consumer: Consumer { name: name.to_owned(), ..Consumer::default() },
            password: Some(hash.to_owned()),
            ..ConsumerEntry::default()
        };
        let consumers = Consumers::new(vec![entry("ann", "1"), entry("bob", "2"), entry("eve", "3")]);
        let known = PasswordCache::new(Duration::from_secs(60));
        let instead = |name: &str| consumers.password_instead(known.number(name));
        let names: Vec<String> = (0..100).map(|n| format!("nobody{n}")).collect();
        for name in &names {
            assert_eq!(instead(name), instead(name));
        }
        for hash in ["1", "2", "3"] {
            assert!(names.iter().any(|name| &*instead(name) == hash), "no name costs {hash}");
        }
        assert!(is_password_hash(&Consumers::default().password_instead(7)), "there are no passwords");
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
