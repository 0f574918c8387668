//! `ext_authz`: a service that speaks Envoy's gRPC protocol decides whether a request may pass. These tests
//! write and read the messages byte by byte, so that a mistake in the gateway's codec cannot hide behind
//! itself.

use std::collections::BTreeMap;

use tollgate_tests::{Gate, Gateway, Http2Origin, Origin, OriginStream, eventually, http2};

use super::auth::{both, passed, refused};

/// Encodes a field of a message: its number, and bytes.
fn bytes(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 1 << 14);
    let length = match bytes.len() {
        short @ 0..128 => vec![short as u8],
        long => vec![(long & 0x7f) as u8 | 0x80, (long >> 7) as u8],
    };
    [&[number << 3 | 2][..], &length, bytes].concat()
}

/// Encodes a field of a message: its number, and a small integer.
fn number(field: u8, value: u16) -> Vec<u8> {
    let low = (value & 0x7f) as u8;
    if value < 128 { vec![field << 3, low] } else { vec![field << 3, low | 0x80, (value >> 7) as u8] }
}

/// Encodes a `HeaderValueOption`.
fn header(name: &str, value: &str) -> Vec<u8> {
    bytes(1, &[bytes(1, name.as_bytes()), bytes(2, value.as_bytes())].concat())
}

/// Encodes a `CheckResponse` that admits a request.
fn ok(parts: &[Vec<u8>]) -> Vec<u8> {
    [bytes(1, b""), bytes(3, &parts.concat())].concat()
}

/// Encodes a `CheckResponse` that refuses it: PERMISSION_DENIED is 7.
fn denied(parts: &[Vec<u8>]) -> Vec<u8> {
    [bytes(1, &number(1, 7)), bytes(2, &parts.concat())].concat()
}

/// Returns the fields of a message, each with its number.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut out = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = message.split_first().expect("a number");
            *message = rest;
            out |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        out
    }
    let mut out = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let value = varint(&mut message);
        match tag & 7 {
            0 => out.push((tag >> 3, value.to_string().into_bytes())),
            2 => {
                let (value, rest) = message.split_at(value as usize);
                message = rest;
                out.push((tag >> 3, value.to_vec()));
            }
            kind => panic!("kind {kind}"),
        }
    }
    out
}

fn field(message: &[u8], path: &[u64]) -> Vec<u8> {
    path.iter().fold(message.to_vec(), |message, number| {
        let found = fields(&message).into_iter().find(|(own, _)| own == number);
        found.unwrap_or_else(|| panic!("no field {number} of {path:?}")).1
    })
}

/// Returns the header fields of the HTTP request in a `CheckRequest`.
fn reported(message: &[u8]) -> BTreeMap<String, String> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let http = field(message, &[1, 4, 2]);
    let entries = fields(&http).into_iter().filter(|(number, _)| *number == 3);
    entries
        .map(|(_, entry)| {
            (
                text(field(&entry, &[1])),
                fields(&entry)
                    .into_iter()
                    .find(|(number, _)| *number == 2)
                    .map(|(_, value)| text(value))
                    .unwrap_or_default(),
            )
        })
        .collect()
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

fn say(stream: &mut OriginStream, message: &[u8]) {
    stream.head(200, &[("content-type", "application/grpc")], false);
    stream.send(frame(message), false);
    stream.trailers(&[("grpc-status", "0")]);
}

/// Starts a service that admits requests with `x-pass: yes`.
pub fn service() -> Http2Origin {
    Http2Origin::play(|stream| {
        assert!(stream.body());
        let request = stream.request.clone();
        assert_eq!(request.target, "/envoy.service.auth.v3.Authorization/Check");
        let pass = reported(&request.body[5..]).get("x-pass").cloned();
        match pass.as_deref() {
            Some("yes") => say(
                stream,
                &ok(&[
                    bytes(2, &header("x-consumer-name", "alice")),
                    bytes(2, &header("x-groups", "admin,dev")),
                    bytes(5, b"x-pass"),
                    bytes(5, b"host"),
                    bytes(6, &header("x-told", "1")),
                ]),
            ),
            Some("query") => say(stream, &ok(&[bytes(8, b"token")])),
            Some("bare") => say(stream, &ok(&[])),
            Some("error") => {
                stream.head(200, &[("content-type", "application/grpc"), ("grpc-status", "14")], true);
            }
            Some("cut") => {
                stream.head(200, &[("content-type", "application/grpc")], false);
                stream.send(frame(&ok(&[]))[..6].to_vec(), true);
            }
            Some("500") => stream.head(500, &[], true),
            Some("noise") => say(stream, b"\xff\xff\xff"),
            Some("plain") => say(stream, &denied(&[])),
            _ => say(
                stream,
                &denied(&[
                    bytes(1, &number(1, 401)),
                    bytes(2, &header("www-authenticate", "Pass")),
                    bytes(2, &header("content-length", "99")),
                    bytes(3, b"show your pass"),
                ]),
            ),
        }
    })
}

fn gateway(origin: &Origin, address: &str, more: &str) -> Gateway {
    Gateway::start(&format!(
        "policies: {{ext_authz: {{url: \"http://{address}\", timeout: 10s, reserved_headers: X-Consumer-Name{more}}}}}\nroutes: [{{to: \"{}\"}}]\n",
        origin.address()
    ))
}

#[test]
fn the_service_gets_the_request_and_changes_it() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &service.address().to_string(), ", context: {place: here}");
    let spoofed = [
        ("X-Pass", "yes"),
        ("X-Consumer-Name", "root"),
        ("X_Consumer_Name", "root"),
        ("X-Groups", "all"),
        ("x.groups", "all"),
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "b.example"),
        ("X-Real-IP", "6.6.6.6"),
        ("Forwarded", "for=6.6.6.6"),
        ("Client-Cert", ":AAAA:"),
    ];
    for path in ["/a/../admin/%78?q=1", "/admin/x?q=1"] {
        for answer in both(&gateway, path, &spoofed) {
            assert_eq!((answer.status, answer.headers.get("X-Told")), (200, Some("1")));
        }
    }
    for got in origin.requests() {
        assert_eq!((got.target.as_str(), got.headers.get("Host")), ("/admin/x?q=1", Some("a.example")));
        assert_eq!(
            (got.headers.all("X-Consumer-Name"), got.headers.all("X-Groups")),
            (vec!["alice"], vec!["admin,dev"])
        );
        for gone in ["X_Consumer_Name", "x.groups", "X-Pass"] {
            assert!(!got.headers.has(gone), "{got:?}");
        }
    }
    for asked in service.requests() {
        let message = &asked.body[5..];
        let reported = reported(message);
        for (name, value) in [
            (":path", "/admin/x?q=1"),
            (":method", "GET"),
            (":authority", "a.example"),
            (":scheme", "http"),
            ("x-groups", "all"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "a.example"),
        ] {
            assert_eq!(reported.get(name).map(String::as_str), Some(value), "{name}");
        }
        for gone in ["x-real-ip", "forwarded", "client-cert"] {
            assert!(!reported.contains_key(gone), "{gone}: {reported:?}");
        }
        assert_eq!(field(message, &[1, 4, 2, 4]), b"/admin/x?q=1");
        assert_eq!(field(message, &[1, 1, 1, 1, 2]), b"127.0.0.1");
        assert_eq!(
            (field(message, &[1, 10, 1]), field(message, &[1, 10, 2])),
            (b"place".to_vec(), b"here".to_vec())
        );
    }
    assert_eq!(service.connections().0, 1, "the connection is kept");
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_denial_goes_to_the_client() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &service.address().to_string(), "");
    for answer in both(&gateway, "/", &[]) {
        assert_eq!((answer.status, answer.text().as_str()), (401, "show your pass"));
        assert_eq!(answer.headers.all("WWW-Authenticate"), ["Pass"]);
    }
    for answer in both(&gateway, "/", &[("X-Pass", "plain")]) {
        assert_eq!(answer.status, 403);
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn clients_cannot_send_the_fields_of_the_service() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &service.address().to_string(), "");
    for got in passed(
        &gateway,
        &origin,
        &[("X-Pass", "bare"), ("X-Consumer-Name", "root"), ("x_consumer_name", "root")],
    ) {
        assert!(!got.headers.has("X-Consumer-Name") && !got.headers.has("x_consumer_name"), "{got:?}");
    }
}

#[test]
fn no_response_denies_unless_configured() {
    let (origin, service) = (Origin::ok(), service());
    let (alive, dead) = (service.address().to_string(), tollgate_tests::refused_address().to_string());
    let odd = ["error", "cut", "500", "noise", "query"];
    let gateway = gateway(&origin, &alive, "");
    for pass in odd {
        refused(&gateway, &origin, &[("X-Pass", pass)], 503, "authorization_unavailable");
    }
    refused(
        &super::ext_authz::gateway(&origin, &dead, ""),
        &origin,
        &[("X-Pass", "yes")],
        503,
        "authorization_unavailable",
    );
    let open = super::ext_authz::gateway(&origin, &dead, ", fail_open: on");
    for got in passed(&open, &origin, &[("X-Pass", "yes"), ("X-Consumer-Name", "root")]) {
        assert!(!got.headers.has("X-Consumer-Name"), "{got:?}");
    }
}

#[test]
fn slow_services_and_clients_that_leave() {
    let origin = Origin::ok();
    let gate = Gate::new();
    let wait = gate.clone();
    let service = Http2Origin::play(move |stream| {
        assert!(stream.body());
        wait.wait();
        say(stream, &ok(&[]));
    });
    let slow = Gateway::start(&format!(
        "policies: {{ext_authz: {{url: \"http://{}\", timeout: 50ms}}}}\nroutes: [{{to: \"{}\"}}]\n",
        service.address(),
        origin.address()
    ));
    refused(&slow, &origin, &[], 503, "authorization_unavailable");
    let gateway = gateway(&origin, &service.address().to_string(), "");
    let before = service.count();
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut http2 = gateway.http2();
    let stream = http2.begin(http2::request("GET", "/", &[]), true).expect("begun");
    eventually("the service is asked", || service.count() == before + 2);
    client.reset();
    stream.reset();
    for record in gateway.wait_records(2) {
        assert_eq!(record["reason"], "client_closed", "{record}");
    }
    gate.open();
    passed(&gateway, &origin, &[]);
}

#[test]
fn its_identity_decides_later_policies() {
    let (origin, service) = (Origin::ok(), service());
    for (group, status) in [("dev", 200), ("ops", 403)] {
        let gateway = Gateway::start(&format!(
            "policies: {{ext_authz: {{url: \"http://{}\", timeout: 10s, consumer: X-Consumer-Name, groups: X-Groups}}, \
             authorize: {{allow: {{groups: {group}}}}}}}\nroutes: [{{to: \"{}\"}}]\n",
            service.address(),
            origin.address()
        ));
        for answer in both(&gateway, "/", &[("X-Pass", "yes")]) {
            assert_eq!(answer.status, status, "{group}");
        }
    }
}

#[test]
fn the_service_gets_the_body_and_it_goes_upstream_whole() {
    let origin = Origin::ok();
    let service = Http2Origin::play(|stream| {
        assert!(stream.body());
        say(stream, &ok(&[]));
    });
    let url = format!("http://{}", service.address());
    let binary = [0xff, 0xfe, b'a'];
    for (setting, sent, text, raw, partial) in [
        ("1KiB", &b"hello"[..], &b"hello"[..], &b""[..], "false"),
        ("{max: 1KiB, as_bytes: on}", b"hello", b"", b"hello", "false"),
        ("1KiB", &binary, b"", &binary, "false"),
        ("{max: 3B, partial: on}", b"hello", b"hel", b"", "true"),
    ] {
        let gateway = Gateway::start(&format!(
            "policies: {{ext_authz: {{url: \"{url}\", timeout: 10s, body: {setting}}}}}\nroutes: [{{to: \"{}\"}}]\n",
            origin.address()
        ));
        let (before, asked) = (origin.count(), service.count());
        let head = format!("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len());
        assert_eq!(gateway.client().ask([head.as_bytes(), sent].concat()).status, 200);
        let mut http2 = gateway.http2();
        let mut stream = http2.begin(http2::request("POST", "/p", &[]), false).expect("begun");
        stream.send(sent.to_vec(), true).expect("sent");
        assert_eq!(stream.response().expect("an answer").status, 200);
        assert!(
            origin.requests()[before..].iter().all(|got| got.body == sent) && origin.count() == before + 2
        );
        for request in &service.requests()[asked..] {
            let http = field(&request.body[5..], &[1, 4, 2]);
            let of = |number: u64| {
                let found = fields(&http).into_iter().find(|(own, _)| *own == number);
                found.map(|(_, value)| value).unwrap_or_default()
            };
            assert_eq!((of(11), of(12)), (text.to_vec(), raw.to_vec()), "{setting}");
            assert_eq!(reported(&request.body[5..])["x-envoy-auth-partial-body"], partial, "{setting}");
        }
    }
}

#[test]
fn an_ambiguous_identity_denies() {
    let origin = Origin::ok();
    let service = Http2Origin::play(|stream| {
        assert!(stream.body());
        let twice = ["alice", "root"].map(|name| bytes(2, &header("x-consumer-name", name)));
        say(stream, &ok(&twice));
    });
    let gateway = Gateway::start(&format!(
        "policies: {{ext_authz: {{url: \"http://{}\", timeout: 10s, consumer: X-Consumer-Name}}}}\nroutes: [{{to: \"{}\"}}]\n",
        service.address(),
        origin.address()
    ));
    refused(&gateway, &origin, &[], 503, "authorization_unavailable");
}

#[test]
fn behind_a_trusted_proxy_the_service_is_asked_about_the_client() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = Gateway::start(&format!(
        "forwarded: {{trusted_proxies: 127.0.0.0/8}}\npolicies: {{ext_authz: {{url: \"http://{}\", timeout: 10s}}}}\n\
         routes: [{{to: \"{}\"}}]\n",
        service.address(),
        origin.address()
    ));
    let by_names = [
        ("X-Pass", "yes"),
        ("X-Forwarded-For", "6.6.6.6, 203.0.113.7"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "shop.example"),
    ];
    let by_element = [("X-Pass", "yes"), ("Forwarded", "for=203.0.113.7;proto=https;host=shop.example")];
    for fields in [&by_names[..], &by_element] {
        for answer in both(&gateway, "/", fields) {
            assert_eq!(answer.status, 200, "{fields:?}");
        }
    }
    let questions = service.requests();
    assert_eq!(questions.len(), 4);
    for asked in questions {
        let message = &asked.body[5..];
        let reported = reported(message);
        for (name, value) in [
            ("x-forwarded-for", "203.0.113.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "shop.example"),
            (":scheme", "https"),
        ] {
            assert_eq!(reported.get(name).map(String::as_str), Some(value), "{name}: {reported:?}");
        }
        assert_eq!(field(message, &[1, 1, 1, 1, 2]), b"203.0.113.7");
    }
}
