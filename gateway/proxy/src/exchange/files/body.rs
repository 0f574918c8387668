//! Sends the response with a file, at the client's pace.
//!
//! A file that is in memory is sent with the head in one write. Over HTTP/1 without TLS, the kernel sends the rest of a
//! longer one (`sendfile`), unless something changes the body. Otherwise it is read in pieces, each when the client has
//! taken the one before: at most one piece is kept for a response. A read that would wait for a disk runs on a thread.
//! Invariant: a response has the length that its head announces, or it is cut.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use tollgate_files::{ReadNow, ServedFile, threads};
use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_http::{ByteRange, ContentParts, Method, Part, Version};
use tollgate_net::BulkTurn;
use tollgate_observe::Reason;
use tollgate_plan::{Rates, Route};

use super::locate::wait;
use crate::exchange::deliver::{Allowance, deliver, too_slow, wait_for_room};
use crate::exchange::respond::{LocalHead, write_head};
use crate::exchange::response_policies::{self, Author};
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::pace::Pace;
use crate::state::peer_error::PeerError;
use crate::state::request_state::RequestState;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

/// The most bytes that are read at once, which is also the most that a response keeps.
const PIECE_BYTES: usize = 128 * 1024;
/// The same for the first piece of a stream of HTTP/2, whose window is not known yet.
const FIRST_PIECE_BYTES: usize = 16 * 1024;
/// The most bytes that the kernel is asked to send at once: a large share of its send queue, and little enough that
/// looking up both ends tells whether all of it is in memory.
const KERNEL_PIECE_BYTES: usize = 1024 * 1024;

/// A response with a file.
pub(super) struct FileResponse<'a> {
    pub status: u16,
    /// Field lines, each with its CRLF.
    pub lines: &'a [u8],
    pub file: &'a Arc<ServedFile>,
    pub body: ContentParts,
    /// Whether the connection closes after the response.
    pub close: bool,
}

/// Sends a response.
///
/// # Errors
/// If it was cut: the client has left or is too slow, or the file cannot be read to its announced end.
pub(super) async fn send<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    route: &Route,
    FileResponse { status, lines, file, mut body, close }: FileResponse<'_>,
) -> Result<(), Reason> {
    let length = (status != 304).then_some(body.length);
    if state.request.method == Method::Head {
        body = ContentParts::default();
    }
    state.record.status = status;
    state.record.bytes_out = 0;
    {
        let RequestState { request, policy_context, record, .. } = &mut *state;
        let out = &mut *worker.output.borrow_mut();
        write_head(out, client, worker, request.version, LocalHead { status, lines, length, close });
        client.stream.translate(out);
        if let Some(context) = policy_context {
            let slot = client.stream.transform();
            response_policies::apply(context, request, status, Author::File, out, slot);
        }
        if worker.logs_responses.get() {
            record.keep_response(out);
        }
        send_first(client, worker, state, out, file, &mut body)?;
    }
    let bound = route.timeouts.write;
    if !body.parts.is_empty() {
        send_rest(client, worker, state, route, file, &mut body).await?;
    }
    if state.to_client.is_empty() {
        return Ok(());
    }
    // A download may take longer than `timeouts.total`.
    let now = tollgate_net::now();
    let allowance =
        Allowance { bound, rates: &route.rates, is_stream: false, total: TimeLimit::new(now, None) };
    deliver(client, &mut state.to_client, now, allowance).await
}

/// Sends the head, with the first piece of the body if that is in memory.
fn send_first<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    head: &mut Vec<u8>,
    file: &ServedFile,
    body: &mut ContentParts,
) -> Result<(), Reason> {
    let buffer = &mut *worker.receive.borrow_mut();
    let data = match body.parts.front() {
        Some(Part::Content(range)) => match (file.content(), in_memory(file, *range)) {
            (Some(_), Some(bytes)) => bytes,
            // The file was read to its end before.
            (Some(_), None) => return Err(Reason::FileTruncated),
            (None, _) => {
                let most =
                    if state.request.version == Version::Http2 { FIRST_PIECE_BYTES } else { PIECE_BYTES };
                read_now(file, *range, buffer, most)?.unwrap_or_default()
            }
        },
        Some(Part::Text(_)) | None => b"",
    };
    let reader = advance(body, data.len() as u64);
    state.record.bytes_out += data.len() as u64;
    let sent = client.stream.respond(&mut state.to_client, head, &reader, false, data);
    sent.map_err(|error| error.write_reason())
}

/// Sends the parts that are left.
async fn send_rest<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    route: &Route,
    file: &Arc<ServedFile>,
    body: &mut ContentParts,
) -> Result<(), Reason> {
    let rates: &Rates = &route.rates;
    let mut pace = Pace::of_response(rates, route.timeouts.write, false, 0);
    let mut turn = BulkTurn::new(&worker.bulk_queue);
    let mut can_send_file = client.stream.can_send_file();
    loop {
        turn.wait().await;
        let sent_before = state.record.bytes_out;
        let room = wait_for_room(client, state, route, &mut pace).await?;
        let most = room.clamp(1, PIECE_BYTES);
        let Some(part) = body.parts.front() else { return Ok(()) };
        let read;
        let mut is_sent = false;
        let data: &[u8] = match part {
            Part::Text(text) => {
                read = text.clone();
                &read
            }
            Part::Content(range) => {
                let range = *range;
                if let Some(bytes) = in_memory(file, range) {
                    read = bytes.to_vec();
                    &read
                } else if can_send_file && file.is_in_page_cache(range.start, kernel_piece(range)) {
                    match send_range(client, state, route, file, range, &mut pace).await? {
                        Some(sent) => {
                            advance(body, sent);
                            state.record.bytes_out += sent;
                            is_sent = true;
                        }
                        None => {
                            can_send_file = false;
                            continue;
                        }
                    }
                    b""
                } else {
                    is_sent = send_now(client, worker, state, file, range, most, body)?;
                    if is_sent {
                        b""
                    } else {
                        read = read_on_thread(client, file, range, most).await?;
                        &read
                    }
                }
            }
        };
        if !is_sent {
            if data.is_empty() {
                return Err(Reason::FileTruncated);
            }
            let reader = advance(body, data.len() as u64);
            state.record.bytes_out += data.len() as u64;
            let sent = client.stream.respond(&mut state.to_client, &mut Vec::new(), &reader, false, data);
            sent.map_err(|error| error.write_reason())?;
        }
        if body.parts.is_empty() {
            return Ok(());
        }
        turn.count((state.record.bytes_out - sent_before) as usize);
    }
}

/// Sends the next piece of a range, if it can be read without waiting. Returns whether it did.
fn send_now<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    file: &ServedFile,
    range: ByteRange,
    most: usize,
    body: &mut ContentParts,
) -> Result<bool, Reason> {
    let buffer = &mut *worker.receive.borrow_mut();
    let Some(data) = read_now(file, range, buffer, most)? else { return Ok(false) };
    let reader = advance(body, data.len() as u64);
    state.record.bytes_out += data.len() as u64;
    let sent = client.stream.respond(&mut state.to_client, &mut Vec::new(), &reader, false, data);
    sent.map_err(|error| error.write_reason())?;
    Ok(true)
}

/// Returns the part of a range that the kernel is asked to send at once.
fn kernel_piece(range: ByteRange) -> usize {
    usize::try_from(range.length()).unwrap_or(usize::MAX).min(KERNEL_PIECE_BYTES)
}

/// Has the kernel send the beginning of a range, at the client's pace. Returns how much it sent; `None`: it cannot send
/// from this file system.
async fn send_range<S: ClientSide>(
    client: &mut Client<S>,
    state: &RequestState,
    route: &Route,
    file: &ServedFile,
    range: ByteRange,
    pace: &mut Pace,
) -> Result<Option<u64>, Reason> {
    let Some(descriptor) = file.descriptor() else { return Ok(None) };
    let sent = state.record.bytes_out;
    let mut has_waited = false;
    poll_fn(|cx| {
        match client.stream.poll_send_file(cx, descriptor, range.start, kernel_piece(range)) {
            Poll::Ready(result) => {
                if has_waited {
                    pace.settle(tollgate_net::now(), sent);
                }
                return Poll::Ready(match result {
                    Ok(0) => Err(Reason::FileTruncated),
                    Ok(count) => Ok(Some(count as u64)),
                    Err(PeerError::Io(error)) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
                    Err(_) if file.read_now(&mut [0], range.start).is_err() => Err(Reason::FileUnavailable),
                    Err(error) => Err(error.write_reason()),
                });
            }
            Poll::Pending if !has_waited => {
                has_waited = true;
                let now = tollgate_net::now();
                pace.settle(now, sent);
                client.deadline.set(now, pace.wait(now, route.timeouts.write));
            }
            Poll::Pending => {}
        }
        client.deadline.poll_passed(cx).map(|()| Err(too_slow(pace)))
    })
    .await
}

/// Returns a range of a file that is in memory.
fn in_memory(file: &ServedFile, range: ByteRange) -> Option<&[u8]> {
    let start = usize::try_from(range.start).ok()?;
    let end = usize::try_from(range.end).ok()?;
    file.content()?.get(start..end)
}

/// Reads the beginning of a range without waiting. `None`: the read would wait.
fn read_now<'b>(
    file: &ServedFile,
    range: ByteRange,
    buffer: &'b mut [u8],
    most: usize,
) -> Result<Option<&'b [u8]>, Reason> {
    let wanted = usize::try_from(range.length()).unwrap_or(usize::MAX).min(most).min(buffer.len());
    match file.read_now(&mut buffer[..wanted], range.start) {
        Ok(ReadNow::Read(0)) => Err(Reason::FileTruncated),
        Ok(ReadNow::Read(count)) => Ok(Some(&buffer[..count])),
        Ok(ReadNow::MustWait) => Ok(None),
        Err(_) => Err(Reason::FileUnavailable),
    }
}

async fn read_on_thread<S: ClientSide>(
    client: &mut Client<S>,
    file: &Arc<ServedFile>,
    range: ByteRange,
    most: usize,
) -> Result<Vec<u8>, Reason> {
    let wanted = usize::try_from(range.length()).unwrap_or(usize::MAX).min(most);
    let file = file.clone();
    let read = move || {
        let mut bytes = vec![0; wanted];
        let count = file.read(&mut bytes, range.start)?;
        bytes.truncate(count);
        Ok::<_, std::io::Error>(bytes)
    };
    wait(client, threads::run(read)).await?.map_err(|_| Reason::FileUnavailable)
}

/// Removes bytes that were sent from the front of a body. Returns the reader that says whether that was all.
fn advance(body: &mut ContentParts, mut count: u64) -> BodyReader {
    while count > 0 {
        let Some(part) = body.parts.front_mut() else { break };
        let length = match part {
            Part::Text(text) => text.len() as u64,
            Part::Content(range) => {
                let length = range.length();
                range.start += count.min(length);
                length
            }
        };
        if count < length {
            break;
        }
        count -= length;
        body.parts.pop_front();
    }
    let is_whole = body.parts.is_empty();
    BodyReader::new(if is_whole { BodyLength::None } else { BodyLength::Exactly(1) })
}
