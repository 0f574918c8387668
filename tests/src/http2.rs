//! An HTTP/2 client on the `h2` crate. A test can hold each stream open between its steps.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::DEADLINE;
use crate::message::{Headers, Response};

/// An HTTP/2 connection by prior knowledge. Complete answers count for [`crate::Gateway::reconcile`].
#[derive(Debug)]
pub struct Http2 {
    runtime: Arc<Runtime>,
    sender: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    answers: Arc<AtomicU64>,
}

/// One request in progress.
#[derive(Debug)]
pub struct Stream {
    runtime: Arc<Runtime>,
    response: Option<ResponseFuture>,
    sender: SendStream<Bytes>,
    body: Option<RecvStream>,
    answers: Arc<AtomicU64>,
}

/// The reason why a stream brought no complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The peer reset the stream.
    Reset(Reason),
    /// The connection ended.
    Connection,
}

fn cut(error: &h2::Error) -> Cut {
    match error.reason() {
        Some(reason) if error.is_reset() => Cut::Reset(reason),
        _ => Cut::Connection,
    }
}

fn headers(map: &HeaderMap) -> Headers {
    let text = |value: &http::HeaderValue| value.as_bytes().iter().map(|byte| char::from(*byte)).collect();
    Headers(map.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect())
}

impl Http2 {
    /// Connects. `window` is the size of a stream's window: how much the gateway may send before the test
    /// reads.
    ///
    /// # Panics
    /// Panics if the gateway does not speak HTTP/2.
    #[must_use]
    pub fn connect(address: SocketAddr, answers: Arc<AtomicU64>, window: u32) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
        let (sender, connection) = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.expect("the gateway accepts");
            stream.set_nodelay(true).expect("no delay");
            let mut builder = Builder::new();
            builder.initial_window_size(window).initial_connection_window_size(1 << 24);
            let (sender, connection) = builder.handshake::<_, Bytes>(stream).await.expect("a handshake");
            (sender, tokio::spawn(connection))
        });
        Self { runtime: Arc::new(runtime), sender, connection, answers }
    }

    /// Starts a request. With `ends`, it has no body.
    ///
    /// # Errors
    /// Returns an error if the connection accepts no more requests.
    pub fn begin(&mut self, request: Request<()>, ends: bool) -> Result<Stream, Cut> {
        let runtime = Arc::clone(&self.runtime);
        let mut sender = runtime.block_on(self.sender.clone().ready()).map_err(|error| cut(&error))?;
        let (response, sender) = sender.send_request(request, ends).map_err(|error| cut(&error))?;
        let answers = Arc::clone(&self.answers);
        Ok(Stream { runtime, response: Some(response), sender, body: None, answers })
    }

    /// Sends a request without a body, and reads the whole response.
    ///
    /// # Errors
    /// Returns an error if there is no complete answer.
    pub fn try_ask(&mut self, request: Request<()>) -> Result<Response, Cut> {
        self.begin(request, true)?.response()
    }

    /// Sends a request without a body, and reads the whole response.
    ///
    /// # Panics
    /// Panics if there is no complete answer.
    pub fn ask(&mut self, request: Request<()>) -> Response {
        self.try_ask(request).expect("a whole answer")
    }

    /// Sends a `GET` of this path, and reads the whole response.
    pub fn get(&mut self, path: &str) -> Response {
        self.ask(get(path))
    }

    /// Waits until the gateway has closed the connection. Returns how it closed it.
    ///
    /// # Panics
    /// Panics if the gateway does not close the connection.
    pub fn wait_close(self) -> Result<(), h2::Error> {
        let Self { runtime, sender, connection, .. } = self;
        drop(sender);
        runtime
            .block_on(async { tokio::time::timeout(DEADLINE, connection).await })
            .expect("closed")
            .expect("no panic")
    }

    /// Returns whether the connection still accepts requests, as far as the client knows.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.connection.is_finished() && self.runtime.block_on(self.sender.clone().ready()).is_ok()
    }
}

/// Returns a `GET` of this path from the host `a.example`.
///
/// # Panics
/// Panics if the path makes no valid request.
#[must_use]
pub fn get(path: &str) -> Request<()> {
    request("GET", path, &[])
}

/// Returns a request with these fields to the host `a.example`.
///
/// # Panics
/// Panics if the parts make no valid request.
#[must_use]
pub fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<()> {
    let builder = Request::builder().method(method).uri(format!("http://a.example{path}"));
    let builder = fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    builder.body(()).expect("a request")
}

impl Stream {
    fn block<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
        let timeout = async { tokio::time::timeout(DEADLINE, future).await };
        runtime.block_on(timeout).expect("the gateway goes on")
    }

    /// Sends a part of the body, as fast as the gateway's windows permit. With `ends`, it is the last part.
    ///
    /// # Errors
    /// Returns an error if the stream is closed.
    pub fn send(&mut self, data: impl Into<Bytes>, ends: bool) -> Result<(), Cut> {
        let Self { runtime, sender, .. } = self;
        let mut data = data.into();
        Self::block(runtime, async {
            while !data.is_empty() {
                sender.reserve_capacity(data.len());
                let capacity = std::future::poll_fn(|cx| sender.poll_capacity(cx)).await;
                let count = capacity.ok_or(Cut::Connection)?.map_err(|error| cut(&error))?;
                let piece = data.split_to(count.min(data.len()));
                let last = ends && data.is_empty();
                sender.send_data(piece, last).map_err(|error| cut(&error))?;
                if last {
                    return Ok(());
                }
            }
            if ends { sender.send_data(Bytes::new(), true).map_err(|error| cut(&error)) } else { Ok(()) }
        })
    }

    /// Sends as much as the windows permit, and stops when they stay closed for `pause`. Returns how many
    /// bytes it sent.
    pub fn send_what_goes(&mut self, pause: std::time::Duration, most: usize) -> usize {
        let Self { runtime, sender, .. } = self;
        let mut sent = 0;
        runtime.block_on(async {
            while sent < most {
                sender.reserve_capacity(16 * 1024);
                let capacity = std::future::poll_fn(|cx| sender.poll_capacity(cx));
                let Ok(Some(Ok(count))) = tokio::time::timeout(pause, capacity).await else { return };
                if sender.send_data(Bytes::from(vec![b'u'; count]), false).is_err() {
                    return;
                }
                sent += count;
            }
        });
        sent
    }

    /// Ends the body with trailers.
    ///
    /// # Errors
    /// Returns an error if the stream is closed.
    ///
    /// # Panics
    /// Panics if the fields are not valid.
    pub fn send_trailers(&mut self, fields: &[(&'static str, &str)]) -> Result<(), Cut> {
        let fields = fields
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a value")));
        self.sender.send_trailers(fields.collect()).map_err(|error| cut(&error))
    }

    /// Resets the stream.
    pub fn reset(mut self) {
        self.sender.send_reset(Reason::CANCEL);
        let Self { runtime, .. } = &self;
        // The connection's task has to write the frame.
        runtime.block_on(tokio::task::yield_now());
    }

    /// Waits for the response's head.
    ///
    /// # Errors
    /// Returns an error if no head arrives.
    ///
    /// # Panics
    /// Panics if the head was read before.
    pub fn head(&mut self) -> Result<Response, Cut> {
        let mut future = self.response.take().expect("the head was not read");
        let mut interim = Vec::new();
        let head = Self::block(&self.runtime, async {
            std::future::poll_fn(|cx| {
                while let std::task::Poll::Ready(Some(Ok(one))) = future.poll_informational(cx) {
                    interim.push(Response {
                        status: one.status().as_u16(),
                        headers: headers(one.headers()),
                        ..Response::default()
                    });
                }
                std::pin::Pin::new(&mut future).poll(cx)
            })
            .await
        });
        let (head, body) = head.map_err(|error| cut(&error))?.into_parts();
        self.body = Some(body);
        Ok(Response {
            version: "HTTP/2.0".to_owned(),
            status: head.status.as_u16(),
            headers: headers(&head.headers),
            interim,
            ..Response::default()
        })
    }

    /// Waits for more of the body. Returns `None` at its end.
    ///
    /// # Errors
    /// Returns an error if the body is cut off.
    ///
    /// # Panics
    /// Panics if the head was not read before.
    pub fn data(&mut self) -> Result<Option<Bytes>, Cut> {
        let Self { runtime, body, .. } = self;
        let body = body.as_mut().expect("the head was read");
        Self::block(runtime, async {
            match body.data().await {
                Some(Ok(data)) => {
                    body.flow_control().release_capacity(data.len()).map_err(|error| cut(&error))?;
                    Ok(Some(data))
                }
                Some(Err(error)) => Err(cut(&error)),
                None => Ok(None),
            }
        })
    }

    /// Waits for the whole response, and counts it.
    ///
    /// # Errors
    /// Returns an error if there is no complete response.
    pub fn response(mut self) -> Result<Response, Cut> {
        let head = self.head()?;
        self.rest(head)
    }

    /// Waits for the rest of a response whose head was read, adds it to `response`, and counts the response.
    ///
    /// # Errors
    /// Returns an error if the body is cut off.
    pub fn rest(mut self, mut response: Response) -> Result<Response, Cut> {
        while let Some(data) = self.data()? {
            response.body.extend_from_slice(&data);
        }
        let Self { runtime, body, answers, .. } = &mut self;
        if let Some(body) = body {
            let trailers = Self::block(runtime, body.trailers()).map_err(|error| cut(&error))?;
            response.trailers = trailers.map(|trailers| headers(&trailers)).unwrap_or_default();
        }
        answers.fetch_add(1, Ordering::SeqCst);
        Ok(response)
    }
}
