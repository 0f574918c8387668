//! Exchanges that pass through: heads, bodies, trailers, interim responses; and the gateway's own answers.

use h2::Reason;
use tollgate_tests::http2::{Cut, get, request};
use tollgate_tests::{Framing, Gate, Gateway, Origin, eventually, refused_address};

#[test]
fn a_request_equals_that_of_http1() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Two: a\r\nX-Two: b\r\nConnection: x-own\r\nX-Own: 1\r\n\r\nok",
    );
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let fields =
        [("x-a", "1"), ("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2"), ("x_real_ip", "6.6.6.6")];
    let response = client.ask(request("GET", "/p/./q?r=s", &fields));
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    assert_eq!(response.headers.all("x-two"), ["a", "b"]);
    assert!(!response.headers.has("connection") && !response.headers.has("x-own"), "{response:?}");
    assert!(response.headers.has("date"));
    let got = origin.request();
    assert_eq!(
        (got.method.as_str(), got.target.as_str(), got.version.as_str()),
        ("GET", "/p/q?r=s", "HTTP/1.1")
    );
    assert_eq!(got.headers.all("host"), ["a.example"]);
    assert_eq!(got.headers.all("cookie"), ["a=1; b=2"]);
    assert_eq!(got.headers.get("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(got.headers.get("x-forwarded-host"), Some("a.example"));
    assert_eq!((got.headers.get("te"), got.headers.get("connection")), (Some("trailers"), Some("TE")));
    assert!(!got.headers.has("x_real_ip") && got.framing == Framing::None, "{got:?}");
    let record = &gateway.wait_records(1)[0];
    assert_eq!((&record["protocol"], &record["status"]), (&"HTTP/2.0".into(), &200.into()), "{record}");
    gateway.reconcile(&[&origin]);
}

#[test]
fn bodies_with_and_without_a_length() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let mut known = client.begin(request("POST", "/a", &[("content-length", "10")]), false).expect("begun");
    known.send("01234", false).expect("sent");
    known.send("56789", true).expect("sent");
    assert_eq!(known.response().expect("an answer").text(), "POST /a 0123456789");
    let mut unknown = client.begin(request("POST", "/b", &[]), false).expect("begun");
    unknown.send("01234", false).expect("sent");
    unknown.send("", true).expect("sent");
    assert_eq!(unknown.response().expect("an answer").text(), "POST /b 01234");
    let mut empty = client.begin(request("POST", "/c", &[]), false).expect("begun");
    empty.send("", true).expect("sent");
    assert_eq!(empty.response().expect("an answer").text(), "POST /c ");
    let framings: Vec<_> = origin.requests().iter().map(|request| request.framing).collect();
    assert_eq!(framings[..2], [Framing::Length(10), Framing::Chunked]);
    // The end of the stream may arrive with its head.
    assert!(matches!(framings[2], Framing::Chunked | Framing::Length(0)), "{framings:?}");
    assert_eq!(gateway.wait_records(3)[0]["bytes_in"], 10);
    gateway.reconcile(&[&origin]);
}

#[test]
fn large_bodies_arrive_byte_by_byte() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let body: Vec<u8> =
        (0..3_000_000_u32).map(|at| b'a' + (at.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    let mut stream = client.begin(request("POST", "/", &[]), false).expect("begun");
    stream.send(body.clone(), true).expect("sent");
    let response = stream.response().expect("an answer");
    assert!(response.body.strip_prefix(b"POST / ") == Some(&body), "{} bytes", response.body.len());
    gateway.reconcile(&[&origin]);
}

#[test]
fn trailers_go_both_ways() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\nHost: b\r\n\r\n",
    );
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let mut stream = client.begin(request("POST", "/", &[]), false).expect("begun");
    stream.send("body", false).expect("sent");
    stream.send_trailers(&[("x-check", "5"), ("content-length", "9")]).expect("sent");
    let response = stream.response().expect("an answer");
    assert_eq!((response.text().as_str(), response.trailers.get("x-sum")), ("ok", Some("7")));
    assert!(!response.trailers.has("host"), "{response:?}");
    assert!(!response.headers.has("transfer-encoding"), "{response:?}");
    let got = origin.request();
    assert_eq!(
        (got.body.as_slice(), got.trailers.0.as_slice()),
        (&b"body"[..], &[("x-check".to_owned(), "5".to_owned())][..])
    );
    gateway.reconcile(&[&origin]);
}

#[test]
fn responses_without_a_body() {
    let origin = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            conn.send(match request.target.as_str() {
                "/204" => "HTTP/1.1 204 No Content\r\n\r\n",
                "/304" => "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
                "/none" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
            });
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    for (method, path, status, length) in [
        ("GET", "/204", 204, None),
        ("GET", "/304", 304, Some("5")),
        ("GET", "/none", 200, Some("0")),
        ("HEAD", "/head", 200, Some("7")),
    ] {
        let response = client.ask(request(method, path, &[]));
        assert_eq!((response.status, response.header("content-length")), (status, length), "{path}");
        assert!(response.body.is_empty(), "{path}");
    }
    assert_eq!(origin.connections(), 1, "each left the connection whole");
    gateway.reconcile(&[&origin]);
}

#[test]
fn interim_responses_go_on() {
    let origin = Origin::play(|conn| {
        while let Some(mut request) = conn.head() {
            conn.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            if request.headers.has("expect") {
                conn.send("HTTP/1.1 100 Continue\r\n\r\n");
            }
            conn.body(&mut request);
            conn.ok("ok");
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let fields = [("expect", "100-continue"), ("content-length", "2")];
    let mut stream = client.begin(request("POST", "/", &fields), false).expect("begun");
    eventually("the head to go before the body", || origin.count() == 1);
    stream.send("hi", true).expect("sent");
    let response = stream.response().expect("an answer");
    let interim: Vec<_> = response.interim.iter().map(|one| (one.status, one.header("link"))).collect();
    assert_eq!(interim, [(103, Some("</a>")), (100, None)]);
    assert_eq!(response.text(), "ok");
    gateway.reconcile(&[&origin]);
}

#[test]
fn the_gateway_answers_itself() {
    let nobody = refused_address();
    let gateway = Gateway::start(&format!(
        "request_id: on\nroutes:\n- {{match: /fixed, respond: {{status: 200, body: hello, headers: {{X-A: b}}}}}}\n\
         - {{match: /old, redirect: {{path: /new}}}}\n- {{match: /gone, to: \"{nobody}\"}}\n"
    ));
    let mut client = gateway.http2();
    let fixed = client.get("/fixed");
    assert_eq!((fixed.status, fixed.text().as_str(), fixed.header("x-a")), (200, "hello", Some("b")));
    assert!(!fixed.headers.has("connection"), "{fixed:?}");
    assert_eq!(client.ask(request("HEAD", "/fixed", &[])).header("content-length"), Some("5"));
    let old = client.get("/old?q");
    assert_eq!((old.status, old.header("location")), (302, Some("http://a.example/new?q")));
    let nowhere = client.get("/nowhere");
    assert_eq!((nowhere.status, nowhere.header("tollgate-reason")), (404, Some("no_route")));
    let gone = client.get("/gone");
    assert_eq!((gone.status, gone.header("tollgate-reason")), (502, Some("connection_refused")));
    // A body that the route does not use: the answer arrives, and the stream ends with it.
    let mut upload = client.begin(request("POST", "/fixed", &[]), false).expect("begun");
    // The answer may arrive, and the stream end, before this is sent.
    let _ = upload.send("some", false);
    assert_eq!(upload.response().expect("an answer").text(), "hello");
    assert_eq!(client.get("/fixed").status, 200, "the connection goes on");
    gateway.reconcile(&[]);
}

#[test]
fn retries_equal_those_of_http1() {
    let origin = Origin::echo();
    let nobody = refused_address();
    let gateway =
        Gateway::start(&format!("routes:\n- {{match: /*, to: [\"{nobody}\", \"{}\"]}}\n", origin.address()));
    let mut client = gateway.http2();
    for _ in 0..6 {
        let mut stream =
            client.begin(request("POST", "/", &[("content-length", "4")]), false).expect("begun");
        stream.send("body", true).expect("sent");
        assert_eq!(stream.response().expect("an answer").text(), "POST / body");
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_response_that_is_cut_is_a_reset() {
    let origin = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
            conn.reset();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    assert_eq!(client.try_ask(get("/")).err(), Some(Cut::Reset(Reason::INTERNAL_ERROR)));
    assert_eq!(gateway.wait_records(1)[0]["reason"], "http_response_incomplete");
    let ended = Origin::fixed_then_close("HTTP/1.1 200 OK\r\n\r\nto the end");
    let gateway = Gateway::to(&ended);
    assert_eq!(gateway.http2().get("/").text(), "to the end", "what its end ends is whole");
}

#[test]
fn a_reset_cancels_the_request() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            if request.target == "/slow" {
                assert!(conn.wait_close(), "the upstream's connection ends with its request");
                held.open();
                return;
            }
            conn.ok("ok");
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let stream = client.begin(get("/slow"), true).expect("begun");
    eventually("the request", || origin.count() == 1);
    stream.reset();
    gate.wait();
    let record = &gateway.wait_records(1)[0];
    assert_eq!((&record["reason"], &record["attempts"]), (&"client_closed".into(), &1.into()), "{record}");
    assert_eq!(client.get("/").status, 200, "the connection goes on");
    gateway.reconcile(&[&origin]);
}

#[test]
fn streams_do_not_wait_for_each_other() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            if request.target.starts_with("/slow") {
                held.wait();
            }
            conn.ok(&request.target);
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let slow: Vec<_> =
        (0..20).map(|n| client.begin(get(&format!("/slow{n}")), true).expect("begun")).collect();
    eventually("the slow ones", || origin.count() == 20);
    for n in 0..20 {
        assert_eq!(client.get(&format!("/quick{n}")).text(), format!("/quick{n}"));
    }
    gate.open();
    for (n, stream) in slow.into_iter().enumerate() {
        assert_eq!(stream.response().expect("an answer").text(), format!("/slow{n}"));
    }
    gateway.reconcile(&[&origin]);
}
