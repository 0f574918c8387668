//! Keys that issuers publish: fetched, replaced, and missing.

use std::sync::{Arc, Mutex};

use super::*;

/// An issuer whose published keys a test can change.
struct Issuer {
    keys: Arc<Mutex<String>>,
    server: Origin,
}

impl Issuer {
    fn new(keys: &str) -> Self {
        let keys = Arc::new(Mutex::new(keys.to_owned()));
        let said = keys.clone();
        let server = Origin::play(move |conn| {
            while conn.request().is_some() {
                let body = said.lock().expect("not poisoned").clone();
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
            }
        });
        Self { keys, server }
    }

    fn says(&self, keys: &str) {
        *self.keys.lock().expect("not poisoned") = keys.to_owned();
    }
}

#[test]
fn an_issuer_rotates_its_keys_talks_nonsense_and_dies() {
    let origin = Origin::ok();
    let (first, second) = (Own::ec(), Own::ec());
    let issuer = Issuer::new(&set(&[first.jwk("1")]));
    let gateway = gateway(
        &origin,
        &format!(
            "jwks: \"http://{}/keys\", cooldown: 100ms, refresh: 1s, timeout: 10s",
            issuer.server.address()
        ),
    );
    let status = |key: &Own, kid: &str| {
        let header = bearer(&key.token("ES256", kid));
        both(&gateway, "/", &[("Authorization", &header)]).map(|answer| answer.status)
    };
    assert_eq!(status(&first, "1"), [200, 200]);
    assert_eq!(status(&second, "2")[0], 401);
    issuer.says(&set(&[first.jwk("1"), second.jwk("2")]));
    eventually("the new key is fetched when a token names it", || status(&second, "2") == [200, 200]);
    assert_eq!(status(&first, "1"), [200, 200]);
    // A token that was accepted, by a key that is withdrawn.
    let known = bearer(&first.token("ES256", "1"));
    let known = || both(&gateway, "/", &[("Authorization", &known)]).map(|answer| answer.status);
    assert_eq!(known(), [200, 200]);
    issuer.says(&set(&[second.jwk("2")]));
    eventually("the key is withdrawn", || known() == [401, 401]);
    // An invalid set of keys changes nothing, nor does an unreachable issuer.
    issuer.says("<html>maintenance</html>");
    let asked = issuer.server.count();
    eventually("it was asked again", || {
        assert_eq!(status(&second, "2"), [200, 200]);
        issuer.server.count() > asked + 1
    });
    drop(issuer);
    let end = std::time::Instant::now() + Duration::from_secs(3);
    while std::time::Instant::now() < end {
        assert_eq!(status(&second, "2"), [200, 200]);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(status(&first, "1"), [401, 401]);
}

#[test]
fn strangers_do_not_make_the_gateway_ask_for_each_token() {
    let origin = Origin::ok();
    let own = Own::ec();
    let issuer = Issuer::new(&set(&[own.jwk("1")]));
    let gateway =
        gateway(&origin, &format!("jwks: \"http://{}/keys\", cooldown: 1h", issuer.server.address()));
    for n in 0..20 {
        is_refused(&gateway, &origin, &own.token("ES256", &format!("unknown-{n}")));
    }
    passed(&gateway, &origin, &[("Authorization", &bearer(&own.token("ES256", "1")))]);
    assert_eq!(issuer.server.count(), 1);
}

#[test]
fn without_keys_no_token_is_accepted() {
    let origin = Origin::ok();
    let dead = tollgate_tests::refused_address();
    let gateway = gateway(&origin, &format!("jwks: \"http://{dead}/keys\", timeout: 2s"));
    let header = bearer(&Own::ec().token("ES256", "1"));
    refused(&gateway, &origin, &[("Authorization", &header)], 503, "authorization_unavailable");
    refused(&gateway, &origin, &[], 401, "credentials_missing");
}

#[test]
fn secrets_that_are_published_are_none() {
    let origin = Origin::ok();
    let secret = BASE64.encode(SECRET);
    let own = Own::ec();
    let issuer = Issuer::new(&set(&[own.jwk("1"), format!(r#"{{"kty":"oct","kid":"s","k":"{secret}"}}"#)]));
    let gateway = gateway(&origin, &format!("jwks: \"http://{}/keys\"", issuer.server.address()));
    let claims = format!("{{{ALICE},\"exp\":{}}}", now() + 3600);
    is_refused(
        &gateway,
        &origin,
        &token(r#"{"alg":"HS256","kid":"s"}"#, &claims, hmac_of(SECRET.as_bytes())),
    );
    passed(&gateway, &origin, &[("Authorization", &bearer(&own.token("ES256", "1")))]);
}

#[test]
fn a_client_that_goes_while_keys_are_fetched_leaves_nothing_behind() {
    let origin = Origin::ok();
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().expect("not poisoned");
    let own = Own::ec();
    let (said, wait) = (set(&[own.jwk("1")]), gate.clone());
    let issuer = Origin::play(move |conn| {
        while conn.request().is_some() {
            drop(wait.lock());
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()));
        }
    });
    let gateway = gateway(
        &origin,
        &format!("jwks: \"http://{}/keys\", timeout: 60s, cooldown: 100ms", issuer.address()),
    );
    let header = bearer(&own.token("ES256", "1"));
    let mut client = gateway.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: {header}\r\n\r\n"));
    let mut http2 = gateway.http2();
    let stream = http2.begin(tollgate_tests::http2::request("GET", "/", &[("authorization", &header)]), true);
    eventually("the issuer is asked", || issuer.count() == 1);
    // A request that is reset before the worker reads it is in no log.
    eventually("both wait", || gateway.metrics().sum("tollgate_requests_in_flight", "") == Some(2.0));
    client.reset();
    stream.expect("begun").reset();
    for record in gateway.wait_records(2) {
        assert_eq!(record["reason"], "client_closed", "{record}");
    }
    drop(held);
    eventually("the others get in", || {
        both(&gateway, "/", &[("Authorization", &header)]).iter().all(|answer| answer.status == 200)
    });
    for got in origin.requests() {
        assert_eq!(got.headers.all("X-Consumer-Name"), ["alice"]);
    }
}

#[test]
fn the_issuer_that_a_token_names_has_to_have_signed_it() {
    let origin = Origin::ok();
    let own = Own::ec();
    let published = Issuer::new(&set(&[own.jwk("1")]));
    let url = published.server.address();
    let gateway = gateway(
        &origin,
        &format!(
            "audience: api, issuers: [{{issuer: [shared, old], secret: {SECRET}, audience: web}}, \
             {{issuer: published, jwks: \"http://{url}/keys\", algorithms: ES256, consumer_claim: name}}]"
        ),
    );
    let shared = |claims: &str| hs256(&format!("\"sub\":\"alice\",\"name\":\"ann\",{claims}"));
    let published = |claims: &str| {
        let claims = format!("{{\"sub\":\"alice\",\"name\":\"ann\",{claims},\"exp\":{}}}", now() + 3600);
        let Own::Ec(key) = &own else { panic!("an EC key") };
        token(r#"{"alg":"ES256","kid":"1"}"#, &claims, |message| {
            key.sign(&SystemRandom::new(), message).expect("signed").as_ref().to_vec()
        })
    };
    // The second time the gateway has each token in its cache.
    for _ in 0..2 {
        for (token, name) in [
            (shared(r#""iss":"shared","aud":"web""#), "alice"),
            (shared(r#""iss":"old","aud":["web"]"#), "alice"),
            (published(r#""iss":"published","aud":"api""#), "ann"),
        ] {
            for got in passed(&gateway, &origin, &[("Authorization", &bearer(&token))]) {
                assert_eq!(got.headers.all("X-Consumer-Name"), [name]);
            }
        }
    }
    for bad in [
        // Signed with the other issuer's key, whatever the token claims.
        shared(r#""iss":"published","aud":"api""#),
        published(r#""iss":"shared","aud":"web""#),
        // For another audience, and from an unknown issuer.
        shared(r#""iss":"shared","aud":"api""#),
        published(r#""iss":"published","aud":"web""#),
        shared(r#""iss":"other","aud":"web""#),
        shared(r#""iss":["shared"],"aud":"web""#),
        shared(r#""aud":"web""#),
        shared(r#""iss":"published","iss":"shared","aud":"api""#),
    ] {
        is_refused(&gateway, &origin, &bad);
    }
}
