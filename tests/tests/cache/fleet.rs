//! One purge for all gateways that share an etcd.

use std::process::Command;

use serde_json::{Value, json};
use tollgate_tests::{Etcd, Gateway, Origin, api, binary, eventually};

use super::{get, numbered};
use crate::faults::network::{HOLE, Relay};

fn gateway(origin: &Origin, etcd: &str) -> Gateway {
    Gateway::start(&format!(
        "etcd: {{endpoints: {etcd}, cache: $DIR/last-good.json}}\n\
         routes: [{{name: r, match: \"/*\", to: \"{}\", policies: {{cache: on}}}}]\n",
        origin.address()
    ))
}

fn purge(gateway: &Gateway, body: &Value) -> (u16, Value) {
    let response = api::call(gateway, "POST", "/cache/purge", api::JSON, &body.to_string());
    (response.status, api::json_of(&response))
}

fn text(gateway: &Gateway, target: &str) -> String {
    get(gateway, target, "").text()
}

#[test]
fn one_purge_reaches_every_gateway_once() {
    let (etcd, origin) = (Etcd::start(1), numbered("Cache-Control: max-age=600\r\nSurrogate-Key: shop\r\n"));
    let gateways = [0, 1, 2].map(|_| gateway(&origin, &etcd.endpoints()));
    eventually("all of them to be known", || {
        let known = api::json_of(&api::call(&gateways[0], "GET", "/etcd", "", ""));
        known["gateways"].as_object().is_some_and(|known| known.len() == 3)
    });
    let all = |target: &str| gateways.each_ref().map(|gateway| text(gateway, target));
    assert_eq!(
        (all("/a"), all("/a")),
        (["1", "2", "3"].map(str::to_owned), ["1", "2", "3"].map(str::to_owned))
    );
    assert_eq!(all("/b"), ["4", "5", "6"]);
    let (status, purged) = purge(&gateways[0], &json!({ "key": "http://a.example/a" }));
    assert_eq!((status, &purged["purged"], &purged["gateways"]), (200, &json!(1), &json!(3)), "{purged}");
    let version = purged["version"].as_u64().expect("a version");
    // The gateway that received the request has carried it out when it answers; the others follow.
    assert_eq!(text(&gateways[0], "/a"), "7");
    for gateway in &gateways[1..] {
        eventually("the purge", || text(gateway, "/a").parse::<u32>().is_ok_and(|number| number > 7));
    }
    assert_eq!(all("/b"), ["4", "5", "6"], "another URL stays");
    // Only once: responses that are stored after it stay.
    let since = all("/a");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(all("/a"), since);
    // By the command, by tag.
    let out = Command::new(binary())
        .args(["cache", "purge", "--tag", "shop"])
        .env("TOLLGATE_ADMIN", gateways[1].admin_address().to_string())
        .output()
        .expect("tollgate runs");
    let out = String::from_utf8(out.stdout).expect("text");
    assert!(out.contains("purged: 2\n") && out.contains("gateways: 3\n"), "{out}");
    for (gateway, old) in gateways.iter().zip(&since) {
        eventually("the purge by tag", || text(gateway, "/a") != *old);
    }
    let later = purge(&gateways[2], &json!({ "all": true })).1;
    assert!(later["version"].as_u64() > Some(version), "{later}");
}

#[test]
fn a_gateway_that_was_cut_off_makes_up_for_purges() {
    let (etcd, origin) = (Etcd::start(1), numbered("Cache-Control: max-age=600\r\n"));
    let relay = Relay::to(etcd.address(0));
    let near = gateway(&origin, &etcd.endpoints());
    let far = gateway(&origin, &format!("\"{}\"", relay.address()));
    assert_eq!([text(&near, "/"), text(&far, "/"), text(&far, "/kept")], ["1", "2", "3"]);
    relay.set(HOLE);
    eventually("the loss of etcd", || {
        api::json_of(&api::call(&far, "GET", "/etcd", "", ""))["connected"] == json!(false)
    });
    assert_eq!(purge(&near, &json!({ "key": "http://a.example/" })).0, 200);
    assert_eq!(text(&far, "/"), "2", "it cannot know");
    // Its own purge applies to it alone, and the answer says so.
    assert_eq!(text(&far, "/own"), "4");
    let (status, refusal) = purge(&far, &json!({ "key": "http://a.example/own" }));
    let message = refusal["message"].as_str().unwrap_or_default();
    assert!(
        status == 503 && message.contains("only this gateway was purged: 1 stored responses"),
        "{refusal}"
    );
    assert_eq!(text(&far, "/own"), "5");
    relay.set(0);
    eventually("the purge that it missed", || text(&far, "/") != "2");
    assert_eq!(text(&far, "/kept"), "3");
}
