//! A probe by gRPC's health checking protocol: one call of `grpc.health.v1.Health/Check` on its own
//! connection.
//!
//! The two messages have one field each, so this module encodes and decodes them by hand (protobuf's
//! "Encoding"). A library and a code generator would be larger than the code that they replace.

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use tollgate_net::Stream;

use super::ProbeFailure;
use super::http::{HEAD_MAX_BYTES, PROBE_AGENT};
use super::io::{ProbeIo, drive};
use crate::endpoint_io::FaultCell;

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
    let scheme = if stream.is_tls() { "https" } else { "http" };
    let request = Request::post(format!("{scheme}://{host}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", PROBE_AGENT)
        .body(())
        .map_err(|_| ProbeFailure::Protocol)?;
    let mut client = Builder::new();
    client.enable_push(false).max_header_list_size(HEAD_MAX_BYTES);
    let (sender, connection) =
        client.handshake::<_, Bytes>(ProbeIo::new(stream, fault)).await.map_err(|error| failure(&error))?;
    drive(connection, call(sender, request, encode_request(service))).await
}

async fn call(sender: SendRequest<Bytes>, request: Request<()>, message: Bytes) -> Result<(), ProbeFailure> {
    let mut sender = sender.ready().await.map_err(|error| failure(&error))?;
    let (response, mut body) = sender.send_request(request, false).map_err(|error| failure(&error))?;
    body.send_data(message, true).map_err(|error| failure(&error))?;
    let result = check_response(response.await.map_err(|error| failure(&error))?).await;
    // The server must not continue an answer that no task reads.
    body.send_reset(Reason::CANCEL);
    result
}

async fn check_response(response: Response<RecvStream>) -> Result<(), ProbeFailure> {
    let (head, mut body) = response.into_parts();
    if head.status != 200 {
        return Err(ProbeFailure::Status(head.status.as_u16()));
    }
    let kind = head.headers.get("content-type").map_or(&b""[..], |kind| kind.as_bytes());
    if !kind.starts_with(b"application/grpc") {
        return Err(ProbeFailure::Protocol);
    }
    // An answer without a message has its status in its head.
    status(&head.headers).map_or(Ok(()), Err)?;
    let mut message = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| failure(&error))?;
        message.extend_from_slice(&data);
        if message.len() > MESSAGE_MAX_BYTES {
            return Err(ProbeFailure::Protocol);
        }
        body.flow_control().release_capacity(data.len()).map_err(|error| failure(&error))?;
    }
    let trailers = body.trailers().await.map_err(|error| failure(&error))?.unwrap_or_default();
    if !trailers.contains_key("grpc-status") {
        return Err(ProbeFailure::Closed);
    }
    status(&trailers).map_or(Ok(()), Err)?;
    match decode_response(&message) {
        Some(SERVING) => Ok(()),
        Some(_) => Err(ProbeFailure::NotServing),
        None => Err(ProbeFailure::Protocol),
    }
}

/// Returns the failure for a `grpc-status` other than 0.
fn status(fields: &HeaderMap) -> Option<ProbeFailure> {
    let value = fields.get("grpc-status")?.to_str().ok();
    match value.and_then(|value| value.parse().ok()) {
        Some(0) => None,
        // A value that is not a number counts as UNKNOWN.
        number => Some(ProbeFailure::Grpc(number.unwrap_or(2))),
    }
}

fn failure(error: &h2::Error) -> ProbeFailure {
    match error.is_io() || error.is_go_away() || error.is_reset() && error.is_remote() {
        true => ProbeFailure::Closed,
        false => ProbeFailure::Protocol,
    }
}

/// Encodes `HealthCheckRequest { string service = 1; }`, with the five-byte prefix of a message.
fn encode_request(service: &str) -> Bytes {
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
    framed.into()
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
