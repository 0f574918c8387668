//! Sends a response from the store at the client's pace: its head, and its body or a range of it.
//!
//! [`respond`](super::respond) and [`slices`](super::slices) call it. All sources of a body share [`Outgoing`]: a body
//! comes from [memory](send_stored), piece by piece from [disk](send_from_disk), or from [another request's
//! fetch](send_followed). The policies of the request may change the head and the body, as they change an endpoint's
//! response; the policy `compression` may choose a stored compressed form of the body instead. Invariant: a response has the
//! length that its head announces, or it is cut.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

use tollgate_cache::{CacheStatus, Chunk, DiskBody, Follower, Store, Stored};
use tollgate_http::h1::{BodyLength, BodyReader, write_decimal, write_status_line};
use tollgate_http::{ContentCoding, Method, Version, find_field_line};
use tollgate_net::BulkTurn;
use tollgate_observe::Reason;
use tollgate_plan::{GatewaySettings, Route};
use tollgate_policy::StoredBody;

use super::admission::write_line;
use super::on_disk::{TooSlow, on_thread};
use super::part::write_content_range;
use crate::exchange::deliver::{Allowance, deliver, wait_for_room};
use crate::exchange::response_policies;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::pace::Pace;
use crate::state::request_state::RequestState;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

/// The most bytes of a body that are offered to a client at once, and the most that its backlog buffers.
const PIECE_BYTES: usize = 128 * 1024;
/// The same for the first piece on an HTTP/2 stream, whose window is not known yet.
const FIRST_PIECE_BYTES: usize = 16 * 1024;

/// A response from the store.
pub(super) struct Outgoing<'a> {
    pub status: u16,
    /// Its field lines, each with its CRLF.
    pub lines: &'a [u8],
    /// The lines that the gateway adds.
    pub own: OwnLines<'a>,
    /// The length that the head announces; `None`: it is not known.
    pub length: Option<u64>,
    /// Whether there is a body, unless the method is HEAD.
    pub has_body: bool,
    /// Whether the connection closes after the response.
    pub close: bool,
}

/// The lines that the gateway adds to a stored response.
pub(super) struct OwnLines<'a> {
    /// `Age`, in seconds.
    pub age: u64,
    /// `Cache-Status`, if the policy sends it.
    pub status: Option<CacheStatus<'a>>,
    /// `Content-Range`: the range, as start and end, if there is one, and the length of the whole response.
    pub content_range: Option<(Option<(u64, u64)>, u64)>,
}

impl OwnLines<'_> {
    /// Appends the lines to the head, so that a hit allocates nothing.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Age: ");
        write_decimal(out, self.age);
        out.extend_from_slice(b"\r\n");
        if let Some(status) = &self.status {
            write_line(out, status);
        }
        if let Some((range, length)) = self.content_range {
            write_content_range(out, range, length);
        }
    }
}

/// The settings of the gateway and the route that apply to a response, and the store that it comes from.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub store: &'a Arc<Store>,
    pub settings: &'a GatewaySettings,
    pub route: &'a Route,
}

impl Outgoing<'_> {
    /// Writes the head to `out`, and overwrites its contents.
    fn write_head<S: ClientSide>(
        &self,
        out: &mut Vec<u8>,
        client: &Client<S>,
        settings: &GatewaySettings,
        version: Version,
    ) {
        out.clear();
        write_status_line(out, self.status);
        out.extend_from_slice(self.lines);
        self.own.write(out);
        if let Some(pseudonym) = settings.forwarded.via.as_deref() {
            for part in [b"Via: 1.1 ", pseudonym.as_bytes(), b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        let security = &client.connection_context.listener.strict_transport_security;
        if !security.is_empty() && find_field_line(self.lines, b"strict-transport-security", 0).is_none() {
            out.extend_from_slice(security);
        }
        match self.length {
            Some(length) => {
                out.extend_from_slice(b"Content-Length: ");
                write_decimal(out, length);
                out.extend_from_slice(b"\r\n");
            }
            None if self.is_chunked(version) => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            None => {}
        }
        match version {
            Version::Http2 => {}
            _ if self.close => out.extend_from_slice(b"Connection: close\r\n"),
            Version::Http10 => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            Version::Http11 => {}
        }
        out.extend_from_slice(b"\r\n");
    }

    fn is_chunked(&self, version: Version) -> bool {
        self.has_body && self.length.is_none() && version == Version::Http11
    }

    /// Sends the head with the first data of the body. `is_whole`: `data` is the whole body.
    pub fn begin<S: ClientSide>(
        &self,
        client: &mut Client<S>,
        worker: &Worker,
        state: &mut RequestState,
        settings: &GatewaySettings,
        data: &[u8],
        is_whole: bool,
    ) -> Result<(), Reason> {
        self.prepare(client, worker, state, settings, None);
        self.send_head(client, worker, state, data, is_whole)
    }

    /// Makes the head, in the worker's output buffer. `stored`: set if its whole body follows. Returns the coding of the
    /// compressed form that the caller sends in place of the body.
    fn prepare<S: ClientSide>(
        &self,
        client: &mut Client<S>,
        worker: &Worker,
        state: &mut RequestState,
        settings: &GatewaySettings,
        stored: Option<StoredBody<'_>>,
    ) -> Option<ContentCoding> {
        let RequestState { request, policy_context, record, .. } = &mut *state;
        let mut form = None;
        let out = &mut *worker.output.borrow_mut();
        self.write_head(out, client, settings, request.version);
        client.stream.translate(out);
        if let Some(context) = policy_context {
            let slot = client.stream.transform();
            form = response_policies::apply_stored(context, request, self.status, stored, out, slot);
            if let Some(used) = context.cache.as_mut().filter(|_| form.is_some()) {
                used.has_sent_form = true;
            }
        }
        if worker.logs_responses.get() {
            record.keep_response(out);
        }
        form
    }

    /// Sends the head that [`prepare`](Self::prepare) made, with the first data of the body.
    fn send_head<S: ClientSide>(
        &self,
        client: &mut Client<S>,
        worker: &Worker,
        state: &mut RequestState,
        data: &[u8],
        is_whole: bool,
    ) -> Result<(), Reason> {
        let RequestState { request, record, to_client, .. } = &mut *state;
        record.status = self.status;
        record.bytes_out = data.len() as u64;
        let out = &mut *worker.output.borrow_mut();
        let chunked = self.is_chunked(request.version);
        let sent = client.stream.respond(to_client, out, &reader(is_whole), chunked, data);
        sent.map_err(|error| error.write_reason())
    }
}

/// Returns a body's reader for [`ClientStream::respond`](crate::state::client_side::ClientStream::respond), which asks
/// it only whether the body is over.
fn reader(is_over: bool) -> BodyReader {
    BodyReader::new(if is_over { BodyLength::None } else { BodyLength::Exactly(1) })
}

/// Sends a stored response, or a range of its body.
///
/// # Errors
/// If it was cut: the client has left, or is too slow.
pub(super) async fn send_stored<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    Place { store, settings, route }: Place<'_>,
    outgoing: Outgoing<'_>,
    stored: &Arc<Stored>,
    range: Range<u64>,
) -> Result<(), Reason> {
    let is_whole = range == (0..stored.length());
    let has_body = outgoing.has_body && state.request.method != Method::Head;
    let Range { start, mut end } = if has_body { range } else { 0..0 };
    if let Some(body) = stored.disk_body() {
        outgoing.begin(client, worker, state, settings, b"", start == end)?;
        // Boxed, because it is rare and larger than the rest of this future.
        Box::pin(send_from_disk(client, state, route, body, start..end, true)).await?;
        return deliver_rest(client, state, route).await;
    }
    let first = if state.request.version == Version::Http2 { FIRST_PIECE_BYTES } else { PIECE_BYTES };
    let whole = is_whole.then_some(StoredBody { store, stored });
    let form = outgoing.prepare(client, worker, state, settings, whole);
    let body = match form.and_then(|coding| stored.form(coding)) {
        Some(form) => {
            end = form.len() as u64;
            InMemory::Bytes(form)
        }
        None => InMemory::Plain(stored),
    };
    let data = body.piece(start, end, first);
    let sent = start + data.len() as u64;
    outgoing.send_head(client, worker, state, data, sent == end)?;
    if sent < end {
        send_from_memory(client, state, route, body, sent..end, true).await?;
    }
    deliver_rest(client, state, route).await
}

/// Sends a range of a stored body after the head of the response. `is_last`: the response ends after it.
///
/// # Errors
/// If it was cut: the client has left, or is too slow.
pub(super) async fn send_range<S: ClientSide>(
    client: &mut Client<S>,
    state: &mut RequestState,
    route: &Route,
    stored: &Stored,
    range: Range<u64>,
    is_last: bool,
) -> Result<(), Reason> {
    match stored.disk_body() {
        Some(body) => Box::pin(send_from_disk(client, state, route, body, range, is_last)).await,
        None => send_from_memory(client, state, route, InMemory::Plain(stored), range, is_last).await,
    }
}

/// Sends text of the gateway as a part of the body. `is_last`: the response ends after it.
///
/// # Errors
/// If it was cut: the client has left, or is too slow.
pub(super) async fn send_text<S: ClientSide>(
    client: &mut Client<S>,
    state: &mut RequestState,
    route: &Route,
    text: &[u8],
    is_last: bool,
) -> Result<(), Reason> {
    let body = InMemory::Bytes(text);
    send_from_memory(client, state, route, body, 0..text.len() as u64, is_last).await
}

/// Sends a range of a body that is in memory.
async fn send_from_memory<S: ClientSide>(
    client: &mut Client<S>,
    state: &mut RequestState,
    route: &Route,
    body: InMemory<'_>,
    Range { start: mut at, end }: Range<u64>,
    is_last: bool,
) -> Result<(), Reason> {
    let mut pace = Pace::of_response(&route.rates, route.timeouts.write, false, 0);
    let mut turn = BulkTurn::new(&client.connection_context.worker().bulk_queue);
    while at < end {
        turn.wait().await;
        let room = wait_for_room(client, state, route, &mut pace).await?;
        let data = body.piece(at, end, room.clamp(1, PIECE_BYTES));
        if data.is_empty() {
            return Err(Reason::HttpResponseIncomplete);
        }
        turn.count(data.len());
        at += data.len() as u64;
        state.record.bytes_out += data.len() as u64;
        let reader = reader(is_last && at == end);
        let sent = client.stream.respond(&mut state.to_client, &mut Vec::new(), &reader, false, data);
        sent.map_err(|error| error.write_reason())?;
    }
    Ok(())
}

/// Sends a range of a body on disk in pieces. Each piece is read and verified before it is sent.
///
/// # Errors
/// If it was cut: the client has left, or is too slow; or a piece cannot be read, or is damaged.
async fn send_from_disk<S: ClientSide>(
    client: &mut Client<S>,
    state: &mut RequestState,
    route: &Route,
    body: &Arc<dyn DiskBody>,
    Range { start: mut at, end }: Range<u64>,
    is_last: bool,
) -> Result<(), Reason> {
    let mut pace = Pace::of_response(&route.rates, route.timeouts.write, false, 0);
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let of = body.clone();
        let problem = match on_thread(client, move || of.read(at, most)).await {
            Ok(Ok(mut data)) if !data.is_empty() => {
                while !data.is_empty() {
                    let room = wait_for_room(client, state, route, &mut pace).await?;
                    let now = data.split_to(data.len().min(room.max(1)));
                    at += now.len() as u64;
                    state.record.bytes_out += now.len() as u64;
                    let (to, head) = (&mut state.to_client, &mut Vec::new());
                    let sent = client.stream.respond(to, head, &reader(is_last && at == end), false, &now);
                    sent.map_err(|error| error.write_reason())?;
                }
                continue;
            }
            Ok(Ok(_)) => "the stored body ends early".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(TooSlow) => "the disk of the cache does not answer".to_owned(),
        };
        state.record.remarks().detail = Some(problem.into());
        return Err(Reason::HttpResponseIncomplete);
    }
    Ok(())
}

/// The bytes of a stored body that is in memory.
#[derive(Clone, Copy)]
enum InMemory<'a> {
    /// The body.
    Plain(&'a Stored),
    /// A compressed form of it, or other text.
    Bytes(&'a [u8]),
}

impl<'a> InMemory<'a> {
    /// Returns the next piece, at most `most` bytes long.
    fn piece(self, at: u64, end: u64, most: usize) -> &'a [u8] {
        if at >= end {
            return b"";
        }
        let piece = match self {
            Self::Plain(stored) => stored.piece(at),
            Self::Bytes(bytes) => usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default(),
        };
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        &piece[..piece.len().min(left).min(most)]
    }
}

/// Sends a response whose body another request fetches, or a range of it, as it arrives.
///
/// # Errors
/// If it was cut: by its endpoint, or because the client has left or is too slow.
pub(super) async fn send_followed<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    Place { settings, route, .. }: Place<'_>,
    outgoing: Outgoing<'_>,
    follower: &mut Follower,
    range: Option<Range<u64>>,
) -> Result<(), Reason> {
    let chunked = outgoing.is_chunked(state.request.version);
    if !outgoing.has_body || state.request.method == Method::Head {
        outgoing.begin(client, worker, state, settings, b"", true)?;
        return deliver_rest(client, state, route).await;
    }
    outgoing.begin(client, worker, state, settings, b"", false)?;
    if let Some(range) = range {
        // In a box of its own, since it is rare.
        Box::pin(send_arriving(client, state, route, follower, range, true)).await?;
        return deliver_rest(client, state, route).await;
    }
    let mut pace = Pace::of_response(&route.rates, route.timeouts.write, false, 0);
    loop {
        wait_for_room(client, state, route, &mut pace).await?;
        let mut data = match next_chunk(client, follower).await? {
            Chunk::Data(data) => data,
            Chunk::End => {
                let end = &mut Vec::new();
                let sent = client.stream.respond(&mut state.to_client, end, &reader(true), chunked, b"");
                sent.map_err(|error| error.write_reason())?;
                return deliver_rest(client, state, route).await;
            }
            Chunk::Cut => return Err(Reason::HttpResponseIncomplete),
        };
        loop {
            let now = data.split_to(data.len().min(PIECE_BYTES));
            state.record.bytes_out += now.len() as u64;
            let sent =
                client.stream.respond(&mut state.to_client, &mut Vec::new(), &reader(false), chunked, &now);
            sent.map_err(|error| error.write_reason())?;
            if data.is_empty() {
                break;
            }
            wait_for_room(client, state, route, &mut pace).await?;
        }
    }
}

/// Waits for the next part of a body that another request fetches.
async fn next_chunk<S: ClientSide>(client: &mut Client<S>, follower: &mut Follower) -> Result<Chunk, Reason> {
    poll_fn(|cx| match follower.poll_chunk(cx) {
        Poll::Ready(chunk) => Poll::Ready(Ok(chunk)),
        Poll::Pending => client.poll_peer_closed(cx).map(|()| Err(Reason::ClientClosed)),
    })
    .await
}

/// Sends a range of a body that another task fetches, as it arrives. `is_last`: the response ends after it.
///
/// # Errors
/// As [`send_followed`].
pub(super) async fn send_arriving<S: ClientSide>(
    client: &mut Client<S>,
    state: &mut RequestState,
    route: &Route,
    follower: &mut Follower,
    range: Range<u64>,
    is_last: bool,
) -> Result<(), Reason> {
    let mut pace = Pace::of_response(&route.rates, route.timeouts.write, false, 0);
    let mut at = 0;
    while at < range.end {
        wait_for_room(client, state, route, &mut pace).await?;
        let Chunk::Data(data) = next_chunk(client, follower).await? else {
            return Err(Reason::HttpResponseIncomplete);
        };
        let (from, to) = (range.start.max(at), range.end.min(at + data.len() as u64));
        // Empty if the range starts later.
        let mut wanted = data.slice((from.min(to) - at) as usize..(to - at) as usize);
        at += data.len() as u64;
        while !wanted.is_empty() {
            let now = wanted.split_to(wanted.len().min(PIECE_BYTES));
            state.record.bytes_out += now.len() as u64;
            let reader = reader(is_last && at >= range.end && wanted.is_empty());
            let sent = client.stream.respond(&mut state.to_client, &mut Vec::new(), &reader, false, &now);
            sent.map_err(|error| error.write_reason())?;
            if !wanted.is_empty() {
                wait_for_room(client, state, route, &mut pace).await?;
            }
        }
    }
    Ok(())
}

/// Waits until the client has taken the backlog.
pub(super) async fn deliver_rest<S: ClientSide>(
    client: &mut Client<S>,
    state: &mut RequestState,
    route: &Route,
) -> Result<(), Reason> {
    if state.to_client.is_empty() {
        return Ok(());
    }
    // A download may take longer than `timeouts.total`.
    let now = tollgate_net::now();
    let total = TimeLimit::new(now, None);
    let allowance = Allowance { bound: route.timeouts.write, rates: &route.rates, is_stream: false, total };
    deliver(client, &mut state.to_client, now, allowance).await
}
