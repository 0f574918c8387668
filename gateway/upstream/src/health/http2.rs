//! An HTTP/2 probe: one request on its own connection.

use std::cell::Cell;
use std::rc::Rc;

use h2::client::{Builder, SendRequest};
use http::{Request, Version};
use tollgate_http::h2::BudgetedData;
use tollgate_net::Stream;

use super::ProbeFailure;
use super::http::{Expected, HEAD_MAX_BYTES, Search, with_fields};
use super::io::drive;
use crate::endpoint_io::{EndpointIo, FaultCell};

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
    let scheme = if stream.is_tls() { "https" } else { "http" };
    let request = Request::get(format!("{scheme}://{host}{path}")).version(Version::HTTP_2);
    let request = with_fields(request, fields).body(()).map_err(|_| ProbeFailure::Protocol)?;
    let mut builder = Builder::new();
    builder.enable_push(false).max_header_list_size(HEAD_MAX_BYTES);
    let last_read = Rc::new(Cell::new(tollgate_net::now()));
    let io = EndpointIo::new(stream, Rc::default(), last_read, Rc::default()).with_fault_cell(fault.clone());
    let (sender, connection) =
        builder.handshake::<_, BudgetedData>(io).await.map_err(|error| failure(&error))?;
    drive(connection, check_response(sender, request, expected)).await
}

async fn check_response(
    mut sender: SendRequest<BudgetedData>,
    request: Request<()>,
    expected: Expected<'_>,
) -> Result<(), ProbeFailure> {
    let (response, _) = sender.send_request(request, true).map_err(|error| failure(&error))?;
    let mut response = response.await.map_err(|error| failure(&error))?;
    let mut search = match Search::begin(response.status().as_u16(), expected)? {
        Some(search) => search,
        None => return Ok(()),
    };
    let body = response.body_mut();
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| failure(&error))?;
        // An error means that the stream is gone, which the next read reports.
        let _ = body.flow_control().release_capacity(data.len());
        if let Some(found) = search.feed(&data) {
            return found;
        }
    }
    Err(ProbeFailure::Body)
}

fn failure(error: &h2::Error) -> ProbeFailure {
    match error.is_library() {
        true => ProbeFailure::Protocol,
        false => ProbeFailure::Closed,
    }
}
