//! Consumers as resources: they can change while requests arrive.

use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call, json_of, put};
use tollgate_tests::{Gateway, Origin, Response, Signal, eventually};

use crate::policies::api_key::{ALICE, BOB, hashed};
use crate::policies::basic::{ARGON, BCRYPT, shown};
use crate::policies::hmac::{SECRET, signed};

/// Starts a gateway whose file knows `known` by the key of `bob`, with a route for each policy that
/// identifies clients.
fn guarded(origin: &Origin) -> Gateway {
    let route = |name: &str, policies: &str| {
        format!("- {{name: {name}, match: /{name}, to: it, policies: {{{policies}}}}}\n")
    };
    let routes = [
        route("key", "api_key: on"),
        route("few", "api_key: on, rate_limit: {rate: 3/d, by: consumer}"),
        route("staff", "api_key: on, authorize: {allow: {groups: staff}}"),
        route("name", "basic: on"),
        route("sign", "hmac: on"),
    ];
    Gateway::start(&format!(
        "workers: 2\nstore: $DIR/store\nconsumers: {{known: {{groups: staff, api_keys: \"{}\"}}}}\n\
         upstreams: {{it: \"{}\"}}\nroutes:\n{}",
        hashed(BOB),
        origin.address(),
        routes.concat()
    ))
}

fn ask(gateway: &Gateway, path: &str, fields: &[(&str, String)]) -> Response {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    gateway.client().ask(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"))
}

/// Returns the status of requests with this key on several connections, which spread over the workers. All
/// must agree.
fn by_key(gateway: &Gateway, path: &str, key: &str) -> u16 {
    let all: Vec<u16> = (0..4).map(|_| ask(gateway, path, &[("X-Api-Key", key.to_owned())]).status).collect();
    assert!(all.iter().all(|status| *status == all[0]), "{all:?}");
    all[0]
}

fn alice(groups: &str) -> Value {
    json!({"groups": groups, "api_keys": hashed(ALICE), "password": BCRYPT, "hmac_keys": {"ann-1": SECRET}})
}

#[test]
fn a_confirmed_consumer_is_known_to_every_worker() {
    let origin = Origin::ok();
    let mut gateway = guarded(&origin);
    assert_eq!((by_key(&gateway, "/key", BOB), by_key(&gateway, "/key", ALICE)), (200, 401));
    assert_eq!(put(&gateway, "/consumers/alice", &alice("dev")).status, 201);
    assert_eq!((by_key(&gateway, "/key", BOB), by_key(&gateway, "/key", ALICE)), (200, 200));
    let last = origin.requests().pop().expect("a request");
    assert_eq!(last.headers.all("X-Consumer-Name"), ["alice"]);
    let password = |word: &str| ask(&gateway, "/name", &[("Authorization", shown("alice", word))]).status;
    assert_eq!((password("correct horse"), password("wrong")), (200, 401));
    assert_eq!(ask(&gateway, "/sign", &signed("GET", "/sign")).status, 200);
    // Her groups, her password and her keys change.
    assert_eq!(by_key(&gateway, "/staff", ALICE), 403);
    assert_eq!(call(&gateway, "PATCH", "/consumers/alice", JSON, r#"{"groups": ["staff"]}"#).status, 200);
    assert_eq!(by_key(&gateway, "/staff", ALICE), 200);
    let other = json!({"password": ARGON, "hmac_keys": null, "api_keys": []});
    assert_eq!(call(&gateway, "PATCH", "/consumers/alice", JSON, &other.to_string()).status, 200);
    assert_eq!(by_key(&gateway, "/key", ALICE), 401);
    assert_eq!((password("correct horse"), password("wrong")), (200, 401));
    assert_eq!(ask(&gateway, "/sign", &signed("GET", "/sign")).status, 401);
    // A rollback, a deletion, and durability.
    assert_eq!(call(&gateway, "POST", "/rollback/1", "", "").status, 200);
    assert_eq!((by_key(&gateway, "/key", ALICE), by_key(&gateway, "/staff", ALICE)), (200, 403));
    gateway.kill_and_restart();
    assert_eq!(by_key(&gateway, "/key", ALICE), 200);
    assert_eq!(call(&gateway, "DELETE", "/consumers/alice", "", "").status, 200);
    assert_eq!((by_key(&gateway, "/key", ALICE), by_key(&gateway, "/key", BOB)), (401, 200));
    assert_eq!(call(&gateway, "DELETE", "/consumers/alice", "", "").status, 404);
}

#[test]
fn counters_survive_a_change_of_consumers() {
    let origin = Origin::ok();
    let gateway = guarded(&origin);
    assert_eq!(put(&gateway, "/consumers/alice", &alice("dev")).status, 201);
    let few = |key: &str| ask(&gateway, "/few", &[("X-Api-Key", key.to_owned())]).status;
    assert_eq!((few(ALICE), few(ALICE)), (200, 200));
    assert_eq!(put(&gateway, "/consumers/alice", &alice("staff")).status, 200);
    assert_eq!(
        put(&gateway, "/consumers/carol", &json!({"api_keys": hashed("carol-0123456789")})).status,
        201
    );
    assert_eq!((few(ALICE), few(ALICE)), (200, 429), "three a day, whatever has changed");
    assert_eq!(few("carol-0123456789"), 200);
}

#[test]
fn a_consumer_is_a_resource_like_others() {
    let origin = Origin::ok();
    let gateway = guarded(&origin);
    let dry =
        json_of(&call(&gateway, "PUT", "/consumers/alice?dry_run=true", JSON, &alice("dev").to_string()));
    assert_eq!((&dry["dry_run"], &dry["changes"][0]["change"]), (&json!(true), &json!("added")), "{dry}");
    assert_eq!(by_key(&gateway, "/key", ALICE), 401);
    // In one transaction with a route that needs the consumer; and a consumer in both sources.
    let changes = json!({"changes": [
        {"op": "put", "kind": "consumers", "name": "alice", "value": alice("dev")},
        {"op": "put", "kind": "routes", "name": "hers", "value": {"match": "/hers", "to": "it",
            "policies": {"api_key": "on", "authorize": {"allow": {"consumers": "alice"}}}}},
    ]});
    let done = call(&gateway, "POST", "/transactions", JSON, &changes.to_string());
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!((by_key(&gateway, "/hers", ALICE), by_key(&gateway, "/hers", BOB)), (200, 403));
    let listed = json_of(&call(&gateway, "GET", "/consumers", "", ""));
    let names: Vec<_> =
        listed["items"].as_array().expect("a list").iter().map(|item| item["name"].clone()).collect();
    assert_eq!((&listed["total"], names), (&json!(2), vec![json!("known"), json!("alice")]), "{listed}");
    assert_eq!(json_of(&call(&gateway, "GET", "/consumers/known", "", ""))["groups"], "staff");
    // The change applies only if no other client has changed the resource.
    let tag = call(&gateway, "GET", "/consumers/alice", "", "").headers.get("etag").map(str::to_owned);
    let guarded = |tag: &str| {
        let lines = format!("{JSON}If-Match: {tag}\r\n");
        call(&gateway, "PATCH", "/consumers/alice", &lines, r#"{"groups": "staff"}"#).status
    };
    assert_eq!((tag.as_deref(), guarded("\"9\""), guarded("\"1\"")), (Some("\"1\""), 412, 200));
    // A name, a key and the id of a secret belong to one consumer only.
    let refused = |name: &str, value: &Value| {
        let answer = put(&gateway, &format!("/consumers/{name}"), value);
        let reported = json_of(&answer);
        (
            answer.status,
            reported["error"].clone(),
            reported["problems"][0]["pointer"].clone(),
            reported["message"].clone(),
        )
    };
    assert_eq!(refused("known", &json!({})).1, "of_the_file");
    let (status, _, pointer, message) =
        refused("eve", &json!({"api_keys": [hashed("eves-own"), hashed(BOB)]}));
    assert_eq!(
        (status, pointer, message),
        (422, json!("/api_keys/1"), json!("two consumers have the same key"))
    );
    let (status, _, pointer, message) =
        refused("eve", &json!({"hmac_keys": {"ann-1": "another secret of 16"}}));
    assert_eq!((status, pointer), (422, json!("/hmac_keys/ann-1")), "{message}");
    let (status, _, pointer, _) = refused("eve", &json!({"api_key": "x"}));
    assert_eq!((status, pointer), (422, json!("/api_key")));
    let (status, _, pointer, _) = refused("eve", &json!({"password": "hunter2"}));
    assert_eq!((status, pointer), (422, json!("/password")));
    assert_eq!(refused("a%0Ab", &json!({})).0, 422, "no name for a field");
    assert_eq!(by_key(&gateway, "/key", BOB), 200, "what was refused has changed nothing");
}

#[test]
fn secrets_of_a_consumer_are_never_shown() {
    let origin = Origin::ok();
    let gateway = guarded(&origin);
    let answer = put(&gateway, "/consumers/alice", &alice("dev"));
    assert_eq!(answer.status, 201);
    // A document is refused with the position of the problem, without the secret in the same document.
    let mut wrong = alice("dev");
    wrong["hmac_keys"]["ann-2"] = json!("shortish secret");
    let short = put(&gateway, "/consumers/alice", &wrong);
    assert_eq!((short.status, &json_of(&short)["problems"][0]["pointer"]), (422, &json!("/hmac_keys/ann-2")));
    let mut reported = answer.text() + &short.text() + &gateway.stderr();
    for path in ["/consumers/alice", "/consumers", "/config", "/history/1", "/history"] {
        reported += &call(&gateway, "GET", path, "", "").text();
    }
    assert!(
        !reported.contains(SECRET) && !reported.contains(BCRYPT) && !reported.contains("shortish"),
        "{reported}"
    );
    // The masked value can be written back without a change, but not to another consumer.
    let mut read = json_of(&call(&gateway, "GET", "/consumers/alice", "", ""));
    assert_eq!((&read["hmac_keys"]["ann-1"], &read["password"]), (&json!("(secret)"), &json!("(secret)")));
    let other = put(&gateway, "/consumers/other", &read);
    assert_eq!((other.status, &json_of(&other)["problems"][0]["pointer"]), (422, &json!("/password")));
    read["groups"] = json!("staff");
    assert_eq!(put(&gateway, "/consumers/alice", &read).status, 200);
    assert_eq!(ask(&gateway, "/sign", &signed("GET", "/sign")).status, 200);
    assert_eq!(by_key(&gateway, "/staff", ALICE), 200);
}

#[test]
fn a_consumer_is_in_the_file_or_the_store() {
    let origin = Origin::ok();
    let gateway = guarded(&origin);
    assert_eq!(put(&gateway, "/consumers/alice", &json!({"api_keys": hashed(ALICE)})).status, 201);
    let reload = |consumers: &str, word: &str| {
        let before = gateway.stderr().len();
        gateway.write_config(&format!(
            "workers: 2\nstore: $DIR/store\nconsumers: {{{consumers}}}\nroutes: [{{match: /key, to: \"{}\", policies: {{api_key: on}}}}]\n",
            origin.address()
        ));
        gateway.signal(Signal::HUP);
        eventually("word of the reload", || gateway.stderr()[before..].contains(word));
        gateway.stderr()[before..].to_owned()
    };
    let reported = reload("alice: {groups: staff}", "not loaded");
    assert!(
        reported.contains("two consumers are named `alice`") && reported.contains("store: consumers/alice"),
        "{reported}"
    );
    let reported = reload(&format!("eve: {{api_keys: \"{}\"}}", hashed(ALICE)), "not loaded");
    assert!(
        reported.contains("two consumers have the same key") && reported.contains("consumers/alice"),
        "{reported}"
    );
    assert_eq!((by_key(&gateway, "/key", ALICE), by_key(&gateway, "/key", BOB)), (200, 200));
    reload(&format!("eve: {{api_keys: \"{}\"}}", hashed("eves-own-key")), "loaded");
    eventually("the new file", || by_key(&gateway, "/key", "eves-own-key") == 200);
    assert_eq!((by_key(&gateway, "/key", ALICE), by_key(&gateway, "/key", BOB)), (200, 401));
}
