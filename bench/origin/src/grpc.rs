//! A gRPC origin: HTTP/2 in plain text, with unary calls that get one message of a known length, or with streams whose
//! messages come back.
//!
//! It uses the `h2` library and one runtime for each thread. Its cost does not count as the systems' and is
//! the same for all of them.

use crate::answer::body;
use crate::failure::Failure;
use crate::origin::Shared;
use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::{self, SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io;
use std::net::TcpListener as StdListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_blocking, spawn_local};
use tokio::time::sleep;

/// Concurrent streams of a connection.
const STREAMS: u32 = 1_000;

/// Flow-control windows of a stream and of a connection, in bytes.
const WINDOWS: (u32, u32) = (1 << 20, 16 << 20);

/// Pause of the accept loop while no more descriptors may be opened.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(10);

/// Returns a message as it is transferred: not compressed, its length, its bytes (gRPC over HTTP/2,
/// "Length-Prefixed-Message").
pub fn message(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], bytes].concat()
}

/// Returns how many complete messages these bytes begin with, and their length with their prefixes.
fn whole_messages(bytes: &[u8]) -> (usize, usize) {
    let (mut count, mut length) = (0, 0);
    while let Some([_, size @ ..]) = bytes[length..].first_chunk::<5>() {
        let end = length + 5 + u32::from_be_bytes(*size) as usize;
        if end > bytes.len() {
            break;
        }
        (count, length) = (count + 1, end);
    }
    (count, length)
}

/// One thread of a gRPC origin.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: usize,
    pub(crate) listener: OwnedFd,
}

impl Worker {
    /// Serves until the origin stops.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let built = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = built.map_err(Failure::system("start a runtime"))?;
        let stop = self.shared.stop.clone();
        let end = LocalSet::new().block_on(&runtime, async move {
            tokio::select! {
                _ = spawn_blocking(move || stopped(&stop)) => Ok(()),
                failed = self.accept() => failed,
            }
        });
        // Dropping the runtime would wait for the blocking task, and so a failure would only return at the
        // stop.
        runtime.shutdown_background();
        end
    }

    async fn accept(self) -> Result<(), Failure> {
        let listener = TcpListener::from_std(StdListener::from(self.listener));
        let listener = listener.map_err(Failure::system("watch a file"))?;
        let answers = Rc::new(Answers::new(self.shared, self.thread));
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    answers.shared.connections.fetch_add(1, Relaxed);
                    answers.shared.tallies[answers.thread].connections.add();
                    spawn_local(answers.clone().converse(stream));
                }
                // No more descriptors may be opened. Open connections continue and will free some; the waiting
                // client stays readable, so without a pause the loop would take their CPU time.
                Err(error)
                    if matches!(
                        error.raw_os_error().map(Errno::from_raw_os_error),
                        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
                    ) =>
                {
                    sleep(NO_ROOM_PAUSE).await;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(Failure::System("accept a connection", error)),
            }
        }
    }
}

/// Returns when all threads must stop.
fn stopped(stop: &OwnedFd) {
    let mut files = [PollFd::new(stop, PollFlags::IN)];
    while poll(&mut files, None) == Err(Errno::INTR) {}
}

struct Answers {
    shared: Arc<Shared>,
    thread: usize,
    message: Bytes,
    ready: Bytes,
}

impl Answers {
    fn new(shared: Arc<Shared>, thread: usize) -> Self {
        let message = match &shared.settings.message[..] {
            [] => message(&body(shared.settings.response_bytes)),
            bytes => message(bytes),
        };
        let message = message.into();
        let ready = shared.settings.ready_body.clone().into();
        Self { shared, thread, message, ready }
    }

    /// Serves a connection. An error ends only this connection.
    async fn converse(self: Rc<Self>, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut settings = server::Builder::new();
        settings
            .max_concurrent_streams(STREAMS)
            .initial_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1);
        let Ok(mut connection) = settings.handshake::<_, Bytes>(stream).await else { return };
        while let Some(Ok((request, respond))) = connection.accept().await {
            if request.body().is_end_stream() {
                let _ = self.answer(&request, respond);
            } else if self.shared.settings.echo {
                spawn_local(self.clone().echo(request, respond));
            } else {
                spawn_local(self.clone().collect(request, respond));
            }
        }
    }

    /// Reads the request message to its end, then responds.
    async fn collect(self: Rc<Self>, mut request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let body = request.body_mut();
        while let Some(piece) = body.data().await {
            let Ok(piece) = piece else { return };
            let _ = body.flow_control().release_capacity(piece.len());
        }
        let _ = self.answer(&request, respond);
    }

    /// Sends each message back as soon as it is complete, until the client ends the call.
    async fn echo(
        self: Rc<Self>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Option<()> {
        let mut head = Response::new(());
        head.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let mut output = respond.send_response(head, false).ok()?;
        let mut input = request.into_body();
        let mut received = BytesMut::new();
        while let Some(piece) = input.data().await {
            let piece = piece.ok()?;
            let _ = input.flow_control().release_capacity(piece.len());
            received.extend_from_slice(&piece);
            let (count, length) = whole_messages(&received);
            if count > 0 {
                (0..count).for_each(|_| self.shared.tallies[self.thread].requests.add());
                output.send_data(received.split_to(length).freeze(), false).ok()?;
            }
        }
        // A client that ends within a message has broken the protocol: INTERNAL.
        let status = if received.is_empty() { "0" } else { "13" };
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert("grpc-status", HeaderValue::from_static(status));
        output.send_trailers(trailers).ok()
    }

    fn answer(
        &self,
        request: &Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let settings = &self.shared.settings;
        self.shared.tallies[self.thread].requests.add();
        let mut head = Response::new(());
        if request.uri().path() == settings.ready_path {
            head.headers_mut().insert(header::CONTENT_LENGTH, self.ready.len().into());
            return respond.send_response(head, false)?.send_data(self.ready.clone(), true);
        }
        head.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let mut body = respond.send_response(head, false)?;
        body.send_data(self.message.clone(), false)?;
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        body.send_trailers(trailers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_messages_go_back() {
        let two = [message(b"one"), message(b"")].concat();
        assert_eq!(whole_messages(&two), (2, 13));
        assert_eq!(whole_messages(&[&two[..], &message(b"three")[..9]].concat()), (2, 13));
        assert_eq!(whole_messages(&two[..4]), (0, 0));
        assert_eq!(whole_messages(b""), (0, 0));
    }
}
