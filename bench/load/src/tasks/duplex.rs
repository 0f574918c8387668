//! Messages in both directions over one kept channel: WebSocket, and gRPC streams. An exchange sends a message
//! and waits for the next one from the server, so its latency is the latency of an echo.

use super::connect::{Io, connect};
use super::http2::{Link, fault, framed, grpc_status, head};
use super::{Answer, Shared, digested};
use crate::clock::now;
use crate::digest::digest;
use crate::expect::Fault;
use crate::parts::Parts;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::{HeaderName, HeaderValue};
use std::cell::Cell;
use std::rc::Rc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// The largest message that a gRPC stream may send, in bytes.
const MESSAGE_MAX_BYTES: usize = 64 << 20;

/// One WebSocket connection.
#[derive(Default)]
pub(super) struct WebSocket {
    socket: Option<WebSocketStream<Box<dyn Io>>>,
}

impl WebSocket {
    /// Opens the connection, with the first request's path and headers, if it is not open.
    pub(super) async fn open(&mut self, shared: &Shared) -> Result<(), Fault> {
        match shared.requests.first() {
            Some(first) => self.opened(shared, &first.parts).await.map(drop),
            None => Ok(()),
        }
    }

    async fn opened(
        &mut self,
        shared: &Shared,
        parts: &Parts,
    ) -> Result<&mut WebSocketStream<Box<dyn Io>>, Fault> {
        if self.socket.is_none() {
            let io = connect(shared).await?;
            let scheme = if shared.tls.is_some() { "wss" } else { "ws" };
            let url = format!("{scheme}://{}{}", parts.host, parts.path);
            let mut request = url.into_client_request().map_err(|_| Fault::Write)?;
            for (name, value) in &parts.headers {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Fault::Write)?;
                let value = HeaderValue::from_str(value).map_err(|_| Fault::Write)?;
                request.headers_mut().append(name, value);
            }
            let opened = client_async(request, io).await;
            let (socket, _) = opened.map_err(|error| match error {
                Error::Http(_) => Fault::Status,
                Error::Io(_) => Fault::Connect,
                _ => Fault::Protocol,
            })?;
            self.socket = Some(socket);
        }
        self.socket.as_mut().ok_or(Fault::Connect)
    }

    pub(super) async fn exchange(
        &mut self,
        shared: &Shared,
        parts: &Parts,
        sent: &Cell<u64>,
    ) -> Result<Answer, Fault> {
        let socket = self.opened(shared, parts).await?;
        let body = parts.body.as_deref().unwrap_or_default();
        let message = match std::str::from_utf8(body) {
            Ok(text) => Message::text(text),
            Err(_) => Message::binary(Bytes::copy_from_slice(body)),
        };
        sent.set(now());
        socket.send(message).await.map_err(|_| Fault::Write)?;
        loop {
            match socket.next().await {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    return Ok(answer(&message.into_data(), shared));
                }
                // The library answers pings itself.
                Some(Ok(Message::Close(_))) | None => return Err(Fault::Read),
                Some(Ok(_)) => {}
                Some(Err(Error::Protocol(_) | Error::Utf8(_) | Error::Capacity(_))) => {
                    return Err(Fault::Protocol);
                }
                Some(Err(_)) => return Err(Fault::Read),
            }
        }
    }

    pub(super) fn reset(&mut self) {
        self.socket = None;
    }
}

fn answer(message: &[u8], shared: &Shared) -> Answer {
    Answer::good(message.len(), if digested(&shared.plan) { digest(message) } else { 0 })
}

/// One gRPC stream.
pub(super) struct GrpcStream {
    pub(super) link: Rc<Link>,
    open: Option<Open>,
}

struct Open {
    send: SendStream<Bytes>,
    /// The response's head, which a server may send as late as its first message.
    head: Option<ResponseFuture>,
    receive: Option<RecvStream>,
    /// Received bytes of messages that are not complete.
    buffer: Vec<u8>,
}

impl GrpcStream {
    pub(super) fn new(link: Rc<Link>) -> Self {
        Self { link, open: None }
    }

    pub(super) async fn exchange(
        &mut self,
        shared: &Shared,
        parts: &Parts,
        sent: &Cell<u64>,
    ) -> Result<Answer, Fault> {
        if self.open.is_none() {
            let mut sender = self.link.sender(shared).await?;
            let (response, send) =
                sender.send_request(head(shared, parts, true)?, false).map_err(|_| Fault::Write)?;
            self.open = Some(Open { send, head: Some(response), receive: None, buffer: Vec::new() });
        }
        let Some(open) = &mut self.open else { return Err(Fault::Connect) };
        sent.set(now());
        let message = framed(parts.body.as_deref().unwrap_or_default());
        open.send.send_data(message, false).map_err(|_| Fault::Write)?;
        open.message(shared).await
    }

    pub(super) fn reset(&mut self) {
        self.open = None;
    }
}

impl Open {
    /// Waits for the next message.
    async fn message(&mut self, shared: &Shared) -> Result<Answer, Fault> {
        if let Some(head) = self.head.take() {
            let response = head.await.map_err(|error| fault(&error))?;
            if response.status() != 200 {
                return Err(Fault::Status);
            }
            if let Some(ended) = grpc_status(response.headers()) {
                return Err(ended.err().unwrap_or(Fault::Read));
            }
            self.receive = Some(response.into_body());
        }
        let receive = self.receive.as_mut().ok_or(Fault::Read)?;
        loop {
            if let Some(prefix) = self.buffer.first_chunk::<5>() {
                let [_, a, b, c, d] = *prefix;
                let length = u32::from_be_bytes([a, b, c, d]) as usize;
                if length > MESSAGE_MAX_BYTES {
                    return Err(Fault::Protocol);
                }
                if let Some(message) = self.buffer.get(5..5 + length) {
                    let answer = answer(message, shared);
                    self.buffer.drain(..5 + length);
                    return Ok(answer);
                }
            }
            match receive.data().await {
                Some(bytes) => {
                    let bytes = bytes.map_err(|error| fault(&error))?;
                    let _ = receive.flow_control().release_capacity(bytes.len());
                    self.buffer.extend_from_slice(&bytes);
                }
                None => {
                    let trailers = receive.trailers().await.map_err(|error| fault(&error))?;
                    let status = trailers.as_ref().and_then(grpc_status);
                    return Err(status.and_then(Result::err).unwrap_or(Fault::Read));
                }
            }
        }
    }
}
