//! Behind trusted proxies: one client address, scheme and host for the log, spans, policies, redirects and
//! the endpoint.

use serde_json::Value;
use tollgate_tests::{Gateway, Origin, eventually, http2};

const CLIENT: &str = "203.0.113.7";

/// The fields by which a proxy may describe a client that requested `https://shop.example`.
const NAMED: [&str; 4] = [
    "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.example\r\n",
    "X-Forwarded-For: 6.6.6.6, 203.0.113.7:4711, 127.0.0.2\r\nX-Forwarded-Ssl: on\r\nX-Forwarded-Host: shop.example\r\n",
    "Forwarded: for=6.6.6.6;proto=http, for=203.0.113.7;proto=https;host=shop.example, for=127.0.0.2;proto=http\r\n",
    "Forwarded: For=\"203.0.113.7:4711\";Proto=HTTPS;Host=\"shop.example\"\r\nX-Forwarded-For: 203.0.113.7\r\n",
];

const TRUST: &str = "forwarded: {trusted_proxies: 127.0.0.0/8}\n";

fn collector() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
}

/// Returns the attributes of every record or span that a collector received.
fn attributes(collector: &Origin, path: &[&str]) -> Vec<Value> {
    let documents = collector.whole_requests().into_iter();
    let documents = documents.map(|request| serde_json::from_slice::<Value>(&request.body).expect("JSON"));
    documents
        .flat_map(|document| {
            let items = path.iter().fold(&document, |value, key| match value.as_array() {
                Some(list) => &list[0][*key],
                None => &value[*key],
            });
            items.as_array().expect("items").clone()
        })
        .map(|item| item["attributes"].clone())
        .collect()
}

fn fact(attributes: &Value, key: &str) -> String {
    let found = attributes.as_array().expect("a list").iter().find(|attribute| attribute["key"] == key);
    found.map(|it| it["value"]["stringValue"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
}

#[test]
fn log_and_collector_name_the_denied_client() {
    let (origin, logs, spans) = (Origin::ok(), collector(), collector());
    let gateway = Gateway::start(&format!(
        "{TRUST}access_log: {{to: $DIR/access.log, format: json, otlp: \"http://{}/v1/logs\"}}\n\
         policies: {{trace: {{otlp: \"http://{}/v1/traces\", sample: 100%}}, ip: {{deny: {CLIENT}}}}}\n\
         routes: [{{to: \"{}\"}}]\n",
        logs.address(),
        spans.address(),
        origin.address()
    ));
    for named in NAMED {
        let answer = gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: inner:81\r\n{named}\r\n"));
        assert_eq!((answer.status, answer.headers.get("Tollgate-Reason")), (403, Some("address_denied")));
    }
    let fields =
        [("x-forwarded-for", CLIENT), ("x-forwarded-proto", "https"), ("x-forwarded-host", "shop.example")];
    assert_eq!(gateway.http2().ask(http2::request("GET", "/", &fields)).status, 403);
    for record in gateway.wait_records(NAMED.len() + 1) {
        assert_eq!(record["client"], CLIENT, "{record}");
        assert_eq!(record["peer"], "127.0.0.1", "{record}");
        assert!(record["peer_port"].is_number(), "{record}");
        assert_eq!(
            (&record["scheme"], &record["host"]),
            (&"https".into(), &"shop.example".into()),
            "{record}"
        );
    }
    let count = NAMED.len() + 1;
    let records = || attributes(&logs, &["resourceLogs", "scopeLogs", "logRecords"]);
    eventually("all lines are told", || records().len() == count);
    let reported = || attributes(&spans, &["resourceSpans", "scopeSpans", "spans"]);
    eventually("all spans are told", || reported().len() == count);
    for facts in records().iter().chain(&reported()) {
        assert_eq!(fact(facts, "client.address"), CLIENT);
        assert_eq!(fact(facts, "network.peer.address"), "127.0.0.1");
        assert_eq!(fact(facts, "url.scheme"), "https");
        assert_eq!(fact(facts, "server.address"), "shop.example");
    }
}

#[test]
fn templates_and_combined_lines_name_the_client() {
    for (format, line) in [
        ("combined", format!("{CLIENT} - - ")),
        (
            "'{client} {client_port} {peer} {scheme} {host}!'",
            format!("{CLIENT} 4711 127.0.0.1 https shop.example!"),
        ),
    ] {
        let origin = Origin::ok();
        let gateway =
            Gateway::with(&origin, &format!("{TRUST}access_log: {{to: $DIR/a.log, format: {format}}}"));
        gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: inner\r\n{}\r\n", NAMED[1]));
        let file = gateway.directory().join("a.log");
        let text = || std::fs::read_to_string(&file).unwrap_or_default();
        eventually("a line", || text().ends_with('\n'));
        assert!(text().starts_with(&line), "{}", text());
    }
}

#[test]
fn untrusted_peers_cannot_announce_a_client() {
    let origin = Origin::ok();
    for trust in ["", "forwarded: {trusted_proxies: 10.0.0.0/8}\n"] {
        let gateway = Gateway::with(&origin, trust);
        for named in NAMED {
            gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: inner\r\n{named}\r\n"));
        }
        for record in gateway.wait_records(NAMED.len()) {
            let seen = (&record["client"], &record["scheme"], &record["host"]);
            assert_eq!(seen, (&"127.0.0.1".into(), &"http".into(), &"inner".into()), "{record}");
            assert!(record.get("peer").is_none() && record["client_port"].is_number(), "{record}");
        }
    }
}

#[test]
fn both_families_go_upstream_whichever_the_proxy_writes() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "forwarded: {trusted_proxies: 127.0.0.0/8, forwarded: on}");
    for named in NAMED {
        gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: inner\r\n{named}\r\n"));
        let request = origin.requests().pop().expect("a request");
        let list = request.headers.all("X-Forwarded-For").join(", ");
        assert!(list.contains(CLIENT) && list.ends_with(", 127.0.0.1"), "{list}");
        assert_eq!(request.headers.all("X-Forwarded-Proto"), ["https"], "{named}");
        assert_eq!(request.headers.all("X-Forwarded-Host"), ["shop.example"], "{named}");
        let elements = request.headers.all("Forwarded").join(", ").to_ascii_lowercase();
        let element = elements.split(',').find(|element| element.contains(CLIENT)).expect("the client's");
        assert!(element.contains("proto=https") && element.contains("shop.example"), "{elements}");
        assert!(elements.ends_with("for=127.0.0.1;host=\"inner\";proto=http"), "{elements}");
    }
    // The client in `Forwarded` differs from the client in `X-Forwarded-For`, and is not the last address
    // before the proxies.
    gateway.client().ask(
        "GET / HTTP/1.1\r\nHost: inner\r\nX-Forwarded-For: 203.0.113.7\r\nForwarded: for=6.6.6.6;proto=https;host=evil\r\n\r\n",
    );
    let request = origin.requests().pop().expect("a request");
    let elements = request.headers.all("Forwarded").join(", ");
    assert!(
        elements.ends_with(&format!(
            "for={CLIENT};host=\"inner\";proto=http, for=127.0.0.1;host=\"inner\";proto=http"
        )),
        "{elements}"
    );
    assert_eq!(request.headers.all("X-Forwarded-Proto"), ["http"]);
}

#[test]
fn redirects_lead_to_where_the_client_came_from() {
    let gateway = Gateway::start(&format!(
        "listen: [{{bind: $LISTEN, redirect_to_https: on}}]\n{TRUST}\
         routes: [{{match: /old, redirect: {{path: /new}}}}, {{match: /*, respond: here}}]\n"
    ));
    let ask = |path: &str, fields: &str| {
        gateway.client().ask(format!("GET {path} HTTP/1.1\r\nHost: inner:81\r\n{fields}\r\n"))
    };
    for named in NAMED {
        assert_eq!(ask("/", named).status, 200, "no circle: {named}");
        assert_eq!(ask("/old", named).headers.get("Location"), Some("https://shop.example/new"), "{named}");
    }
    for (fields, location) in [
        (
            "X-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example\r\nX-Forwarded-Port: 8443\r\n",
            "https://a.example:8443/new",
        ),
        (
            "X-Forwarded-Scheme: https\r\nX-Forwarded-Port: 80\r\nX-Forwarded-Host: a.example\r\n",
            "https://a.example/new",
        ),
        ("X-Forwarded-Proto: wss\r\n", "https://inner:81/new"),
        ("X-Forwarded-Proto: http\r\nX-Forwarded-Host: a.example:8080\r\n", "https://a.example/old"),
    ] {
        assert_eq!(ask("/old", fields).headers.get("Location"), Some(location), "{fields}");
    }
}

#[test]
fn services_copies_and_templates_get_the_same() {
    let (origin, shadow) = (Origin::ok(), Origin::ok());
    let service = Origin::fixed("HTTP/1.1 204 No Content\r\n\r\n");
    let gateway = Gateway::start(&format!(
        "{TRUST}policies:\n  forward_auth: {{url: \"http://{}/check\"}}\n  \
         headers: {{request: {{set: {{X-Seen: \"{{client}} {{scheme}} {{host}}\"}}}}}}\n  mirror: {{to: shadow}}\n\
         routes: [{{to: main}}]\nupstreams: {{main: \"{}\", shadow: \"{}\"}}\n",
        service.address(),
        origin.address(),
        shadow.address()
    ));
    for named in NAMED {
        let before = shadow.count();
        assert_eq!(gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: inner\r\n{named}\r\n")).status, 200);
        eventually("a copy", || shadow.count() > before);
        let asked = service.requests().pop().expect("a question");
        assert_eq!(asked.headers.all("X-Forwarded-For"), [CLIENT]);
        for request in [origin.requests().pop(), shadow.requests().pop()].map(|it| it.expect("a request")) {
            assert_eq!(request.headers.get("X-Seen"), Some("203.0.113.7 https shop.example"), "{named}");
            assert!(request.headers.all("X-Forwarded-For").join(", ").contains(CLIENT), "{request:?}");
            assert_eq!(request.headers.all("X-Forwarded-Proto"), ["https"]);
            assert_eq!(request.headers.all("X-Forwarded-Host"), ["shop.example"]);
        }
        assert_eq!(asked.headers.all("X-Forwarded-Proto"), ["https"]);
        assert_eq!(asked.headers.all("X-Forwarded-Host"), ["shop.example"]);
    }
}

#[test]
fn every_proxys_name_of_the_scheme_is_understood() {
    let gateway = Gateway::start(&format!(
        "listen: [{{bind: $LISTEN, redirect_to_https: on}}]\n{TRUST}routes: [{{match: /*, respond: here}}]\n"
    ));
    let cases = [
        ("Front-End-Https: on", true),
        ("Front-End-Https: off", false),
        ("X-Url-Scheme: https", true),
        ("X-Url-Scheme: http", false),
        ("X-Forwarded-Scheme: https", true),
        ("X-Forwarded-Protocol: https", true),
        ("X-Scheme: https", true),
        ("X-Forwarded-Ssl: on", true),
        ("CloudFront-Forwarded-Proto: https", true),
        ("CloudFront-Forwarded-Proto: http", false),
        ("CF-Visitor: {\"scheme\":\"https\"}", true),
        ("CF-Visitor: {\"scheme\":\"http\"}", false),
    ];
    for (line, secure) in cases {
        let path = format!("/{}", line.len());
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: {CLIENT}\r\n{line}\r\n\r\n"
        );
        let response = gateway.client().ask(request);
        let to = format!("https://shop.example{path}");
        let location = response.headers.get("Location");
        assert_eq!(location, (!secure).then_some(to.as_str()), "{line}");
        assert_eq!(response.status == 200, secure, "{line}");
    }
    let records = gateway.wait_records(cases.len());
    for (line, secure) in cases {
        let (path, scheme) = (format!("/{}", line.len()), if secure { "https" } else { "http" });
        let of_line = records.iter().filter(|record| record["path"] == path.as_str());
        assert!(of_line.clone().any(|record| record["scheme"] == scheme), "{line}: {records:#?}");
    }
}
