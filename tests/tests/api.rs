//! The admin API and its store, through the real binary.

mod certificates;
mod consumers;
mod lists;
mod policies;

use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call, json_of, put};
use tollgate_tests::{Client, Gateway, Origin, Signal, eventually};

fn respond(path: &str, text: &str) -> Value {
    json!({ "match": path, "respond": text })
}

fn stored() -> Gateway {
    Gateway::start(
        "workers: 2\nstore: $DIR/store\nroutes: [{name: fixed, match: /fixed, respond: file}]\nupstreams: {known: [\"127.0.0.1:1\"]}",
    )
}

#[test]
fn a_confirmed_change_is_served_and_survives_a_kill() {
    let mut gateway = stored();
    for number in 0..20 {
        let path = format!("/r{number}");
        let answer = put(&gateway, &format!("/routes/r{number}"), &respond(&path, "here"));
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(json_of(&answer)["version"], number + 1);
        // The change holds on every worker.
        for _ in 0..4 {
            assert_eq!(gateway.client().get(&path).text(), "here");
        }
    }
    assert_eq!(call(&gateway, "DELETE", "/routes/r3", "", "").status, 200);
    gateway.kill_and_restart();
    assert_eq!(gateway.client().get("/r19").text(), "here");
    assert_eq!(gateway.client().get("/r3").status, 404);
    assert_eq!(json_of(&call(&gateway, "GET", "", "", ""))["version"], 21);
}

#[test]
fn errors_match_those_of_check_and_change_nothing() {
    let gateway = stored();
    let answer = put(&gateway, "/routes/a", &json!({"match": "/a", "respnd": "x"}));
    assert_eq!(answer.status, 422, "{answer:?}");
    let problem = &json_of(&answer)["problems"][0];
    assert_eq!((&problem["resource"], &problem["pointer"]), (&json!("routes/a"), &json!("/respnd")));
    assert_eq!(problem["help"], json!(["did you mean `respond`?"]));
    // A mistake is shown in the text that was sent, JSON or YAML.
    let text = |kind: &str, body: &str| {
        let lines = format!("Content-Type: application/{kind}\r\n");
        let answer = call(&gateway, "PUT", "/routes/a", &lines, body);
        json_of(&answer)["problems"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    let shown = text("json", "{ \"match\": \"/a\",\n  \"respnd\": \"x\" }");
    assert!(shown.contains("routes/a:2:3\n") && shown.contains("2 |   \"respnd\": \"x\" }\n"), "{shown}");
    let shown = text("yaml", "match: /a\nto:\n- 127.0.0.1:99999\n");
    assert!(shown.contains("routes/a:3:13\n") && shown.contains("3 | - 127.0.0.1:99999\n"), "{shown}");
    let changes = "changes:\n- {op: put, kind: policy_sets, name: s, value: {cros: on}}\n";
    let lines = "Content-Type: application/yaml\r\n";
    let answer = call(&gateway, "POST", "/transactions", lines, changes);
    assert!(answer.text().contains("policies/s:2:49"), "{answer:?}");
    let answer = put(&gateway, "/routes/a", &json!({"match": "/a", "to": "knwon"}));
    assert_eq!(json_of(&answer)["problems"][0]["help"], json!(["did you mean `known`?"]));
    // Problems that only the plan's compiler finds.
    let answer = put(&gateway, "/routes/a", &respond("/fixed", "store"));
    assert_eq!((answer.status, &json_of(&answer)["problems"][0]["pointer"]), (422, &json!("/match")));
    let answer = put(&gateway, "/routes/fixed", &respond("/b", "store"));
    assert_eq!((answer.status, &json_of(&answer)["error"]), (409, &json!("of_the_file")));
    assert_eq!(json_of(&call(&gateway, "GET", "", "", ""))["version"], 0);
    assert_eq!(gateway.client().get("/fixed").text(), "file");
}

#[test]
fn an_upstream_that_a_stored_policy_names_has_to_be_there() {
    let gateway = stored();
    let to = |name: &str| json!({ "endpoints": "127.0.0.1:1", "policies": { "mirror": { "to": name } } });
    let mirrored =
        |name: &str| json!({ "match": "/a", "to": "known", "policies": { "mirror": { "to": name } } });
    let canary =
        |name: &str| json!({ "match": "/b", "to": "known", "policies": { "canary": { "to": name } } });
    for (path, value) in
        [("/routes/a", mirrored("typo")), ("/routes/b", canary("typo")), ("/upstreams/u", to("typo"))]
    {
        let answer = put(&gateway, path, &value);
        assert!(answer.status == 422 && answer.text().contains("there is no upstream `typo`"), "{answer:?}");
    }
    assert_eq!(put(&gateway, "/upstreams/shadow", &json!("127.0.0.1:1")).status, 201);
    let answer = put(&gateway, "/routes/b", &canary("shadow"));
    assert!(
        answer.status == 422 && answer.text().contains("none of the upstreams of this route"),
        "{answer:?}"
    );
    assert_eq!(put(&gateway, "/routes/a", &mirrored("shadow")).status, 201);
    let answer = call(&gateway, "DELETE", "/upstreams/shadow", "", "");
    assert!(answer.status == 422 && answer.text().contains("there is no upstream `shadow`"), "{answer:?}");
    assert_eq!(call(&gateway, "DELETE", "/routes/a", "", "").status, 200);
    assert_eq!(call(&gateway, "DELETE", "/upstreams/shadow", "", "").status, 200);
}

#[test]
fn the_later_of_two_conflicting_changes_fails() {
    let gateway = stored();
    assert_eq!(put(&gateway, "/routes/a", &respond("/a", "1")).headers.get("etag"), Some("\"1\""));
    let guarded = |tag: &str, text: &str| {
        let lines = format!("{JSON}If-Match: {tag}\r\n");
        call(&gateway, "PATCH", "/routes/a", &lines, &json!({ "respond": text }).to_string()).status
    };
    assert_eq!((guarded("\"1\"", "2"), guarded("\"1\"", "3"), guarded("\"2\"", "4")), (200, 412, 200));
    assert_eq!(guarded("what", "5"), 400);
    let new = format!("{JSON}If-None-Match: *\r\n");
    assert_eq!(call(&gateway, "PUT", "/routes/a", &new, &respond("/a", "5").to_string()).status, 412);
    assert_eq!(gateway.client().get("/a").text(), "4");
    assert_eq!(call(&gateway, "GET", "/routes/a", "", "").headers.get("etag"), Some("\"3\""));
}

#[test]
fn a_transaction_is_whole_and_a_dry_run_is_nothing() {
    let origin = Origin::ok();
    let gateway = stored();
    let endpoint = origin.address().to_string();
    let change = |op: &str, kind: &str, name: &str, value: Value| json!({"op": op, "kind": kind, "name": name, "value": value});
    let good = json!({"changes": [
        change("put", "routes", "a", json!({"match": "/a", "to": "new"})),
        change("put", "upstreams", "new", json!([endpoint])),
    ]});
    let post = |path: &str, body: &Value| call(&gateway, "POST", path, JSON, &body.to_string());
    let dry = json_of(&post("/transactions?dry_run=true", &good));
    assert_eq!(
        (&dry["dry_run"], &dry["version"], dry["changes"].as_array().map(Vec::len)),
        (&json!(true), &json!(0), Some(2))
    );
    let generation = json_of(&call(&gateway, "GET", "", "", ""))["generation"].as_u64().expect("a number");
    assert_eq!(dry["generation"], generation + 1, "what it would become");
    assert_eq!(gateway.client().get("/a").status, 404);
    let mut bad = good.clone();
    bad["changes"].as_array_mut().expect("a list").push(change("put", "routes", "b", json!({"match": "/b"})));
    assert_eq!(post("/transactions", &bad).status, 422);
    assert_eq!(gateway.client().get("/a").status, 404);
    assert_eq!(post("/transactions", &good).status, 200);
    assert_eq!(gateway.client().get("/a").status, 200);
    assert_eq!(call(&gateway, "DELETE", "/upstreams/new", "", "").status, 422, "a route goes there");
    assert_eq!(post("/transactions", &json!({"changes": [{"op": "push"}]})).status, 400);
}

#[test]
fn the_history_leads_back() {
    let gateway = stored();
    for text in ["1", "2", "3"] {
        put(&gateway, "/routes/a", &respond("/a", text));
    }
    let list = json_of(&call(&gateway, "GET", "/history", "", ""));
    assert_eq!(list["versions"].as_array().map(Vec::len), Some(3));
    let second = json_of(&call(&gateway, "GET", "/history/2", "", ""));
    assert_eq!(
        (&second["changes"][0]["before"]["respond"], &second["changes"][0]["after"]["respond"]),
        (&json!("1"), &json!("2"))
    );
    let changes = |path: &str| json_of(&call(&gateway, "GET", path, "", ""))["changes"].clone();
    let all = changes("/history/3?since=1");
    assert_eq!((&all[0]["before"]["respond"], &all[0]["after"]["respond"]), (&json!("1"), &json!("3")));
    assert_eq!(changes("/history/2?since=0")[0]["change"], "added");
    assert_eq!((changes("/history/2?since=2"), changes("/history/0?since=0")), (json!([]), json!([])));
    for (path, status) in [("/history/2?since=3", 400), ("/history/9?since=1", 404), ("/history/0", 404)] {
        assert_eq!(call(&gateway, "GET", path, "", "").status, status, "{path}");
    }
    assert_eq!(call(&gateway, "POST", "/rollback/1", "", "").status, 200);
    assert_eq!(gateway.client().get("/a").text(), "1");
    // A change and its reversal make no difference.
    assert_eq!(changes("/history/4?since=1"), json!([]));
    assert_eq!(call(&gateway, "POST", "/rollback/0", "", "").status, 200);
    assert_eq!(gateway.client().get("/a").status, 404);
    assert_eq!(call(&gateway, "POST", "/rollback/99", "", "").status, 404);
    assert_eq!(json_of(&call(&gateway, "GET", "", "", ""))["version"], 5);
}

#[test]
fn both_languages_are_spoken() {
    let gateway = stored();
    let yaml = "Content-Type: application/yaml\r\nAccept: application/yaml\r\n";
    let answer = call(&gateway, "PUT", "/routes/a", yaml, "match: {path: /a, method: GET}\nrespond: here\n");
    assert!(answer.status == 201 && answer.text().starts_with("version: 1\n"), "{answer:?}");
    let shown = call(&gateway, "GET", "/routes/a", "Accept: application/yaml\r\n", "").text();
    assert_eq!(shown, "match:\n  path: /a\n  method: GET\nrespond: here\n");
    assert_eq!(json_of(&call(&gateway, "GET", "/routes/a", "", ""))["match"]["path"], "/a");
    assert_eq!(call(&gateway, "PUT", "/routes/b", yaml, "match: [").status, 422);
    assert_eq!(call(&gateway, "PUT", "/routes/b", JSON, "{").status, 400);
    assert_eq!(call(&gateway, "PUT", "/routes/b", "Content-Type: text/plain\r\n", "{}").status, 415);
    let whole = call(&gateway, "GET", "/config", "Accept: application/yaml\r\n", "").text();
    assert!(
        whole.contains("- name: fixed\n") && whole.contains("- name: a\n") && whole.contains("known: ["),
        "{whole}"
    );
    let listed = json_of(&call(&gateway, "GET", "/routes?source=store", "", ""));
    assert_eq!(
        (&listed["total"], &listed["found"], &listed["items"][0]["name"]),
        (&json!(2), &json!(1), &json!("a"))
    );
}

#[test]
fn secrets_are_not_read_back_and_not_lost() {
    let gateway = stored();
    let upstream = json!({"endpoints": ["127.0.0.1:1", "127.0.0.1:2"], "balance": {"sticky": {"secret": "hunter2hunter2hunter2"}}});
    let answer = put(&gateway, "/upstreams/s", &upstream);
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(!answer.text().contains("hunter2"), "{answer:?}");
    for path in ["/upstreams/s", "/upstreams", "/config", "/history/1", "/history"] {
        assert!(!call(&gateway, "GET", path, "", "").text().contains("hunter2"), "{path}");
    }
    let mut shown = json_of(&call(&gateway, "GET", "/upstreams/s", "", ""));
    shown["endpoints"] = json!(["127.0.0.1:3"]);
    assert_eq!(put(&gateway, "/upstreams/s", &shown).status, 200);
    let refused = put(&gateway, "/upstreams/other", &shown);
    assert_eq!(
        (refused.status, &json_of(&refused)["problems"][0]["pointer"]),
        (422, &json!("/balance/sticky/secret"))
    );
    assert!(!gateway.stderr().contains("hunter2"));
}

#[test]
fn pages_of_others_change_nothing() {
    let gateway = stored();
    let body = respond("/a", "x").to_string();
    for line in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        assert_eq!(call(&gateway, "PUT", "/routes/a", &format!("{JSON}{line}"), &body).status, 403, "{line}");
    }
    let mut client = Client::connect(gateway.admin_address(), std::sync::Arc::default());
    let rebound =
        client.ask("GET /api/v1/config HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!(rebound.status, 403);
    assert_eq!(call(&gateway, "GET", "/routes/a", "", "").status, 404);
}

#[test]
fn without_a_store_the_error_says_what_to_do() {
    let gateway = Gateway::start("routes: [{name: a, match: /a, respond: x}]");
    let answer = put(&gateway, "/routes/b", &respond("/b", "x"));
    assert_eq!((answer.status, &json_of(&answer)["error"]), (409, &json!("no_store")));
    assert!(answer.text().contains("`store: PATH`"), "{answer:?}");
    assert_eq!(json_of(&call(&gateway, "GET", "/routes/a", "", ""))["respond"], "x");
}

#[test]
fn the_file_and_the_store_are_merged_over_reloads() {
    let gateway = stored();
    assert_eq!(put(&gateway, "/routes/a", &json!({"match": "/a", "respond": "store"})).status, 201);
    assert_eq!(put(&gateway, "/routes/b", &json!({"match": "/b", "to": "known"})).status, 201);
    let file = |rest: &str| format!("workers: 2\nstore: $DIR/store\n{rest}");
    let reload = |text: &str| {
        let before = gateway.stderr().len();
        gateway.write_config(&file(text));
        gateway.signal(Signal::HUP);
        eventually("word of the reload", || gateway.stderr()[before..].contains("loaded"));
        gateway.stderr()[before..].to_owned()
    };
    let reported =
        reload("routes: [{name: a, match: /c, respond: file}]\nupstreams: {known: [\"127.0.0.1:1\"]}");
    assert!(
        reported.contains("two routes are named `a`") && reported.contains("store: routes/a"),
        "{reported}"
    );
    let reported = reload("routes: []");
    assert!(
        reported.contains("there is no upstream `known`") && reported.contains("--> store: routes/b:3:9"),
        "{reported}"
    );
    // A refused file has no part in later changes.
    assert_eq!(put(&gateway, "/routes/d", &json!({"match": "/d", "respond": "d"})).status, 201);
    assert_eq!(
        (gateway.client().get("/fixed").text(), gateway.client().get("/d").text()),
        ("file".into(), "d".into())
    );
    reload("routes: [{match: /new, respond: new}]\nupstreams: {known: [\"127.0.0.1:1\"]}");
    eventually("the new file", || gateway.client().get("/new").text() == "new");
    assert_eq!(
        (gateway.client().get("/a").text(), gateway.client().get("/fixed").status),
        ("store".into(), 404)
    );
    assert_eq!(put(&gateway, "/routes/fixed", &respond("/fixed", "store")).status, 201, "the name is free");
}

#[test]
fn an_upgrade_takes_the_store_along() {
    let mut gateway = stored();
    put(&gateway, "/routes/a", &respond("/a", "1"));
    gateway.upgrade();
    assert_eq!(gateway.client().get("/a").text(), "1");
    eventually("changes again", || put(&gateway, "/routes/a", &respond("/a", "2")).status == 200);
    eventually("the new answer", || gateway.client().get("/a").text() == "2");
}

#[test]
fn policies_of_what_the_store_holds_are_in_force() {
    let origin = Origin::ok();
    let gateway = stored();
    let deny = json!({"ip": {"deny": "127.0.0.0/8"}});
    let upstream = json!({"endpoints": [origin.address().to_string()], "policies": deny});
    assert_eq!(put(&gateway, "/upstreams/closed", &upstream).status, 201);
    assert_eq!(put(&gateway, "/routes/through", &json!({"match": "/through", "to": "closed"})).status, 201);
    assert_eq!(gateway.client().get("/through").status, 403, "the upstream's");
    let route = json!({"match": "/own", "to": origin.address().to_string(), "policies": deny});
    assert_eq!(put(&gateway, "/routes/own", &route).status, 201);
    assert_eq!(gateway.client().get("/own").status, 403, "the route's");
    assert_eq!(call(&gateway, "PATCH", "/routes/own", JSON, r#"{"policies": null}"#).status, 200);
    assert_eq!(gateway.client().get("/own").status, 200);
}

#[test]
fn described_paths_exist() {
    let gateway = stored();
    let document = json_of(&call(&gateway, "GET", "/openapi.json", "", ""));
    let methods = ["get", "put", "post", "patch", "delete"];
    for (path, described) in document["paths"].as_object().expect("paths") {
        let path = path.strip_prefix("/api/v1").expect("a path of the API");
        let path = path.replace("{name}", "none").replace("{version}", "99");
        // A trace does not end; a parameter that is not valid is answered at once.
        let path = if path == "/trace" { "/trace?limit=none".to_owned() } else { path };
        for method in methods {
            // A body that no resource accepts: nothing changes.
            let answer = call(&gateway, &method.to_uppercase(), &path, JSON, "[]");
            let there = answer.status != 405;
            assert_eq!(there, described.get(method).is_some(), "{method} {path}: {answer:?}");
            assert!(!answer.text().contains("GET / lists"), "{method} {path}: {answer:?}");
        }
    }
}
