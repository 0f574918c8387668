//! HTTP/2 over TLS, chosen by ALPN; and probes, which use the same protocol as requests.

use tollgate_tests::{Authority, Gateway, Http2Origin, Response, eventually};

use super::with;
use crate::tls::Files;

/// Starts a gateway as the origin. `http2` sets the protocols that its listener offers over TLS.
fn origin(files: &Files, http2: &str) -> Gateway {
    Gateway::start(&format!(
        "listen: {{bind: \"$LISTEN\", http2: {http2}, tls: {{{}}}}}\n\
         routes: [{{match: \"/*\", respond: {{status: 200, body: hello}}}}]\n",
        files.pair("own")
    ))
}

/// Sends two requests through a gateway in front of the origin, and returns the answers.
fn ask(files: &Files, origin: &Gateway, http2: &str) -> [Response; 2] {
    let gateway = Gateway::start(&format!(
        "workers: 1\nupstreams:\n  up:\n    endpoints: [\"https://{}\"]\n    http2: {http2}\n    retry: off\n\
         \x20   tls: {{ca: {}/ca.pem, server_name: origin.test}}\n\
         routes: [{{match: \"/*\", to: up, rewrite: {{host: origin.test}}}}]\n",
        origin.address(),
        files.path().display(),
    ));
    let mut client = gateway.client();
    [client.get("/1"), client.get("/2")]
}

fn protocols(origin: &Gateway) -> Vec<String> {
    eventually("two records", || origin.records().len() == 2);
    origin.records().iter().map(|record| record["protocol"].as_str().unwrap_or("-").to_owned()).collect()
}

#[test]
fn alpn_chooses() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    files.put("own", &authority.issue(&["origin.test"]));
    for (offered, http2, spoken) in
        [("on", "on", "HTTP/2.0"), ("only", "on", "HTTP/2.0"), ("on", "off", "HTTP/1.1")]
    {
        let origin = origin(&files, offered);
        assert_eq!(ask(&files, &origin, http2).map(|response| response.text()), ["hello", "hello"]);
        assert_eq!(protocols(&origin), [spoken, spoken], "{offered} {http2}");
    }
    let none = origin(&files, "off");
    for response in ask(&files, &none, "on") {
        assert_eq!(response.status, 502, "{response:?}");
        assert!(response.reason().starts_with("tls_"), "{response:?}");
    }
}

#[test]
fn probes_speak_what_requests_do() {
    let origin = Http2Origin::play(|stream| match stream.request.target.as_str() {
        "/health" => stream.ok("all is well"),
        _ => stream.echo(),
    });
    let gateway = with(&origin, "    health: {http: /health, body: \"is well\", interval: 100ms}\n");
    eventually("probes", || origin.count() >= 3);
    assert_eq!(gateway.client().get("/").status, 200);
    let requests = origin.requests();
    let probes: Vec<_> = requests.iter().filter(|request| request.target == "/health").collect();
    assert!(probes.len() >= 3 && probes.iter().all(|probe| probe.method == "GET"), "{probes:?}");
    let down = Http2Origin::play(|stream| stream.head(500, &[], true));
    let gateway =
        with(&down, "    health: {http: /health, interval: 100ms}\n    balance: {panic_threshold: 0}\n");
    eventually("it to be out", || gateway.client().get("/").reason() == "destination_unavailable");
}
