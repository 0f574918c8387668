//! Class 1: `Content-Length` with `Transfer-Encoding`, several or malformed lengths.

use tollgate_tests::{Gateway, Origin};

use super::{Sent, all_fields_refused, refused, with_fields};

#[test]
fn length_with_transfer_coding() {
    all_fields_refused(
        &[
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "Transfer-Encoding: chunked\r\nContent-Length: 0",
            "transfer-encoding: chunked\r\nX: y\r\ncontent-length: 5",
            "Content-Length: 5\r\nTransfer-Encoding: identity",
            "Content-Length: 5\r\nTransfer-Encoding: xchunked",
            "Content-Length: 5\r\nTransfer-Encoding:",
            "Content-Length: x\r\nTransfer-Encoding: chunked",
        ],
        &[400, 501],
    );
}

#[test]
fn several_lengths() {
    all_fields_refused(
        &[
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 0\r\nContent-Length: 37",
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: 5\r\nX: y\r\ncontent-length: 5",
            "Content-Length: 5, 6",
            "Content-Length: 5, 5",
            "Content-Length: 5,",
            "Content-Length: ,5",
            "Content-Length: 5\r\nContent-Length:",
        ],
        &[400],
    );
}

#[test]
fn malformed_lengths() {
    all_fields_refused(
        &[
            "Content-Length: +5",
            "Content-Length: 010",
            "Content-Length:",
            "Content-Length: ",
            "Content-Length: -1",
            "Content-Length: -0",
            "Content-Length: 18446744073709551616",
            "Content-Length: 18446744073709551621",
            "Content-Length: 99999999999999999999999999999999999999",
            "Content-Length: 0x5",
            "Content-Length: 5.0",
            "Content-Length: 5e0",
            "Content-Length: 1_0",
            "Content-Length: 5 5",
            "Content-Length: 5;x",
            "Content-Length: \"5\"",
            "Content-Length: five",
            "Content-Length: \\x0b5",
            "Content-Length: 5\\x0c",
            "Content-Length: 5\\0",
            "Content-Length: \u{ff15}",
        ],
        &[400],
    );
}

#[test]
fn every_cut_of_an_ambiguous_message_is_refused() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    for fields in
        ["Content-Length: 5\r\nTransfer-Encoding: chunked", "Content-Length: 5\r\nContent-Length: 6"]
    {
        let message = with_fields(fields);
        for at in 1..message.len() {
            refused(&gateway, &origin, &message, &[400], Sent::CutAt(at));
        }
    }
    gateway.reconcile(&[&origin]);
}
