//! Gateways that share their resources in a real etcd.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call, json_of, put};
use tollgate_tests::{Client, Etcd, Gateway, eventually};

use crate::faults::network::{HOLE, Relay};
use crate::policies::api_key::{ALICE, hashed};

fn reported(gateway: &Gateway) -> Value {
    json_of(&call(gateway, "GET", "/etcd", "", ""))
}

fn config(etcd: &Etcd) -> String {
    format!(
        "etcd: {{endpoints: {}, cache: $DIR/last-good.json}}\nroutes: [{{name: fixed, match: /fixed, respond: file}}]",
        etcd.endpoints()
    )
}

fn serves(gateway: &Gateway, path: &str, text: &str) -> bool {
    let response = gateway.client().get(path);
    response.status == 200 && response.text() == text
}

fn respond(path: &str, text: &str) -> String {
    json!({ "match": path, "respond": text }).to_string()
}

#[test]
fn a_change_at_one_gateway_reaches_all() {
    let etcd = Etcd::start(1);
    etcd.put("routes/early", &respond("/early", "here"));
    let gateways = [Gateway::start(&config(&etcd)), Gateway::start(&config(&etcd))];
    for gateway in &gateways {
        assert!(serves(gateway, "/early", "here") && serves(gateway, "/fixed", "file"));
    }
    // Written with etcd's own tools, also in YAML.
    etcd.put("upstreams/nowhere", "[\"127.0.0.1:1\"]");
    etcd.put("routes/yaml", "match: /yaml\nrespond: from YAML\n");
    for gateway in &gateways {
        eventually("the route of etcd", || serves(gateway, "/yaml", "from YAML"));
    }
    // A consumer that all gateways know, and after its removal none.
    etcd.put("consumers/alice", &json!({ "api_keys": hashed(ALICE) }).to_string());
    let guarded = json!({"match": "/known", "respond": "known", "policies": {"api_key": "on"}});
    etcd.put("routes/known", &guarded.to_string());
    let known = |gateway: &Gateway| {
        let head = format!("GET /known HTTP/1.1\r\nHost: a\r\nX-Api-Key: {ALICE}\r\n\r\n");
        gateway.client().ask(head).status
    };
    gateways.iter().for_each(|gateway| eventually("who is known", || known(gateway) == 200));
    // A set of policies, which cannot be deleted while a route uses it.
    etcd.put("policies/shut", &json!({"ip": {"deny": "127.0.0.0/8"}}).to_string());
    etcd.put(
        "routes/shut",
        &json!({"match": "/shut", "respond": "x", "policies": {"use": "shut"}}).to_string(),
    );
    let shut = |gateway: &Gateway| gateway.client().get("/shut").status;
    gateways.iter().for_each(|gateway| eventually("the set", || shut(gateway) == 403));
    etcd.delete("policies/shut");
    eventually("a refusal", || reported(&gateways[0])["refused"][0]["resource"] == "policies/shut");
    assert_eq!(shut(&gateways[0]), 403);
    etcd.delete("routes/shut");
    eventually("both gone", || reported(&gateways[0])["refused"].as_array().is_some_and(Vec::is_empty));
    etcd.put("certificates/none", "certificate: /no/such/file");
    eventually("a refusal", || reported(&gateways[0])["refused"][0]["resource"] == "certificates/none");
    etcd.delete("certificates/none");
    etcd.delete("consumers/alice");
    gateways.iter().for_each(|gateway| eventually("who is not", || known(gateway) == 401));
    // Written through the API of one gateway, which serves the change when it answers.
    let answer = put(&gateways[0], "/routes/api", &json!({"match": "/api", "respond": "1"}));
    assert_eq!(answer.status, 201, "{answer:?}");
    let first = json_of(&answer)["version"].as_u64().expect("a version");
    assert!(serves(&gateways[0], "/api", "1"));
    eventually("the route of the API", || serves(&gateways[1], "/api", "1"));
    let one = call(&gateways[1], "GET", "/routes/api", "", "");
    assert_eq!(one.headers.get("etag"), Some(format!("\"{first}\"").as_str()), "{one:?}");
    assert_eq!(one.headers.get("tollgate-source"), Some("etcd"));
    // The change applies only if no other client has changed the resource, through either gateway.
    let guarded = |gateway: &Gateway, tag: u64, text: &str| {
        let lines = format!("{JSON}If-Match: \"{tag}\"\r\n");
        call(gateway, "PATCH", "/routes/api", &lines, &json!({ "respond": text }).to_string())
    };
    let second = guarded(&gateways[1], first, "2");
    assert_eq!(second.status, 200, "{second:?}");
    eventually("the change", || serves(&gateways[0], "/api", "2"));
    assert_eq!(guarded(&gateways[0], first, "3").status, 412);
    // The history, and a rollback.
    let versions = json_of(&call(&gateways[0], "GET", "/history", "", ""));
    assert_eq!(versions["versions"][0]["what"], "patch routes/api", "{versions}");
    assert_eq!(versions["versions"][1]["version"], first, "{versions}");
    let change = json_of(&call(&gateways[0], "GET", &format!("/history/{first}"), "", ""));
    assert_eq!(change["changes"][0]["after"]["respond"], "1", "{change}");
    let back = call(&gateways[1], "POST", &format!("/rollback/{first}"), "", "");
    assert_eq!(back.status, 200, "{back:?}");
    assert!(serves(&gateways[1], "/api", "1"));
    eventually("the change taken back", || serves(&gateways[0], "/api", "1"));
    assert_eq!(call(&gateways[0], "POST", "/rollback/999999", "", "").status, 404);
    assert_eq!(call(&gateways[0], "DELETE", "/routes/api", "", "").status, 200);
    eventually("the route gone", || gateways[1].client().get("/api").status == 404);
    // The list of connected gateways.
    eventually("both to be known", || {
        reported(&gateways[0])["gateways"].as_object().is_some_and(|there| there.len() == 2)
    });
}

#[test]
fn an_entry_that_is_not_good_is_refused_and_the_last_good_one_stays() {
    let etcd = Etcd::start(1);
    etcd.put("routes/a", &respond("/a", "good"));
    etcd.put("upstreams/u", "[\"127.0.0.1:1\"]");
    etcd.put("routes/b", &json!({"match": "/b", "to": "u"}).to_string());
    let gateway = Gateway::start(&config(&etcd));
    let refused = || reported(&gateway)["refused"].as_array().cloned().unwrap_or_default();
    let of = |resource: &str| refused().into_iter().find(|entry| entry["resource"] == resource);
    for poison in ["{\"match\": \"/a\", \"respnd\": \"x\"}", "{", "\u{1}", "- ["] {
        etcd.put("routes/a", poison);
        eventually("a refusal", || of("routes/a").is_some());
        assert!(serves(&gateway, "/a", "good"), "{poison}");
        etcd.put("routes/a", &respond("/a", "good"));
        eventually("the good one", || of("routes/a").is_none());
    }
    etcd.put("routes/a", "{\"match\": \"/a\", \"respnd\": \"x\"}");
    eventually("a refusal", || of("routes/a").is_some());
    let entry = of("routes/a").expect("refused");
    assert_eq!(entry["problems"][0]["pointer"], "/respnd", "{entry}");
    assert_eq!(entry["problems"][0]["help"], json!(["did you mean `respond`?"]), "{entry}");
    assert!(entry["in_force"].is_u64(), "{entry}");
    gateway.await_message("etcd: routes/a: revision");
    gateway.await_message("unknown key `respnd`");
    eventually("the metric", || gateway.metrics().sum("tollgate_etcd_refused_entries", "") == Some(1.0));
    // Problems that only the whole configuration shows: an unknown name, an upstream that is still in use, a
    // match that exists already.
    etcd.put("routes/c", &json!({"match": "/c", "to": "v"}).to_string());
    etcd.delete("upstreams/u");
    etcd.put("routes/d", &respond("/fixed", "taken"));
    etcd.put("routes/fixed", &respond("/e", "of the file"));
    etcd.put("colours/red", "1");
    for resource in ["routes/c", "upstreams/u", "routes/d", "routes/fixed", "colours/red"] {
        eventually(resource, || of(resource).is_some());
    }
    assert_eq!(of("upstreams/u").map(|entry| entry["removal"].clone()), Some(json!(true)));
    assert_eq!(gateway.client().get("/b").status, 502);
    // Other resources still change.
    etcd.put("routes/z", &respond("/z", "fine"));
    eventually("another route", || serves(&gateway, "/z", "fine"));
    assert!(serves(&gateway, "/fixed", "file"));
    // The missing upstream arrives.
    etcd.put("upstreams/v", "[\"127.0.0.1:1\"]");
    etcd.delete("routes/b");
    eventually("what was refused", || of("routes/c").is_none() && of("upstreams/u").is_none());
    assert_eq!(gateway.client().get("/c").status, 502);
    // Through the API, a refused resource can be deleted or replaced.
    assert_eq!(call(&gateway, "DELETE", "/routes/d", "", "").status, 200);
    assert_eq!(put(&gateway, "/routes/a", &json!({"match": "/a", "respond": "good"})).status, 200);
    assert!(of("routes/d").is_none() && of("routes/a").is_none(), "{:?}", refused());
    assert_eq!(etcd.ctl(&["get", "/tollgate/config/routes/d"]), "");
    let answer = put(&gateway, "/routes/bad", &json!({"match": "/bad", "to": "w"}));
    assert_eq!(answer.status, 422, "{answer:?}");
}

#[test]
fn a_transaction_is_taken_whole_or_not_at_all() {
    let etcd = Etcd::start(1);
    etcd.put("routes/a", &respond("/a", "1"));
    let gateway = Gateway::start(&config(&etcd));
    let body = json!({"changes": [
        {"op": "put", "kind": "routes", "name": "a", "value": {"match": "/a", "respond": "2"}},
        {"op": "put", "kind": "upstreams", "name": "u", "value": ["127.0.0.1:1"]},
        {"op": "put", "kind": "routes", "name": "b", "value": {"match": "/b", "to": "u"}},
    ]});
    let answer = call(&gateway, "POST", "/transactions", JSON, &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(serves(&gateway, "/a", "2"));
    let run = |value: &str| {
        let operation = |key: &str, value: &str| {
            let key = STANDARD.encode(format!("/tollgate/config/routes/{key}"));
            json!({"request_put": {"key": key, "value": STANDARD.encode(value)}})
        };
        let body =
            json!({"success": [operation("a", &respond("/a", "3")), operation("b", value)]}).to_string();
        let mut client = Client::connect(etcd.address(0), Arc::default());
        let length = body.len();
        let head = format!("POST /v3/kv/txn HTTP/1.1\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n");
        let answer = client.ask(format!("{head}{body}"));
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    run("{}");
    eventually("a refusal", || {
        reported(&gateway)["refused"].as_array().is_some_and(|refused| refused.len() == 2)
    });
    assert!(serves(&gateway, "/a", "2"));
    run(&respond("/b", "3"));
    eventually("both", || serves(&gateway, "/a", "3") && serves(&gateway, "/b", "3"));
}

#[test]
fn etcd_may_go_and_come_back() {
    let mut etcd = Etcd::start(1);
    etcd.put("routes/a", &respond("/a", "1"));
    let mut gateway = Gateway::start(&config(&etcd));
    assert!(serves(&gateway, "/a", "1"));
    // etcd stops without the gateway being notified.
    etcd.kill(0);
    eventually("the loss to be known", || reported(&gateway)["connected"] == false);
    assert!(serves(&gateway, "/a", "1"));
    let answer = put(&gateway, "/routes/b", &json!({"match": "/b", "respond": "x"}));
    assert_eq!((answer.status, &json_of(&answer)["error"]), (503, &json!("etcd")), "{answer:?}");
    etcd.restart(0);
    eventually("etcd to answer", || reported(&gateway)["connected"] == true);
    etcd.put("routes/a", &respond("/a", "2"));
    eventually("the change", || serves(&gateway, "/a", "2"));
    // etcd hangs: the API does not report success, and served clients do not wait.
    etcd.hang(0);
    eventually("the loss to be known", || reported(&gateway)["connected"] == false);
    assert!(serves(&gateway, "/a", "2"));
    etcd.go_on(0);
    eventually("etcd to answer", || reported(&gateway)["connected"] == true);
    // Without etcd a gateway starts with its last good state.
    etcd.put("routes/a", &respond("/a", "3"));
    eventually("the change", || serves(&gateway, "/a", "3"));
    let kept = gateway.directory().join("last-good.json");
    eventually("the last good state", || {
        std::fs::read_to_string(&kept).is_ok_and(|text| text.contains("\"3\""))
    });
    etcd.kill(0);
    gateway.kill_and_restart();
    assert!(serves(&gateway, "/a", "3") && serves(&gateway, "/fixed", "file"));
    assert_eq!(reported(&gateway)["cached"], true);
    etcd.restart(0);
    etcd.put("routes/a", &respond("/a", "4"));
    etcd.delete("routes/none");
    eventually("the change", || serves(&gateway, "/a", "4"));
    assert_eq!(reported(&gateway)["cached"], false);
}

#[test]
fn a_gateway_recovers_from_compaction_during_an_outage() {
    let etcd = Etcd::start(1);
    let relay = Relay::to(etcd.address(0));
    for name in ["a", "b"] {
        etcd.put(&format!("routes/{name}"), &respond(&format!("/{name}"), "1"));
    }
    let gateway = Gateway::start(&format!(
        "etcd: {{endpoints: \"{}\", cache: $DIR/last-good.json}}\n\
         routes: [{{name: fixed, match: /fixed, respond: file}}]",
        relay.address()
    ));
    assert!(serves(&gateway, "/a", "1") && serves(&gateway, "/b", "1"));
    let known = reported(&gateway)["revision"].as_u64().expect("a revision");
    relay.set(HOLE);
    eventually("the loss to be known", || reported(&gateway)["connected"] == false);
    // One resource changes twice, one is deleted and one is created. etcd no longer holds the revisions in
    // between.
    etcd.put("routes/a", &respond("/a", "2"));
    etcd.put("routes/a", &respond("/a", "3"));
    etcd.delete("routes/b");
    etcd.put("routes/c", &respond("/c", "3"));
    etcd.compact();
    let since = format!("--rev={}", known + 1);
    assert!(etcd.try_ctl(&["get", "/tollgate/config/routes/a", &since]).is_none(), "it is compacted");
    assert!(serves(&gateway, "/a", "1") && serves(&gateway, "/b", "1"), "what was known stays");
    relay.set(0);
    eventually("etcd to answer", || reported(&gateway)["connected"] == true);
    eventually("the new state", || serves(&gateway, "/a", "3") && serves(&gateway, "/c", "3"));
    assert_eq!(gateway.client().get("/b").status, 404);
    assert!(serves(&gateway, "/fixed", "file"));
    assert_eq!(reported(&gateway)["refused"], json!([]));
    // From there the gateway follows further changes.
    etcd.put("routes/a", &respond("/a", "4"));
    eventually("the next change", || serves(&gateway, "/a", "4"));
}
