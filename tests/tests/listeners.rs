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

/// A connection keeps its listener, not its router: the router is that of the plan in force.
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

/// Reloads the file, which must be good.
fn reload(gateway: &Gateway, yaml: &str) {
    gateway.write_config(yaml);
    let answer = call(gateway, "POST", "/reload", "", "");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn two_listeners_exchange_their_addresses_in_one_change() {
    let (one, other) = (free_address(), free_address());
    let yaml = |public: SocketAddr, internal: SocketAddr| {
        format!(
            "listen: [$LISTEN, {{bind: \"{public}\", name: public}}, {{bind: \"{internal}\", name: internal}}]\n\
             routes:\n{ROUTES}"
        )
    };
    let gateway = Gateway::start(&yaml(one, other));
    let mut kept = client(one);
    assert_eq!([kept.get("/").text(), client(other).get("/").text()], ["shop", "console"]);
    reload(&gateway, &yaml(other, one));
    assert_eq!([client(other).get("/").text(), client(one).get("/").text()], ["shop", "console"]);
    // The socket stayed open, and so did the connection.
    assert_eq!(kept.get("/").text(), "console");
}

/// Neither a listener nor a route of a file takes effect if one of its addresses cannot be opened.
#[test]
fn a_file_with_an_address_that_cannot_be_opened_changes_nothing() {
    let (internal, gateway) = two_ports(ROUTES);
    let taken = std::net::TcpListener::bind(free_address()).expect("a port");
    let datagrams = std::net::UdpSocket::bind(free_address()).expect("a port");
    let of_datagrams = datagrams.local_addr().expect("bound");
    let free = free_address();
    for bad in [
        format!("\"{}\"", taken.local_addr().expect("bound")),
        format!("{{bind: \"{of_datagrams}\", protocol: udp, to: \"127.0.0.1:9\"}}"),
    ] {
        gateway.write_config(&format!(
            "listen: [{{bind: \"$LISTEN\", name: public}}, \"{free}\", {bad}]\nroutes: [{{respond: changed}}]\n"
        ));
        let answer = call(&gateway, "POST", "/reload", "", "");
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(answer.text().contains("something listens there already"), "{}", answer.text());
        assert_eq!(gateway.client().get("/").text(), "shop");
        assert_eq!(client(internal).get("/").text(), "console", "the removed listener is still there");
        assert!(Client::try_connect(free).is_none(), "the good address is closed");
    }
}
