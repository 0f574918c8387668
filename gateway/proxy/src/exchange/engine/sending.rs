//! The request half of an exchange: writes the head, then moves the body from the client to the endpoint.
//!
//! `start` sends the head and the body's first bytes; `poll_send` moves the rest as far as both sides allow.
//! If the endpoint stops taking bytes, sending ends, but the response is still read. Exchanges without a
//! client send through [`flush_request`] too.

use std::task::{Context, Poll, ready};

use tollgate_http::h1::{BodyLength, BodyPart};
use tollgate_http::is_token;
use tollgate_observe::Reason;

use super::{Exchange, ExchangeEnd, Repeatable, Upload, drop_nominated, upstream_head};
use crate::exchange::grpc;
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::backlog::Backlog;
use crate::state::client_certificate::ReservedFields;
use crate::state::client_side::ClientSide;
use crate::state::peer_error::{PeerError, body_error_reason};
use crate::state::worker::{OUTPUT_BUFFER_BYTES, OUTPUT_BUFFER_MAX_BYTES, READS_PER_TURN};

/// How far a request has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// The endpoint takes nothing now.
    Nothing,
    /// A part of the backlog was sent, and the rest waits for the endpoint.
    Part,
    /// The backlog was sent, or the endpoint takes no more of it.
    End,
}

/// Sends what the backlog holds, as far as the endpoint takes it.
///
/// # Errors
/// If the disk refuses a buffered body.
pub(super) fn flush_request<U: UpstreamSide>(
    cx: &mut Context<'_>,
    upstream: &mut U,
    backlog: &mut Backlog,
    upload: &mut Upload,
    repeatable: &mut Repeatable,
) -> Result<Flushed, Reason> {
    let before = backlog.len();
    let flushed = upstream.poll_flush(cx, backlog);
    let some = backlog.len() != before;
    match &flushed {
        Poll::Ready(Err(PeerError::OwnDisk)) => return Err(Reason::ProxyInternalError),
        // Its response may have arrived all the same. The backlog is kept, because it may have to be sent
        // again.
        Poll::Ready(Err(error)) => upload.stop(error.stop()),
        _ => {}
    }
    if some {
        repeatable.write();
    }
    Ok(match flushed {
        Poll::Ready(_) => Flushed::End,
        Poll::Pending if some => Flushed::Part,
        Poll::Pending => Flushed::Nothing,
    })
}

impl<S: ClientSide, U: UpstreamSide> Exchange<'_, '_, S, U> {
    /// Sends the head, and the part of the body that is already here, with one write.
    pub(super) fn start(&mut self) -> Result<(), ExchangeEnd> {
        if U::SEPARATE_HEADS && self.parties.upgrade && !self.can_switch() {
            return Err(self.unsendable(Reason::UpgradeFailed));
        }
        let parties = &mut self.parties;
        parties.attempts.sending(self.now);
        let state = &mut *parties.state;
        if parties.client.stream.may_be_grpc() {
            grpc::pass_deadline_on(state, self.total, self.now);
        }
        let out = &mut *parties.worker.output.borrow_mut();
        out.clear();
        upstream_head::write(
            out,
            &upstream_head::Outgoing {
                state,
                peer: parties.client.peer,
                secure: parties.client.stream.tls().is_some(),
                identity: parties
                    .client
                    .connection_context
                    .tls
                    .as_ref()
                    .and_then(|tls| tls.identity.as_ref()),
                settings: parties.settings,
                route: parties.route,
                endpoint: parties.upstream.pool().name(),
                upgrade: parties.upgrade,
                separate_heads: U::SEPARATE_HEADS,
                collected: parties.collected,
                may_return: upstream_head::may_return(parties.settings, parties.upstream.pool()),
            },
        );
        let mut used = 0;
        if let BodyLength::Exactly(length) = state.request.length
            && parties.collected.is_none()
            && state.page().is_none()
        {
            used = usize::try_from(length).unwrap_or(usize::MAX).min(state.inbox.len());
            let _ = self.request.read(&mut state.inbox[..used]);
            state.record.bytes_in = used as u64;
        }
        let whole = self.request.is_done();
        self.repeatable = Repeatable::Unwritten { whole };
        // A collected body is in the backlog's spool, even if it is empty.
        let spooled = parties.collected.is_some();
        let (backlog, data) = (&mut state.to_upstream, &state.inbox[..used]);
        let sent = parties.upstream.send_head(
            backlog,
            out,
            &self.request,
            data,
            spooled,
            state.request.has_never_indexed,
        );
        if out.capacity() > OUTPUT_BUFFER_MAX_BYTES {
            // A policy has read a large body, which was sent with its head.
            *out = Vec::with_capacity(OUTPUT_BUFFER_BYTES);
        }
        // These bytes belong to the request, whatever happens now: only another attempt may read them again.
        self.kept_in_inbox = used;
        match sent {
            Ok(true) => self.repeatable.write(),
            Ok(false) => {}
            Err(error) => return Err(self.not_begun(&error)),
        }
        if !whole {
            state.inbox.drain(..used);
            self.kept_in_inbox = 0;
        }
        if whole && state.to_upstream.is_empty() {
            self.upload = Upload::Done;
        }
        if !whole {
            // The client decides how long its body takes, so an attempt that cannot be repeated has no time
            // limit of its own.
            self.head_due = self.total;
            self.parties.attempts.waits_for_body();
        }
        self.wait();
        Ok(())
    }

    /// Returns the end of an exchange whose head was not sent.
    #[cold]
    fn not_begun(&mut self, error: &PeerError) -> ExchangeEnd {
        match error {
            PeerError::Unrepresentable(reason) => self.unsendable(*reason),
            _ => self.terminated(),
        }
    }

    /// Ends an exchange whose request cannot be expressed in the endpoint's version of HTTP. It counts as no
    /// attempt, since the endpoint has seen nothing.
    #[cold]
    fn unsendable(&mut self, reason: Reason) -> ExchangeEnd {
        let record = &mut self.parties.state.record;
        record.attempts = record.attempts.saturating_sub(1);
        self.failed(reason)
    }

    /// Returns whether the endpoint can be asked to switch the request's stream to the one protocol that the
    /// request names.
    fn can_switch(&self) -> bool {
        let request = &self.parties.state.request;
        // A token, maybe with a version (RFC 9110, 7.8): HTTP/1 carries any byte, `:protocol` does not.
        let one = |protocols: &[u8]| protocols.split(|byte| *byte == b'/').all(is_token);
        request.length.is_empty()
            && request.upgrade.is_some_and(|protocols| one(request.slice(protocols)))
            && self.parties.upstream.can_switch()
    }

    /// Moves the body until no more can be moved now. Ready when all of it was sent, or with the end of the
    /// exchange if it cannot be.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ExchangeEnd>> {
        let worker = self.parties.worker;
        let mut reads = 0;
        loop {
            if !self.upload.is_stopped() && !self.parties.state.to_upstream.is_empty() {
                let (upstream, backlog) = (&mut *self.parties.upstream, &mut self.parties.state.to_upstream);
                match flush_request(cx, upstream, backlog, &mut self.upload, &mut self.repeatable) {
                    Ok(Flushed::Nothing) => return Poll::Pending,
                    Ok(Flushed::Part) => {
                        self.made_progress();
                        return Poll::Pending;
                    }
                    Ok(Flushed::End) => self.made_progress(),
                    Err(reason) => return Poll::Ready(Err(self.failed(reason))),
                }
            }
            if self.request.is_done() {
                self.upload.complete();
                self.parties.attempts.sent(self.now);
                self.wait();
                return Poll::Ready(Ok(()));
            }
            if self.upload.is_stopped() {
                // The rest is not read: the client's connection ends with this exchange.
                return Poll::Pending;
            }
            ready!(self.request_turn.poll(cx));
            if reads == READS_PER_TURN {
                self.request_turn.end(cx);
                return Poll::Pending;
            }
            reads += 1;
            // The inbox is moved out to satisfy the borrow checker; it keeps its memory.
            let mut inbox = std::mem::take(&mut self.parties.state.inbox);
            let moved = if inbox.is_empty() {
                let mut buffer = worker.receive.borrow_mut();
                match self.parties.client.stream.poll_read(cx, &mut buffer) {
                    Poll::Pending => Err(None),
                    Poll::Ready(Err(error)) => Err(Some(error.read_reason())),
                    Poll::Ready(Ok(0)) => self.end_of_request(),
                    Poll::Ready(Ok(count)) => {
                        self.request_turn.count(count);
                        let (used, forwarded) = self.forward_body(&mut buffer[..count]);
                        inbox.extend_from_slice(&buffer[used..count]);
                        forwarded.map_err(Some)
                    }
                }
            } else {
                let (used, forwarded) = self.forward_body(&mut inbox);
                inbox.drain(..used);
                forwarded.map_err(Some)
            };
            self.parties.state.inbox = inbox;
            match moved {
                Ok(()) => self.made_progress(),
                Err(None) => return Poll::Pending,
                Err(Some(reason)) => return Poll::Ready(Err(self.failed(reason))),
            }
        }
    }

    /// Sends the body's bytes in `input` on. Returns how many of them belonged to the body, and whether it
    /// can go on.
    fn forward_body(&mut self, input: &mut [u8]) -> (usize, Result<(), Reason>) {
        let BodyPart { used, data } = match self.request.read(input) {
            Ok(step) => step,
            Err(error) => {
                self.parties.state.record.set_rejected_bytes(self.request.rejected_bytes());
                return (0, Err(body_error_reason(error)));
            }
        };
        if self.request.is_done() {
            self.sift_trailers();
        }
        let parties = &mut self.parties;
        parties.state.record.bytes_in += data.len() as u64;
        let limit = parties.route.body_limit;
        if limit.is_some_and(|limit| parties.state.record.bytes_in > limit) {
            return (used, Err(Reason::BodyTooLarge));
        }
        let (upstream, backlog) = (&mut *parties.upstream, &mut parties.state.to_upstream);
        let sent = upstream.send(backlog, &self.request, self.request_chunked, &input[data]);
        if let Err(error) = sent {
            self.upload.stop(error.stop());
        }
        (used, Ok(()))
    }

    /// Handles the end of the client's direction: it completes a body without a length, and cuts any other.
    fn end_of_request(&mut self) -> Result<(), Option<Reason>> {
        let parties = &mut self.parties;
        if !self.request.end_with_trailers(parties.client.stream.take_trailers()) {
            return Err(Some(Reason::IncompleteRequest));
        }
        self.sift_trailers();
        let parties = &mut self.parties;
        let (upstream, backlog) = (&mut *parties.upstream, &mut parties.state.to_upstream);
        let sent = upstream.send(backlog, &self.request, self.request_chunked, b"");
        if let Err(error) = sent {
            self.upload.stop(error.stop());
        }
        Ok(())
    }

    /// Removes trailers that the client may not send in the head either. Names that are always forbidden were
    /// left out when the trailers were read.
    fn sift_trailers(&mut self) {
        if self.request.trailers().is_empty() {
            return;
        }
        let request = &self.parties.state.request;
        if request.nominates {
            drop_nominated(&mut self.request, &request.head);
        }
        let settings = self.parties.settings;
        let reserved = ReservedFields::new(settings, self.parties.state.record.announced.is_trusted());
        if !reserved.is_empty() {
            self.request.retain_trailers(|name| !reserved.has(name));
        }
        if let Some(context) =
            self.parties.state.policy_context.as_deref().filter(|context| context.reserves())
        {
            self.request.retain_trailers(|name| !context.is_reserved(name));
        }
    }
}
