//! `jwt`: tokens that a trusted issuer signed.

mod published;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PSS_SHA512, RsaKeyPair,
};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use tollgate_tests::{Gateway, Origin, eventually};

use super::auth::{both, passed, refused};

/// The secret that the gateway and the tests share.
pub const SECRET: &str = "a-secret-of-the-tests-with-32-bytes-or-more";
/// The claims of alice's token, without its expiry.
pub const ALICE: &str =
    r#""sub":"alice","groups":["admin","dev"],"role":"chief","scope":"read write","org":{"unit":"x"}"#;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Returns a token with this header and these claims, signed by `sign`.
fn token(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
    let tag = sign(message.as_bytes());
    format!("{message}.{}", BASE64.encode(tag))
}

fn hmac_of(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    move |message| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec()
}

/// Returns a token with these claims that is valid for an hour.
pub fn hs256(claims: &str) -> String {
    let claims = format!("{{{claims},\"exp\":{}}}", now() + 3600);
    token(r#"{"alg":"HS256","typ":"JWT"}"#, &claims, hmac_of(SECRET.as_bytes()))
}

fn gateway(origin: &Origin, jwt: &str) -> Gateway {
    Gateway::with(origin, &format!("policies: {{jwt: {{{jwt}}}}}"))
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn is_refused(gateway: &Gateway, origin: &Origin, token: &str) {
    refused(gateway, origin, &[("Authorization", &bearer(token))], 401, "credentials_refused");
}

#[test]
fn claims_go_upstream_and_decide() {
    let origin = Origin::ok();
    let gateway = gateway(
        &origin,
        &format!(
            "secret: {SECRET}, issuer: [me, you], audience: api, claims: {{scope: [admin, write], org.unit: x}}, \
             claim_headers: {{X-Role: role, X-Unit: org.unit, X-None: none}}"
        ),
    );
    let good = format!("{ALICE},\"iss\":\"you\",\"aud\":[\"web\",\"api\"]");
    // The second and third time the gateway has the token in its cache.
    for _ in 0..3 {
        let header = bearer(&hs256(&good));
        for got in
            passed(&gateway, &origin, &[("authorization", &header), ("X-None", "x"), ("X_Role", "root")])
        {
            assert_eq!(got.headers.all("X-Consumer-Name"), ["alice"]);
            assert_eq!(got.headers.all("X-Consumer-Groups"), ["admin,dev"]);
            assert_eq!((got.headers.all("X-Role"), got.headers.all("X-Unit")), (vec!["chief"], vec!["x"]));
            assert!(!got.headers.has("X-None") && !got.headers.has("X_Role"), "{got:?}");
            assert_eq!(got.headers.all("Authorization"), [header.as_str()]);
        }
    }
    for bad in [
        format!("{ALICE},\"iss\":\"you\",\"aud\":\"web\""),
        format!("{ALICE},\"iss\":\"you\""),
        format!("{ALICE},\"iss\":\"they\",\"aud\":\"api\""),
        format!("{ALICE},\"aud\":\"api\""),
        good.replace("read write", "read writer"),
        good.replace("\"unit\":\"x\"", "\"unit\":\"y\""),
        good.replace("\"iss\":\"you\"", "\"iss\":[\"you\"]"),
    ] {
        is_refused(&gateway, &origin, &hs256(&bad));
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn the_time_of_a_token_counts() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, &format!("secret: {SECRET}, leeway: 60s"));
    let at = |more: &str| {
        token(r#"{"alg":"HS256"}"#, &format!("{{\"sub\":\"a\"{more}}}"), hmac_of(SECRET.as_bytes()))
    };
    let (now, hour) = (now(), 3600);
    for good in [
        format!(",\"exp\":{}", now + hour),
        format!(",\"exp\":{}.5", now - 20),
        format!(",\"exp\":{},\"nbf\":{}", now + hour, now + 40),
    ] {
        passed(&gateway, &origin, &[("Authorization", &bearer(&at(&good)))]);
    }
    for bad in [
        String::new(),
        format!(",\"exp\":{}", now - 61),
        format!(",\"exp\":\"{}\"", now + hour),
        format!(",\"exp\":{},\"nbf\":{}", now + hour, now + hour),
        ",\"exp\":1e400".to_owned(),
        ",\"exp\":null".to_owned(),
    ] {
        is_refused(&gateway, &origin, &at(&bad));
    }
}

#[test]
fn a_token_that_was_known_ends() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, &format!("secret: {SECRET}, leeway: 0s"));
    let short = token(
        r#"{"alg":"HS256"}"#,
        &format!("{{\"sub\":\"a\",\"exp\":{}}}", now() + 3),
        hmac_of(SECRET.as_bytes()),
    );
    let header = bearer(&short);
    let status = || both(&gateway, "/", &[("Authorization", &header)]).map(|answer| answer.status);
    assert_eq!(status(), [200, 200]);
    eventually("its end", || status() == [401, 401]);
}

#[test]
fn wrongly_signed_tokens_are_refused() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, &format!("secret: {SECRET}"));
    let claims = format!("{{{ALICE},\"exp\":{}}}", now() + 3600);
    let sign = hmac_of(SECRET.as_bytes());
    for alg in ["none", "None", "NONE", "nOnE", "", "HS384", "hs256", "RS256"] {
        let header = format!("{{\"alg\":\"{alg}\"}}");
        is_refused(&gateway, &origin, &token(&header, &claims, |_| Vec::new()));
        is_refused(&gateway, &origin, &token(&header, &claims, &sign));
    }
    for header in [
        "{}",
        "[]",
        "null",
        "",
        "{\"alg\":null}",
        "{\"alg\":[\"HS256\"]}",
        r#"{"alg":"HS256","alg":"none"}"#,
        r#"{"alg":"HS256","crit":["exp"]}"#,
        "{\"alg\":\"HS256\"}x",
    ] {
        is_refused(&gateway, &origin, &token(header, &claims, &sign));
    }
    let good = token(r#"{"alg":"HS256"}"#, &claims, &sign);
    passed(&gateway, &origin, &[("Authorization", &bearer(&good))]);
    let parts: Vec<_> = good.split('.').collect();
    let other = BASE64.encode(claims.replace("alice", "admin"));
    for bad in [
        format!("{}.{other}.{}", parts[0], parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{good}.{}", parts[2]),
        format!("{good}="),
        format!(".{good}"),
        "..".to_owned(),
        good[..good.len() - 4].to_owned(),
    ] {
        is_refused(&gateway, &origin, &bad);
    }
    for scheme in ["Basic", "Bearer,", "bear"] {
        refused(
            &gateway,
            &origin,
            &[("Authorization", &format!("{scheme} {good}"))],
            401,
            "credentials_refused",
        );
    }
    // The gateway ignores everything that a token says about keys: key ids, however long, and places to fetch
    // keys from.
    let long = "k".repeat(4000);
    let header =
        format!(r#"{{"alg":"HS256","kid":"{long}","jku":"http://127.0.0.1:1/","jwk":{{"kty":"oct"}}}}"#);
    is_refused(&gateway, &origin, &token(&header, &claims, hmac_of(b"the attacker's own")));
    let huge = format!("{}.{}.{}", parts[0], "A".repeat(20_000), parts[2]);
    let statuses = both(&gateway, "/", &[("Authorization", &bearer(&huge))]).map(|answer| answer.status);
    assert!(statuses.iter().all(|status| matches!(status, 401 | 431)), "{statuses:?}");
}

#[test]
fn a_cookie_serves_and_two_tokens_do_not() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, &format!("secret: {SECRET}, cookie: session, forward: off"));
    let good = hs256(ALICE);
    for got in passed(&gateway, &origin, &[("Cookie", &format!("a=b; session={good}; c=d"))]) {
        assert_eq!(got.headers.all("Cookie"), ["a=b; c=d"]);
        assert_eq!(got.headers.all("X-Consumer-Name"), ["alice"]);
    }
    for got in passed(&gateway, &origin, &[("Authorization", &bearer(&good))]) {
        assert!(!got.headers.has("Authorization"), "{got:?}");
    }
    let cookie = format!("session={good}");
    refused(
        &gateway,
        &origin,
        &[("Cookie", &cookie), ("Authorization", &bearer(&good))],
        401,
        "credentials_refused",
    );
    refused(&gateway, &origin, &[("Cookie", &format!("{cookie}; session=x"))], 401, "credentials_refused");
}

/// An issuer's own key pair, by kind.
enum Own {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Own {
    fn ec() -> Self {
        Self::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    fn jwk(&self, kid: &str) -> String {
        let encoded = |bytes: &[u8]| BASE64.encode(bytes);
        match self {
            Self::Rsa(key) => {
                // PKCS #1: a sequence of two numbers, of which the first has 2048 bits after a zero byte.
                let der = key.public_key().as_ref();
                let (n, e) = (encoded(&der[9..9 + 256]), encoded(&[1, 0, 1]));
                format!(r#"{{"kty":"RSA","use":"sig","kid":"{kid}","n":"{n}","e":"{e}"}}"#)
            }
            Self::Ec(key) => {
                let (x, y) =
                    key.public_key().as_ref()[1..].split_at((key.public_key().as_ref().len() - 1) / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                format!(
                    r#"{{"kty":"EC","crv":"{curve}","kid":"{kid}","x":"{}","y":"{}"}}"#,
                    encoded(x),
                    encoded(y)
                )
            }
            Self::Ed(key) => {
                format!(
                    r#"{{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"{kid}","x":"{}"}}"#,
                    encoded(key.public_key().as_ref())
                )
            }
        }
    }

    fn token(&self, alg: &str, kid: &str) -> String {
        let random = SystemRandom::new();
        let claims = format!("{{{ALICE},\"exp\":{}}}", now() + 3600);
        token(&format!(r#"{{"alg":"{alg}","kid":"{kid}"}}"#), &claims, |message| match self {
            Self::Rsa(key) => {
                let mut tag = vec![0; key.public_modulus_len()];
                let how: &dyn aws_lc_rs::signature::RsaEncoding =
                    if alg == "PS512" { &RSA_PSS_SHA512 } else { &RSA_PKCS1_SHA256 };
                key.sign(how, &random, message, &mut tag).expect("signed");
                tag
            }
            Self::Ec(key) => key.sign(&random, message).expect("signed").as_ref().to_vec(),
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
        })
    }
}

fn set(keys: &[String]) -> String {
    format!("{{\"keys\":[{}]}}", keys.join(","))
}

#[test]
fn each_kind_of_key_verifies_its_own_algorithms_alone() {
    let origin = Origin::ok();
    let rsa = Own::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"));
    let (p256, p384) =
        (Own::ec(), Own::Ec(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).expect("a key")));
    let ed = Own::Ed(Ed25519KeyPair::generate().expect("a key"));
    let jwks = set(&[rsa.jwk("r"), p256.jwk("e"), p384.jwk("f"), ed.jwk("d"), r#"{"kty":"odd"}"#.to_owned()]);
    let file = std::env::temp_dir().join(format!("tollgate-jwks-{}.json", std::process::id()));
    std::fs::write(&file, &jwks).expect("written");
    let gateway = gateway(&origin, &format!("jwks: \"{}\"", file.display()));
    for (key, alg, kid) in [
        (&rsa, "RS256", "r"),
        (&rsa, "PS512", "r"),
        (&p256, "ES256", "e"),
        (&p384, "ES384", "f"),
        (&ed, "EdDSA", "d"),
    ] {
        passed(&gateway, &origin, &[("Authorization", &bearer(&key.token(alg, kid)))]);
        is_refused(&gateway, &origin, &key.token(alg, "other"));
    }
    is_refused(&gateway, &origin, &p256.token("ES384", "e"));
    is_refused(&gateway, &origin, &Own::ec().token("ES256", "e"));
    is_refused(&gateway, &origin, &rsa.token("RS512", "r"));
    // A public key is no secret: RSA's public part must not serve as an HMAC secret.
    let public: Vec<u8> = BASE64
        .decode(jwks.split("\"n\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("n"))
        .expect("base64");
    for secret in [public.as_slice(), jwks.as_bytes(), rsa.jwk("r").as_bytes()] {
        let claims = format!("{{{ALICE},\"exp\":{}}}", now() + 3600);
        is_refused(&gateway, &origin, &token(r#"{"alg":"HS256","kid":"r"}"#, &claims, hmac_of(secret)));
    }
    drop(std::fs::remove_file(&file));
}

/// Returns a public key in PEM, as `openssl pkey -pubout` writes it.
fn pem(der: &[u8]) -> String {
    let text = base64::prelude::BASE64_STANDARD.encode(der);
    format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
}

#[test]
fn pem_keys_serve_tokens_with_any_key_id() {
    let origin = Origin::ok();
    let own = [
        Own::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")),
        Own::ec(),
        Own::Ed(Ed25519KeyPair::generate().expect("a key")),
    ];
    let der = |key: &Own| -> Vec<u8> {
        let der: Result<PublicKeyX509Der<'_>, _> = match key {
            Own::Rsa(key) => key.public_key().as_der(),
            Own::Ec(key) => key.public_key().as_der(),
            Own::Ed(key) => key.public_key().as_der(),
        };
        der.expect("a key").as_ref().to_vec()
    };
    let gateway = Gateway::with(&origin, "policies: {jwt: {secret: a-secret-that-goes-away-at-the-reload}}");
    let keys: String = own.iter().map(|key| pem(&der(key))).collect();
    std::fs::write(gateway.directory().join("keys.pem"), &keys).expect("written");
    gateway.write_config(&format!(
        "listen: $LISTEN\nadmin: $ADMIN\nroutes: [{{to: \"{}\", policies: {{jwt: {{jwks: keys.pem}}}}}}]\n",
        origin.address()
    ));
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the keys are read", || gateway.stderr().contains("generation 2"));
    for (key, alg) in own.iter().zip(["RS256", "ES256", "EdDSA"]) {
        for kid in ["1", "whatever"] {
            passed(&gateway, &origin, &[("Authorization", &bearer(&key.token(alg, kid)))]);
        }
    }
    is_refused(&gateway, &origin, &Own::ec().token("ES256", "1"));
    // RFC 8725, 2.1: a public key must not serve as a secret, in any of its forms.
    let claims = format!("{{{ALICE},\"exp\":{}}}", now() + 3600);
    for secret in [keys.as_bytes(), pem(&der(&own[0])).as_bytes(), &der(&own[0])] {
        is_refused(&gateway, &origin, &token(r#"{"alg":"HS256"}"#, &claims, hmac_of(secret)));
    }
}

#[test]
fn a_token_is_found_where_it_may_be_and_nowhere_else() {
    let origin = Origin::ok();
    let places = "from: [{header: Authorization}, {header: X-Token}, {header: X-Other, prefix: Token}, \
                  {cookie: session}, {query: access_token}]";
    for forward in ["on", "off"] {
        let gateway = gateway(&origin, &format!("secret: {SECRET}, forward: {forward}, {places}"));
        let good = hs256(ALICE);
        let (scheme, cookie) = (format!("token  {good}"), format!("a=b; session={good}"));
        for (field, value) in [
            ("Authorization", bearer(&good)),
            ("X-Token", good.clone()),
            ("X-Other", scheme),
            ("Cookie", cookie),
        ] {
            for got in passed(&gateway, &origin, &[(field, &value)]) {
                assert_eq!(got.headers.all("X-Consumer-Name"), ["alice"]);
                let there: Vec<_> = got.headers.all(field);
                let expected = match (forward, field) {
                    ("on", _) => vec![value.as_str()],
                    (_, "Cookie") => vec!["a=b"],
                    _ => vec![],
                };
                assert_eq!(there, expected, "{forward}: {field}");
            }
        }
        let before = origin.count();
        for target in [format!("/q?a=b&access_token={good}"), format!("/q?access%5ftoken={good}&a=b")] {
            for answer in both(&gateway, &target, &[]) {
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        }
        for got in &origin.requests()[before..] {
            assert_eq!(got.target, "/q?a=b", "a token in the query goes no further");
        }
        // In two places, twice in one, or under a name that endpoints may read as the same.
        let before = origin.count();
        for (target, fields) in [
            (format!("/q?access_token={good}"), vec![("X-Token", good.as_str())]),
            (format!("/q?access_token={good}&access_token={good}"), vec![]),
            (format!("/q?access_token={good};access_token={good}"), vec![]),
            ("/q".to_owned(), vec![("X-Token", good.as_str()), ("x-token", good.as_str())]),
            ("/q?access_token=wrong".to_owned(), vec![]),
            (format!("/q?other={good}"), vec![]),
            ("/q".to_owned(), vec![("X_Token", good.as_str())]),
        ] {
            for answer in both(&gateway, &target, &fields) {
                assert_eq!(answer.status, 401, "{target} {fields:?}: {answer:?}");
            }
        }
        assert_eq!(origin.count(), before);
        // No line of the log contains a token from the query, neither of passed nor of refused requests.
        let records = gateway.wait_records(8 + 4 + 14);
        for record in &records {
            let target = record["target"].as_str().expect("a text");
            assert!(!target.contains("access") && !target.contains("wrong"), "{record}");
        }
    }
}

#[test]
fn a_policy_before_it_refuses_and_no_token_stands_in_the_log() {
    let origin = Origin::ok();
    let gateway = Gateway::with(
        &origin,
        &format!(
            "policies: {{ip: {{deny: 127.0.0.1}}, jwt: {{secret: {SECRET}, from: {{query: access_token}}}}}}"
        ),
    );
    for answer in both(&gateway, "/x?access_token=secret&a=b", &[]) {
        assert_eq!(answer.status, 403);
    }
    for record in gateway.wait_records(2) {
        assert_eq!(record["target"], "/x?a=b", "{record}");
    }
}
