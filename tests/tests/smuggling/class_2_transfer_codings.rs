//! Class 2: transfer codings that are not exactly `chunked`.

use tollgate_tests::{Gateway, Origin};

use super::{BEHIND, all_fields_refused, all_refused};

#[test]
fn anything_but_chunked() {
    all_fields_refused(
        &[
            "Transfer-Encoding: ,chunked",
            "Transfer-Encoding: chunked,",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: chunkedx",
            "Transfer-Encoding: chunke",
            "Transfer-Encoding: \\x0bchunked",
            "Transfer-Encoding: chunked\\x0b",
            "Transfer-Encoding: \\x0cchunked",
            "Transfer-Encoding: chunked\\0",
            "Transfer-Encoding: chunked, gzip",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: identity, chunked",
            "Transfer-Encoding: identity",
            "Transfer-Encoding: gzip",
            "Transfer-Encoding: \"chunked\"",
            "Transfer-Encoding: 'chunked'",
            "Transfer-Encoding: chunked;q=1",
            "Transfer-Encoding: chunked foo",
            "Transfer-Encoding:",
            "Transfer-Encoding: x",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding:",
            "Transfer-Encoding: \u{e9}chunked",
        ],
        &[400, 501],
    );
}

#[test]
fn folded_or_spaced() {
    all_fields_refused(
        &[
            "Transfer-Encoding:\r\n chunked",
            "Transfer-Encoding: chunked\r\n ",
            "Transfer-Encoding:\r\n\tchunked",
            "Transfer-Encoding : chunked",
            "Transfer-Encoding\t: chunked",
            " Transfer-Encoding: chunked",
            "X: y\r\n Transfer-Encoding: chunked",
            "Transfer-Encoding\\0: chunked",
            "Transfer-Encoding\\x0b: chunked",
        ],
        &[400],
    );
}

#[test]
fn in_http_1_0() {
    all_refused(
        &[
            b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        ],
        &[400],
    );
}

#[test]
fn a_field_that_only_looks_like_it_frames_nothing() {
    // The length counts. Whether the odd field passes or not, the body is 37 bytes of data.
    for name in ["Transfer_Encoding", "Transfer-Encodin", "XTransfer-Encoding", "Transfer--Encoding"] {
        let origin = Origin::echo();
        let gateway = Gateway::to(&origin);
        let length = BEHIND.len();
        let mut client = gateway.client();
        let message = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{name}: chunked\r\n\r\n{BEHIND}"
        );
        let response = client.ask(message);
        assert!(response.status == 200 || response.status == 400, "{response:?}");
        assert!(origin.requests().iter().all(|r| r.target == "/" && r.body == BEHIND.as_bytes()), "{name}");
        gateway.reconcile(&[&origin]);
    }
}
