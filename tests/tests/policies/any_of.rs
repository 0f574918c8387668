//! `any_of`: a key, a token or a password, and the places of each.

use serde_json::{Value, json};
use tollgate_tests::api::{call, json_of, put};
use tollgate_tests::{Gateway, Origin, Response};

use super::auth::{both, passed, refused};
use super::{api_key, basic, forward_auth, jwt};

/// Returns policies that accept a key, a token or a password.
fn either() -> String {
    format!(
        "any_of:\n    - api_key: {{header: X-Api-Key, query: key}}\n    \
         - jwt: {{secret: {}, consumer_header: X-User, claim_headers: {{X-Role: role}}}}\n    \
         - basic: {{realm: staff}}",
        jwt::SECRET
    )
}

/// Returns the consumers `alice` and `bob`, with keys and passwords.
fn consumers() -> String {
    format!(
        "consumers:\n  alice: {{groups: admin, api_keys: \"{}\"}}\n  bob: {{groups: dev, api_keys: \"{}\", password: \"{}\"}}\n",
        api_key::hashed(api_key::ALICE),
        api_key::hashed(api_key::BOB),
        basic::BCRYPT
    )
}

fn gateway(origin: &Origin, policies: &str) -> Gateway {
    Gateway::start(&format!(
        "{}policies:\n  {policies}\nroutes: [{{to: \"{}\"}}]\n",
        consumers(),
        origin.address()
    ))
}

fn challenges(answer: &Response) -> Vec<String> {
    let all = answer.headers.all("WWW-Authenticate").into_iter();
    all.map(|value| value.split(' ').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn any_of_the_credentials_admits_and_identifies() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, &either());
    let token = format!("Bearer {}", jwt::hs256(jwt::ALICE));
    let password = basic::shown("bob", "correct horse");
    let wrong = ("X-Api-Key", "0123456789abcdef0123456789abcdef");
    let forged = [
        ("X-Consumer-Name", "root"),
        ("X_Consumer_Groups", "root"),
        ("X-User", "root"),
        ("x_user", "root"),
        ("X-Role", "root"),
    ];
    for (shown, name, field) in [
        (vec![("X-Api-Key", api_key::ALICE)], "alice", "X-Consumer-Name"),
        (vec![("Authorization", token.as_str())], "alice", "X-User"),
        (vec![("Authorization", password.as_str())], "bob", "X-Consumer-Name"),
        // One credential is wrong and another is right.
        (vec![wrong, ("Authorization", token.as_str())], "alice", "X-User"),
        (vec![wrong, ("Authorization", password.as_str())], "bob", "X-Consumer-Name"),
        // Two are right: the first alternative counts.
        (vec![("X-Api-Key", api_key::BOB), ("Authorization", token.as_str())], "bob", "X-Consumer-Name"),
    ] {
        for got in passed(&gateway, &origin, &[&forged[..], &shown[..], &forged[..]].concat()) {
            assert_eq!(got.headers.all(field), [name], "{shown:?}: {got:?}");
            let other = if field == "X-User" { "X-Consumer-Name" } else { "X-User" };
            assert!(!got.headers.has(other) && !got.headers.has("X_Consumer_Groups"), "{shown:?}: {got:?}");
            let role = if field == "X-User" { vec!["chief"] } else { vec![] };
            assert_eq!(got.headers.all("X-Role"), role, "{shown:?}");
            // A hidden credential is removed, whichever alternative was used.
            assert!(!got.headers.has("X-Api-Key"), "{shown:?}: {got:?}");
            assert!(got.headers.get("Authorization").is_none_or(|value| value == token), "{shown:?}");
        }
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_refusal_lists_all_accepted_schemes() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, &either());
    let bad = format!("Bearer {}x", jwt::hs256(jwt::ALICE));
    let wrong = ("X-Api-Key", "0123456789abcdef0123456789abcdef");
    let guess = basic::shown("bob", "correct");
    for (shown, reason) in [
        (vec![], "credentials_missing"),
        (vec![wrong], "credentials_refused"),
        (vec![("Authorization", bad.as_str())], "credentials_refused"),
        (vec![("Authorization", guess.as_str())], "credentials_refused"),
        (vec![wrong, ("Authorization", bad.as_str())], "credentials_refused"),
    ] {
        refused(&gateway, &origin, &shown, 401, reason);
        for answer in both(&gateway, "/", &shown) {
            assert_eq!(challenges(&answer), ["ApiKey", "Bearer", "Basic"], "{shown:?}: {answer:?}");
        }
    }
    let records = gateway.wait_records(20);
    assert_eq!(records[0]["detail"], "no credential of any alternative of `any_of` is shown");
    assert_eq!(records[4]["detail"], "no consumer has this key");
    let counted =
        gateway.metrics().sum("tollgate_policy_events_total", "policy=\"any_of\",place=\"gateway\"");
    assert_eq!(counted, Some(20.0));
}

#[test]
fn a_credential_that_is_good_and_may_not_is_403() {
    let origin = Origin::ok();
    let gateway = gateway(
        &origin,
        &format!(
            "any_of: [{{api_key: on, authorize: {{allow: {{groups: admin}}}}}}, {{jwt: {{secret: {}}}}}]",
            jwt::SECRET
        ),
    );
    let token = format!("Bearer {}", jwt::hs256(jwt::ALICE));
    passed(&gateway, &origin, &[("X-Api-Key", api_key::ALICE)]);
    refused(&gateway, &origin, &[("X-Api-Key", api_key::BOB)], 403, "not_authorized");
    refused(
        &gateway,
        &origin,
        &[("X-Api-Key", api_key::BOB), ("Authorization", "Bearer a.b.c")],
        403,
        "not_authorized",
    );
    // The fields of the failed first alternative are removed again.
    for got in passed(&gateway, &origin, &[("X-Api-Key", api_key::BOB), ("Authorization", &token)]) {
        assert_eq!(got.headers.all("X-Consumer-Name"), ["alice"]);
        assert_eq!(got.headers.all("X-Consumer-Groups"), ["admin,dev"]);
    }
}

#[test]
fn later_policies_know_who_it_is() {
    let origin = Origin::ok();
    let gateway = gateway(
        &origin,
        &format!(
            "any_of: [{{api_key: on}}, {{jwt: {{secret: {}}}}}]\n  authorize: {{deny: {{consumers: bob}}}}\n  \
             rate_limit: {{rate: 2/h, by: consumer}}",
            jwt::SECRET
        ),
    );
    refused(&gateway, &origin, &[("X-Api-Key", api_key::BOB)], 403, "not_authorized");
    let token = format!("Bearer {}", jwt::hs256(jwt::ALICE));
    // By key and by token she is the same consumer.
    passed(&gateway, &origin, &[("X-Api-Key", api_key::ALICE)]);
    let answers = both(&gateway, "/admin/x", &[("Authorization", &token)]);
    assert_eq!(answers.map(|answer| answer.status), [429, 429]);
}

#[test]
fn a_key_or_an_external_service() {
    let (origin, service) = (Origin::ok(), forward_auth::service());
    let gateway = gateway(
        &origin,
        &format!(
            "any_of:\n    - api_key: {{query: key}}\n    - forward_auth: {{url: \"http://{}/\", timeout: 10s, \
             consumer: X-Consumer-Name, groups: X-Groups, response_headers: [Authorization, X-Other]}}",
            service.address()
        ),
    );
    for got in passed(&gateway, &origin, &[("X-Pass", "yes"), ("X-Other", "root")]) {
        assert_eq!(
            (got.headers.all("X-Consumer-Name"), got.headers.all("X-Other")),
            (vec!["alice"], vec!["x"])
        );
    }
    let asked = service.count();
    // A request with a key causes no call to the service. A field that only the service writes is removed
    // from the request.
    let fields = [("X-Api-Key", api_key::BOB), ("X-Other", "root"), ("Authorization", "root")];
    for got in passed(&gateway, &origin, &fields) {
        assert_eq!(got.headers.all("X-Consumer-Name"), ["bob"]);
        assert!(!got.headers.has("X-Other") && !got.headers.has("Authorization"), "{got:?}");
    }
    assert_eq!(service.count(), asked);
    // The service's answer goes to the client, with the challenges of the other alternatives.
    for answer in both(&gateway, "/admin/x?key=wrong", &[]) {
        assert_eq!((answer.status, answer.text().as_str()), (401, "login"), "{answer:?}");
        assert_eq!(challenges(&answer), ["Pass", "ApiKey"]);
    }
    for answer in both(&gateway, "/admin/x", &[("X-Pass", "move")]) {
        assert_eq!(answer.status, 302, "{answer:?}");
    }
    drop(service);
    passed(&gateway, &origin, &[("X-Api-Key", api_key::BOB)]);
    refused(&gateway, &origin, &[("X-Pass", "yes")], 503, "authorization_unavailable");
    // The log does not contain a credential from the query.
    for record in gateway.records() {
        assert!(!record["target"].as_str().expect("a text").contains("wrong"), "{record}");
    }
}

#[test]
fn an_address_or_a_password_as_with_satisfy_any() {
    let origin = Origin::ok();
    let password = basic::shown("bob", "correct horse");
    let policies = |block: &str| format!("any_of: [{{ip: {{allow: {block}}}}}, {{basic: on}}]");
    let outside = gateway(&origin, &policies("192.0.2.0/24"));
    refused(&outside, &origin, &[], 401, "credentials_missing");
    passed(&outside, &origin, &[("Authorization", &password)]);
    let inside = gateway(&origin, &policies("127.0.0.0/8"));
    for got in passed(&inside, &origin, &[("Authorization", "Basic wrong"), ("X-Consumer-Name", "root")]) {
        assert!(!got.headers.has("X-Consumer-Name") && !got.headers.has("Authorization"), "{got:?}");
    }
}

#[test]
fn a_request_without_a_credential_passes_where_it_is_optional_and_a_wrong_one_does_not() {
    let origin = Origin::ok();
    let bad = format!("Bearer {}x", jwt::hs256(jwt::ALICE));
    let guess = basic::shown("bob", "correct");
    let wrong = ("X-Api-Key", "0123456789abcdef0123456789abcdef");
    for (policies, wrong) in [
        ("api_key: {optional: on}".to_owned(), wrong),
        ("basic: {optional: on}".to_owned(), ("Authorization", guess.as_str())),
        ("hmac: {optional: on}".to_owned(), ("Signature-Input", "sig1=()")),
        (format!("jwt: {{secret: {}, optional: on}}", jwt::SECRET), ("Authorization", bad.as_str())),
        (
            format!("any_of: [{{api_key: on}}, {{jwt: {{secret: {}, optional: on}}}}]", jwt::SECRET),
            ("Authorization", bad.as_str()),
        ),
        (format!("any_of: [{{api_key: on}}, {{jwt: {{secret: {}, optional: on}}}}]", jwt::SECRET), wrong),
    ] {
        let gateway = gateway(&origin, &policies);
        for got in passed(&gateway, &origin, &[("X-Consumer-Name", "root")]) {
            assert!(!got.headers.has("X-Consumer-Name"), "{policies}: {got:?}");
        }
        let before = origin.count();
        for answer in both(&gateway, "/admin/x", &[wrong]) {
            assert_eq!(answer.status, 401, "{policies}: {answer:?}");
        }
        assert_eq!(origin.count(), before, "{policies}");
    }
    // An optional policy does not satisfy `authorize`.
    let gateway = gateway(&origin, "api_key: {optional: on}\n  authorize: {allow: {groups: [admin, dev]}}");
    refused(&gateway, &origin, &[], 403, "not_authorized");
    passed(&gateway, &origin, &[("X-Api-Key", api_key::BOB)]);
    // With two optional policies, either may identify the client.
    let two = format!("api_key: {{optional: on}}\n  jwt: {{secret: {}, optional: on}}", jwt::SECRET);
    let gateway = self::gateway(&origin, &two);
    for got in passed(&gateway, &origin, &[("X-Api-Key", api_key::BOB)]) {
        assert_eq!(got.headers.all("X-Consumer-Name"), ["bob"], "the second takes nothing away");
    }
}

#[test]
fn a_set_has_it_and_explain_tells_of_it() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "{}policy_sets: {{door: {{any_of: [{{api_key: on}}, {{basic: on}}]}}}}\n\
         policies: {{use: door}}\nroutes: [{{match: /open, to: it, policies: {{any_of: off}}}}, {{to: it}}]\n\
         upstreams: {{it: \"{}\"}}\n",
        consumers(),
        origin.address()
    ));
    refused(&gateway, &origin, &[], 401, "credentials_missing");
    passed(&gateway, &origin, &[("X-Api-Key", api_key::BOB)]);
    assert_eq!(both(&gateway, "/open", &[]).map(|answer| answer.status), [200, 200]);
    let explained = |field: &str| -> Value {
        let body = json!({"method": "GET", "url": "/x", "headers": [field]}).to_string();
        let answer = json_of(&call(&gateway, "POST", "/explain", "", &body));
        answer["policies"][0].clone()
    };
    let met = explained("X-A: b");
    assert_eq!((&met["kind"], &met["set"]), (&json!("any_of"), &json!("door")), "{met}");
    assert_eq!(met["verdict"], "ends here");
    assert_eq!(explained(&format!("X-Api-Key: {}", api_key::BOB))["verdict"], "continues");
    let asks = explained(&format!("Authorization: {}", basic::shown("bob", "x")));
    assert_eq!(asks["verdict"], "asks somebody else; here it continues");
}

#[test]
fn secrets_in_it_are_covered_and_stay_where_they_belong() {
    let gateway = Gateway::start(
        "store: $DIR/store\nroutes: [{match: /fixed, respond: file}]\nupstreams: {known: [\"127.0.0.1:1\"]}\n",
    );
    let issuer = |name: &str, secret: &str| json!({"issuer": name, "secret": secret});
    let secrets = [jwt::SECRET, "another-secret-of-the-tests-with-32-bytes"];
    let route = |issuers: Value| json!({"match": "/a", "respond": "x", "policies": {"any_of": [{"jwt": {"issuers": issuers}}]}});
    let written = route(json!([issuer("one", secrets[1]), issuer("two", secrets[0])]));
    assert_eq!(put(&gateway, "/routes/a", &written).status, 201);
    let shown = call(&gateway, "GET", "/routes/a", "", "");
    assert!(secrets.iter().all(|secret| !shown.text().contains(secret)), "{shown:?}");
    let status = |issuer: &str| {
        let token = jwt::hs256(&format!("{},\"iss\":\"{issuer}\"", jwt::ALICE));
        let request = format!("GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
        gateway.client().ask(request).status
    };
    assert_eq!((status("one"), status("two")), (401, 200));
    // Written back in another order, and without one of the issuers: each secret stays with its issuer.
    let mask = "(secret)";
    for issuers in [json!([issuer("two", mask), issuer("one", mask)]), json!([issuer("two", mask)])] {
        let answer = put(&gateway, "/routes/a", &route(issuers));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!((status("one"), status("two")), (401, 200));
    }
    // An issuer whose secret the gateway does not know.
    let answer = put(&gateway, "/routes/a", &route(json!([issuer("three", mask), issuer("two", mask)])));
    assert_eq!(answer.status, 422, "{answer:?}");
}
