//! The response half of an exchange: reads heads and body from the endpoint and passes them to the client.
//!
//! `poll_receive` is the loop. Bytes go through `process` to the parser of heads or the reader of the body.
//! `final_head` decides whether the response is passed on, held back for a retry, or replaced by a fallback;
//! `pass_on` writes it to the client.

use std::io;
use std::task::{Context, Poll, ready};

use tollgate_http::grpc::GrpcStatus;
use tollgate_http::h1::{BodyError, BodyLength, BodyPart, BodyReader};
use tollgate_http::{Name, ResponseHead, Version, websocket};
use tollgate_observe::Reason;
use tollgate_upstream::Outcome;

use super::client_head::{self, Framing};
use super::failure::refused_by_tls;
use super::response_heads::HeadStep;
use super::{
    CLIENT_WAIT_MAX, ClientAfter, DownloadProgress, Exchange, ExchangeEnd, Parties, ResponseStage, Upload,
    drop_nominated,
};
use crate::exchange::cache;
use crate::exchange::choose_fallback::choose_fallback;
use crate::exchange::forward::Replay;
use crate::exchange::grpc;
use crate::exchange::response_policies::{self, Author};
use crate::exchange::tunnel::is_websocket;
use crate::exchange::upstream_side::{NoHead, UpstreamSide};
use crate::state::client_side::ClientSide;
use crate::state::peer_error::PeerError;
use crate::state::request_state::RequestState;
use crate::state::websocket::Frames;
use crate::state::worker::READS_PER_TURN;

impl<S: ClientSide, U: UpstreamSide> Exchange<'_, '_, S, U> {
    /// Moves the response until no more can be moved now, or the worker's other tasks have waited long enough. Ready
    /// when the exchange is over.
    pub(super) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        let worker = self.parties.worker;
        let mut reads = 0;
        loop {
            if let Poll::Ready(Err(end)) = self.poll_client(cx) {
                return Poll::Ready(end);
            }
            // Heads are read however slow the client is: no window holds them back, and an endpoint whose
            // heads wait has its stream reset.
            if U::SEPARATE_HEADS && !matches!(self.stage, ResponseStage::Body(..)) {
                match self.poll_head(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(None)) => continue,
                    Poll::Ready(Ok(Some(end)) | Err(end)) => return Poll::Ready(end),
                }
            }
            if !self.parties.state.to_client.has_room() {
                return Poll::Pending;
            }
            let room = match self.parties.client.stream.poll_room(cx) {
                Poll::Ready(room) => {
                    if std::mem::take(&mut self.stalled) {
                        self.client_made_progress();
                    }
                    room
                }
                Poll::Pending => match self.read_ahead() {
                    0 => {
                        if !std::mem::replace(&mut self.stalled, true) {
                            self.wait();
                        }
                        return Poll::Pending;
                    }
                    room => room,
                },
            };
            ready!(self.response_turn.poll(cx));
            if reads == READS_PER_TURN {
                self.response_turn.end(cx);
                return Poll::Pending;
            }
            reads += 1;
            let mut buffer = worker.receive.borrow_mut();
            let room = room.min(buffer.len());
            let count = match self.parties.upstream.poll_read(cx, &mut buffer[..room]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(self.end_of_stream()),
                Poll::Ready(Err(error)) => return Poll::Ready(self.unread(&error)),
                Poll::Ready(Ok(count)) => count,
            };
            self.response_turn.count(count);
            self.response.reach(DownloadProgress::Started);
            self.now = tollgate_net::now();
            match self.process(&mut buffer[..count]) {
                Ok(None) => {}
                Ok(Some(end)) | Err(end) => return Poll::Ready(end),
            }
            // A head has one bound as a whole, however slowly it arrives.
            if self.is_final_sent() {
                self.wait();
            }
        }
    }

    /// Returns how many bytes to read although the client's windows are shut. The end of a response may need
    /// no data, and so no window (RFC 9113, 6.9.1).
    fn read_ahead(&self) -> usize {
        match &self.stage {
            ResponseStage::Body(reader, _) if reader.remaining().is_none() => {
                self.parties.client.stream.read_ahead()
            }
            _ => 0,
        }
    }

    /// Writes what the client has not taken yet.
    fn poll_client(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ExchangeEnd>> {
        if self.parties.state.to_client.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let (client, backlog) = (&mut self.parties.client.stream, &mut self.parties.state.to_client);
        let before = backlog.len();
        let flushed = backlog.poll_flush(cx, client);
        if backlog.len() != before {
            self.client_made_progress();
        }
        flushed.map_err(|error| self.failed(error.write_reason()))
    }

    /// Waits for a head that arrives separately from its body, and passes it on.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ExchangeEnd>, ExchangeEnd>> {
        let Parties { upstream, state, settings, .. } = &mut self.parties;
        let asked = state.request.method;
        let head = ready!(upstream.poll_head(cx, &mut state.response, asked, &settings.head_limits));
        if matches!(head, Ok(()) | Err(NoHead::Bad(_))) {
            self.response.reach(DownloadProgress::Started);
            self.now = tollgate_net::now();
        }
        Poll::Ready(match head {
            Ok(()) if self.parties.state.response.is_interim() => self.interim().map(|()| None),
            Ok(()) => self.separate_final_head(cx),
            Err(no_head) => Err(self.without_head(no_head)),
        })
    }

    /// Handles a final head that arrived separately. The part of the body that is here already goes with it, so that
    /// a short response is one write to the client instead of two.
    ///
    /// Reads only a body of declared length: the end of any other may have to be read again.
    fn separate_final_head(&mut self, cx: &mut Context<'_>) -> Result<Option<ExchangeEnd>, ExchangeEnd> {
        let worker = self.parties.worker;
        let has_body = matches!(self.parties.state.response.length, BodyLength::Exactly(1..));
        if !has_body || !self.parties.state.to_client.has_room() {
            return self.final_head(&mut []);
        }
        let Poll::Ready(room) = self.parties.client.stream.poll_room(cx) else {
            return self.final_head(&mut []);
        };
        let mut buffer = worker.receive.borrow_mut();
        let room = room.min(buffer.len());
        match self.parties.upstream.poll_read(cx, &mut buffer[..room]) {
            Poll::Ready(Ok(count)) => {
                let end = self.final_head(&mut buffer[..count])?;
                if end.is_none() {
                    self.wait();
                }
                Ok(end)
            }
            Poll::Pending => self.final_head(&mut []),
            Poll::Ready(Err(error)) => match self.final_head(&mut [])? {
                None => Err(self.unread(&error)),
                end => Ok(end),
            },
        }
    }

    /// Processes bytes from the upstream: heads first, then the body.
    pub(super) fn process(&mut self, input: &mut [u8]) -> Result<Option<ExchangeEnd>, ExchangeEnd> {
        if matches!(self.stage, ResponseStage::Body(..)) {
            return self.pass_on(input, false);
        }
        let mut partial = std::mem::take(&mut self.parties.state.partial);
        let result = if partial.is_empty() {
            self.heads(input, &mut partial)
        } else {
            partial.extend_from_slice(input);
            let mut whole = std::mem::take(&mut partial);
            let result = self.heads(&mut whole, &mut partial);
            if partial.is_empty() {
                // Its memory is reused.
                whole.clear();
                partial = whole;
            }
            result
        };
        self.parties.state.partial = partial;
        result
    }

    /// Parses heads up to and including the final one. The rest of an unfinished head goes into `partial`.
    fn heads(
        &mut self,
        mut input: &mut [u8],
        partial: &mut Vec<u8>,
    ) -> Result<Option<ExchangeEnd>, ExchangeEnd> {
        loop {
            let state = &mut *self.parties.state;
            let limits = &self.parties.settings.head_limits;
            let end = match self.heads.advance(input, state.request.method, &mut state.response, limits) {
                Ok(HeadStep::Final(end)) => return self.final_head(&mut input[end..]),
                Ok(HeadStep::Interim(end)) => end,
                Ok(HeadStep::Partial) => {
                    partial.extend_from_slice(input);
                    return Ok(None);
                }
                Err(error) => {
                    let (reason, rejected_bytes) = self.heads.rejection(input, error, &state.response);
                    if let Some(rejected_bytes) = rejected_bytes {
                        state.record.set_rejected_bytes(&rejected_bytes);
                    }
                    return Err(self.failed(reason));
                }
            };
            self.interim()?;
            input = &mut input[end..];
            if input.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Passes an interim response on at once (RFC 9110, 15.2), unless the client speaks HTTP/1.0.
    fn interim(&mut self) -> Result<(), ExchangeEnd> {
        self.heads.count_interim().map_err(|reason| self.failed(reason))?;
        let parties = &mut self.parties;
        let state = &mut *parties.state;
        if state.request.version == Version::Http10 {
            return Ok(());
        }
        self.response.reach(DownloadProgress::InterimSent);
        let out = &mut *parties.worker.output.borrow_mut();
        out.clear();
        client_head::write(out, &state.response, &Framing::interim(), parties.settings, parties.worker);
        if state.response.has_never_indexed {
            parties.client.stream.forbid_indexing();
        }
        let sent = parties.client.stream.interim(&mut state.to_client, out);
        sent.map_err(|error| self.failed(error.write_reason()))?;
        if !self.upload.is_complete() {
            // A client that received a 100 has its full timeout from here.
            self.wait();
        }
        Ok(())
    }

    /// Handles the final head. `rest` may hold the first part of the body.
    fn final_head(&mut self, rest: &mut [u8]) -> Result<Option<ExchangeEnd>, ExchangeEnd> {
        let status = self.parties.state.response.status;
        let switched = status == 101;
        if switched && !(self.parties.upgrade && self.upload.is_complete() && self.is_asked_for()) {
            return Err(self.failed(Reason::HttpProtocolError));
        }
        // To an HTTP/2 client, a success means that the stream was switched. This endpoint did not switch, so
        // its success must not go on.
        if S::EXTENDED
            && !switched
            && self.parties.state.request.extended
            && (200..300).contains(&status)
            && self.parties.state.page().is_none()
        {
            return Err(self.failed(Reason::UpgradeFailed));
        }
        if switched && !self.is_proved() {
            return Err(self.failed(Reason::UpgradeFailed));
        }
        let call = self.call_ended();
        let came_to = call.map_or(status, GrpcStatus::as_http);
        let clients_choice = self.is_call() && self.parties.attempts.is_clients_choice(came_to);
        if clients_choice {
            self.parties.attempts.failed(None);
        } else {
            self.parties.attempts.answered(came_to, self.now);
        }
        if !clients_choice
            && (self.parties.attempts.retries_status(status) && self.holds_back()
                || call.is_some_and(|code| self.holds_back_call(code)))
        {
            let reusable = self.hold_back(rest);
            return Ok(Some(ExchangeEnd::HeldBack { reusable }));
        }
        if self.parties.route.fallback.is_some()
            && !self.is_call()
            && let Some(end) = self.replaced(rest)?
        {
            return Ok(Some(end));
        }
        let parties = &mut self.parties;
        let state = &mut *parties.state;
        let status = state.response.status;
        let page = state.fallback.as_ref().and_then(|falling| falling.page());
        let (request, response) = (&state.request, &state.response);
        // A declared length leaves no room for a gRPC call's trailers. And it may be the length of a body
        // that is about to be translated (gRPC-Web).
        let declared = response.length;
        let open = (call.is_none() || !declared.is_empty())
            && parties.client.stream.may_be_grpc()
            && state.grpc.is_some();
        let length = if open && declared != BodyLength::None { BodyLength::UntilClose } else { declared };
        let version = request.version;
        let open_ended = matches!(length, BodyLength::Chunked | BodyLength::UntilClose);
        let chunked = open_ended && version == Version::Http11;
        let limit = parties.settings.limits.requests_per_connection;
        let ends_response = open_ended && version == Version::Http10;
        let keeps_alive = request.keep_alive
            && !ends_response
            && self.request.is_done()
            && !parties.client.announces_close()
            && state.fallback.as_ref().is_none_or(|falling| !falling.closes())
            && limit.is_none_or(|limit| parties.client.requests < limit);
        self.client_after = match (ends_response, keeps_alive) {
            (true, _) => ClientAfter::EndsResponse,
            (false, true) => ClientAfter::KeepsAlive,
            (false, false) => ClientAfter::Closes,
        };
        let framing = Framing {
            chunked,
            status: page.map(|page| page.status),
            switched,
            names_upgrade: status == 426 && version == Version::Http11,
            drop_length: switched || response.status == 204 || length != declared,
            close: !keeps_alive && !switched && version != Version::Http2,
            keep_alive: keeps_alive && version == Version::Http10,
            line: &state.set_cookie,
            strict_transport_security: &parties.client.connection_context.listener.strict_transport_security,
        };
        let mut output = parties.worker.output.borrow_mut();
        output.clear();
        client_head::write(&mut output, response, &framing, parties.settings, parties.worker);
        state.record.status = status;
        state.record.head_received = Some(self.now);
        if switched {
            self.response = DownloadProgress::FinalSent;
            if let Some(context) = &mut state.policy_context {
                response_policies::apply(context, request, status, Author::Endpoint, &mut output, None);
            }
            if parties.worker.logs_responses.get() {
                state.record.keep_response(&output);
            }
            if state.response.has_never_indexed {
                parties.client.stream.forbid_indexing();
            }
            let sent = parties.client.stream.switch(&mut state.to_client, &output, rest);
            state.record.bytes_out += rest.len() as u64;
            state.early_frames = Frames::default();
            state.early_frames.advance(rest, false);
            return sent
                .map(|()| Some(ExchangeEnd::Upgraded))
                .map_err(|error| self.failed(error.write_reason()));
        }
        drop(output);
        let reader = self.parties.upstream.reader(length, &self.parties.settings.head_limits);
        self.stage = ResponseStage::Body(reader, chunked);
        self.pass_on(rest, true)
    }

    /// Returns whether an endpoint that switched names only protocols that the client asked for (RFC 9110,
    /// 7.8).
    fn is_asked_for(&self) -> bool {
        let RequestState { request, response, .. } = &*self.parties.state;
        let asked = request.upgrade.map(|asked| request.slice(asked)).unwrap_or_default();
        let is_asked = |protocol: &[u8]| {
            asked.split(|byte| *byte == b',').any(|asked| is_same_protocol(asked.trim_ascii(), protocol))
        };
        let mut protocols = response.head.list(Name::Upgrade).peekable();
        protocols.peek().is_some() && protocols.all(is_asked)
    }

    /// Returns whether an endpoint that switched to WebSocket has proved that it understood the client's key
    /// (RFC 6455, 4.2.2). A client of HTTP/2 sends no key and cannot check this: there the gateway has sent
    /// its own.
    fn is_proved(&self) -> bool {
        let RequestState { request, response, .. } = &*self.parties.state;
        let Some(key) = request.head.get_by_text(b"sec-websocket-key") else { return true };
        !is_websocket(response)
            || response.head.get_by_text(b"sec-websocket-accept") == Some(websocket::accept(key).as_bytes())
    }

    /// Records and returns the status of a gRPC call whose response is a head alone.
    #[inline]
    fn call_ended(&mut self) -> Option<GrpcStatus> {
        if !self.is_call() {
            return None;
        }
        let RequestState { response, record, .. } = &mut *self.parties.state;
        record.grpc_status = response.head.get_by_text(b"grpc-status").map(GrpcStatus::parse);
        record.grpc_status
    }

    #[inline]
    fn is_call(&self) -> bool {
        self.parties.client.stream.may_be_grpc() && self.parties.state.grpc.is_some()
    }

    /// Returns whether the response to a gRPC call is held back. Only its status decides, whatever
    /// `retry.methods` lists, because every call is a POST.
    fn holds_back_call(&mut self, code: GrpcStatus) -> bool {
        self.again() != Replay::Never && self.parties.attempts.holds_back_call(code)
    }

    fn holds_back(&mut self) -> bool {
        let again = self.again();
        self.parties.attempts.holds_back(again, &self.parties.state.request)
    }

    /// Holds the response back because another attempt follows. Returns whether the connection can be used
    /// again.
    fn hold_back(&mut self, rest: &mut [u8]) -> bool {
        let response = &self.parties.state.response;
        let limits = &self.parties.settings.head_limits;
        let mut reader = BodyReader::for_response(response.length).with_trailer_limits(limits);
        let clean = reader.read(rest).is_ok_and(|step| step.used == rest.len());
        let reusable = clean && response.keep_alive && self.upload == Upload::Done;
        self.stage = ResponseStage::Body(reader, false);
        reusable
    }

    /// Applies the route's fallbacks to a response. A fallback may replace it. If it is itself the page that
    /// replaces an error, it gets the status and the fields of that error.
    #[cold]
    fn replaced(&mut self, rest: &mut [u8]) -> Result<Option<ExchangeEnd>, ExchangeEnd> {
        let again = self.again();
        let Parties { state, attempts, .. } = &mut self.parties;
        let status = state.response.status;
        if let Some(page) = state.fallback.as_ref().and_then(|falling| falling.page()) {
            // Only these statuses come with a complete page as their body.
            if !(200..300).contains(&status) || matches!(status, 204..=206) {
                state.record.remarks().detail = Some(format!("no error page: status {status}").into());
                return Err(self.failed_by(Reason::ErrorPageUnavailable, None));
            }
            state.response.status = page.status;
            state.set_cookie.extend_from_slice(&page.lines);
            return Ok(None);
        }
        if status < 400 {
            return Ok(None);
        }
        let may_repeat = attempts.may_repeat(again, &state.request) && !self.total.is_over();
        if !choose_fallback(state, status, Reason::None, may_repeat) {
            return Ok(None);
        }
        let reusable = self.hold_back(rest);
        Ok(Some(ExchangeEnd::Replaced { reusable, again }))
    }

    /// Passes a part of the body on. With `first`, the output buffer holds the head, which goes before it.
    fn pass_on(&mut self, input: &mut [u8], first: bool) -> Result<Option<ExchangeEnd>, ExchangeEnd> {
        let ResponseStage::Body(reader, chunked) = &mut self.stage else { return Ok(None) };
        // An error here can still be answered, as long as the head was not sent.
        let BodyPart { used, data } = match reader.read(input) {
            Ok(step) => step,
            Err(BodyError::Chunk) => {
                self.parties.state.record.set_rejected_bytes(reader.rejected_bytes());
                return Err(self.failed(Reason::HttpProtocolError));
            }
            Err(BodyError::Trailers) => return Err(self.without_trailers()),
        };
        self.response = DownloadProgress::FinalSent;
        self.extra = used < input.len();
        let parties = &mut self.parties;
        let state = &mut *parties.state;
        sift_trailers(reader, &state.response);
        state.record.bytes_out += data.len() as u64;
        let (stream, backlog) = (&mut parties.client.stream, &mut state.to_client);
        let out = &mut *parties.worker.output.borrow_mut();
        if first {
            if state.response.has_never_indexed {
                stream.forbid_indexing();
            }
            if state.fallback.is_none() {
                stream.endpoint_responds(&state.request, &state.response);
                if let Some(context) = state.policy_context.as_ref().filter(|context| context.cache.is_some())
                {
                    cache::head_arrives(
                        context,
                        &state.request,
                        &state.response,
                        &parties.settings.paths,
                        out,
                    );
                }
            }
            stream.translate(out);
            if let Some(context) = &mut state.policy_context
                && !stream.is_withheld()
            {
                let status = state.response.status;
                let slot = stream.transform();
                response_policies::apply(context, &state.request, status, Author::Endpoint, out, slot);
            }
            if parties.worker.logs_responses.get() {
                state.record.keep_response(out);
            }
        } else {
            out.clear();
        }
        let done = reader.is_done();
        if done && self.client_after != ClientAfter::KeepsAlive {
            stream.close_follows();
        }
        let sent = stream.respond(backlog, out, reader, *chunked, &input[data]);
        if done && stream.may_be_grpc() && state.grpc.is_some() && state.record.grpc_status.is_none() {
            state.record.grpc_status = GrpcStatus::of_lines(reader.trailers());
        }
        if let Err(error) = sent {
            return Err(self.failed(error.write_reason()));
        }
        Ok(done.then(|| self.complete()))
    }

    fn complete(&self) -> ExchangeEnd {
        let response = &self.parties.state.response;
        let reusable = response.keep_alive && self.upload == Upload::Done && !self.extra;
        ExchangeEnd::Complete { reusable }
    }

    /// Handles the end of the upstream's direction: it completes a close-delimited body, and cuts any other.
    fn end_of_stream(&mut self) -> ExchangeEnd {
        let ResponseStage::Body(reader, chunked) = &mut self.stage else { return self.terminated() };
        let parties = &mut self.parties;
        if matches!(self.upload, Upload::Stopped { reset: true, .. })
            || !reader.end_with_trailers(parties.upstream.take_trailers())
        {
            return self.broken();
        }
        let state = &mut *parties.state;
        sift_trailers(reader, &state.response);
        let (stream, backlog) = (&mut parties.client.stream, &mut state.to_client);
        if parties.upstream.trailers_forbid_indexing() {
            stream.forbid_indexing();
        }
        if stream.may_be_grpc() && state.grpc.is_some() && state.record.grpc_status.is_none() {
            state.record.grpc_status = GrpcStatus::of_lines(reader.trailers());
        }
        match stream.respond(backlog, &mut Vec::new(), reader, *chunked, b"") {
            Ok(()) => ExchangeEnd::Complete { reusable: false },
            Err(error) => self.failed(error.write_reason()),
        }
    }

    /// Ends the exchange after a failed read from the endpoint.
    #[cold]
    fn unread(&mut self, error: &PeerError) -> ExchangeEnd {
        match error {
            PeerError::Rejected(Reason::ResponseTrailersTooLarge) => self.without_trailers(),
            PeerError::Io(error) => self.broken_by(error),
            _ => self.broken(),
        }
    }

    /// Ends the exchange because the trailers exceed a limit. The body before them is complete, so a gRPC
    /// call ends with trailers of the gateway. Any other response is cut. The limit is the gateway's, so
    /// nothing counts against the endpoint.
    #[cold]
    fn without_trailers(&mut self) -> ExchangeEnd {
        let reason = Reason::ResponseTrailersTooLarge;
        let is_call = self.is_final_sent() && self.is_call();
        let ResponseStage::Body(reader, chunked) = &mut self.stage else {
            return self.failed_by(reason, None);
        };
        let Parties { client, state, settings, .. } = &mut self.parties;
        if !is_call
            || !reader.end_with_trailers(grpc::failed_trailers(reason, &settings.errors, &mut state.record))
        {
            return self.failed_by(reason, None);
        }
        state.record.reason = reason;
        match client.stream.respond(&mut state.to_client, &mut Vec::new(), reader, *chunked, b"") {
            Ok(()) => ExchangeEnd::Complete { reusable: false },
            Err(error) => self.failed(error.write_reason()),
        }
    }

    /// Ends the exchange because the connection failed.
    #[cold]
    fn broken_by(&mut self, error: &io::Error) -> ExchangeEnd {
        let upstream = &*self.parties.upstream;
        match refused_by_tls(error, upstream, self.response, &mut self.repeatable) {
            Some(failure) => self.ended(failure),
            None => self.broken(),
        }
    }

    fn broken(&mut self) -> ExchangeEnd {
        if !self.is_final_sent() {
            return self.terminated();
        }
        let blame = Some(Outcome::Broken).filter(|_| self.client_wait < CLIENT_WAIT_MAX);
        self.failed_by(Reason::HttpResponseIncomplete, blame)
    }
}

/// Returns whether the endpoint's protocol is the protocol that the client asked for (RFC 9110, 7.8). Case
/// does not matter, and versions are compared only if both have one.
fn is_same_protocol(asked: &[u8], protocol: &[u8]) -> bool {
    let parts = |protocol| {
        let mut parts = <[u8]>::splitn(protocol, 2, |byte| *byte == b'/');
        (parts.next().unwrap_or_default(), parts.next())
    };
    let ((name, version), (own_name, own_version)) = (parts(asked), parts(protocol));
    name.eq_ignore_ascii_case(own_name)
        && own_version.is_none_or(|own| version.is_none_or(|version| version.eq_ignore_ascii_case(own)))
}

/// Removes trailers that the origin's `Connection` names: they concern only that connection, as in the head
/// (RFC 9110, 7.6.1). Names that are always hop-by-hop were left out when the trailers were read.
#[inline]
fn sift_trailers(reader: &mut BodyReader, response: &ResponseHead) {
    // Before the last trailer is read, the reader is still parsing them.
    if response.nominates && reader.is_done() && !reader.trailers().is_empty() {
        drop_nominated(reader, &response.head);
    }
}
