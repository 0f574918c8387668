//! Routes that are attached to listeners (docs/listeners.md), through the real binary.

mod documents;
mod shared;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::json;
use tollgate_tests::api::{JSON, call, json_of};
use tollgate_tests::http2::Http2;
use tollgate_tests::{Client, Gateway, Signal, eventually, free_address, tollgate};

/// The port of the second listener, and a gateway with the listeners `public` and `internal`.
fn two_ports(routes: &str) -> (SocketAddr, Gateway) {
    let other = free_address();
    (other, Gateway::start(&config(other, routes)))
}

fn config(other: SocketAddr, routes: &str) -> String {
    format!(
        "listen: [{{bind: \"$LISTEN\", name: public}}, {{bind: \"{other}\", name: internal}}]\nroutes:\n{routes}"
    )
}

fn client(address: SocketAddr) -> Client {
    Client::connect(address, Arc::default())
}

const ROUTES: &str = "\
- {name: shop, match: /*, listeners: public, respond: shop}
- {name: console, match: /*, listeners: [internal], respond: console}
- {name: health, match: /healthz, respond: up}
- {name: debug, match: /debug, listeners: internal, respond: debug}
";

#[test]
fn the_same_path_on_two_ports_takes_the_route_of_its_listener() {
    let (internal, gateway) = two_ports(ROUTES);
    for (address, path, body) in [
        (gateway.address(), "/", "shop"),
        (gateway.address(), "/debug", "shop"),
        (gateway.address(), "/healthz", "up"),
        (internal, "/", "console"),
        (internal, "/debug", "debug"),
        (internal, "/healthz", "up"),
    ] {
        assert_eq!(client(address).get(path).text(), body, "{address}{path} by HTTP/1");
        let mut http2 = Http2::connect(address, Arc::new(AtomicU64::new(0)), 65_535);
        assert_eq!(http2.get(path).text(), body, "{address}{path} by HTTP/2");
    }
}

#[test]
fn a_listener_without_own_routes_has_the_unattached_ones() {
    let internal = free_address();
    let gateway = Gateway::start(&format!(
        "listen: [\"$LISTEN\", {{bind: \"{internal}\", name: internal}}]\nroutes:\n\
         - {{match: /a, respond: everywhere}}\n- {{match: /b, listeners: internal, respond: inside}}\n"
    ));
    assert_eq!(gateway.client().get("/a").text(), "everywhere");
    let missing = gateway.client().get("/b");
    assert_eq!((missing.status, missing.reason().to_owned()), (404, "no_route".to_owned()));
    assert_eq!(client(internal).get("/a").text(), "everywhere");
    assert_eq!(client(internal).get("/b").text(), "inside");
}

/// A connection keeps its listener, not its router: the router comes from the plan in force.
#[test]
fn an_open_connection_follows_a_reload() {
    let (internal, gateway) = two_ports(ROUTES);
    let (mut outside, mut inside) = (gateway.client(), client(internal));
    let mut http2 = Http2::connect(internal, Arc::new(AtomicU64::new(0)), 65_535);
    assert_eq!([outside.get("/").text(), inside.get("/").text()], ["shop", "console"]);
    assert_eq!(http2.get("/").text(), "console");
    let swapped = ROUTES.replace("listeners: public", "listeners: x").replace("[internal]", "public");
    gateway.write_config(&config(internal, &swapped.replace("listeners: x", "listeners: internal")));
    gateway.signal(Signal::HUP);
    eventually("the reload", || gateway.client().get("/").text() == "console");
    assert_eq!([outside.get("/").text(), inside.get("/").text()], ["console", "shop"]);
    assert_eq!(http2.get("/").text(), "shop");
    // No listener has routes of its own any more.
    gateway.write_config(&config(internal, "- {match: /*, respond: all}\n"));
    gateway.signal(Signal::HUP);
    eventually("the reload", || gateway.client().get("/").text() == "all");
    assert_eq!([outside.get("/").text(), inside.get("/").text(), http2.get("/").text()], ["all"; 3]);
}

#[test]
fn explain_and_the_live_list_know_the_listeners() {
    let (internal, gateway) = two_ports(ROUTES);
    let ask = |question: serde_json::Value| {
        json_of(&call(&gateway, "POST", "/explain", JSON, &question.to_string()))
    };
    let answer = ask(json!({"method": "GET", "url": "/", "listener": "internal"}));
    assert_eq!(answer["route"]["name"], "console");
    assert_eq!(answer["listener"], json!({"name": "internal", "bind": internal.to_string()}));
    let others = answer["others"].as_array().expect("a list");
    let why =
        |name: &str| others.iter().find(|other| other["name"] == name).expect("it is told")["why"].clone();
    assert_eq!(why("shop"), "it matches, but it is attached to other listeners (`listeners`)");
    assert_eq!(why("debug"), "the path does not match");
    // The port of the URL names a listener, too.
    let by_port = ask(json!({"method": "GET", "url": format!("http://{internal}/debug")}));
    assert_eq!(by_port["route"]["name"], "debug");
    let unknown = ask(json!({"method": "GET", "url": "/", "listener": "inner"}));
    assert_eq!(unknown["problems"][0]["pointer"], "/listener");
    let routes = json_of(&gateway.admin("/api/v1/live/routes?sort=name"));
    let listeners: Vec<_> =
        routes["items"].as_array().expect("a list").iter().map(|it| it["listeners"].clone()).collect();
    assert_eq!(listeners, [json!(["internal"]), json!(["internal"]), json!([]), json!(["public"])]);
}

#[test]
fn check_compares_the_routes_of_one_listener() {
    let folder = std::env::temp_dir().join(format!("tollgate-listeners-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("gate.yaml");
    let check = |routes: &str| {
        let text = format!(
            "listen: [{{bind: \":8080\", name: a}}, {{bind: \":8081\", name: b}}, \":8082\"]\nroutes:\n{routes}"
        );
        std::fs::write(&file, text).expect("written");
        let ran = tollgate(&["check", &file.display().to_string()]);
        (ran.code == Some(0), format!("{}{}", ran.out, ran.err))
    };
    let route = |listeners: &str| format!("- {{match: /x, respond: one, listeners: {listeners}}}\n");
    let (is_good, said) = check(&format!("{}{}", route("a"), route("b")));
    assert!(is_good, "{said}");
    let (is_good, said) = check(&format!("{}{}", route("[a, b]"), route("b")));
    assert!(!is_good && said.contains("identical to an earlier one"), "{said}");
    let (is_good, said) = check(&format!("{}- {{match: /x, respond: two}}\n", route("b")));
    assert!(!is_good && said.contains("identical to an earlier one"), "{said}");
    let (is_good, said) = check(&route("c"));
    assert!(!is_good && said.contains("there is no listener named `c`"), "{said}");
    let _ = std::fs::remove_dir_all(folder);
}
