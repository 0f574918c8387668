//! Purges through the admin API and the command line.

use std::process::Command;

use serde_json::{Value, json};
use tollgate_tests::{Gateway, api, binary};

use super::{answering, digits, gateway, get, numbered};

fn purge(gateway: &Gateway, body: &Value) -> Value {
    let response = api::call(gateway, "POST", "/cache/purge", api::JSON, &body.to_string());
    assert_eq!(response.status, 200, "{response:?}");
    api::json_of(&response)
}

fn text(gateway: &Gateway, target: &str) -> String {
    get(gateway, target, "").text()
}

#[test]
fn a_purge_by_key_prefix_tag_and_all() {
    let origin = answering(|number, request| {
        let tag = if request.target.starts_with("/a") {
            "Surrogate-Key: letters first\r\n"
        } else {
            "Cache-Tag: others,first\r\n"
        };
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{tag}Content-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    let targets = ["/a/1", "/a/2", "/b/1"];
    let all = || targets.map(|target| text(&gateway, target));
    assert_eq!((all(), all()), (["1", "2", "3"].map(str::to_owned), ["1", "2", "3"].map(str::to_owned)));
    assert_eq!(purge(&gateway, &json!({ "key": "http://a.example/a/1" }))["purged"], json!(1));
    assert_eq!(all(), ["4", "2", "3"]);
    assert_eq!(purge(&gateway, &json!({ "prefix": "http://a.example/a/" }))["purged"], json!(2));
    assert_eq!(all(), ["5", "6", "3"]);
    assert_eq!(purge(&gateway, &json!({ "tag": "letters" }))["purged"], json!(2));
    assert_eq!(all(), ["7", "8", "3"]);
    assert_eq!(purge(&gateway, &json!({ "tag": "first" }))["purged"], json!(3));
    assert_eq!(all(), ["9", "10", "11"]);
    assert_eq!(purge(&gateway, &json!({ "all": true }))["purged"], json!(3));
    assert_eq!(all(), ["12", "13", "14"]);
    assert_eq!(
        purge(&gateway, &json!({ "key": "http://a.example/a/" }))["purged"],
        json!(0),
        "a key is a whole URL"
    );
    assert_eq!(all(), ["12", "13", "14"]);
}

#[test]
fn a_soft_purge_validates_what_is_stored() {
    let origin = answering(|number, request| match request.headers.has("If-None-Match") {
        true => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n\r\n".to_owned(),
        false => format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: {}\r\n\r\n{number}",
            digits(number)
        ),
    });
    let gateway = gateway(&origin, "on");
    assert_eq!([text(&gateway, "/"), text(&gateway, "/")], ["1", "1"]);
    assert_eq!(purge(&gateway, &json!({ "all": true, "soft": true }))["purged"], json!(1));
    assert_eq!([text(&gateway, "/"), text(&gateway, "/")], ["1", "1"]);
    assert_eq!(origin.count(), 2, "one validation");
}

#[test]
fn a_wrong_purge_says_what_is_wrong() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "on");
    for body in [
        json!({}),
        json!({ "key": "/", "tag": "x" }),
        json!({ "key": "/x" }),
        json!({ "prefix": "a.example/" }),
        json!({ "keys": "/" }),
        json!({ "all": false }),
        json!({ "key": 1 }),
    ] {
        let response = api::call(&gateway, "POST", "/cache/purge", api::JSON, &body.to_string());
        assert_eq!(response.status, 400, "{body} {response:?}");
    }
}

#[test]
fn the_command_purges_and_shows() {
    let origin = numbered("Cache-Control: max-age=60\r\nSurrogate-Key: shop\r\n");
    let gateway = gateway(&origin, "on");
    let ran = |words: &[&str]| {
        let mut command = Command::new(binary());
        command.args(words).env("TOLLGATE_ADMIN", gateway.admin_address().to_string());
        let out = command.output().expect("tollgate runs");
        assert!(out.status.success(), "{words:?} {out:?}");
        String::from_utf8(out.stdout).expect("text")
    };
    assert_eq!([text(&gateway, "/"), text(&gateway, "/")], ["1", "1"]);
    let status = ran(&["cache", "status"]);
    assert!(status.contains("objects: 1\n") && status.contains("hits: 1\n"), "{status}");
    assert_eq!(ran(&["cache", "purge", "--tag", "shop"]), "purged: 1\n");
    assert_eq!(text(&gateway, "/"), "2");
    assert_eq!(ran(&["cache", "purge", "--url", "http://a.example/"]), "purged: 1\n");
    assert_eq!(text(&gateway, "/"), "3");
    assert_eq!(ran(&["cache", "purge", "--prefix", "http://a.example/", "--soft"]), "purged: 1\n");
    assert_eq!(ran(&["cache", "purge", "--all"]), "purged: 1\n");
}

#[test]
fn the_store_survives_a_reload() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "on");
    assert_eq!(text(&gateway, "/"), "1");
    let yaml = format!(
        "routes: [{{name: r, match: \"/*\", to: \"{}\", policies: {{cache: {{max_object: 1MiB}}}}}}]\n",
        origin.address()
    );
    gateway.write_config(&yaml);
    assert_eq!(api::call(&gateway, "POST", "/reload", "", "").status, 200);
    assert_eq!(text(&gateway, "/"), "1");
}

#[test]
fn a_url_is_purged_however_it_is_written() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "on");
    for key in [
        "http://a.example/x",
        "HTTP://A.Example:80/x",
        "http://a.example/%78",
        "http://a.example/y/../x#part",
    ] {
        let before = text(&gateway, "/x");
        assert_eq!(purge(&gateway, &json!({ "key": key }))["purged"], json!(1), "{key}");
        assert_ne!(text(&gateway, "/x"), before);
    }
    assert_eq!(purge(&gateway, &json!({ "prefix": "Http://A.example:80/" }))["purged"], json!(1));
    text(&gateway, "/");
    assert_eq!(purge(&gateway, &json!({ "key": "http://a.example" }))["purged"], json!(1));
}
