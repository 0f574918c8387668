//! Class 5: the grammar of request lines, field lines and chunks.

use tollgate_tests::{Gateway, Origin};

use super::{BEHIND, Sent, all_fields_refused, all_refused, send};

#[test]
fn field_lines() {
    all_fields_refused(
        &[
            ": no name",
            "X : space before the colon",
            "X\t: tab before the colon",
            "no colon",
            "X(y): bad name",
            "X\u{e9}: bad name",
            "X y: bad name",
            "X\\0: bad name",
            "X: nul \\0 in value",
            "X: \\x0b in value",
            "X: delete \u{7f} in value",
            "X: bare\rcr",
            "X: cr at end\r",
            "X: bare lf\nY: z",
            "X: y\n",
            "X: folded\r\n value",
            "X: folded\r\n\tvalue",
            "\"X\": quoted name",
            "X: y\r\r\nY: z",
        ],
        &[400],
    );
}

#[test]
fn the_first_field_line_is_no_exception() {
    all_refused(
        &[
            b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            b"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\n X: y\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            b"GET / HTTP/1.1\r\n: a\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        ],
        &[400],
    );
}

#[test]
fn line_ends() {
    all_refused(
        &[
            b"GET / HTTP/1.1\nHost: a\n\n",
            b"GET / HTTP/1.1\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n\n",
            b"GET / HTTP/1.1\rHost: a\r\r",
            b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n\rX: y\r\n\r\n",
        ],
        &[400],
    );
}

#[test]
fn request_lines() {
    all_refused(
        &[
            b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            b" GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /\tHTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /a\x0bb HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /a\x7fb HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n",
            b"G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"G\xc3T / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"(GET) / HTTP/1.1\r\nHost: a\r\n\r\n",
            b" / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET\r\nHost: a\r\n\r\n",
            b"GET /\r\nHost: a\r\n\r\n",
            b"GET / http/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.\r\nHost: a\r\n\r\n",
            b"GET / HTTP/.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1x\r\nHost: a\r\n\r\n",
            b"GET / HTTPS/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP 1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1,1\r\nHost: a\r\n\r\n",
            b"GET a HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET ?x HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /a#fragment HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\0\0\0\0\0\0\0\0\r\n\r\n",
            b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n",
            b"{\"json\": 1}\r\n\r\n",
        ],
        &[400],
    );
}

#[test]
fn versions() {
    all_refused(
        &[
            b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            b"GET / HTTP/3.0\r\nHost: a\r\n\r\n",
            b"GET / HTTP/0.9\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
            b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.10\r\nHost: a\r\n\r\n",
            b"GET / HTTP/01.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/11.1\r\nHost: a\r\n\r\n",
        ],
        &[505, 400],
    );
}

/// Sends chunked bodies with a mistake. The bytes before it may be forwarded, but the request is never
/// complete, and no other follows it.
fn bad_chunks(bodies: &[&str]) {
    for body in bodies {
        let shown: String = body.chars().take(60).collect();
        for how in [Sent::Whole, Sent::Bytes] {
            if matches!(how, Sent::Bytes) && body.len() > 2000 {
                continue;
            }
            let origin = Origin::echo();
            let gateway = Gateway::to(&origin);
            let mut client = gateway.client();
            let head = "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            send(&mut client, format!("{head}{body}{BEHIND}").as_bytes(), how);
            match client.try_response("POST") {
                Ok(response) => {
                    assert!([400, 413, 431].contains(&response.status), "{how:?} {shown:?}: {response:?}");
                    assert!(response.says_close(), "{how:?} {shown:?}: {response:?}");
                }
                Err(error) => panic!("{how:?} {shown:?}: {error:?}"),
            }
            client.expect_close();
            let seen = origin.requests();
            assert!(seen.iter().all(|r| r.target == "/first" && !r.complete), "{how:?} {shown:?}: {seen:?}");
            gateway.reconcile(&[&origin]);
        }
    }
}

#[test]
fn chunk_sizes() {
    bad_chunks(&[
        "0x5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "5_\r\nhello\r\n0\r\n\r\n",
        "_5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5h\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        ";ext\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "00000000000000000000000000000000000000000000000000000000000000000000000000000005\r\nhello\r\n0\r\n\r\n",
        "5,5\r\nhello\r\n0\r\n\r\n",
        "5\u{0}\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5  \r\nhello\r\n0\r\n\r\n",
        "5\t\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
    ]);
}

#[test]
fn chunk_extensions() {
    bad_chunks(&[
        "5;\r\nhello\r\n0\r\n\r\n",
        "5; \r\nhello\r\n0\r\n\r\n",
        "5;a[b\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\r\nhello\r\n0\r\n\r\n",
        "5;a=\r\nhello\r\n0\r\n\r\n",
        "5;a \r\nhello\r\n0\r\n\r\n",
        "5;a b\r\nhello\r\n0\r\n\r\n",
        "5;;a\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0;\r\n\r\n",
        "5\r\nhello\r\n0 \r\n\r\n",
    ]);
    for line in ["5 ; a=b", "5;a", "5\t;\ta = \"b;c\" ;d", "5;a=\"\\\"\""] {
        for how in [Sent::Whole, Sent::Bytes] {
            let origin = Origin::echo();
            let gateway = Gateway::to(&origin);
            let mut client = gateway.client();
            let head = "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            send(&mut client, format!("{head}{line}\r\nhello\r\n0 ; e\r\n\r\n{BEHIND}").as_bytes(), how);
            assert_eq!(client.response().text(), "POST /first hello", "{how:?} {line:?}");
            let request = &origin.requests()[0];
            assert!(request.complete && request.body == b"hello", "{how:?} {line:?}: {request:?}");
        }
    }
}

#[test]
fn chunk_line_ends() {
    bad_chunks(&[
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\rXhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\rX0\r\n\r\n",
        "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a\rXhello\r\n0\r\n\r\n",
        "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
        "5;\u{0}\r\nhello\r\n0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
    ]);
}

#[test]
fn chunk_extensions_without_end() {
    let extension = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(65536));
    let many = "1;extension-that-is-long-for-a-byte-of-data\r\nx\r\n".repeat(2_000_000 / 48);
    bad_chunks(&[&extension]);
    // A flood of extensions is either accepted in constant memory or refused.
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(many + "0\r\n\r\n");
    let response = client.response();
    assert!([200, 400, 413].contains(&response.status), "{response:?}");
    assert!(gateway.peak_kib() < 32 << 10);
}

#[test]
fn trailers() {
    bad_chunks(&[
        "0\r\nX : y\r\n\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\n: no name\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\nX: a\rb\r\n\r\n",
        "0\r\n X: folded\r\n\r\n",
        "0\r\nX: nul\u{0}\r\n\r\n",
    ]);
}
