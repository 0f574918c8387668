//! A probe by gRPC's health checking protocol: one call of `grpc.health.v1.Health/Check` on its own
//! connection.
//!
//! The two messages have one field each, so this module encodes and decodes them by hand (protobuf's
//! "Encoding"). A library and a code generator would be larger than the code that they replace.

use tollgate_http2::{FieldSection, ResponseStream};
use tollgate_net::Stream;

use super::ProbeFailure;
use super::http::PROBE_AGENT;
use super::http2::{ProbeRequest, ask, read_body, read_head};
use super::io::FaultCell;

/// Upper bound, in bytes, of the answer's message, which normally has two bytes.
const MESSAGE_MAX_BYTES: usize = 1024;
/// `ServingStatus.SERVING`.
const SERVING: u64 = 1;

/// Asks whether a service is healthy. An empty name asks about the server as a whole. The caller bounds the
/// time.
pub(super) async fn check(
    stream: Stream,
    host: &str,
    service: &str,
    fault: &FaultCell,
) -> Result<(), ProbeFailure> {
    let request = ProbeRequest {
        method: "POST",
        host,
        path: "/grpc.health.v1.Health/Check",
        fields: &[("content-type", "application/grpc"), ("te", "trailers"), ("user-agent", PROBE_AGENT)],
        body: &encode_request(service),
    };
    ask(stream, request, fault, check_response).await
}

async fn check_response(response: &ResponseStream) -> Result<(), ProbeFailure> {
    let (head_status, head) = read_head(response).await?;
    if head_status != 200 {
        return Err(ProbeFailure::Status(head_status));
    }
    if !value(&head, b"content-type").is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return Err(ProbeFailure::Protocol);
    }
    // An answer without a message has its status in its head.
    if let Some(status) = value(&head, b"grpc-status") {
        check_status(status)?;
    }
    let (mut message, mut buffer) = (Vec::new(), Vec::new());
    loop {
        let data = read_body(response, &mut buffer).await?;
        if data.is_empty() {
            break;
        }
        message.extend_from_slice(data);
        if message.len() > MESSAGE_MAX_BYTES {
            return Err(ProbeFailure::Protocol);
        }
    }
    let trailers = response.take_trailers().unwrap_or_default();
    check_status(value(&trailers, b"grpc-status").ok_or(ProbeFailure::Closed)?)?;
    match decode_response(&message) {
        Some(SERVING) => Ok(()),
        Some(_) => Err(ProbeFailure::NotServing),
        None => Err(ProbeFailure::Protocol),
    }
}

fn value<'a>(fields: &'a FieldSection, name: &[u8]) -> Option<&'a [u8]> {
    fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Returns the failure for a `grpc-status` other than 0.
fn check_status(value: &[u8]) -> Result<(), ProbeFailure> {
    match str::from_utf8(value).ok().and_then(|value| value.parse().ok()) {
        Some(0) => Ok(()),
        // A value that is not a number counts as UNKNOWN.
        number => Err(ProbeFailure::Grpc(number.unwrap_or(2))),
    }
}

/// Encodes `HealthCheckRequest { string service = 1; }`, with the five-byte prefix of a message.
fn encode_request(service: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(service.len() + 3);
    if !service.is_empty() {
        message.push(0x0a);
        let mut length = service.len();
        while length > 0x7f {
            message.push(length as u8 & 0x7f | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(&message);
    framed
}

/// Decodes the status of `HealthCheckResponse { ServingStatus status = 1; }`. It is 0, UNKNOWN, if the field
/// is absent. Returns `None` if the bytes are not one such message, uncompressed.
fn decode_response(framed: &[u8]) -> Option<u64> {
    let (prefix, mut message) = framed.split_first_chunk::<5>()?;
    let [0, length @ ..] = *prefix else { return None };
    if usize::try_from(u32::from_be_bytes(length)).ok()? != message.len() {
        return None;
    }
    let mut status = 0;
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match (tag >> 3, tag & 7) {
            (1, 0) => status = varint(&mut message)?,
            // Fields that a later version may add.
            (_, 0) => drop(varint(&mut message)?),
            (_, 1) => message = message.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            (_, 5) => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests;
