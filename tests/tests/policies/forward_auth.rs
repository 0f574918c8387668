//! `forward_auth`: a service decides whether a request may pass.

use tollgate_tests::{Gate, Gateway, Origin, eventually, http2};

use super::auth::{both, passed, refused};

/// Starts a service that admits requests with `X-Pass: yes`, and names the consumer.
pub fn service() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            let said = match request.headers.get("X-Pass") {
                None => {
                    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Pass\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 5\r\n\r\nlogin"
                }
                Some("yes") => {
                    "HTTP/1.1 204 No Content\r\nX-Consumer-Name: alice\r\nX-Groups: admin, dev\r\nX-Other: x\r\n\r\n"
                }
                Some("move") => {
                    "HTTP/1.1 302 Found\r\nLocation: https://login.example/\r\nContent-Length: 0\r\n\r\n"
                }
                Some("huge") => "HTTP/1.1 403 Forbidden\r\nContent-Length: 9000000\r\n\r\n",
                Some("odd") => "HTTP/1.1 204 Fine\r\nX-Consumer-Name: al\r\n ice\r\n\r\n",
                Some(_) => {
                    "HTTP/1.1 403 Forbidden\r\nConnection: X-Gone\r\nX-Gone: 1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nshut\r\n0\r\n\r\n"
                }
            };
            conn.send(said);
            if request.headers.get("X-Pass") == Some("huge") {
                return;
            }
        }
    })
}

fn gateway(origin: &Origin, url: &str, more: &str) -> Gateway {
    Gateway::start(&format!(
        "policies: {{forward_auth: {{url: \"{url}\", timeout: 10s, response_headers: X-Consumer-Name{more}}}}}\nroutes: [{{to: \"{}\"}}]\n",
        origin.address()
    ))
}

#[test]
fn the_service_gets_the_request_and_identifies_the_client() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &format!("http://{}/check?a=b", service.address()), "");
    let spoofed = [
        ("X-Pass", "yes"),
        ("X-Consumer-Name", "root"),
        ("X_Consumer_Name", "root"),
        ("X-Forwarded-Uri", "/open"),
        ("X-Forwarded-For", "6.6.6.6"),
        ("X_Original_Uri", "/open"),
        ("X-Real-IP", "6.6.6.6"),
        ("Forwarded", "for=6.6.6.6"),
        ("X-Forwarded-Port", "1"),
        ("Client-Cert", ":AAAA:"),
    ];
    for path in ["/a/../admin/%78?q=1", "/admin/x?q=1"] {
        for answer in both(&gateway, path, &spoofed) {
            assert_eq!(answer.status, 200);
        }
    }
    for got in origin.requests() {
        assert_eq!(got.target, "/admin/x?q=1");
        assert_eq!(got.headers.all("X-Consumer-Name"), ["alice"]);
        assert!(!got.headers.has("X_Consumer_Name") && !got.headers.has("X-Other"), "{got:?}");
    }
    for asked in service.requests() {
        assert_eq!((asked.method.as_str(), asked.target.as_str()), ("GET", "/check?a=b"));
        assert!(
            !asked.headers.has("X-Consumer-Name") && !asked.headers.has("X_Consumer_Name"),
            "it might take for its own what the client says: {asked:?}"
        );
        for (name, value) in [
            ("X-Forwarded-Uri", "/admin/x?q=1"),
            ("X-Original-Uri", "/admin/x?q=1"),
            ("X-Forwarded-Method", "GET"),
            ("X-Forwarded-Host", "a.example"),
            ("X-Forwarded-Proto", "http"),
            ("X-Forwarded-For", "127.0.0.1"),
            ("Host", &service.address().to_string()),
        ] {
            assert_eq!(asked.headers.all(name), [value], "{name}: {asked:?}");
        }
        // The service does not receive fields that no upstream would accept from a client.
        for gone in ["X_Original_Uri", "X-Real-IP", "Forwarded", "X-Forwarded-Port", "Client-Cert"] {
            assert!(!asked.headers.has(gone), "{gone}: {asked:?}");
        }
    }
    assert!(service.connections() < 4, "connections are kept");
    gateway.reconcile(&[&origin]);
}

#[test]
fn clients_cannot_send_the_fields_of_the_service() {
    let (origin, service) = (Origin::ok(), service());
    let known = "consumers: {bob: {api_keys: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}}";
    for (policies, name) in [
        // The service names her, and overrides the consumer of the key.
        ("api_key: on, forward_auth: {url: \"$URL\", consumer: X-Consumer-Name, groups: X-Groups}", "alice"),
        // The service's name is not used, so the key's consumer stays.
        ("api_key: on, forward_auth: {url: \"$URL\"}", "bob"),
        ("api_key: {consumer_header: X-Owner}, forward_auth: {url: \"$URL\"}", "bob"),
        // Nor is it used in the field that both policies share.
        ("api_key: on, forward_auth: {url: \"$URL\", consumer: X-Nobody, consumer_header: X-Nobody}", "bob"),
        // The service's value for the same field replaces the gateway's.
        ("api_key: on, forward_auth: {url: \"$URL\", response_headers: X-Consumer-Name}", "alice"),
    ] {
        let policies = policies
            .replace("$URL", &format!("http://{}/", service.address()))
            .replace("forward_auth: {", "forward_auth: {timeout: 10s, ");
        let gateway = Gateway::with(&origin, &format!("{known}\npolicies: {{{policies}}}"));
        let fields = [
            ("X-Pass", "yes"),
            ("X-Api-Key", "test"),
            ("X-Consumer-Name", "root"),
            ("X_Consumer_Groups", "root"),
        ];
        for got in passed(&gateway, &origin, &fields) {
            assert_eq!(got.headers.all("X-Consumer-Name"), [name], "{policies}");
            assert!(!got.headers.has("X_Consumer_Groups"), "{policies}: {got:?}");
            let reported: &[&str] =
                if policies.contains("consumer_header: X-Nobody") { &["bob"] } else { &[] };
            assert_eq!(got.headers.all("X-Nobody"), reported, "{policies}");
        }
        for got in
            passed(&gateway, &origin, &[&fields[..], &[("X-Groups", "root"), ("x.groups", "root")]].concat())
        {
            let groups = ["X-Groups", "x.groups"].map(|name| got.headers.has(name));
            assert_eq!(groups, [!policies.contains("X-Groups"); 2], "{policies}");
        }
    }
}

#[test]
fn other_responses_go_to_the_client() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &format!("http://{}", service.address()), "");
    for answer in both(&gateway, "/", &[]) {
        assert_eq!((answer.status, answer.text().as_str()), (401, "login"));
        assert_eq!(answer.headers.all("Set-Cookie"), ["a=b", "c=d"]);
        assert_eq!(answer.headers.get("WWW-Authenticate"), Some("Pass"));
    }
    for answer in both(&gateway, "/", &[("X-Pass", "move")]) {
        assert_eq!((answer.status, answer.headers.get("Location")), (302, Some("https://login.example/")));
    }
    for answer in both(&gateway, "/", &[("X-Pass", "no")]) {
        assert_eq!((answer.status, answer.text().as_str()), (403, "shut"));
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_client_without_a_credential_is_led_to_the_page_where_it_signs_in() {
    let (origin, service) = (Origin::ok(), service());
    let url = format!("http://{}/", service.address());
    let page = "https://login.example/start";
    let gateway = gateway(&origin, &url, &format!(", sign_in: \"{page}?a=b\", sign_in_parameter: next"));
    for answer in both(&gateway, "/x/../y?q=1&r", &[]) {
        assert_eq!(answer.status, 302);
        let back = "http%3A%2F%2Fa.example%2Fy%3Fq%3D1%26r";
        assert_eq!(answer.headers.all("Location"), [format!("{page}?a=b&next={back}")]);
        assert_eq!(answer.headers.all("Set-Cookie"), ["a=b", "c=d"]);
    }
    // Only a 401 is for want of a credential.
    for answer in both(&gateway, "/", &[("X-Pass", "no")]) {
        assert_eq!(answer.status, 403);
    }
    for answer in both(&gateway, "/", &[("X-Pass", "yes")]) {
        assert_eq!(answer.status, 200);
    }
    assert!(service.requests().iter().any(|asked| asked.headers.has("X-Original-Url")));
}

#[test]
fn the_body_stays_here_and_goes_upstream_whole() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &format!("http://{}", service.address()), "");
    let body = "b".repeat(200_000);
    let mut client = gateway.client();
    for _ in 0..2 {
        let answer = client.ask(format!(
            "POST /p HTTP/1.1\r\nHost: a\r\nX-Pass: yes\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(answer.status, 200);
    }
    let mut http2 = gateway.http2();
    let mut stream = http2.begin(http2::request("POST", "/p", &[("x-pass", "yes")]), false).expect("begun");
    stream.send(body.clone(), true).expect("sent");
    assert_eq!(stream.response().expect("an answer").status, 200);
    assert!(origin.requests().iter().all(|got| got.body == body.as_bytes()) && origin.count() == 3);
    for asked in service.requests() {
        assert!(
            asked.body.is_empty() && asked.headers.get("Content-Length").is_none_or(|length| length == "0"),
            "{asked:?}"
        );
        assert_eq!(asked.headers.get("X-Forwarded-Method"), Some("POST"));
    }
}

#[test]
fn no_response_denies() {
    let origin = Origin::ok();
    let dead = tollgate_tests::refused_address();
    refused(
        &gateway(&origin, &format!("http://{dead}"), ""),
        &origin,
        &[("X-Pass", "yes")],
        503,
        "authorization_unavailable",
    );
    let service = service();
    let address = service.address();
    let gateway = gateway(&origin, &format!("http://{address}"), "");
    for odd in ["huge", "odd"] {
        refused(&gateway, &origin, &[("X-Pass", odd)], 503, "authorization_unavailable");
    }
    passed(&gateway, &origin, &[("X-Pass", "yes")]);
    drop(service);
    refused(&gateway, &origin, &[("X-Pass", "yes")], 503, "authorization_unavailable");
}

#[test]
fn a_service_that_closes_a_new_connection_is_not_asked_again() {
    let origin = Origin::ok();
    // Only the first request of the first connection is answered.
    let service = Origin::play(|conn| {
        if conn.index() == 0 {
            conn.request();
            conn.send("HTTP/1.1 204 No Content\r\n\r\n");
        }
        conn.request();
    });
    let gateway = gateway(&origin, &format!("http://{}", service.address()), "");
    let mut client = gateway.client();
    let mut ask = || {
        let response = client.get("/");
        (response.status, response.reason().to_owned(), service.count(), service.connections())
    };
    let refused = || "authorization_unavailable".to_owned();
    assert_eq!(ask(), (200, "-".to_owned(), 1, 1));
    // On the idle connection, which ends, and then on a new one.
    assert_eq!(ask(), (503, refused(), 3, 2));
    assert_eq!(ask(), (503, refused(), 4, 3));
}

#[test]
fn a_slow_service_denies() {
    let origin = Origin::ok();
    let gate = Gate::new();
    let wait = gate.clone();
    let service = Origin::play(move |conn| {
        while conn.request().is_some() {
            wait.wait();
            conn.send("HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    let gateway = Gateway::start(&format!(
        "policies: {{forward_auth: {{url: \"http://{}\", timeout: 50ms}}}}\nroutes: [{{to: \"{}\"}}]\n",
        service.address(),
        origin.address()
    ));
    refused(&gateway, &origin, &[], 503, "authorization_unavailable");
    gate.open();
}

#[test]
fn a_client_that_goes_while_the_service_is_asked_is_let_go() {
    let origin = Origin::ok();
    let gate = Gate::new();
    let wait = gate.clone();
    let service = Origin::play(move |conn| {
        while conn.request().is_some() {
            wait.wait();
            conn.send("HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    let gateway = gateway(&origin, &format!("http://{}", service.address()), "");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut http2 = gateway.http2();
    let stream = http2.begin(http2::request("GET", "/", &[]), true).expect("begun");
    eventually("the service is asked", || service.count() == 2);
    client.reset();
    stream.reset();
    for record in gateway.wait_records(2) {
        assert_eq!(record["reason"], "client_closed", "{record}");
    }
    gate.open();
    passed(&gateway, &origin, &[]);
    assert_eq!(origin.count(), 2);
}

#[test]
fn its_identity_decides_later_policies() {
    let (origin, service) = (Origin::ok(), service());
    for (group, status) in [("admin", 200), ("ops", 403)] {
        let gateway = Gateway::start(&format!(
            "policies: {{forward_auth: {{url: \"http://{}\", timeout: 10s, consumer: X-Consumer-Name, groups: X-Groups, request_headers: X-Pass}}, \
             authorize: {{allow: {{groups: {group}}}}}}}\nroutes: [{{to: \"{}\"}}]\n",
            service.address(),
            origin.address()
        ));
        for answer in both(&gateway, "/", &[("X-Pass", "yes"), ("Cookie", "secret")]) {
            assert_eq!(answer.status, status, "{group}");
        }
    }
    assert!(service.requests().iter().all(|asked| !asked.headers.has("Cookie")));
}

#[test]
fn a_malformed_response_denies() {
    let long = format!(
        "HTTP/1.1 200 OK\r\nRemote-User: alice\r\nX-Long: {}\r\nContent-Length: 0\r\n\r\n",
        "x".repeat(200 << 10)
    );
    let answers: [(&str, &str); 13] = [
        (
            "HTTP/1.1 200 OK\r\nRemote-User: alice\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "where it ends",
        ),
        (
            "HTTP/1.1 200 OK\r\nRemote-User: alice\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
            "where it ends",
        ),
        ("HTTP/1.1 200 OK\nRemote-User: alice\nContent-Length: 0\n\n", "status line"),
        ("HTTP/1.1 200 OK\r\nRemote-User: alice\nContent-Length: 0\r\n\r\n", "malformed field"),
        ("HTTP/1.1 200 OK\r\nRemote-User: al\r\n ice\r\nContent-Length: 0\r\n\r\n", "malformed field"),
        ("HTTP/1.1 200 OK\r\nRemote-User: a\x01\r\nContent-Length: 0\r\n\r\n", "malformed field"),
        (&long, "too large"),
        (
            "HTTP/1.1 200 OK\r\nRemote-User: alice\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
            "chunk",
        ),
        ("HTTP/1.1 200 OK\r\nRemote-User: alice\r\nRemote-User: root\r\nContent-Length: 0\r\n\r\n", "twice"),
        ("HTTP/1.1 200 OK\r\nRemote-User: alice\r\nremote-user: alice\r\nContent-Length: 0\r\n\r\n", "twice"),
        ("HTTP/1.1 200 OK\r\nRemote-Groups: a\r\nRemote-Groups: b\r\nContent-Length: 0\r\n\r\n", "twice"),
        ("HTTP/1.1 200 OK\r\nRemote-User: alice\r\nContent-Length: 9\r\n\r\nshort", "broke off"),
        ("ICY 200 OK\r\n\r\n", "status line"),
    ];
    let origin = Origin::ok();
    for (answer, why) in answers {
        let service = Origin::fixed_then_close(answer);
        let gateway = Gateway::start(&format!(
            "policies: {{forward_auth: {{url: \"http://{}/\", timeout: 10s, consumer: Remote-User, groups: Remote-Groups, \
             response_headers: [Remote-User]}}}}\nroutes: [{{to: \"{}\"}}]\n",
            service.address(),
            origin.address()
        ));
        refused(&gateway, &origin, &[], 503, "authorization_unavailable");
        for record in gateway.wait_records(2) {
            let detail = record["detail"].as_str().unwrap_or_default();
            assert!(detail.contains(why), "{:?}: {record}", &answer[..answer.len().min(60)]);
        }
    }
    // A field that the `Connection` field of the answer names gives no identity.
    let service = Origin::fixed(
        "HTTP/1.1 200 OK\r\nConnection: Remote-User\r\nRemote-User: alice\r\nContent-Length: 0\r\n\r\n",
    );
    let gateway = Gateway::start(&format!(
        "policies: {{forward_auth: {{url: \"http://{}/\", timeout: 10s, response_headers: Remote-User}}}}\nroutes: [{{to: \"{}\"}}]\n",
        service.address(),
        origin.address()
    ));
    for got in passed(&gateway, &origin, &[("Remote-User", "root")]) {
        assert!(!got.headers.has("Remote-User"), "{got:?}");
    }
}

#[test]
fn bytes_after_a_response_answer_no_other_request() {
    let origin = Origin::ok();
    let no = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    let service = Origin::fixed(format!("{no}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    let gateway = gateway(&origin, &format!("http://{}", service.address()), "");
    for _ in 0..3 {
        assert_eq!(both(&gateway, "/", &[]).map(|answer| answer.status), [403, 403]);
    }
    assert_eq!(origin.count(), 0);
}

/// Starts a service that admits every request, except one whose body contains `drop`.
fn reads_bodies() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            let bad = request.body.windows(4).any(|window| window == b"drop");
            conn.send(if bad {
                "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
            } else {
                "HTTP/1.1 204 No Content\r\n\r\n"
            });
        }
    })
}

/// Sends the same POST with a length, in chunks, and over HTTP/2. Returns the statuses.
fn posted(gateway: &Gateway, body: &str) -> [u16; 3] {
    let length = body.len();
    let whole = gateway
        .client()
        .ask(format!("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"));
    let (one, two) = body.split_at(length / 2);
    let chunks: String = [one, two]
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| format!("{:x}\r\n{part}\r\n", part.len()))
        .collect();
    let chunked = gateway
        .client()
        .ask(format!("POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"));
    let mut http2 = gateway.http2();
    let mut stream = http2.begin(http2::request("POST", "/p", &[]), false).expect("begun");
    // The gateway may refuse the body before it was sent.
    let _ = stream.send(body.to_owned(), true);
    let streamed = stream.response().expect("an answer");
    [whole.status, chunked.status, streamed.status]
}

#[test]
fn the_service_gets_the_body_and_it_goes_upstream_whole() {
    let (origin, service) = (Origin::ok(), reads_bodies());
    let gateway = gateway(&origin, &format!("http://{}/check", service.address()), ", body: 64KiB");
    let large = "b".repeat(64 << 10);
    for body in ["hello", &large, ""] {
        let (before, asked) = (origin.count(), service.count());
        assert_eq!(posted(&gateway, body), [200, 200, 200]);
        for got in &origin.requests()[before..] {
            assert!(got.body == body.as_bytes(), "{} bytes, not {}", got.body.len(), body.len());
        }
        for asked in &service.requests()[asked..] {
            assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/check"));
            assert!(asked.body == body.as_bytes(), "{} bytes, not {}", asked.body.len(), body.len());
            assert_eq!(asked.headers.all("X-Envoy-Auth-Partial-Body"), ["false"]);
            assert_eq!(asked.headers.get("X-Forwarded-Method"), Some("POST"));
        }
    }
    let before = origin.count();
    assert_eq!(posted(&gateway, "please drop it"), [403, 403, 403]);
    // The body is too large for the service, so the service is not called.
    let asked = service.count();
    assert_eq!(posted(&gateway, &format!("{large}b")), [413, 413, 413]);
    assert_eq!((origin.count(), service.count()), (before, asked));
}

#[test]
fn the_service_gets_the_start_of_a_large_body_if_configured() {
    let (origin, service) = (Origin::ok(), reads_bodies());
    let body = ", body: {max: 10B, partial: on}";
    let gateway = gateway(&origin, &format!("http://{}/", service.address()), body);
    let large = format!("0123456789{}", "x".repeat(300_000));
    for (body, partial) in [("0123456789", "false"), ("0123456789a", "true"), (&large, "true")] {
        let (before, asked) = (origin.count(), service.count());
        assert_eq!(posted(&gateway, body), [200, 200, 200]);
        for got in &origin.requests()[before..] {
            assert!(got.body == body.as_bytes(), "{} bytes, not {}", got.body.len(), body.len());
        }
        for asked in &service.requests()[asked..] {
            assert_eq!(asked.body, b"0123456789");
            assert_eq!(asked.headers.all("X-Envoy-Auth-Partial-Body"), [partial]);
        }
    }
    // A client cannot set this field.
    let answer = gateway.client().ask(
        "POST /p HTTP/1.1\r\nHost: a\r\nX-Envoy-Auth-Partial-Body: false\r\nContent-Length: 11\r\n\r\n0123456789a",
    );
    assert_eq!(answer.status, 200);
    let asked = service.requests().pop().expect("asked");
    assert_eq!(asked.headers.all("X-Envoy-Auth-Partial-Body"), ["true"]);
    let answer =
        gateway.client().ask("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\ndrop567890abcdefghij");
    assert_eq!(answer.status, 403);
}
