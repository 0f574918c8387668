//! Tests the verification of tokens.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
    RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;

use super::pem::tests::public;
use super::*;
use crate::testing::Sent;
use crate::{Context, Origin, Trust};

fn rules(remote: Option<RemoteKeyRules>) -> JwtRules {
    JwtRules {
        issuers: vec![IssuerRules {
            names: Vec::new(),
            fixed: FixedKeys::default(),
            remote,
            algorithms: vec![Algorithm::Es256],
            audiences: Vec::new(),
            claims: Vec::new(),
            consumer_claim: "sub".to_owned(),
            groups_claim: "groups".to_owned(),
        }],
        leeway: Duration::ZERO,
        from: vec![CredentialSource::Header {
            name: "Authorization".to_owned(),
            prefix: Some("Bearer".to_owned()),
        }],
        forward: true,
        optional: false,
        headers: Vec::new(),
        identity: Identity::default(),
        cache: 10,
    }
}

fn key() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key")
}

/// Returns a JWK set with this key, always under the same key id.
fn set(key: &EcdsaKeyPair) -> String {
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let (x, y) = (BASE64.encode(x), BASE64.encode(y));
    format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"1","x":"{x}","y":"{y}"}}]}}"#)
}

fn token(key: &EcdsaKeyPair) -> String {
    let header = BASE64.encode(r#"{"alg":"ES256","kid":"1"}"#);
    let message = format!("{header}.{}", BASE64.encode(r#"{"sub":"ann","exp":99999999999}"#));
    let tag = key.sign(&SystemRandom::new(), message.as_bytes()).expect("signed");
    format!("{message}.{}", BASE64.encode(tag.as_ref()))
}

/// Starts an issuer that serves these documents in order and then repeats the last one. Also returns its
/// request counter.
fn issuer(says: [String; 2]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let (mut got, mut chunk) = (Vec::new(), [0; 1024]);
            while !got.ends_with(b"\r\n\r\n") {
                match stream.read(&mut chunk) {
                    Ok(read @ 1..) => got.extend_from_slice(&chunk[..read]),
                    _ => break,
                }
            }
            let body = &says[count.fetch_add(1, Ordering::SeqCst).min(1)];
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (address, asked)
}

fn passes(policy: &Arc<dyn Policy>, token: &str) -> bool {
    let fields = format!("Authorization: Bearer {token}\r\n");
    let (mut sent, mut context) = (Sent::new(&fields), Context::default());
    let mut request = sent.request(&mut context);
    let mut verdict = policy.request(&mut request);
    if let Verdict::Wait(waiting) = verdict {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        verdict = runtime.block_on(waiting)(&mut request);
    }
    match verdict {
        Verdict::Continue => true,
        Verdict::Refuse(refusal) => {
            assert_eq!(refusal.detail, Some("the token's signature is not good"));
            false
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_that_is_replaced_under_its_name_is_fetched_but_not_for_each_bad_signature() {
    let (first, second) = (key(), key());
    for (cooldown, is_fetched) in [(Duration::ZERO, true), (Duration::from_secs(3600), false)] {
        let (address, asked) = issuer([set(&first), set(&second)]);
        let remote = RemoteKeyRules {
            url: format!("http://{address}/"),
            tls: Trust::default(),
            refresh: Duration::from_secs(3600),
            cooldown,
            timeout: Duration::from_secs(60),
        };
        let policy = Arc::new(rules(Some(remote))).activate("k", &Arc::default());
        assert!(passes(&policy, &token(&first)));
        for _ in 0..10 {
            assert_eq!(passes(&policy, &token(&second)), is_fetched);
        }
        assert_eq!(asked.load(Ordering::SeqCst), if is_fetched { 2 } else { 1 });
    }
}

#[test]
fn a_token_that_was_known_ends_while_the_head_of_a_request_is_on_its_way() {
    let (cache, shared) = (TokenCache::new(10), Arc::new(PolicyStates::default()));
    let now = tollgate_net::now();
    let known = |until| Arc::new(VerifiedToken { until, ..VerifiedToken::default() });
    cache.put(0, b"ends", known(now));
    cache.put(0, b"lasts", known(now + Duration::from_secs(3600)));
    let reserved = Reserved::new(Vec::<String>::new());
    let rules = Arc::new(rules(None));
    let (remotes, places) = (vec![None], CredentialSources::new(&rules.from));
    let state = JwtState { inner: Arc::new(JwtVerifier { rules, remotes, reserved, places, cache, shared }) };
    for (token, passes) in [("ends", false), ("lasts", true)] {
        let mut sent = Sent::new(&format!("Authorization: Bearer {token}\r\n"));
        let began = Origin { now: now - Duration::from_secs(10), ..sent.origin };
        let mut context = Context::default();
        let mut request = sent.request(&mut context);
        request.origin = &began;
        assert_eq!(matches!(state.request(&mut request), Verdict::Continue), passes, "{token}");
    }
}

/// A key of each type, which signs with every algorithm of its type.
struct Signer {
    secret: &'static [u8],
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    p521: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

impl Signer {
    fn new() -> Self {
        let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).expect("a key");
        let p521 = EcdsaKeyPair::generate(&ECDSA_P521_SHA512_FIXED_SIGNING).expect("a key");
        Self {
            secret: b"a secret of the tests with 32 bytes or more",
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"),
            p256: key(),
            p384,
            p521,
            ed25519: Ed25519KeyPair::generate().expect("a key"),
        }
    }

    /// Returns the keys that verify signatures of this algorithm.
    fn keys(&self, algorithm: Algorithm) -> FixedKeys {
        use Algorithm as A;
        let pem = match algorithm {
            A::Hs256 | A::Hs384 | A::Hs512 => return FixedKeys::of_secret(self.secret),
            A::Rs256 | A::Rs384 | A::Rs512 | A::Ps256 | A::Ps384 | A::Ps512 => public(self.rsa.public_key()),
            A::Es256 => public(self.p256.public_key()),
            A::Es384 => public(self.p384.public_key()),
            A::Es512 => public(self.p521.public_key()),
            A::EdDsa => public(self.ed25519.public_key()),
        };
        FixedKeys::of_file(pem.as_bytes()).expect("a key")
    }

    fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
        use Algorithm as A;
        let random = SystemRandom::new();
        let hs = |by| hmac::sign(&hmac::Key::new(by, self.secret), message).as_ref().to_vec();
        let ec = |key: &EcdsaKeyPair| key.sign(&random, message).expect("signed").as_ref().to_vec();
        let rsa = |by: &'static dyn RsaEncoding| {
            let mut tag = vec![0; self.rsa.public_modulus_len()];
            self.rsa.sign(by, &random, message, &mut tag).expect("signed");
            tag
        };
        match algorithm {
            A::Hs256 => hs(hmac::HMAC_SHA256),
            A::Hs384 => hs(hmac::HMAC_SHA384),
            A::Hs512 => hs(hmac::HMAC_SHA512),
            A::Rs256 => rsa(&RSA_PKCS1_SHA256),
            A::Rs384 => rsa(&RSA_PKCS1_SHA384),
            A::Rs512 => rsa(&RSA_PKCS1_SHA512),
            A::Ps256 => rsa(&RSA_PSS_SHA256),
            A::Ps384 => rsa(&RSA_PSS_SHA384),
            A::Ps512 => rsa(&RSA_PSS_SHA512),
            A::Es256 => ec(&self.p256),
            A::Es384 => ec(&self.p384),
            A::Es512 => ec(&self.p521),
            A::EdDsa => self.ed25519.sign(message).as_ref().to_vec(),
        }
    }
}

#[test]
fn each_algorithm_lets_in_what_it_has_signed_and_nothing_else() {
    let signer = Signer::new();
    for algorithm in Algorithm::ALL {
        let mut rules = rules(None);
        rules.issuers[0].fixed = signer.keys(algorithm);
        rules.issuers[0].algorithms = vec![algorithm];
        let policy = Arc::new(rules).activate("k", &Arc::default());
        let header = BASE64.encode(format!(r#"{{"alg":"{}"}}"#, algorithm.as_str()));
        let message = format!("{header}.{}", BASE64.encode(r#"{"sub":"ann","exp":99999999999}"#));
        let is_let_in = |tag: &[u8]| passes(&policy, &format!("{message}.{}", BASE64.encode(tag)));
        let tag = signer.sign(algorithm, message.as_bytes());
        assert!(is_let_in(&tag), "{algorithm:?}");
        // At both ends: the whole signature must be compared.
        for at in [0, tag.len() - 1] {
            let mut flipped = tag.clone();
            flipped[at] ^= 1;
            assert!(!is_let_in(&flipped), "{algorithm:?}, a bit of byte {at}");
        }
        for other in Algorithm::ALL.into_iter().filter(|other| *other != algorithm) {
            let tag = signer.sign(other, message.as_bytes());
            assert!(!is_let_in(&tag), "{algorithm:?}, signed by {other:?}");
        }
    }
}

#[test]
fn times_of_a_token() {
    let at = |claims: &str| {
        let claims: Map<String, Value> = serde_json::from_str(claims).map_err(|_| "not JSON")?;
        lasts(&claims, 1_000.0, 10.0)
    };
    for (claims, left) in [
        (r#"{"exp":1000}"#, 10.0),
        (r#"{"exp":991}"#, 1.0),
        (r#"{"exp":1000.5}"#, 10.5),
        (r#"{"exp":1e3,"nbf":1010}"#, 10.0),
        (r#"{"exp":1000,"nbf":-9223372036854775809}"#, 10.0),
        (r#"{"exp":1000,"nbf":0,"iat":1e300}"#, 10.0),
        (r#"{"exp":9223372036854775807}"#, i64::MAX as f64),
        (r#"{"exp":18446744073709551616}"#, u64::MAX as f64),
        (r#"{"exp":1e308}"#, 1e308),
    ] {
        assert!(
            at(claims).is_ok_and(|lasts| (lasts - left).abs() <= left * 1e-9),
            "{claims}: {:?}",
            at(claims)
        );
        // The conversion of the cache must not panic.
        let _ = Duration::try_from_secs_f64(left).unwrap_or(CACHE_TIME_MAX).min(CACHE_TIME_MAX);
    }
    let digits = "9".repeat(400);
    for claims in [
        r#"{}"#,
        r#"{"exp":990}"#,
        r#"{"exp":0}"#,
        r#"{"exp":-1}"#,
        r#"{"exp":-9223372036854775809}"#,
        r#"{"exp":-1e308}"#,
        r#"{"exp":1e309}"#,
        r#"{"exp":"1000"}"#,
        r#"{"exp":null}"#,
        r#"{"exp":[1000]}"#,
        r#"{"exp":01000}"#,
        r#"{"exp":+1000}"#,
        r#"{"exp":1000,"nbf":1010.001}"#,
        r#"{"exp":1000,"nbf":1e308}"#,
        r#"{"exp":1000,"nbf":"0"}"#,
        &format!(r#"{{"exp":{digits}}}"#),
        &format!(r#"{{"exp":1000,"nbf":{digits}}}"#),
    ] {
        assert!(at(claims).is_err(), "{claims}");
    }
}
