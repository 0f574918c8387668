//! Listeners that share an address: the host of a request, and the server name of a TLS connection (SNI), choose among them.

use std::net::SocketAddr;
use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call, json_of, put};
use tollgate_tests::http2::Http2;
use tollgate_tests::{
    Authority, Client, Gateway, Issued, Response, Signal, TlsFront, TlsPeer, eventually, tollgate,
};

use super::client;

const WINDOW: u32 = 1 << 20;

fn get(host: &str, path: &str) -> Request<()> {
    Request::get(format!("http://{host}{path}")).body(()).expect("a request")
}

/// Asks for a path of a host by HTTP/1 and by HTTP/2, which must agree.
fn ask(address: SocketAddr, host: &str, path: &str) -> Response {
    let answer = client(address).ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let mut http2 = Http2::connect(address, Arc::default(), WINDOW);
    let other = http2.ask(get(host, path));
    assert_eq!((answer.status, answer.text()), (other.status, other.text()), "{host}{path}");
    answer
}

fn reported(address: SocketAddr, host: &str, path: &str) -> (u16, String) {
    let answer = ask(address, host, path);
    let text = if answer.status == 200 { answer.text() } else { answer.reason().to_owned() };
    (answer.status, text)
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

fn no_route() -> (u16, String) {
    (404, "no_route".to_owned())
}

const ROUTES: &str = "routes:\n\
    - {name: shop, match: /*, listeners: shop, respond: shop}\n\
    - {name: wild, match: /*, listeners: wild, respond: wild}\n\
    - {name: deep, match: /deep, listeners: deep, respond: deep}\n\
    - {name: rest, match: /rest, listeners: rest, respond: rest}\n\
    - {name: foreign, match: shop.example.com/only, listeners: wild, respond: never}\n\
    - {name: health, match: /healthz, respond: up}\n";

const LISTEN: &str = "listen:\n\
    - {bind: $LISTEN, name: shop, hosts: shop.example.com}\n\
    - {bind: $LISTEN, name: wild, hosts: [\"*.example.com\", example.org]}\n\
    - {bind: $LISTEN, name: deep, hosts: \"*.deep.example.com\"}\n";

#[test]
fn the_most_specific_listener_of_the_host_has_the_request_alone() {
    let gateway = Gateway::start(&format!("{LISTEN}- {{bind: $LISTEN, name: rest}}\n{ROUTES}"));
    let address = gateway.address();
    let port = address.port();
    for (host, path, expected) in [
        ("shop.example.com", "/", ok("shop")),
        ("SHOP.example.com.", "/", ok("shop")),
        (&*format!("shop.example.com:{port}"), "/", ok("shop")),
        ("shop.example.com", "/healthz", ok("up")),
        // A route of the wildcard's listener does not count, although its own host is exact.
        ("shop.example.com", "/only", ok("shop")),
        ("other.example.com", "/", ok("wild")),
        ("a.b.example.com", "/", ok("wild")),
        ("example.org", "/", ok("wild")),
        ("x.deep.example.com", "/deep", ok("deep")),
        // Isolation: what the more specific listener does not route is not routed by another.
        ("x.deep.example.com", "/", no_route()),
        ("deep.example.com", "/", ok("wild")),
        ("example.com", "/rest", ok("rest")),
        ("example.com", "/", no_route()),
        ("127.0.0.1", "/rest", ok("rest")),
        ("shop.example.com", "/rest", ok("shop")),
    ] {
        assert_eq!(reported(address, host, path), expected, "{host}{path}");
    }
    // One connection may ask for the hosts of all of them in turn.
    let mut kept = gateway.client();
    for (host, text) in
        [("shop.example.com", "shop"), ("x.example.com", "wild"), ("shop.example.com", "shop")]
    {
        assert_eq!(kept.ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).text(), text);
    }
    let mut http2 = gateway.http2();
    for (host, text) in
        [("shop.example.com", "shop"), ("x.example.com", "wild"), ("shop.example.com", "shop")]
    {
        assert_eq!(http2.ask(get(host, "/")).text(), text);
    }
    // HTTP/1.0 without a host.
    assert_eq!(gateway.client().ask("GET /rest HTTP/1.0\r\n\r\n").text(), "rest");
}

#[test]
fn a_host_that_no_listener_has_is_not_found() {
    let gateway = Gateway::start(&format!("{LISTEN}routes:\n- {{match: /*, respond: everywhere}}\n"));
    assert_eq!(reported(gateway.address(), "shop.example.com", "/"), ok("everywhere"));
    assert_eq!(reported(gateway.address(), "example.net", "/"), no_route());
    assert_eq!(gateway.client().ask("GET / HTTP/1.0\r\n\r\n").status, 404);
    // A body is skipped, and the connection goes on.
    let mut kept = gateway.client();
    let refused = kept.ask("POST / HTTP/1.1\r\nHost: example.net\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!((refused.status, refused.reason()), (404, "no_route"));
    assert_eq!(kept.ask("GET / HTTP/1.1\r\nHost: shop.example.com\r\n\r\n").text(), "everywhere");
    assert_eq!(gateway.metrics().sum("tollgate_reasons_total", "reason=\"no_route\""), Some(4.0));
}

#[test]
fn policies_and_redirects_follow_the_chosen_listener() {
    let gateway = Gateway::start(
        "listen:\n\
         - {bind: $LISTEN, name: open, hosts: open.example, policies: {headers: {response: {set: {X-At: open}}}}}\n\
         - {bind: $LISTEN, name: shut, hosts: shut.example, policies: {ip: {deny: 127.0.0.0/8}}}\n\
         - {bind: $LISTEN, name: moved, hosts: moved.example, redirect_to_https: on}\n\
         routes: [{match: /*, respond: here}]\n",
    );
    let answer = ask(gateway.address(), "open.example", "/");
    assert_eq!((answer.text().as_str(), answer.headers.get("x-at")), ("here", Some("open")));
    let answer = ask(gateway.address(), "shut.example", "/");
    assert_eq!((answer.status, answer.headers.get("x-at")), (403, None));
    let answer = ask(gateway.address(), "moved.example", "/a");
    assert_eq!((answer.status, answer.headers.get("location")), (308, Some("https://moved.example/a")));
}

/// A gateway with a listener for each certificate, and the authority of them all.
fn secure(rest: bool) -> (Gateway, Authority, [Issued; 3]) {
    let authority = Authority::new();
    // The second certificate covers the host of the first, too: only its listener keeps them apart.
    let issued = [
        authority.issue(&["shop.example.com"]),
        authority.issue(&["*.example.com", "example.net"]),
        authority.issue(&["rest.example"]),
    ];
    let listener = |name: &str, hosts: Value, issued: &Issued| {
        let tls = json!({"certificate": issued.chain, "key": issued.key});
        json!({"bind": "$LISTEN", "name": name, "hosts": hosts, "tls": tls})
    };
    let mut listen = vec![
        listener("shop", json!("shop.example.com"), &issued[0]),
        listener("wild", json!(["*.example.com"]), &issued[1]),
    ];
    if rest {
        let mut last = listener("rest", Value::Null, &issued[2]);
        last.as_object_mut().expect("a mapping").remove("hosts");
        listen.push(last);
    }
    let routes = "routes:\n- {match: /*, listeners: shop, respond: shop}\n- {match: /*, listeners: wild, respond: wild}\n\
                  - {match: /healthz, respond: up}\n";
    let gateway = Gateway::start(&format!("listen: {}\n{routes}", json!(listen)));
    (gateway, authority, issued)
}

/// The certificate that a server name gets; `None`: the handshake fails.
fn shown(gateway: &Gateway, authority: &Authority, name: &str) -> Option<Vec<u8>> {
    // The verifier of the client compares names; here, only what the gateway sends counts.
    let peer = TlsPeer::trusting(authority).connect(gateway.address(), name).ok()?;
    Some(peer.connection().peer_certificates()?.first()?.to_vec())
}

#[test]
fn the_server_name_chooses_the_certificate_of_its_listener() {
    let (gateway, authority, [shop, wild, rest]) = secure(true);
    assert_eq!(shown(&gateway, &authority, "shop.example.com"), Some(shop.der()));
    assert_eq!(shown(&gateway, &authority, "SHOP.example.com"), Some(shop.der()));
    assert_eq!(shown(&gateway, &authority, "x.example.com"), Some(wild.der()));
    assert_eq!(shown(&gateway, &authority, "rest.example"), Some(rest.der()));
    // The certificate of another listener has the name, but its listener does not have the host.
    assert_eq!(shown(&gateway, &authority, "example.net"), None);
    let failures = |reason: &str| {
        let name = "tollgate_tls_handshake_failures_total";
        gateway.metrics().sum(name, &format!("reason=\"{reason}\"")).unwrap_or_default()
    };
    eventually("the client's alert", || failures("alert") == 1.0);
    assert_eq!(failures("server_name"), 0.0);
}

#[test]
fn a_server_name_of_no_listener_fails_the_handshake() {
    let (gateway, authority, _) = secure(false);
    for name in ["example.net", "rest.example", "127.0.0.1"] {
        assert_eq!(shown(&gateway, &authority, name), None, "{name}");
    }
    let failed = || {
        let name = "tollgate_tls_handshake_failures_total";
        gateway.metrics().sum(name, "reason=\"server_name\"").expect("counted")
    };
    eventually("three failures", || failed() == 3.0);
    assert!(shown(&gateway, &authority, "shop.example.com").is_some());
}

#[test]
fn a_host_of_another_listener_than_the_connections_is_misdirected() {
    let (gateway, authority, _) = secure(true);
    let connect = |name| TlsPeer::trusting(&authority).connect(gateway.address(), name).expect("a handshake");
    let over_http2 = |name: &'static str| {
        let front = TlsFront::start(gateway.address(), name, || TlsPeer::trusting(&authority));
        Http2::connect(front.address(), Arc::default(), WINDOW)
    };
    let mut misdirected = 0.0;
    for (name, host, status, text) in [
        ("shop.example.com", "shop.example.com", 200, "shop"),
        ("shop.example.com", "Shop.Example.com:443", 200, "shop"),
        ("x.example.com", "x.example.com", 200, "wild"),
        // Covered by the certificate and of the same listener: browsers reuse a connection for it.
        ("x.example.com", "y.example.com", 200, "wild"),
        // Covered by the certificate, but of another listener.
        ("x.example.com", "shop.example.com", 421, "misdirected_request"),
        ("shop.example.com", "x.example.com", 421, "misdirected_request"),
        ("shop.example.com", "rest.example", 421, "misdirected_request"),
        ("rest.example", "shop.example.com", 421, "misdirected_request"),
        // The same listener, but not covered by the certificate.
        ("x.example.com", "x.y.example.com", 421, "misdirected_request"),
        ("rest.example", "elsewhere.example", 421, "misdirected_request"),
    ] {
        let mut one = connect(name);
        let answer = one.get(host, "/");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{name} {host}: {answer}");
        assert!(answer.contains(text), "{name} {host}: {answer}");
        // The connection goes on.
        assert!(one.get(name, "/healthz").contains("up"), "{name}");
        let mut two = over_http2(name);
        let answer = two.ask(get(host, "/"));
        let said = if status == 200 { answer.text() } else { answer.reason().to_owned() };
        assert_eq!((answer.status, said.as_str()), (status, text), "{name} {host}");
        assert_eq!(two.ask(get(name, "/healthz")).text(), "up");
        misdirected += if status == 421 { 2.0 } else { 0.0 };
    }
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tollgate_reasons_total", "reason=\"misdirected_request\""), Some(misdirected));
    eventually("the log", || {
        let log = std::fs::read_to_string(gateway.log_file()).unwrap_or_default();
        log.lines().filter(|line| line.contains("\"misdirected_request\"")).count() as f64 == misdirected
    });
    // Without a server name, the connection belongs to the listener without hosts.
    let mut unnamed = match TlsPeer::trusting(&authority).connect(gateway.address(), "127.0.0.1") {
        Ok(client) => client,
        // Its certificate is not for the address: the client refuses it.
        Err(_) => return,
    };
    assert!(unnamed.get("shop.example.com", "/").starts_with("HTTP/1.1 421"));
}

/// Without a listener for the rest, a host that no listener has is not found, also over TLS.
#[test]
fn a_host_of_no_listener_is_not_found_over_tls() {
    let (gateway, authority, _) = secure(false);
    let mut client =
        TlsPeer::trusting(&authority).connect(gateway.address(), "shop.example.com").expect("a handshake");
    let answer = client.get("unknown.example", "/");
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("no_route"), "{answer}");
    assert!(client.get("shop.example.com", "/").contains("shop"));
}

#[test]
fn listeners_join_and_leave_an_address_at_run_time() {
    let gateway = Gateway::start(
        "workers: 2\nstore: $DIR/store\nlisten: [{bind: $LISTEN, name: first, hosts: first.example}]\n\
         routes: [{match: /*, listeners: first, respond: first}]\n",
    );
    let address = gateway.address();
    let mut kept = gateway.client();
    assert_eq!(kept.ask("GET / HTTP/1.1\r\nHost: first.example\r\n\r\n").text(), "first");
    assert_eq!(reported(address, "second.example", "/"), no_route());
    let second = json!({"bind": address.to_string(), "hosts": ["second.example"]});
    let changes = json!({"changes": [
        {"op": "put", "kind": "listeners", "name": "second", "value": second},
        {"op": "put", "kind": "routes", "name": "second", "value": {"match": "/*", "listeners": "second", "respond": "second"}},
    ]});
    assert_eq!(call(&gateway, "POST", "/transactions", JSON, &changes.to_string()).status, 200);
    assert_eq!(reported(address, "second.example", "/"), ok("second"));
    // An open connection finds it, too, and the address was not opened again.
    assert_eq!(kept.ask("GET / HTTP/1.1\r\nHost: second.example\r\n\r\n").text(), "second");
    assert_eq!(kept.ask("GET / HTTP/1.1\r\nHost: first.example\r\n\r\n").text(), "first");
    for (name, value, pointer, words) in [
        ("x", json!({"bind": address.to_string()}), "", ""),
        (
            "y",
            json!({"bind": address.to_string(), "hosts": ["a.example", "first.example"]}),
            "/hosts/1",
            "two listeners of this address have the host `first.example`",
        ),
        ("y", json!({"bind": address.to_string(), "hosts": "*"}), "/hosts", "is every host"),
        (
            "y",
            json!({"bind": address.to_string(), "hosts": "a.*.example"}),
            "/hosts",
            "where none is allowed",
        ),
        ("y", json!({"bind": address.to_string(), "hosts": []}), "/hosts", "empty list"),
        (
            "y",
            json!({"bind": address.to_string(), "hosts": "y.example", "http2": "off"}),
            "/bind",
            "need the same `http2`",
        ),
        (
            "y",
            json!({"bind": address.to_string(), "hosts": "y.example", "timeouts": {"idle": "1s"}}),
            "/bind",
            "need the same `timeouts`",
        ),
    ] {
        let answer = put(&gateway, &format!("/listeners/{name}"), &value);
        if words.is_empty() {
            assert_eq!(answer.status, 201, "{}", answer.text());
            continue;
        }
        let problem = &json_of(&answer)["problems"][0];
        assert_eq!((answer.status, &problem["pointer"]), (422, &json!(pointer)), "{problem}");
        assert!(problem["message"].as_str().is_some_and(|message| message.contains(words)), "{problem}");
    }
    let routes = json!({"match": "/*", "listeners": "x", "respond": "x"});
    assert_eq!(put(&gateway, "/routes/x", &routes).status, 201);
    assert_eq!(reported(address, "other.example", "/"), ok("x"));
    // A second listener without hosts.
    let twin = json_of(&put(&gateway, "/listeners/z", &json!({"bind": address.to_string()})));
    assert!(
        twin["message"].as_str().is_some_and(|text| text.contains("this address has two listeners")),
        "{twin}"
    );
    // They leave again; the address stays open as long as one is there.
    let changes = json!({"changes": [
        {"op": "delete", "kind": "listeners", "name": "second"}, {"op": "delete", "kind": "routes", "name": "second"},
    ]});
    assert_eq!(call(&gateway, "POST", "/transactions", JSON, &changes.to_string()).status, 200);
    assert_eq!(reported(address, "second.example", "/"), ok("x"));
    assert_eq!(kept.ask("GET / HTTP/1.1\r\nHost: first.example\r\n\r\n").text(), "first");
    let listed = json_of(&call(&gateway, "GET", "/listeners", "", ""));
    assert_eq!(listed["items"][0]["hosts"], json!(["first.example"]));
    let status = json_of(&gateway.admin("/status"));
    assert_eq!(status["listeners"], json!([address.to_string()]), "one address");
}

#[test]
fn a_reload_and_an_upgrade_keep_a_shared_address() {
    let config = format!("{LISTEN}{ROUTES}")
        .replace("- {name: rest, match: /rest, listeners: rest, respond: rest}\n", "");
    let mut gateway = Gateway::start(&config);
    let mut kept = gateway.client();
    assert_eq!(kept.ask("GET / HTTP/1.1\r\nHost: shop.example.com\r\n\r\n").text(), "shop");
    gateway.write_config(&config.replace("respond: shop}", "respond: renewed}"));
    gateway.signal(Signal::HUP);
    eventually("the reload", || {
        kept.ask("GET / HTTP/1.1\r\nHost: shop.example.com\r\n\r\n").text() == "renewed"
    });
    assert_eq!(reported(gateway.address(), "shop.example.com", "/"), ok("renewed"));
    gateway.upgrade();
    assert_eq!(reported(gateway.address(), "x.example.com", "/"), ok("wild"));
    assert_eq!(reported(gateway.address(), "shop.example.com", "/"), ok("renewed"));
    let _ = Client::try_connect(gateway.address()).expect("it accepts");
}

#[test]
fn check_and_explain_know_shared_addresses() {
    let folder = std::env::temp_dir().join(format!("tollgate-shared-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("gate.yaml");
    let authority = Authority::new();
    let issued = authority.issue(&["a.example"]);
    std::fs::write(folder.join("a.pem"), format!("{}{}", issued.chain, issued.key)).expect("written");
    let write = |listen: &str, routes: &str| {
        std::fs::write(&file, format!("listen:\n{listen}routes:\n{routes}")).expect("written");
    };
    let check = |listen: &str| {
        write(listen, "- {match: /*, respond: one}\n");
        let ran = tollgate(&["check", &file.display().to_string()]);
        (ran.code, format!("{}{}", ran.out, ran.err))
    };
    let one = "- {bind: \":8080\", name: a, hosts: a.example}\n";
    for (listen, code, words) in [
        (format!("{one}- {{bind: \":8080\", name: b, hosts: b.example}}\n"), 0, &[][..]),
        (format!("{one}- {{bind: \":8080\", name: b}}\n"), 0, &[]),
        (format!("{one}- \":8080\"\n"), 0, &[]),
        (
            format!("{one}- {{bind: \":8080\", hosts: b.example}}\n"),
            1,
            &["a listener with `hosts` needs a `name`"],
        ),
        (
            format!("{one}- {{bind: \":8080\", name: b, hosts: [b.example, a.example]}}\n"),
            1,
            &["two listeners of this address have the host `a.example`", "gate.yaml:2", "gate.yaml:3"],
        ),
        (
            format!("{one}- {{bind: \":8080\", name: b, hosts: b.example, tls: {{certificate: a.pem}}}}\n"),
            1,
            &["a listener with `tls` and one without cannot share an address", "gate.yaml:2", "gate.yaml:3"],
        ),
        (
            format!("{one}- {{bind: \"127.0.0.1:8080\", name: b, hosts: b.example}}\n"),
            1,
            &["this address and another of `listen` overlap"],
        ),
        (
            "- {bind: \":8443\", name: a, hosts: a.example, tls: {certificate: a.pem}}\n\
             - {bind: \":8443\", name: b, hosts: b.example, tls: {certificate: a.pem, min_version: 1.3}}\n"
                .to_owned(),
            1,
            &["need the same `min_version` and `client_certificates` of `tls`"],
        ),
        (
            "- \":8080\"\n- \":8080\"\n".to_owned(),
            1,
            &["this address has two listeners", "if their `hosts` differ"],
        ),
    ] {
        let (exit, said) = check(&listen);
        assert_eq!(exit, Some(code), "{listen}{said}");
        words.iter().for_each(|words| assert!(said.contains(words), "{listen}{said}"));
    }
    write(
        &format!("{one}- {{bind: \":8080\", name: b, hosts: \"*.example\"}}\n"),
        "- {name: one, match: /*, listeners: a, respond: one}\n- {name: two, match: /*, listeners: b, respond: two}\n",
    );
    let explain = |arguments: &[&str]| {
        let ran = tollgate(&[&["explain", &*file.display().to_string()], arguments].concat());
        format!("{}{}", ran.out, ran.err)
    };
    let said = explain(&["GET", "http://a.example:8080/"]);
    assert!(said.contains("listener  a ([::]:8080)") && said.contains("route     one"), "{said}");
    let said = explain(&["GET", "http://b.example:8080/"]);
    assert!(said.contains("listener  b ([::]:8080)") && said.contains("route     two"), "{said}");
    assert!(said.contains("not       one") && said.contains("attached to other listeners"), "{said}");
    let said = explain(&["--listener", "b", "GET", "/x"]);
    assert!(said.contains("host www.example") && said.contains("route     two"), "{said}");
    let said = explain(&["GET", "http://elsewhere:8080/"]);
    assert!(said.contains("no listener of this address has the host"), "{said}");
    let _ = std::fs::remove_dir_all(folder);
}
