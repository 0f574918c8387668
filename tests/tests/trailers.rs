//! Trailers have the limits of heads, in both directions and versions. Past a limit the gateway gives a
//! reason of its own.

use tollgate_tests::http2::request;
use tollgate_tests::{Gateway, Http2Origin, Origin, Request, Response};

const GRPC: (&str, &str) = ("content-type", "application/grpc");
/// An empty gRPC message.
const EMPTY: &[u8] = b"\0\0\0\0\0";
const TOO_LONG: &str = "http_response_trailer_section_size";
/// A small head for small limits.
const LIMITS: &str = "limits: {headers: 8KiB, header_count: 20}";

/// Starts an origin that answers calls with a message and then with trailers: one field of `length` bytes,
/// and `fields` fields in all.
fn grpc_origin(length: usize, fields: usize) -> Http2Origin {
    Http2Origin::play(move |stream| {
        stream.body();
        stream.head(200, &[GRPC], false);
        stream.send(EMPTY, false);
        let long = "d".repeat(length);
        let mut trailers = vec![("grpc-status", "9"), ("grpc-status-details-bin", &long)];
        trailers.resize(fields.max(2), ("x-more", "1"));
        stream.trailers(&trailers);
    })
}

fn gateway(to: impl std::fmt::Display, file: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: u, grpc_web: on}}]\n\
         upstreams: {{u: {{endpoints: [\"{to}\"], outlier: {{max_ejected: 100%}}, breaker: {{minimum: 1, failures: 1%}}}}}}\n{file}\n"
    ))
}

fn call(gateway: &Gateway) -> Response {
    let mut client = gateway.http2();
    let mut stream =
        client.begin(request("POST", "/a.B/C", &[GRPC, ("te", "trailers")]), false).expect("begun");
    stream.send(EMPTY, true).expect("sent");
    stream.response().expect("an answer")
}

/// Asserts that nothing counted against the endpoint, and that a call succeeds.
fn assert_well(gateway: &Gateway) {
    let metrics = gateway.metrics();
    for name in [
        "tollgate_upstream_ejections_total",
        "tollgate_upstream_ejections_refused_total",
        "tollgate_upstream_breaker_opened_total",
        "tollgate_upstream_breaker_refused_total",
    ] {
        assert_eq!(metrics.sum(name, "").unwrap_or(0.0), 0.0, "{name}");
    }
}

#[test]
fn a_calls_trailers_come_whole_within_the_limits_of_heads() {
    for (length, file) in [(20_000, ""), (200_000, "limits: {headers: 256KiB}")] {
        let origin = grpc_origin(length, 2);
        let gateway = gateway(format!("h2c://{}", origin.address()), file);
        let response = call(&gateway);
        assert_eq!((response.body.as_slice(), response.trailers.get("grpc-status")), (EMPTY, Some("9")));
        assert_eq!(response.trailers.get("grpc-status-details-bin").map(str::len), Some(length));
        let mut client = gateway.client();
        client.send(
            "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0",
        );
        let body = client.response().body;
        assert!(body.len() > EMPTY.len() + length, "{} bytes", body.len());
        assert!(gateway.wait_records(2).iter().all(|record| record["reason"].is_null()));
        assert_well(&gateway);
    }
}

#[test]
fn a_call_whose_trailers_are_past_a_limit_ends_with_a_status_of_the_gateways() {
    // Past the configured limit, past the size that HTTP/2 permits, past the size that the library keeps, and
    // past the size that it tolerates.
    for (length, fields) in [(9_000, 2), (100, 21), (12_500, 2), (20_000, 2), (70_000, 2), (400_000, 2)] {
        let origin = grpc_origin(length, fields);
        let gateway = gateway(format!("h2c://{}", origin.address()), LIMITS);
        for _ in 0..6 {
            let response = call(&gateway);
            let got = |name| response.trailers.get(name);
            assert_eq!((response.status, got("grpc-status")), (200, Some("8")), "{length}: {response:?}");
            assert_eq!(got("tollgate-reason"), Some(TOO_LONG));
            assert!(got("grpc-message").is_some() && got("grpc-status-details-bin").is_none());
        }
        let mut client = gateway.client();
        client.send(
            "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0",
        );
        let body = client.response().body;
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains("grpc-status:8\r\n") && text.contains(TOO_LONG), "{text:?}");
        let records = gateway.wait_records(7);
        for record in &records {
            let reported = (&record["status"], &record["grpc_status"], &record["reason"]);
            assert_eq!(reported, (&200.into(), &8.into(), &TOO_LONG.into()), "{length}");
        }
        assert_well(&gateway);
    }
}

#[test]
fn a_call_that_ends_with_its_head_is_no_other() {
    for length in [9_000, 20_000, 70_000] {
        let origin = Http2Origin::play(move |stream| {
            stream.body();
            let long = "d".repeat(length);
            stream.head(200, &[GRPC, ("grpc-status", "9"), ("grpc-status-details-bin", &long)], true);
        });
        let gateway = gateway(format!("h2c://{}", origin.address()), LIMITS);
        for _ in 0..6 {
            let response = call(&gateway);
            let got = |name| response.headers.get(name);
            assert_eq!((got("grpc-status"), got("tollgate-reason")), (Some("8"), Some(TOO_LONG)), "{length}");
        }
        assert_well(&gateway);
    }
}

#[test]
fn other_responses_of_http_2_are_cut() {
    let origin = Http2Origin::play(|stream| {
        stream.head(200, &[], false);
        stream.send("hello", false);
        stream.trailers(&[("x-long", &"d".repeat(9_000))]);
    });
    let gateway = gateway(format!("h2c://{}", origin.address()), LIMITS);
    for _ in 0..6 {
        assert!(gateway.http2().try_ask(tollgate_tests::http2::get("/")).is_err());
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut response = client.head();
        assert!(client.try_body(&mut response).is_err());
    }
    assert!(gateway.wait_records(12).iter().all(|record| record["reason"] == TOO_LONG));
    assert_well(&gateway);
}

#[test]
fn trailers_of_an_http_1_endpoint() {
    let chunked = |section: &str| {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n{section}\r\n")
    };
    let fits = Origin::fixed(chunked(&format!("X-Long: {}\r\n", "d".repeat(20_000))));
    let gateway = Gateway::to(&fits);
    let response = gateway.client().get("/");
    assert_eq!(response.trailers.get("X-Long").map(str::len), Some(20_000));
    for section in [format!("X-Long: {}\r\n", "d".repeat(9_000)), "X-More: 1\r\n".repeat(21)] {
        let origin = Origin::fixed(chunked(&section));
        let gateway = self::gateway(origin.address(), LIMITS);
        for _ in 0..6 {
            let mut client = gateway.client();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            // If the whole answer arrives in one read, the gateway can still answer 502.
            let mut response = client.head();
            match response.status {
                502 => assert_eq!(response.reason(), TOO_LONG),
                _ => assert!(client.try_body(&mut response).is_err()),
            }
        }
        assert!(gateway.wait_records(6).iter().all(|record| record["reason"] == TOO_LONG));
        assert_well(&gateway);
    }
}

#[test]
fn trailers_of_clients() {
    let chunked = |section: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n{section}\r\n"
        )
    };
    let (one, two) = (Origin::echo(), Http2Origin::echo());
    for to in [one.address().to_string(), format!("h2c://{}", two.address())] {
        for route in ["", "buffer: {request: on}, "] {
            let file = format!("routes: [{{match: \"/*\", {route}to: [\"{to}\"]}}]\n");
            let gateway = Gateway::start(&file);
            let long = "d".repeat(20_000);
            let response = gateway.client().ask(chunked(&format!("X-Long: {long}\r\n")));
            assert_eq!(response.status, 200, "{response:?}");
            let mut client = gateway.http2();
            let mut stream = client.begin(request("POST", "/", &[]), false).expect("begun");
            stream.send("hello", false).expect("sent");
            stream.send_trailers(&[("x-long", &long)]).expect("sent");
            assert_eq!(stream.response().expect("an answer").status, 200);

            let gateway = Gateway::start(&format!("{file}{LIMITS}\n"));
            for section in [format!("X-Long: {}\r\n", "d".repeat(9_000)), "X-More: 1\r\n".repeat(21)] {
                let response = gateway.client().ask(chunked(&section));
                assert_eq!((response.status, response.reason()), (431, "trailers_too_large"));
            }
            // Past the configured limit, and past the size that the HTTP/2 layer passes on.
            for length in [9_000, 15_000] {
                let mut client = gateway.http2();
                let mut stream = client.begin(request("POST", "/", &[]), false).expect("begun");
                stream.send("hello", false).expect("sent");
                stream.send_trailers(&[("x-long", &"d".repeat(length))]).expect("sent");
                let response = stream.response().expect("an answer");
                assert_eq!((response.status, response.reason()), (431, "trailers_too_large"), "{length}");
                assert_eq!(client.get("/").status, 200, "the connection goes on");
            }
        }
    }
    let of = |requests: Vec<Request>| requests.iter().map(|request| request.trailers.0.len()).sum::<usize>();
    // Collected bodies lose their trailers.
    assert_eq!((of(one.requests()), of(two.requests())), (2, 2));
}
