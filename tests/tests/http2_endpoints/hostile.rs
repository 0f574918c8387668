//! Endpoints that violate RFC 9113, or send answers that HTTP/1 cannot carry, by raw frames.

use tollgate_tests::{Gateway, Origin, OriginConn, eventually, refused_address};

const PREFACE: usize = 24;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Encodes a field that is in no table (RFC 7541, 6.2.2).
fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0, name.len() as u8], name, &[value.len() as u8], value].concat()
}

const HEADERS: u8 = 1;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` of the static table.
const OK: u8 = 0x88;

/// Exchanges the settings on a new connection, and reads frames until the head of a request. Returns its
/// stream.
fn next_request(conn: &mut OriginConn, first: bool) -> Option<u32> {
    if first {
        conn.wire().take(PREFACE).ok()?;
        conn.send([frame(4, 0, 0, &[]), frame(4, 1, 0, &[])].concat());
    }
    loop {
        let header = conn.wire().take(9).ok()?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        conn.wire().take(length).ok()?;
        if header[3] == HEADERS {
            return Some(stream);
        }
    }
}

/// Returns the status and the reason that a client gets if the endpoint answers each stream with the bytes
/// from `answer`.
fn answered(answer: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> (u16, String) {
    let origin = Origin::play(move |conn| {
        let mut first = true;
        while let Some(stream) = next_request(conn, first) {
            first = false;
            conn.send(answer(stream));
        }
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n",
        origin.address()
    ));
    let response = gateway.client().try_exchange("/");
    let record = &gateway.wait_records(1)[0];
    let reason = record["reason"].as_str().unwrap_or("-").to_owned();
    // A valid head may be forwarded before the body turns out to be malformed.
    (response.map_or(0, |response| response.status), reason)
}

fn head(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let fields: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
    [&[OK], fields.as_slice()].concat()
}

#[test]
fn good_frames_are_answered() {
    let (status, reason) = answered(|stream| {
        let head = frame(HEADERS, END_HEADERS, stream, &head(&[(b"content-length", b"2")]));
        [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
    });
    assert_eq!((status, reason.as_str()), (200, "-"));
}

#[test]
fn responses_without_an_http1_form_are_a_502() {
    for (name, value) in [
        (&b"a"[..], &b"b\r\nset-cookie: c"[..]),
        (b"a", b"b\nc"),
        (b"a", b"b\0"),
        (b"a", b" b"),
        (b"Upper", b"case"),
        (b"connection", b"close"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"websocket"),
        (b"a b", b"c"),
        (b"content-length", b"+2"),
        (b"content-length", b"2,2"),
        (b"content-length", b"0x2"),
        (b":status", b"204"),
        (b":path", b"/"),
        (b":method", b"GET"),
        (b":authority", b"a"),
        (b":scheme", b"http"),
        (b":protocol", b"websocket"),
        (b":unknown", b"a"),
        (b"keep-alive", b"5"),
        (b"proxy-connection", b"close"),
    ] {
        let fields = head(&[(name, value)]);
        let (status, reason) = answered(move |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &fields);
            [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
        });
        let shown = (name.escape_ascii().to_string(), value.escape_ascii().to_string());
        assert_eq!((status, reason.as_str()), (502, "http_protocol_error"), "{shown:?}");
    }
}

#[test]
fn a_pseudo_field_behind_others_or_in_trailers_is_malformed() {
    for field in
        [&[OK][..], &[0x84], &literal(b":path", b"/"), &literal(b":status", b"200"), &literal(b":x", b"")]
    {
        let behind = [&head(&[(b"a", b"b")])[..], field].concat();
        let (status, reason) =
            answered(move |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &behind));
        assert_eq!((status, reason.as_str()), (502, "http_protocol_error"), "{field:?}");
        // All frames arrive together, so nothing was forwarded yet.
        let trailers = field.to_vec();
        let (status, reason) = answered(move |stream| {
            let [head, data] = [frame(HEADERS, END_HEADERS, stream, &[OK]), frame(DATA, 0, stream, b"ok")];
            [head, data, frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers)].concat()
        });
        assert_eq!((status, reason.as_str()), (502, "http_protocol_error"), "trailers: {field:?}");
    }
}

#[test]
fn a_malformed_response_ends_only_its_own_request() {
    let origin = Origin::play(|conn| {
        let (mut first, mut count) = (true, 0);
        while let Some(stream) = next_request(conn, first) {
            (first, count) = (false, count + 1);
            let bad: &[u8] = match count % 4 {
                // The field enters the dynamic table, and a later head refers to it.
                1 => &[OK, 0x44, 1, b'/'],
                2 => &[OK, 0xbe],
                3 => &[OK, 0, 5, b':', b'n', b'o', b'n', b'e', 0],
                _ => &[OK],
            };
            conn.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, bad));
        }
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up: {{endpoints: [\"h2c://{}\"], outlier: off}}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    let statuses: Vec<u16> = (0..8).map(|_| client.get("/").status).collect();
    assert_eq!(statuses, [502, 502, 502, 200, 502, 502, 502, 200]);
    assert_eq!(origin.connections(), 1, "the connection goes on");
    let records = gateway.wait_records(8);
    let reasons = records.iter().filter(|record| record["reason"] == "http_protocol_error").count();
    assert_eq!(reasons, 6, "{records:#?}");
}

#[test]
fn zeros_before_a_length_go() {
    let (status, reason) = answered(|stream| {
        let head = frame(HEADERS, END_HEADERS, stream, &head(&[(b"content-length", b"0002")]));
        [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
    });
    assert_eq!((status, reason.as_str()), (200, "-"));
}

#[test]
fn a_status_that_is_none_is_a_502() {
    for status in ["101", "0", "99", "2000", "abc"] {
        let fields = [&[0x08, status.len() as u8], status.as_bytes()].concat();
        let (status, reason) =
            answered(move |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields));
        assert_eq!((status, reason.as_str()), (502, "http_protocol_error"));
    }
}

#[test]
fn lengths_that_disagree_are_cut() {
    for (declared, data) in [(&b"3"[..], &b"ok"[..]), (b"1", b"ok")] {
        let (status, reason) = answered(move |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &head(&[(b"content-length", declared)]));
            [head, frame(DATA, END_STREAM, stream, data)].concat()
        });
        // The head may have been forwarded; the client never accepts the bytes as a whole answer.
        assert!(
            (status, reason.as_str()) == (0, "http_response_incomplete")
                || (status, reason.as_str()) == (502, "http_protocol_error"),
            "{status} {reason}"
        );
    }
    let (status, reason) = answered(|stream| {
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &head(&[(b"content-length", b"3")]))
    });
    assert_eq!((status, reason.as_str()), (502, "http_protocol_error"));
}

#[test]
fn an_endpoint_without_http2_is_a_502() {
    let origin = Origin::play(|conn| {
        conn.wire().take(PREFACE).ok();
        conn.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        // If the origin closed with unread bytes, the connection would be reset, and the answer lost.
        conn.wait_close();
    });
    let gateway = Gateway::start(&format!("routes:\n- {{match: /*, to: \"h2c://{}\"}}\n", origin.address()));
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.header("tollgate-reason")), (502, Some("http_protocol_error")));
}

#[test]
fn a_silent_endpoint_is_a_timeout() {
    let origin = Origin::play(|conn| {
        assert!(conn.wait_close(), "given up");
    });
    let gateway = Gateway::start(&format!(
        "timeouts: {{connect: 300ms}}\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n",
        origin.address()
    ));
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.header("tollgate-reason")), (504, Some("connection_timeout")));
    eventually("the connection to be given up", || origin.open() == 0);
    let gateway = Gateway::start(&format!("routes:\n- {{match: /*, to: \"h2c://{}\"}}\n", refused_address()));
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.header("tollgate-reason")), (502, Some("connection_refused")));
}

#[test]
fn a_head_beyond_the_limits_is_reported() {
    let long = vec![b'x'; 120];
    let (status, reason) = answered(move |stream| {
        let mut fields = vec![OK];
        for _ in 0..200 {
            fields.extend(literal(b"a", &long));
        }
        let (first, rest) = fields.split_at(16_000);
        [frame(HEADERS, END_STREAM, stream, first), frame(9, END_HEADERS, stream, rest)].concat()
    });
    assert_eq!((status, reason.as_str()), (502, "http_response_header_section_size"));
}

#[test]
fn heads_without_end_are_no_way_to_fill_the_memory() {
    // Endless interim heads, while the client does not read the forwarded ones.
    let origin = Origin::play(|conn| {
        if let Some(stream) = next_request(conn, true) {
            let interim = [&[0x08, 3][..], b"103", &literal(b"link", &[b'x'; 100])].concat();
            let many = frame(HEADERS, END_HEADERS, stream, &interim).repeat(500);
            while conn.send(&many) {}
        }
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n",
        origin.address()
    ));
    gives_flood_up(&gateway, &origin);
}

#[test]
fn goodbyes_without_end_are_no_way_to_keep_a_request_going() {
    // Every connection announces by GOAWAY that it processed nothing.
    let origin = Origin::play(|conn| {
        if next_request(conn, true).is_some() {
            conn.send(frame(7, 0, 0, &[0; 8]));
            conn.wait_close();
        }
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: up}}\nupstreams:\n  up:\n    endpoints: \"h2c://{}\"\n\
         \x20   retry: {{attempts: 3, budget: 100%}}\n    outlier: off\n",
        origin.address()
    ));
    let response = gateway.client().post("/", b"body");
    assert_eq!((response.status, response.reason()), (502, "connection_terminated"));
    let record = &gateway.wait_records(1)[0];
    assert!(record["attempts"].as_u64().is_some_and(|attempts| attempts <= 3), "{record}");
    assert!(origin.connections() <= 3, "{}", origin.connections());
}

/// Asserts that the gateway ends the connection to an endpoint that floods it, and that its memory stays bounded.
pub(super) fn gives_flood_up(gateway: &Gateway, origin: &Origin) {
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the end of the connection", || origin.connections() == 1 && origin.open() == 0);
    assert!(gateway.memory_kib("VmRSS") < 200 * 1024, "{} KiB", gateway.memory_kib("VmRSS"));
}
