//! Probes over HTTP/2: one request on its own connection.

use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;

use tollgate_http2::{
    ClientConnection, ClientSettings, FieldSection, MemoryTotals, RequestPseudo, ResponseFailure,
    ResponseStream,
};
use tollgate_net::{BulkQueue, Stream};

use super::ProbeFailure;
use super::http::{Expected, HEAD_MAX_BYTES, PROBE_AGENT, Search};
use super::io::{FaultCell, drive};
use crate::endpoint_io::EndpointIo;

/// The default windows of RFC 9113, 6.9.2.
const WINDOW_BYTES: u32 = 65_535;
const SETTINGS: ClientSettings = ClientSettings {
    stream_window: WINDOW_BYTES,
    connection_window: WINDOW_BYTES,
    max_head_bytes: HEAD_MAX_BYTES,
};
/// Bytes of a body that are read at once.
const READ_BYTES: usize = 4096;

/// As [`probe_http1`](super::http::probe_http1), for an endpoint that speaks HTTP/2.
pub(super) async fn probe_http2(
    stream: Stream,
    (host, path): (&str, &str),
    fields: &[(String, String)],
    expected: Expected<'_>,
    fault: &FaultCell,
) -> Result<(), ProbeFailure> {
    if stream.is_tls() && stream.alpn() != Some(b"h2") {
        return Err(ProbeFailure::Protocol);
    }
    let has_agent = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
    let agent = (!has_agent).then_some(("user-agent", PROBE_AGENT));
    let fields: Vec<(&str, &str)> =
        agent.into_iter().chain(fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))).collect();
    let request = ProbeRequest { method: "GET", host, path, fields: &fields, body: &[] };
    ask(stream, request, fault, async |response| check_response(response, expected).await).await
}

/// The request of a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRequest<'a> {
    pub method: &'a str,
    pub host: &'a str,
    pub path: &'a str,
    pub fields: &'a [(&'a str, &'a str)],
    /// At most 64 KiB.
    pub body: &'a [u8],
}

/// Sends a request on a new connection, and lets `check` read the response. A TLS failure of the stream is
/// stored in `fault`.
pub(super) async fn ask(
    stream: Stream,
    request: ProbeRequest<'_>,
    fault: &FaultCell,
    check: impl AsyncFnOnce(&ResponseStream) -> Result<(), ProbeFailure>,
) -> Result<(), ProbeFailure> {
    let ProbeRequest { method, host, path, fields, body } = request;
    let pseudo = RequestPseudo {
        method: method.as_bytes(),
        is_secure: stream.is_tls(),
        authority: host.as_bytes(),
        path: path.as_bytes(),
        protocol: None,
    };
    let client = ClientConnection::new(&SETTINGS, &MemoryTotals::default());
    let mut io = EndpointIo::new(stream, Rc::default(), &BulkQueue::default());
    let work = async {
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let response =
            client.send_request(pseudo, fields, false, body.is_empty()).map_err(|_| ProbeFailure::Closed)?;
        if !body.is_empty() && response.send(&[IoSlice::new(body)], true) != Ok(body.len()) {
            return Err(ProbeFailure::Protocol);
        }
        check(&response).await
    };
    let result = drive(poll_fn(|cx| io.poll(&client, cx)), work).await;
    if let Some(found) = io.fault() {
        // Only the first failure counts; it ended the connection.
        let _ = fault.set(found.clone());
    }
    result
}

/// Reads the final head. Returns its status and its fields.
pub(super) async fn read_head(response: &ResponseStream) -> Result<(u16, FieldSection), ProbeFailure> {
    loop {
        let head = poll_fn(|cx| response.poll_head(cx)).await.map_err(failure)?;
        let (status, _) = head.response().map_err(|_| ProbeFailure::Protocol)?;
        if status >= 200 {
            return Ok((status, head));
        }
    }
}

/// Reads the next part of the body; empty at its end.
pub(super) async fn read_body<'a>(
    response: &ResponseStream,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], ProbeFailure> {
    buffer.resize(READ_BYTES, 0);
    let count = poll_fn(|cx| response.poll_read(cx, buffer)).await.map_err(failure)?;
    Ok(&buffer[..count])
}

async fn check_response(response: &ResponseStream, expected: Expected<'_>) -> Result<(), ProbeFailure> {
    let (status, _) = read_head(response).await?;
    let Some(mut search) = Search::begin(status, expected)? else { return Ok(()) };
    let mut buffer = Vec::new();
    loop {
        let data = read_body(response, &mut buffer).await?;
        if data.is_empty() {
            return Err(ProbeFailure::Body);
        }
        if let Some(found) = search.feed(data) {
            return found;
        }
    }
}

fn failure(failure: ResponseFailure) -> ProbeFailure {
    match failure {
        ResponseFailure::Closed
        | ResponseFailure::Reset
        | ResponseFailure::Refused
        | ResponseFailure::NotProcessed => ProbeFailure::Closed,
        ResponseFailure::Malformed
        | ResponseFailure::HeadTooLarge
        | ResponseFailure::TrailersTooLarge
        | ResponseFailure::Http11Required => ProbeFailure::Protocol,
    }
}
