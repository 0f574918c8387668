//! An HTTP/1 probe: one request on its own connection.

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Request, Response};
use memchr::memmem;
use tollgate_net::Stream;

use super::ProbeFailure;
use super::io::{FaultCell, ProbeIo, drive};

/// The `User-Agent` of probes, for the endpoint's log.
pub(super) const PROBE_AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"), " (health probe)");
/// Upper bound of the answer's head, in bytes.
pub(super) const HEAD_MAX_BYTES: u32 = 16 * 1024;
/// How many bytes of a body are searched.
const BODY_MAX_BYTES: usize = 64 * 1024;

/// The answer that a probe expects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    /// Ranges of good statuses.
    pub(super) statuses: &'a [(u16, u16)],
    /// A text that must occur in the first 64 KiB of the body.
    pub(super) body: Option<&'a str>,
}

/// Requests a path and checks the answer. Reads at most a head of 16 KiB and 64 KiB of the body. The caller
/// bounds the time.
pub(super) async fn probe_http1(
    stream: Stream,
    (host, path): (&str, &str),
    fields: &[(String, String)],
    expected: Expected<'_>,
    fault: &FaultCell,
) -> Result<(), ProbeFailure> {
    let request = with_fields(Request::get(path).header(HOST, host), fields)
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|_| ProbeFailure::Protocol)?;
    let mut client = http1::Builder::new();
    let (mut sender, connection) = client
        .max_buf_size(HEAD_MAX_BYTES as usize)
        .handshake(ProbeIo::new(stream, fault))
        .await
        .map_err(failure)?;
    let work = async {
        let response = sender.send_request(request).await.map_err(failure)?;
        check_response(response, expected).await
    };
    drive(connection, work).await
}

/// Adds these fields to the request, and the gateway's `User-Agent` unless they contain one.
pub(super) fn with_fields(mut request: Builder, fields: &[(String, String)]) -> Builder {
    if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
        request = request.header(USER_AGENT, PROBE_AGENT);
    }
    fields.iter().fold(request, |request, (name, value)| request.header(name, value))
}

async fn check_response(
    mut response: Response<Incoming>,
    expected: Expected<'_>,
) -> Result<(), ProbeFailure> {
    let Some(mut search) = Search::begin(response.status().as_u16(), expected)? else { return Ok(()) };
    while let Some(frame) = response.body_mut().frame().await {
        let Ok(data) = frame.map_err(failure)?.into_data() else { continue };
        if let Some(found) = search.feed(&data) {
            return found;
        }
    }
    Err(ProbeFailure::Body)
}

/// Searches a text in the first bytes of a body.
pub(super) struct Search<'a> {
    text: &'a str,
    finder: memmem::Finder<'a>,
    seen: Vec<u8>,
}

impl<'a> Search<'a> {
    /// Checks the status. Returns `None` if nothing else is expected.
    ///
    /// # Errors
    /// Returns a failure if the status is not a good one.
    pub(super) fn begin(status: u16, expected: Expected<'a>) -> Result<Option<Self>, ProbeFailure> {
        if !expected.statuses.iter().any(|(from, to)| (*from..=*to).contains(&status)) {
            return Err(ProbeFailure::Status(status));
        }
        let search = |text: &'a str| Self { text, finder: memmem::Finder::new(text), seen: Vec::new() };
        Ok(expected.body.map(search))
    }

    /// Searches another part of the body. Returns `None` if the text may still follow.
    pub(super) fn feed(&mut self, data: &[u8]) -> Option<Result<(), ProbeFailure>> {
        // The first position at which a match that ends in the new bytes can begin.
        let from = self.seen.len().saturating_sub(self.text.len());
        self.seen.extend_from_slice(&data[..data.len().min(BODY_MAX_BYTES - self.seen.len())]);
        if self.finder.find(&self.seen[from..]).is_some() {
            return Some(Ok(()));
        }
        (self.seen.len() == BODY_MAX_BYTES).then_some(Err(ProbeFailure::Body))
    }
}

fn failure(error: hyper::Error) -> ProbeFailure {
    match error.is_parse() || error.is_parse_too_large() {
        true => ProbeFailure::Protocol,
        false => ProbeFailure::Closed,
    }
}
