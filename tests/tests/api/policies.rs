//! Sets of policies as resources: routes use them by name, and follow their changes.

use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call, json_of, put};
use tollgate_tests::{Gateway, Signal, eventually, tollgate};

fn stored() -> Gateway {
    Gateway::start(
        "workers: 2\nstore: $DIR/store\n\
         policy_sets: {framed: {headers: {response: {set: {X-Set: file}}}}}\n\
         upstreams: {known: [\"127.0.0.1:1\"]}\n\
         routes: [{name: fixed, match: /fixed, respond: file, policies: {use: framed}}]\n",
    )
}

fn sets(word: &str) -> Value {
    json!({"headers": {"response": {"set": {"X-Set": word}}}})
}

fn using(path: &str, policies: Value) -> Value {
    json!({"match": path, "respond": "x", "policies": policies})
}

/// Returns the `X-Set` of answers on several connections, which spread over the workers. All must agree.
fn said(gateway: &Gateway, path: &str) -> String {
    let of = || gateway.client().get(path).headers.get("x-set").unwrap_or("nothing").to_owned();
    let all: Vec<String> = (0..4).map(|_| of()).collect();
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    all[0].clone()
}

/// The API's name of the kind is `policies`. The key of the file is understood too, and never answered.
#[test]
fn the_key_of_the_file_is_another_name_of_the_kind() {
    let gateway = stored();
    assert_eq!(put(&gateway, "/policy_sets/mine", &sets("one")).status, 201);
    assert_eq!(json_of(&call(&gateway, "GET", "/policies/mine", "", "")), sets("one"));
    let changed = call(&gateway, "PATCH", "/policy_sets/mine", JSON, &sets("two").to_string());
    assert!(changed.status == 200 && !changed.text().contains("policy_sets"), "{changed:?}");
    assert_eq!(json_of(&call(&gateway, "GET", "/policy_sets/mine", "", "")), sets("two"));
    assert_eq!(json_of(&call(&gateway, "GET", "/policy_sets", "", ""))["total"], 2);
    assert_eq!(call(&gateway, "DELETE", "/policy_sets/mine", "", "").status, 200);
    assert_eq!(call(&gateway, "GET", "/policies/mine", "", "").status, 404);
    let kinds = json_of(&call(&gateway, "GET", "", "", ""))["kinds"].to_string();
    assert!(kinds.contains("policies") && !kinds.contains("policy_sets"), "{kinds}");
    let paths = json_of(&call(&gateway, "GET", "/openapi.json", "", ""))["paths"].to_string();
    assert!(paths.contains("/api/v1/policies") && !paths.contains("policy_sets/"), "{paths}");
}

#[test]
fn a_change_of_a_set_is_in_force_wherever_it_is_used_when_it_is_answered() {
    let mut gateway = stored();
    assert_eq!(put(&gateway, "/policies/mine", &sets("one")).status, 201);
    assert_eq!(put(&gateway, "/routes/a", &using("/a", json!({"use": "mine"}))).status, 201);
    // Routes of the store use the file's set, the store's set, or both. The later set overrides, and the
    // route's own policies override both.
    assert_eq!(put(&gateway, "/routes/b", &using("/b", json!({"use": ["framed"]}))).status, 201);
    assert_eq!(put(&gateway, "/routes/c", &using("/c", json!({"use": ["mine", "framed"]}))).status, 201);
    let own = json!({"use": ["framed", "mine"], "headers": {"response": {"set": {"X-Set": "own"}}}});
    assert_eq!(put(&gateway, "/routes/d", &using("/d", own)).status, 201);
    let off = json!({"use": ["framed", "mine"], "headers": "off"});
    assert_eq!(put(&gateway, "/routes/e", &using("/e", off)).status, 201);
    let all = |gateway: &Gateway| ["/a", "/b", "/c", "/d", "/e", "/fixed"].map(|path| said(gateway, path));
    assert_eq!(all(&gateway), ["one", "file", "file", "own", "nothing", "file"]);
    assert_eq!(put(&gateway, "/policies/mine", &sets("two")).status, 200);
    assert_eq!(all(&gateway), ["two", "file", "file", "own", "nothing", "file"]);
    let patch = r#"{"headers": null, "ip": {"deny": "127.0.0.0/8"}}"#;
    assert_eq!(call(&gateway, "PATCH", "/policies/mine", JSON, patch).status, 200);
    assert_eq!((gateway.client().get("/a").status, gateway.client().get("/fixed").status), (403, 200));
    // `explain` names the set.
    let question = json!({"method": "GET", "url": "http://x/a", "from": "127.0.0.1"});
    let asked = call(&gateway, "POST", "/explain", JSON, &question.to_string());
    let met = &json_of(&asked)["policies"][0];
    assert_eq!(
        (&met["kind"], &met["place"], &met["set"]),
        (&json!("ip"), &json!("route/a"), &json!("mine")),
        "{asked:?}"
    );
    // A rollback, and durability.
    assert_eq!(call(&gateway, "POST", "/rollback/6", "", "").status, 200);
    gateway.kill_and_restart();
    assert_eq!(said(&gateway, "/a"), "one");
}

#[test]
fn the_file_can_use_a_set_of_the_store() {
    let gateway = stored();
    assert_eq!(put(&gateway, "/policies/mine", &sets("store")).status, 201);
    let reload = |text: &str, word: &str| {
        let before = gateway.stderr().len();
        gateway.write_config(&format!("workers: 2\nstore: $DIR/store\n{text}"));
        gateway.signal(Signal::HUP);
        eventually("word of the reload", || gateway.stderr()[before..].contains(word));
        gateway.stderr()[before..].to_owned()
    };
    reload("routes: [{match: /fixed, respond: x, policies: {use: mine}}]\n", "loaded");
    eventually("the new file", || said(&gateway, "/fixed") == "store");
    // `check` sees the file only, and says so.
    let checked = tollgate(&["check", &gateway.config().display().to_string()]);
    assert!(checked.code == Some(0) && checked.err.contains("the store has to have it"), "{checked:?}");
    assert_eq!(put(&gateway, "/policies/mine", &sets("other")).status, 200);
    assert_eq!(said(&gateway, "/fixed"), "other");
    // The file uses the set, so it cannot be deleted.
    let gone = call(&gateway, "DELETE", "/policies/mine", "", "");
    assert!(gone.status == 422 && gone.text().contains("there is no policy set `mine`"), "{gone:?}");
    // An unknown name, with its line; and a name in both sources.
    let reported = reload("routes: [{match: /fixed, respond: x, policies: {use: mien}}]\n", "not loaded");
    let caret =
        reported.contains("there is no policy set `mien`") && reported.contains("did you mean `mine`?");
    assert!(caret && reported.contains("^^^^"), "{reported}");
    let reported =
        reload("policy_sets: {mine: {ip: off}}\nroutes: [{match: /fixed, respond: x}]\n", "not loaded");
    assert!(
        reported.contains("two policy sets are named `mine`") && reported.contains("store: policies/mine"),
        "{reported}"
    );
    assert_eq!(said(&gateway, "/fixed"), "other");
}

#[test]
fn a_used_set_stays_and_an_unknown_one_is_reported_at_its_position() {
    let gateway = stored();
    let refused = |path: &str, value: &Value| {
        let reported = json_of(&put(&gateway, path, value));
        let first = reported["problems"][0].clone();
        (
            reported["error"].clone(),
            first["resource"].clone(),
            first["pointer"].clone(),
            first["message"].clone(),
            first["help"].clone(),
        )
    };
    let (_, resource, pointer, message, help) =
        refused("/routes/a", &using("/a", json!({"use": ["framed", "fromed"]})));
    assert_eq!((resource, pointer), (json!("routes/a"), json!("/policies/use/1")));
    assert_eq!(
        (message, help),
        (json!("there is no policy set `fromed`"), json!(["did you mean `framed`?"]))
    );
    let upstream = json!({"endpoints": "127.0.0.1:1", "policies": {"use": "fremed"}});
    assert_eq!(refused("/upstreams/u", &upstream).2, "/policies/use");
    assert_eq!(refused("/policies/framed", &sets("x")).0, "of_the_file");
    assert_eq!(refused("/policies/a", &json!({"use": "framed"})).2, "/use");
    assert_eq!(refused("/policies/a", &json!({"rate_limt": "5/s"})).2, "/rate_limt");
    // The upstreams that a set names must exist, and an upstream cannot use `aggregate`.
    let (_, resource, pointer, message, _) = refused("/policies/a", &json!({"mirror": {"to": "typo"}}));
    assert_eq!((resource, pointer), (json!("policies/a"), json!("/mirror/to")), "{message}");
    let gathers = json!({"aggregate": {"parts": {"one": {"to": "known", "path": "/"}}}});
    assert_eq!(put(&gateway, "/policies/gathers", &gathers).status, 201);
    let upstream = json!({"endpoints": "127.0.0.1:1", "policies": {"use": "gathers"}});
    assert_eq!(refused("/upstreams/u", &upstream).2, "/policies/use");
    assert_eq!(put(&gateway, "/policies/split", &json!({"canary": {"to": "known"}})).status, 201);
    let to = json!({"match": "/b", "to": "127.0.0.1:1", "policies": {"use": "split"}});
    let (_, _, pointer, message, _) = refused("/routes/b", &to);
    assert_eq!(pointer, "/policies/use");
    assert!(
        message.as_str().is_some_and(|text| text.contains("none of the upstreams of this route")),
        "{message}"
    );
    // A set in use cannot be deleted, and the error names its user. Both can be deleted together.
    assert_eq!(put(&gateway, "/policies/mine", &sets("x")).status, 201);
    assert_eq!(put(&gateway, "/routes/a", &using("/a", json!({"use": "mine"}))).status, 201);
    let gone = call(&gateway, "DELETE", "/policies/mine", "", "");
    let problem = &json_of(&gone)["problems"][0];
    assert_eq!(
        (gone.status, &problem["resource"], &problem["pointer"]),
        (422, &json!("routes/a"), &json!("/policies/use"))
    );
    assert_eq!(said(&gateway, "/a"), "x");
    let changes = json!({"changes": [
        {"op": "delete", "kind": "policies", "name": "mine"},
        {"op": "delete", "kind": "routes", "name": "a"},
    ]});
    assert_eq!(call(&gateway, "POST", "/transactions", JSON, &changes.to_string()).status, 200);
    assert_eq!(call(&gateway, "GET", "/policies/mine", "", "").status, 404);
    let changes = json!({"changes": [
        {"op": "put", "kind": "routes", "name": "a", "value": using("/a", json!({"use": "both"}))},
        {"op": "put", "kind": "policies", "name": "both", "value": sets("both")},
    ]});
    let dry = call(&gateway, "POST", "/transactions?dry_run=true", JSON, &changes.to_string());
    assert_eq!((dry.status, gateway.client().get("/a").status), (200, 404), "{dry:?}");
    assert_eq!(call(&gateway, "POST", "/transactions", JSON, &changes.to_string()).status, 200);
    assert_eq!(said(&gateway, "/a"), "both");
}

#[test]
fn counters_of_a_set_are_per_place_and_survive_its_change() {
    let gateway = stored();
    let few = |more: &str| json!({"rate_limit": {"rate": "2/d"}, "headers": {"response": {"set": {"X-Set": more}}}});
    assert_eq!(put(&gateway, "/policies/few", &few("one")).status, 201);
    for path in ["a", "b"] {
        let value = using(&format!("/{path}"), json!({"use": "few"}));
        assert_eq!(put(&gateway, &format!("/routes/{path}"), &value).status, 201);
    }
    let ask = |path: &str| gateway.client().get(path).status;
    assert_eq!([ask("/a"), ask("/a"), ask("/a"), ask("/b")], [200, 200, 429, 200]);
    assert_eq!(put(&gateway, "/policies/few", &few("two")).status, 200);
    assert_eq!([ask("/a"), ask("/b"), ask("/b")], [429, 200, 429]);
}

#[test]
fn secrets_of_a_set_are_never_shown() {
    let gateway = stored();
    let secret = "a-secret-of-thirty-two-bytes-0123";
    let set = json!({
        "jwt": {"secret": secret, "algorithms": ["HS256"]},
        "headers": {"request": {"set": {"Authorization": secret}}},
    });
    let answer = put(&gateway, "/policies/mine", &set);
    assert_eq!(answer.status, 201, "{answer:?}");
    let mut wrong = set.clone();
    wrong["ip"] = json!({"dny": "10.0.0.0/8"});
    let short = put(&gateway, "/policies/mine", &wrong);
    assert_eq!(json_of(&short)["problems"][0]["pointer"], "/ip/dny");
    let mut reported = answer.text() + &short.text() + &gateway.stderr();
    for path in ["/policies/mine", "/policies", "/config", "/history/1", "/history"] {
        reported += &call(&gateway, "GET", path, "", "").text();
    }
    assert!(!reported.contains(secret), "{reported}");
    // The masked value can be written back without a change; the export of the whole configuration is in the
    // file's language.
    let mut read = json_of(&call(&gateway, "GET", "/policies/mine", "", ""));
    assert_eq!(read["jwt"]["secret"], "(secret)");
    assert_eq!(put(&gateway, "/policies/other", &read).status, 422);
    read["ip"] = json!({"deny": "10.0.0.0/8"});
    assert_eq!(put(&gateway, "/policies/mine", &read).status, 200);
    let whole = json_of(&call(&gateway, "GET", "/config", "", ""));
    assert_eq!(whole["policy_sets"]["framed"]["headers"]["response"]["set"]["X-Set"], "file");
    assert_eq!(whole["policy_sets"]["mine"]["ip"]["deny"], "10.0.0.0/8");
    assert!(whole["policies"].is_null(), "the gateway's own are no resources");
}
