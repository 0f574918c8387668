//! Reads and parses the head of an HTTP/1 request, or refuses it.
//!
//! The loop of a connection's exchanges calls [`receive`] once per request. In the usual case the whole head
//! arrives in one read and is parsed where it lies, in the worker's shared buffer. Otherwise the inbox keeps
//! the unfinished line, and the request head keeps the whole lines. HTTP/2's preface is recognised only after
//! the parser has failed, so it costs HTTP/1 nothing.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use tollgate_http::h1::{Progress, RequestParser};
use tollgate_http::{HeadError, HeadLimits, extend_tightly};
use tollgate_observe::Reason;
use tollgate_plan::Http2;

use crate::state::client::Client;
use crate::state::request_state::RequestState;
use crate::state::worker::{OUTPUT_BUFFER_BYTES, OUTPUT_BUFFER_MAX_BYTES, Worker};

/// The part of the connection preface that fills the place of an HTTP/1 request line (RFC 9113, 3.4).
const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";
/// Bytes of spare capacity that the inbox keeps.
const KEPT: usize = 2048;

/// The result of waiting for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A complete head, in `state.request`; the bytes after it are in `state.inbox`.
    Request,
    /// No request, and none will follow: the connection is closed without a response.
    Nothing,
    /// The start of an HTTP/2 connection, in `state.inbox`.
    Http2,
    /// A request that is answered with an error, after which the connection is closed. `state.request` has
    /// the whole lines that were parsed, for the log.
    Refused(Reason),
}

/// Reads one request head. Bytes in the inbox are used first.
pub(crate) async fn receive(
    client: &mut Client,
    worker: &Worker,
    state: &mut RequestState,
    limits: &HeadLimits,
) -> Received {
    let mut reading =
        HeadReading { parser: RequestParser::default(), skipped: false, is_shortened: false, limits };
    let received = poll_fn(|cx| reading.poll(cx, client, worker, state)).await;
    if received == Received::Nothing {
        state.inbox.clear();
    }
    received
}

struct HeadReading<'a> {
    parser: RequestParser,
    /// Whether the one empty line that may precede a request (RFC 9112, 2.2) was skipped.
    skipped: bool,
    /// Whether the deadline was shortened because the worker drains.
    is_shortened: bool,
    limits: &'a HeadLimits,
}

impl HeadReading<'_> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut Client,
        worker: &Worker,
        state: &mut RequestState,
    ) -> Poll<Received> {
        if !state.inbox.is_empty() && !state.record.is_open() && !is_empty_line(&state.inbox) {
            state.record.open(
                &worker.stats,
                tollgate_net::now(),
                client.peer,
                client.connection_context.tls.as_ref(),
            );
            if let Some(received) = self.parse_inbox(client, worker, state) {
                return Poll::Ready(received);
            }
            Self::wait_for_rest(client, worker, state);
        }
        loop {
            let mut buffer = worker.receive.borrow_mut();
            let read = client.stream.poll_read(cx, &mut buffer);
            if read.is_pending() && client.deadline.poll_passed(cx).is_ready() {
                let begun = state.record.is_open();
                return Poll::Ready(if begun {
                    Received::Refused(Reason::HeaderTimeout)
                } else {
                    Received::Nothing
                });
            }
            if read.is_pending() && !state.record.is_open() && client.is_draining() {
                if !client.stream.has_partial_record() {
                    return Poll::Ready(Received::Nothing);
                }
                // A request has started, but no byte of it can be decrypted yet. Half a TLS record does not
                // delay a drain.
                if !self.is_shortened {
                    self.is_shortened = true;
                    client.shorten_idle_time();
                    continue;
                }
            }
            let count = match ready!(read) {
                Ok(0) if state.record.is_open() => {
                    return Poll::Ready(Received::Refused(Reason::IncompleteRequest));
                }
                Ok(0) | Err(_) if !state.record.is_open() => return Poll::Ready(Received::Nothing),
                Ok(count) => count,
                Err(_) => return Poll::Ready(Received::Refused(Reason::ClientClosed)),
            };
            let bytes = &buffer[..count];
            if !state.inbox.is_empty() || !self.parser.at_start() || is_empty_line(bytes) {
                extend_tightly(&mut state.inbox, bytes);
                if self.parser.at_start() && is_empty_line(&state.inbox) {
                    continue;
                }
                if !state.record.is_open() {
                    state.record.open(
                        &worker.stats,
                        tollgate_net::now(),
                        client.peer,
                        client.connection_context.tls.as_ref(),
                    );
                    Self::wait_for_rest(client, worker, state);
                }
                if let Some(received) = self.parse_inbox(client, worker, state) {
                    return Poll::Ready(received);
                }
                continue;
            }
            state.record.open(
                &worker.stats,
                tollgate_net::now(),
                client.peer,
                client.connection_context.tls.as_ref(),
            );
            // The usual case: the whole head in one read, parsed in place.
            let skip = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
            self.skipped = skip > 0;
            match self.parser.advance(&bytes[skip..], &mut state.request, self.limits) {
                Ok(Progress::Complete(end)) => {
                    state.inbox.extend_from_slice(&bytes[skip + end..]);
                    return Poll::Ready(Received::Request);
                }
                // The request head has copied the whole lines.
                Ok(Progress::Partial) => {
                    let rest = &bytes[skip + held_lines(&self.parser, state)..];
                    extend_tightly(&mut state.inbox, rest);
                }
                Err(error) => {
                    state.inbox.extend_from_slice(bytes);
                    return Poll::Ready(refused(
                        error,
                        &RefusedBytes { parser: &self.parser, skip, copied: 0 },
                        client,
                        worker,
                        state,
                    ));
                }
            }
            Self::wait_for_rest(client, worker, state);
        }
    }

    /// Called when a part of a head is here: the whole head must arrive within `timeouts.header`, counted
    /// from its first byte.
    fn wait_for_rest(client: &Client, worker: &Worker, state: &mut RequestState) {
        state.record.mark_partial();
        let bound = worker.active.borrow().plan.settings.timeouts.header;
        client.deadline.set(state.record.started().unwrap_or_else(tollgate_net::now), bound);
    }

    /// Parses the inbox, which holds the rest of an unfinished head after its whole lines. `None`: more is
    /// needed.
    fn parse_inbox(
        &mut self,
        client: &Client,
        worker: &Worker,
        state: &mut RequestState,
    ) -> Option<Received> {
        if !self.skipped && self.parser.at_start() && state.inbox.starts_with(b"\r\n") {
            state.inbox.drain(..2);
            self.skipped = true;
            self.parser = RequestParser::default();
        }
        let before = held_lines(&self.parser, state);
        let progress = if before == 0 {
            self.parser.advance(&state.inbox, &mut state.request, self.limits)
        } else {
            // The parser needs the head from its first byte on. Keeping it contiguous would store its lines
            // twice.
            let output = &mut *worker.output.borrow_mut();
            output.clear();
            output.extend_from_slice(state.request.head.bytes());
            output.extend_from_slice(&state.inbox);
            let progress = self.parser.advance(output, &mut state.request, self.limits);
            if output.capacity() > OUTPUT_BUFFER_MAX_BYTES {
                *output = Vec::with_capacity(OUTPUT_BUFFER_BYTES);
            }
            progress
        };
        match progress {
            Ok(Progress::Complete(end)) => {
                state.inbox.drain(..end - before);
                if state.inbox.is_empty() {
                    state.inbox.shrink_to(KEPT);
                }
                Some(Received::Request)
            }
            Ok(Progress::Partial) => {
                let held = held_lines(&self.parser, state);
                if held > before {
                    state.inbox.drain(..held - before);
                    state.inbox.shrink_to(KEPT);
                }
                None
            }
            Err(error) => Some(refused(
                error,
                &RefusedBytes { parser: &self.parser, skip: 0, copied: before },
                client,
                worker,
                state,
            )),
        }
    }
}

/// Returns how many bytes of an unfinished head the request head has copied: its whole lines.
fn held_lines(parser: &RequestParser, state: &RequestState) -> usize {
    if parser.at_start() { 0 } else { state.request.head.bytes().len() }
}

/// The bytes that the parser has refused.
struct RefusedBytes<'a> {
    parser: &'a RequestParser,
    /// Bytes of the inbox before them.
    skip: usize,
    /// Bytes before the inbox that the request head has copied.
    copied: usize,
}

/// Returns the refusal for bytes that are not an HTTP/1 request, or [`Received::Http2`] if they are HTTP/2's
/// preface (RFC 9113, 3.4). The preface is looked for only here, so requests in HTTP/1 pay nothing for it.
/// Only the first bytes of a connection can be one.
#[cold]
fn refused(
    error: HeadError,
    &RefusedBytes { parser, skip, copied }: &RefusedBytes<'_>,
    client: &Client,
    worker: &Worker,
    state: &mut RequestState,
) -> Received {
    let may_be_preface = error == HeadError::Version && client.requests == 0 && may_speak_http2(client);
    if may_be_preface && state.inbox.starts_with(PREFACE_LINE) {
        state.record.discard(&worker.stats);
        return Received::Http2;
    }
    let RequestState { request, inbox, record, .. } = state;
    let held = request.head.bytes().get(..copied).unwrap_or_default();
    let bytes = [held, inbox.get(skip..).unwrap_or_default()].concat();
    if let Some(rejected_bytes) = parser.rejected_bytes(&bytes, error, request) {
        record.set_rejected_bytes(&rejected_bytes);
    }
    Received::Refused(reason(error))
}

/// Returns whether a client may start HTTP/2 without negotiation. Over TLS it negotiates HTTP/2 in the
/// handshake, or does not speak it (RFC 9113, 3.2 and 3.3).
fn may_speak_http2(client: &Client) -> bool {
    client.connection_context.listener.http2 != Http2::Off && client.connection_context.tls.is_none()
}

/// Returns whether nothing has arrived but the empty line that may precede a request (RFC 9112, 2.2), or its
/// first half. Some clients send one after a body. No request starts with it, and the connection is as idle
/// as before.
fn is_empty_line(bytes: &[u8]) -> bool {
    matches!(bytes, b"\r" | b"\r\n")
}

/// Returns the reason for an error of the parser.
pub(crate) fn reason(error: HeadError) -> Reason {
    match error {
        HeadError::StartLine => Reason::BadRequestLine,
        HeadError::Version => Reason::UnsupportedVersion,
        HeadError::Field => Reason::BadHeader,
        HeadError::Length => Reason::AmbiguousLength,
        HeadError::Coding => Reason::UnknownTransferCoding,
        HeadError::Host => Reason::BadHost,
        HeadError::Expect => Reason::ExpectationFailed,
        HeadError::LineTooLong => Reason::RequestLineTooLong,
        HeadError::TooLarge => Reason::HeadersTooLarge,
        HeadError::TooMany => Reason::TooManyHeaders,
    }
}
