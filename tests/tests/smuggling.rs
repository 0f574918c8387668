//! Attack classes 1, 2, 5 and 7. If the end or the target host of a message is ambiguous, the gateway refuses
//! it and ends the connection, and nothing of it reaches an origin. Every message is sent at once and byte by
//! byte, followed by a request that must never be answered.

mod class_1_lengths;
mod class_2_transfer_codings;
mod class_5_grammar;
mod class_7_hosts;

use tollgate_tests::{Client, Gateway, Origin, ReadError};

const BEHIND: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// How a message is cut into segments.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Whole,
    Bytes,
    CutAt(usize),
}

fn send(client: &mut Client, message: &[u8], how: Sent) {
    match how {
        Sent::Whole => client.send(message),
        Sent::Bytes => client.dribble(message),
        Sent::CutAt(at) => {
            client.send(&message[..at]);
            std::thread::sleep(std::time::Duration::from_micros(200));
            client.send(&message[at..]);
        }
    }
}

/// Asserts one of `statuses`, the end of the connection, and that nothing reached the origin.
fn refused(gateway: &Gateway, origin: &Origin, message: &[u8], statuses: &[u16], how: Sent) {
    let shown = message.escape_ascii().to_string();
    let mut client = gateway.client();
    send(&mut client, &[message, BEHIND.as_bytes()].concat(), how);
    match client.try_response("GET") {
        Ok(response) => {
            assert!(statuses.contains(&response.status), "{how:?} {shown}: {response:?}");
            assert!(response.header("Tollgate-Reason").is_some(), "{how:?} {shown}: {response:?}");
            assert!(response.says_close(), "{how:?} {shown}: {response:?}");
        }
        Err(error) => panic!("{how:?} {shown}: {error:?}"),
    }
    match client.try_response("GET") {
        Err(ReadError::Closed | ReadError::Truncated) => {}
        other => panic!("{how:?} {shown}: what follows was handled: {other:?}"),
    }
    assert_eq!(origin.count(), 0, "{how:?} {shown}: {:?}", origin.requests());
    assert_eq!(origin.bytes_received(), 0, "{how:?} {shown}");
}

/// Asserts [`refused`] for each message, in each way of sending.
fn all_refused(messages: &[&[u8]], statuses: &[u16]) {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    for message in messages {
        refused(&gateway, &origin, message, statuses, Sent::Whole);
        refused(&gateway, &origin, message, statuses, Sent::Bytes);
    }
    gateway.reconcile(&[&origin]);
}

fn with_fields(fields: &str) -> Vec<u8> {
    let unescaped = fields.replace("\\x0b", "\u{b}").replace("\\x0c", "\u{c}").replace("\\0", "\0");
    format!("POST /first HTTP/1.1\r\nHost: a\r\n{unescaped}\r\n\r\n").into_bytes()
}

fn all_fields_refused(fields: &[&str], statuses: &[u16]) {
    let messages: Vec<Vec<u8>> = fields.iter().map(|fields| with_fields(fields)).collect();
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    all_refused(&messages, statuses);
}
