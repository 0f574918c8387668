//! An HTTP/2 front before an origin's HTTP/1 server. The origins of an upstream with `http2` have one.
//!
//! Each stream becomes a connection to the server, so that an origin behaves and misbehaves alike in both protocols: an
//! answer that breaks off, or is not HTTP, becomes a reset of its stream. The frames come from the library `h2`, so
//! that a mistake in the gateway's codec cannot hide behind itself.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use h2::ext::Protocol;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response, header};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tollgate_net::{Stream, simulated};

use crate::message::{Framing, Head, chunk};
use crate::wire::{self, Pace, Reader, Wire};

/// The server's port is this much above the front's.
const SERVER_PORT_OFFSET: u16 = 10_000;

/// Fields of a connection of HTTP/1, which HTTP/2 has no use for.
const OF_THE_CONNECTION: [&str; 3] = ["connection", "transfer-encoding", "upgrade"];

/// Returns the address of the server behind the front at `front`.
pub fn server(front: SocketAddr) -> SocketAddr {
    SocketAddr::new(front.ip(), front.port() + SERVER_PORT_OFFSET)
}

/// The behaviour of a front.
#[derive(Debug)]
pub struct Front {
    /// Its address.
    pub address: SocketAddr,
    /// The size of its accept queue.
    pub backlog: usize,
    /// It ends one connection in this many with a GOAWAY after a while; 0 means none.
    pub leaves: u32,
    /// The randomness of its settings and times.
    pub rng: Rng,
}

impl Front {
    /// Accepts connections until its origin ends.
    pub async fn listen(mut self) {
        let Some(listener) = wire::listen(self.address, self.backlog) else { return };
        loop {
            let accepted = poll_fn(|cx| listener.poll_accept(cx)).await;
            let Ok(stream) = accepted.and_then(|(accepted, _)| accepted.attach()) else { return };
            let leaves = self.leaves > 0 && self.rng.u32(0..self.leaves) == 0;
            let life = leaves.then(|| Duration::from_micros(self.rng.u64(0..3_000_000)));
            tollgate_net::spawn(serve(self.address, stream, life, self.rng.fork()));
        }
    }
}

/// Serves a connection. After `life` it accepts no more streams.
async fn serve(address: SocketAddr, stream: Stream, life: Option<Duration>, mut rng: Rng) {
    let mut builder = Builder::new();
    let streams = *rng.choice(&[1, 3, 100]).unwrap_or(&1);
    let window = *rng.choice(&[100, 5_000, 65_535]).unwrap_or(&100);
    builder.max_concurrent_streams(streams).initial_window_size(window).enable_connect_protocol();
    let Ok(mut connection) = builder.handshake::<_, Bytes>(Socket(stream)).await else { return };
    let mut leaving = life.map(|life| Box::pin(simulated::sleep(life)));
    let port = Cell::new(0);
    loop {
        let accepted = poll_fn(|cx| {
            if let Some(sleep) = &mut leaving
                && sleep.as_mut().poll(cx).is_ready()
            {
                leaving = None;
                connection.graceful_shutdown();
            }
            connection.poll_accept(cx)
        });
        let (request, respond) = match accepted.await {
            Some(Ok(accepted)) => accepted,
            Some(Err(error)) => return simulated::note(&format!("front {address}: {error}")),
            None => return,
        };
        port.set(port.get() + 1);
        let from = SocketAddr::new(address.ip(), port.get());
        tollgate_net::spawn(relay(from, server(address), request, respond));
    }
}

/// Relays one request and its answer.
async fn relay(
    from: SocketAddr,
    to: SocketAddr,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let Ok(stream) = simulated::connect_from(from, to).await else {
        return respond.send_reset(Reason::INTERNAL_ERROR);
    };
    let wire = Wire::new(stream);
    let (parts, body) = request.into_parts();
    let protocol = parts.extensions.get::<Protocol>().cloned();
    let method = if protocol.is_some() { Method::GET } else { parts.method };
    let mut head = format!("{method} {} HTTP/1.1\r\n", parts.uri.path());
    if let Some(authority) = parts.uri.authority() {
        head.push_str(&format!("Host: {authority}\r\n"));
    }
    let form = match &protocol {
        Some(protocol) => {
            head.push_str(&format!("Connection: upgrade\r\nUpgrade: {}\r\n", protocol.as_str()));
            UploadForm::Tunnel
        }
        None if body.is_end_stream() || parts.headers.contains_key(header::CONTENT_LENGTH) => {
            UploadForm::Length
        }
        None => {
            head.push_str("Transfer-Encoding: chunked\r\n");
            UploadForm::Chunks
        }
    };
    push_fields(&mut head, &parts.headers);
    head.push_str("\r\n");
    // The server may close or stop reading at any time; its answer decides.
    let sent = wire.write(head.as_bytes()).await;
    if sent.is_ok() {
        tollgate_net::spawn(upload(body, wire.clone(), form));
    }
    if let Err(reason) = answer(&method, wire.clone(), &mut respond).await {
        simulated::note(&format!("front {to}: resets a stream with {reason:?}"));
        respond.send_reset(reason);
        wire.close(true);
    }
}

fn push_fields(head: &mut String, fields: &HeaderMap) {
    for (name, value) in fields.iter().filter(|(name, _)| *name != header::COOKIE) {
        head.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
    }
    // RFC 9113, 8.2.3: HTTP/2 may split the field.
    let cookies = fields.get_all(header::COOKIE).iter();
    let cookies: Vec<_> = cookies.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    if !cookies.is_empty() {
        head.push_str(&format!("Cookie: {}\r\n", cookies.join("; ")));
    }
}

/// How the body of a request is sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UploadForm {
    Length,
    Chunks,
    Tunnel,
}

/// Sends the body of a request to the server.
async fn upload(mut body: RecvStream, wire: Wire, form: UploadForm) {
    while let Some(data) = body.data().await {
        let Ok(data) = data else {
            // The gateway gave the request up.
            return wire.close(true);
        };
        // A window that is already at its maximum cannot grow.
        let _ = body.flow_control().release_capacity(data.len());
        let mut bytes = Vec::new();
        match form {
            UploadForm::Chunks => chunk(&mut bytes, &data),
            UploadForm::Length | UploadForm::Tunnel => bytes.extend_from_slice(&data),
        }
        if wire.write(&bytes).await.is_err() {
            return;
        }
    }
    match form {
        UploadForm::Length => {}
        // An error shows in the answer.
        UploadForm::Chunks => drop(wire.write(b"0\r\n\r\n").await),
        UploadForm::Tunnel => wire.shutdown().await,
    }
}

/// Sends the server's answer to the gateway.
async fn answer(method: &Method, wire: Wire, respond: &mut SendResponse<Bytes>) -> Result<(), Reason> {
    let mut reader = Reader::new(wire, Pace::default());
    loop {
        let head = unless_reset(|cx| respond.poll_reset(cx), reader.head()).await?;
        let head = head.map_err(|_| Reason::INTERNAL_ERROR)?;
        let status = head.status();
        if status != 101 && status < 200 {
            respond.send_informational(response(&head, status)?).map_err(|_| Reason::INTERNAL_ERROR)?;
            continue;
        }
        let framing = if status == 101 {
            Framing::Close
        } else {
            head.response_framing(method.as_str()).map_err(|_| Reason::INTERNAL_ERROR)?
        };
        let ends = framing == Framing::None;
        // The success of an extended CONNECT (RFC 8441, 5).
        let status = if status == 101 { 200 } else { status };
        let sent = respond.send_response(response(&head, status)?, ends);
        let mut stream = sent.map_err(|_| Reason::INTERNAL_ERROR)?;
        return if ends { Ok(()) } else { download(reader, framing, &mut stream).await };
    }
}

fn response(head: &Head, status: u16) -> Result<Response<()>, Reason> {
    let fields = head.fields.iter().filter(|(name, _)| !OF_THE_CONNECTION.contains(&name.as_str()));
    let builder =
        fields.fold(Response::builder().status(status), |builder, (name, value)| builder.header(name, value));
    builder.body(()).map_err(|_| Reason::INTERNAL_ERROR)
}

/// A part of an answer's body.
#[derive(Debug)]
enum Piece {
    Data(Bytes),
    /// The end. The flag says whether the body is whole.
    End(bool),
}

/// Relays the body of an answer.
async fn download(
    mut reader: Reader,
    framing: Framing,
    stream: &mut SendStream<Bytes>,
) -> Result<(), Reason> {
    let (pieces, queue) = unbounded_channel();
    tollgate_net::spawn(async move {
        let read = reader.body(framing, |bytes| {
            // The other end is dropped after a reset.
            let _ = pieces.send(Piece::Data(Bytes::copy_from_slice(bytes)));
            Ok(())
        });
        let whole = read.await.is_ok();
        let _ = pieces.send(Piece::End(whole));
    });
    send(queue, stream).await
}

async fn send(mut queue: UnboundedReceiver<Piece>, stream: &mut SendStream<Bytes>) -> Result<(), Reason> {
    loop {
        let piece = unless_reset(|cx| stream.poll_reset(cx), queue.recv()).await?;
        let mut data = match piece {
            Some(Piece::Data(data)) => data,
            Some(Piece::End(true)) => {
                return stream.send_data(Bytes::new(), true).map_err(|_| Reason::INTERNAL_ERROR);
            }
            Some(Piece::End(false)) | None => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
        };
        while !data.is_empty() {
            stream.reserve_capacity(data.len());
            let granted = poll_fn(|cx| stream.poll_capacity(cx)).await;
            let Some(Ok(granted)) = granted else { return Ok(()) };
            let part = data.split_to(granted.min(data.len()));
            stream.send_data(part, false).map_err(|_| Reason::INTERNAL_ERROR)?;
        }
    }
}

/// Returns the output of a future, unless the gateway resets the stream before.
async fn unless_reset<T>(
    mut poll_reset: impl FnMut(&mut Context<'_>) -> Poll<Result<Reason, h2::Error>>,
    future: impl Future<Output = T>,
) -> Result<T, Reason> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Reason::CANCEL));
        }
        future.as_mut().poll(cx).map(Ok)
    })
    .await
}

/// A stream of the simulated network, for the library.
#[derive(Debug)]
struct Socket(Stream);

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = ready!(self.0.poll_read(cx, buffer.initialize_unfilled()))?;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_shutdown(cx)
    }
}
