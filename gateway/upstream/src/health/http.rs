//! An HTTP probe: one request on a connection of its own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper::{Request, Response};
use memchr::memmem;
use tollgate_net::Stream;

use super::ProbeFailure;
use super::io::Io;

/// Who asks, for the endpoint's log.
pub(super) const AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"), " (health probe)");
/// Room for the answer's head.
const HEAD: usize = 16 * 1024;
/// How much of a body is searched.
const BODY: usize = 64 * 1024;

/// What an answer must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    /// Good statuses, as ranges.
    pub(super) statuses: &'a [(u16, u16)],
    /// A text that must be in the first 64 KiB of the body.
    pub(super) body: Option<&'a str>,
}

/// Asks for a path and looks at the answer. Takes no more than a head of 16 KiB and 64 KiB of a body; the time is the
/// caller's to bound.
pub(super) async fn ask(
    stream: Stream,
    host: &str,
    path: &str,
    expected: Expected<'_>,
) -> Result<(), ProbeFailure> {
    let request = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, AGENT)
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|_| ProbeFailure::Protocol)?;
    let mut client = http1::Builder::new();
    let (mut sender, connection) = client.max_buf_size(HEAD).handshake(Io(stream)).await.map_err(failure)?;
    let work = async {
        let response = sender.send_request(request).await.map_err(failure)?;
        judge(response, expected).await
    };
    let (mut work, mut connection) = (pin!(work), pin!(connection));
    let mut ended = false;
    poll_fn(|cx| {
        if let Poll::Ready(result) = work.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        // What goes wrong on it the work is told.
        if !ended && connection.as_mut().poll(cx).is_ready() {
            ended = true;
        }
        work.as_mut().poll(cx)
    })
    .await
}

async fn judge(mut response: Response<Incoming>, expected: Expected<'_>) -> Result<(), ProbeFailure> {
    let status = response.status().as_u16();
    if !expected.statuses.iter().any(|(from, to)| (*from..=*to).contains(&status)) {
        return Err(ProbeFailure::Status(status));
    }
    let Some(text) = expected.body else { return Ok(()) };
    let finder = memmem::Finder::new(text);
    let mut seen = Vec::new();
    while let Some(frame) = response.body_mut().frame().await {
        let Ok(data) = frame.map_err(failure)?.into_data() else { continue };
        // From where a match may begin that ends in the new bytes.
        let from = seen.len().saturating_sub(text.len());
        seen.extend_from_slice(&data[..data.len().min(BODY - seen.len())]);
        if finder.find(&seen[from..]).is_some() {
            return Ok(());
        }
        if seen.len() == BODY {
            break;
        }
    }
    Err(ProbeFailure::Body)
}

fn failure(error: hyper::Error) -> ProbeFailure {
    match error.is_parse() || error.is_parse_too_large() {
        true => ProbeFailure::Protocol,
        false => ProbeFailure::Closed,
    }
}
