//! `api_key`, and `authorize` by groups.

use aws_lc_rs::digest::{SHA256, digest};
use tollgate_tests::{Gateway, Origin};

use super::auth::{passed, refused};

/// The key of `alice`, who is an admin.
pub const ALICE: &str = "alice-0d5b2c7e9f4a4f6c8d2e1a3b5c7d9e0f";
/// The key of `bob`, who is not an admin.
pub const BOB: &str = "bob-7c1f0e9d8b7a6c5d4e3f2a1b0c9d8e7f";

/// Returns the form of a key in the configuration.
pub fn hashed(key: &str) -> String {
    let digits: Vec<_> =
        digest(&SHA256, key.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", digits.concat())
}

/// Returns the consumers `alice` and `bob`.
pub fn consumers() -> String {
    format!(
        "consumers:\n  alice: {{groups: [admin, dev], api_keys: [\"{}\", \"{}\"]}}\n  bob: {{groups: dev, api_keys: \"{}\"}}\n",
        hashed("an-older-one-of-alice"),
        hashed(ALICE),
        hashed(BOB)
    )
}

fn gateway(origin: &Origin, policies: &str) -> Gateway {
    Gateway::start(&format!(
        "{}policies: {{{policies}}}\nroutes: [{{to: \"{}\"}}]\n",
        consumers(),
        origin.address()
    ))
}

#[test]
fn the_identity_goes_upstream_and_the_key_does_not() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "api_key: on");
    for got in passed(&gateway, &origin, &[("X-Api-Key", ALICE), ("X_Api_Key", "x")]) {
        assert_eq!(got.headers.all("X-Consumer-Name"), ["alice"]);
        assert_eq!(got.headers.all("X-Consumer-Groups"), ["admin,dev"]);
        assert!(!got.headers.has("X-Api-Key") && !got.headers.has("X_Api_Key"), "{got:?}");
    }
    refused(&gateway, &origin, &[("X-Api-Key", "")], 401, "credentials_missing");
    refused(&gateway, &origin, &[("X-Api-Key", &ALICE[1..])], 401, "credentials_refused");
    refused(&gateway, &origin, &[("X-Api-Key", &hashed(ALICE))], 401, "credentials_refused");
    gateway.reconcile(&[&origin]);
}

#[test]
fn the_key_may_be_in_the_query_and_is_taken_out_of_it() {
    let origin = Origin::ok();
    let gateway =
        gateway(&origin, "api_key: {header: off, query: key, consumer_header: X-User, groups_header: off}");
    for (query, rest) in [
        (format!("key={ALICE}"), ""),
        (format!("key={ALICE}&a=1"), "?a=1"),
        (format!("a=1&k%65y={ALICE}&b=2"), "?a=1&b=2"),
        (format!("a=%26;key={ALICE}"), "?a=%26"),
    ] {
        let before = origin.count();
        for answer in super::auth::both(&gateway, &format!("/p?{query}"), &[("X-User", "root")]) {
            assert_eq!(answer.status, 200, "{query}");
        }
        for got in &origin.requests()[before..] {
            assert_eq!(got.target, format!("/p{rest}"), "{query}");
            assert_eq!(
                (got.headers.all("X-User"), got.headers.has("X-Consumer-Groups")),
                (vec!["alice"], false)
            );
        }
    }
    for query in [format!("key={ALICE}&key={BOB}"), format!("key={ALICE};%6bey=x")] {
        for answer in super::auth::both(&gateway, &format!("/p?{query}"), &[]) {
            assert_eq!((answer.status, answer.reason()), (401, "credentials_refused"), "{query}");
        }
    }
    refused(&gateway, &origin, &[("X-Api-Key", ALICE)], 401, "credentials_missing");
}

#[test]
fn the_key_goes_upstream_if_that_is_wanted() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "api_key: {header: X-Token, forward: on}");
    for got in passed(&gateway, &origin, &[("x-token", BOB)]) {
        assert_eq!(
            (got.headers.all("X-Token"), got.headers.all("X-Consumer-Name")),
            (vec![BOB], vec!["bob"])
        );
    }
}

#[test]
fn groups_and_methods_decide() {
    let origin = Origin::ok();
    let gateway = gateway(
        &origin,
        "api_key: on, authorize: {allow: [{groups: admin}, {consumers: bob, methods: [POST]}], deny: {consumers: eve}}",
    );
    passed(&gateway, &origin, &[("X-Api-Key", ALICE)]);
    refused(&gateway, &origin, &[("X-Api-Key", BOB)], 403, "not_authorized");
    let answer = gateway
        .client()
        .ask(format!("POST / HTTP/1.1\r\nHost: a\r\nX-Api-Key: {BOB}\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(answer.status, 200);
}

#[test]
fn authorize_denies_unidentified_clients() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "authorize: {deny: {consumers: eve}}");
    refused(&gateway, &origin, &[("X-Api-Key", ALICE), ("X-Consumer-Name", "alice")], 403, "not_authorized");
}

#[test]
fn a_key_is_found_where_it_may_be_and_goes_no_further() {
    let origin = Origin::ok();
    let places = "from: [{header: Authorization, prefix: ApiKey}, {cookie: key}, {query: key}]";
    let gateway = gateway(&origin, &format!("api_key: {{{places}}}"));
    let (scheme, cookie) = (format!("apikey {ALICE}"), format!("a=b; key={ALICE}"));
    for (field, value, left) in [("Authorization", &scheme, vec![]), ("Cookie", &cookie, vec!["a=b"])] {
        for got in passed(&gateway, &origin, &[(field, value)]) {
            assert_eq!(
                (got.headers.all("X-Consumer-Name"), got.headers.all(field)),
                (vec!["alice"], left.clone())
            );
        }
    }
    // The policy ignores another scheme.
    for got in passed(&gateway, &origin, &[("Authorization", "Basic YTpi"), ("Cookie", &cookie)]) {
        assert_eq!(got.headers.all("Authorization"), ["Basic YTpi"]);
    }
    refused(
        &gateway,
        &origin,
        &[("Authorization", &scheme), ("Cookie", &cookie)],
        401,
        "credentials_refused",
    );
    refused(&gateway, &origin, &[("Authorization", ALICE)], 401, "credentials_missing");
    refused(&gateway, &origin, &[("X-Api-Key", ALICE)], 401, "credentials_missing");
}
