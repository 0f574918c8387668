//! The request half of an exchange: writes the head, then moves the body from the client to the endpoint.
//!
//! `start` sends the head and the body's first bytes; `poll_send` moves the rest as far as both sides allow.
//! If the endpoint stops taking bytes, sending ends, but the response is still read.

use std::io::{self, ErrorKind};
use std::task::{Context, Poll, ready};

use tollgate_http::h1::{BodyLength, BodyPart};
use tollgate_http::is_token;
use tollgate_observe::Reason;

use super::{End, Exchange, drop_nominated, upstream_head};
use crate::backlog::Backlog;
use crate::client_side::{ClientSide, broken_body, unread};
use crate::grpc;
use crate::identity::Reserved;
use crate::upstream_side::{UpstreamSide, unsayable};
use crate::worker::{MOST_OUTPUT, OUTPUT_BUFFER};

impl<S: ClientSide, U: UpstreamSide> Exchange<'_, '_, S, U> {
    /// Sends the head, and the part of the body that is already here, with one write.
    pub(super) fn start(&mut self) -> Result<(), End> {
        if U::APART && self.parties.upgrade && !self.can_switch() {
            return Err(self.unsaid(Reason::UpgradeFailed));
        }
        let parties = &mut self.parties;
        parties.attempts.sending(self.now);
        let scratch = &mut *parties.scratch;
        if parties.client.stream.may_be_grpc() {
            grpc::pass_deadline_on(scratch, self.total, self.now);
        }
        let out = &mut *parties.worker.output.borrow_mut();
        out.clear();
        upstream_head::write(
            out,
            &upstream_head::Outgoing {
                scratch,
                peer: parties.client.peer,
                secure: parties.client.stream.tls().is_some(),
                identity: parties.client.link.tls.as_ref().and_then(|tls| tls.identity.as_ref()),
                settings: parties.settings,
                route: parties.route,
                endpoint: parties.upstream.pool().name(),
                upgrade: parties.upgrade,
                apart: U::APART,
                collected: parties.collected,
                may_return: upstream_head::may_return(parties.settings, parties.upstream.pool()),
            },
        );
        let mut used = 0;
        if let BodyLength::Exactly(length) = scratch.request.length
            && parties.collected.is_none()
            && scratch.page().is_none()
        {
            used = usize::try_from(length).unwrap_or(usize::MAX).min(scratch.inbox.len());
            let _ = self.request.read(&mut scratch.inbox[..used]);
            scratch.ledger.bytes_in = used as u64;
        }
        self.replayable = self.request.is_done();
        // A collected body is in the backlog's spool, even if it is empty.
        let spooled = parties.collected.is_some();
        let (backlog, data) = (&mut scratch.to_upstream, &scratch.inbox[..used]);
        let sent = parties.upstream.begin(
            backlog,
            out,
            &self.request,
            data,
            spooled,
            scratch.request.has_never_indexed,
        );
        if out.capacity() > MOST_OUTPUT {
            // A policy has read a large body, which was sent with its head.
            *out = Vec::with_capacity(OUTPUT_BUFFER);
        }
        // These bytes belong to the request, whatever happens now: only another attempt may read them again.
        self.held = used;
        self.wrote = match sent {
            Ok(wrote) => wrote,
            Err(error) => return Err(self.not_begun(&error)),
        };
        if !self.replayable {
            scratch.inbox.drain(..used);
            self.held = 0;
        }
        self.sent = self.request.is_done() && scratch.to_upstream.is_empty();
        if !self.replayable {
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
    fn not_begun(&mut self, error: &io::Error) -> End {
        match unsayable::<U>(error) {
            Some(reason) => self.unsaid(reason),
            None => self.terminated(),
        }
    }

    /// Ends an exchange whose request cannot be expressed in the endpoint's version of HTTP. It counts as no
    /// attempt, since the endpoint has seen nothing.
    #[cold]
    fn unsaid(&mut self, reason: Reason) -> End {
        let ledger = &mut self.parties.scratch.ledger;
        ledger.attempts = ledger.attempts.saturating_sub(1);
        self.failed(reason)
    }

    /// Returns whether the endpoint can be asked to switch the request's stream to the one protocol that the
    /// request names.
    fn can_switch(&self) -> bool {
        let request = &self.parties.scratch.request;
        // A token, maybe with a version (RFC 9110, 7.8): HTTP/1 carries any byte, `:protocol` does not.
        let one = |protocols: &[u8]| protocols.split(|byte| *byte == b'/').all(is_token);
        request.length.is_empty()
            && request.upgrade.is_some_and(|protocols| one(request.slice(protocols)))
            && self.parties.upstream.can_switch()
    }

    /// Moves the body until no more can be moved now. Ready when all of it was sent, or with the end of the
    /// exchange if it cannot be.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let worker = self.parties.worker;
        loop {
            if !self.upstream_deaf && !self.parties.scratch.to_upstream.is_empty() {
                let (upstream, backlog) =
                    (&mut *self.parties.upstream, &mut self.parties.scratch.to_upstream);
                let before = backlog.len();
                let flushed = upstream.poll_flush(cx, backlog);
                let some = backlog.len() != before;
                match &flushed {
                    Poll::Ready(Err(error)) if Backlog::is_own(error) => {
                        return Poll::Ready(Err(self.failed(Reason::ProxyInternalError)));
                    }
                    Poll::Ready(Err(error)) => self.deafened(error.kind()),
                    _ => {}
                }
                if some || flushed.is_ready() {
                    self.wrote |= some;
                    self.moved();
                }
                let _ = ready!(flushed);
            }
            if self.request.is_done() {
                self.sent = true;
                self.parties.attempts.sent(self.now);
                self.wait();
                return Poll::Ready(Ok(()));
            }
            if self.upstream_deaf {
                // The rest is not read: the client's connection ends with this exchange.
                return Poll::Pending;
            }
            // The inbox is moved out to satisfy the borrow checker; it keeps its memory.
            let mut inbox = std::mem::take(&mut self.parties.scratch.inbox);
            let moved = if inbox.is_empty() {
                let mut buffer = worker.receive.borrow_mut();
                match self.parties.client.stream.poll_read(cx, &mut buffer) {
                    Poll::Pending => Err(None),
                    Poll::Ready(Err(error)) => Err(Some(unread(&error))),
                    Poll::Ready(Ok(0)) => self.end_of_request(),
                    Poll::Ready(Ok(count)) => {
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
            self.parties.scratch.inbox = inbox;
            match moved {
                Ok(()) => self.moved(),
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
                self.parties.scratch.ledger.record_rejected_bytes(self.request.rejected_bytes());
                return (0, Err(broken_body(error)));
            }
        };
        if self.request.is_done() {
            self.sift_trailers();
        }
        let parties = &mut self.parties;
        parties.scratch.ledger.bytes_in += data.len() as u64;
        let limit = parties.route.body_limit;
        if limit.is_some_and(|limit| parties.scratch.ledger.bytes_in > limit) {
            return (used, Err(Reason::BodyTooLarge));
        }
        let (upstream, backlog) = (&mut *parties.upstream, &mut parties.scratch.to_upstream);
        let sent = upstream.send(backlog, &self.request, self.request_chunked, &input[data]);
        if let Err(error) = sent {
            self.deafened(error.kind());
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
        let (upstream, backlog) = (&mut *parties.upstream, &mut parties.scratch.to_upstream);
        let sent = upstream.send(backlog, &self.request, self.request_chunked, b"");
        if let Err(error) = sent {
            self.deafened(error.kind());
        }
        Ok(())
    }

    /// Removes trailers that the client may not send in the head either. Names that are always forbidden were
    /// left out when the trailers were read.
    fn sift_trailers(&mut self) {
        if self.request.trailers().is_empty() {
            return;
        }
        let request = &self.parties.scratch.request;
        if request.nominates {
            drop_nominated(&mut self.request, &request.head);
        }
        let settings = self.parties.settings;
        let reserved = Reserved::new(settings, self.parties.scratch.ledger.announced.is_trusted());
        if !reserved.is_empty() {
            self.request.retain_trailers(|name| !reserved.has(name));
        }
        if let Some(context) = self.parties.scratch.met.as_deref().filter(|context| context.reserves()) {
            self.request.retain_trailers(|name| !context.is_reserved(name));
        }
    }

    pub(super) fn deafened(&mut self, error: ErrorKind) {
        // The backlog is kept, because it may have to be sent again.
        self.upstream_deaf = true;
        // The kernel reports a reset once; a later read sees an orderly end (`sock_error()` clears `sk_err`).
        // After a FIN the kernel reports a broken pipe instead (`tcp_reset()`), and there the orderly end is
        // real.
        self.upstream_reset |= error != ErrorKind::BrokenPipe;
    }
}
