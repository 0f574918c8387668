//! An HTTP/1.1 client that parses responses with the parser of the data path.
//!
//! `forward_auth`, fetches of keys and the OTLP export use it, on the background I/O thread. It keeps idle
//! connections for 4 seconds, and sends a request once more if an idle one ends before the response.

use std::fmt::{self, Debug};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tollgate_http::h1::{BodyLength, BodyReader, Progress, ResponseParser};
use tollgate_http::{HeadLimits, Method, ResponseHead, is_field};

use super::connect::{self, ServiceStream};
use super::{ServiceError, ServiceUrl, Trust};

/// Limits for the head of a response, the same as the defaults for endpoints.
const RESPONSE_HEAD_LIMITS: HeadLimits = HeadLimits { line: 8 << 10, head: 64 << 10, fields: 100 };
/// The maximum number of interim responses before the final one.
const INTERIM_MAX: usize = 8;
/// The number of bytes reserved for each read.
const READ_BYTES: usize = 8 << 10;
/// The maximum number of idle connections per server.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// The lifetime of an idle connection, shorter than the usual keep-alive time of servers.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// A request to a service.
#[derive(Clone, Debug)]
pub(crate) struct ServiceRequest {
    pub method: Method,
    /// Additional header lines, each with its CRLF; no host, length or connection fields.
    pub lines: Vec<u8>,
    /// The body; `None`: the request has no body.
    pub body: Option<Bytes>,
}

impl ServiceRequest {
    pub fn new(method: Method) -> Self {
        Self { method, lines: Vec::new(), body: None }
    }

    /// Appends a header field. Returns false if the field is invalid and was not added.
    #[must_use]
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> bool {
        let is = is_field(name, value);
        if is {
            for piece in [name, b": ", value, b"\r\n"] {
                self.lines.extend_from_slice(piece);
            }
        }
        is
    }
}

/// A complete response.
#[derive(Debug, Default)]
pub(crate) struct ServiceResponse {
    pub head: ResponseHead,
    pub body: Vec<u8>,
}

/// A client of one server, with its idle connections.
pub(crate) struct Http1 {
    target: ServiceUrl,
    tls: Option<TlsConnector>,
    idle: Arc<Mutex<IdleConnections>>,
}

/// Idle connections; the most recently used one is last.
#[derive(Default)]
struct IdleConnections {
    connections: Vec<(Box<dyn ServiceStream>, Instant)>,
    /// Whether a task is running that closes expired connections.
    watched: bool,
}

impl Http1 {
    /// Creates a client. Returns `None` for an invalid URL or if TLS cannot be set up, which no configuration
    /// causes.
    pub fn new(url: &str, trust: &Trust) -> Option<Self> {
        let target = ServiceUrl::of(url)?;
        let tls = if target.secure { Some(connect::tls(trust)?) } else { None };
        Some(Self { target, tls, idle: Arc::default() })
    }

    /// Sends a request and reads the response, whose body has at most `most` bytes. The caller sets the time
    /// limit. If an idle connection ends before the first byte of the response, the server had probably
    /// closed it already: the request is sent once more, on a new connection. A new connection gets no second
    /// chance, because its server may have acted on the request.
    ///
    /// # Errors
    /// The cause if there is no usable response.
    pub async fn ask(&self, question: &ServiceRequest, most: usize) -> Result<ServiceResponse, ServiceError> {
        if let Some(kept) = self.kept() {
            match self.exchange(kept, question, most).await {
                Err(ServiceError::Closed) => {}
                other => return other,
            }
        }
        let connection = connect::open(&self.target, self.tls.as_ref()).await?;
        self.exchange(connection, question, most).await
    }

    async fn exchange(
        &self,
        connection: Box<dyn ServiceStream>,
        question: &ServiceRequest,
        most: usize,
    ) -> Result<ServiceResponse, ServiceError> {
        let head = self.head(question);
        let (mut from, mut to) = tokio::io::split(connection);
        let mut sent = false;
        let result = {
            let mut write = pin!(async {
                to.write_all(&head).await?;
                to.write_all(question.body.as_deref().unwrap_or_default()).await?;
                to.flush().await
            });
            let mut read = pin!(read(&mut from, question.method, most));
            let mut writes = true;
            // A server may respond before it has read the request, or stop reading and still respond.
            poll_fn(|cx| {
                if writes && let Poll::Ready(result) = write.as_mut().poll(cx) {
                    (writes, sent) = (false, result.is_ok());
                }
                read.as_mut().poll(cx)
            })
            .await
        };
        let (answer, keeps) = result?;
        if keeps && sent {
            self.keep(from.unsplit(to));
        }
        Ok(answer)
    }

    fn head(&self, question: &ServiceRequest) -> Vec<u8> {
        let method = match question.method {
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            _ => "GET",
        };
        let length = question.body.as_ref().map(Bytes::len);
        // These methods mean that there is a body, even if it is empty (RFC 9110, 8.6).
        let takes_body = matches!(question.method, Method::Post | Method::Put | Method::Patch);
        let length = length.or(takes_body.then_some(0));
        let ServiceUrl { path, authority, .. } = &self.target;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
        head.extend_from_slice(&question.lines);
        if let Some(length) = length {
            head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// Returns an idle connection that the server has not closed. A connection with unsolicited data is
    /// discarded.
    fn kept(&self) -> Option<Box<dyn ServiceStream>> {
        loop {
            let (mut stream, since) = self.idle().connections.pop()?;
            if since.elapsed() < IDLE_TIME && is_quiet(&mut *stream) {
                return Some(stream);
            }
        }
    }

    fn keep(&self, stream: Box<dyn ServiceStream>) {
        let mut idle = self.idle();
        if idle.connections.len() >= IDLE_CONNECTIONS_MAX {
            idle.connections.remove(0);
        }
        idle.connections.push((stream, Instant::now()));
        if !std::mem::replace(&mut idle.watched, true) {
            tokio::spawn(close_old(self.idle.clone()));
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, IdleConnections> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes expired connections until no idle connection remains.
async fn close_old(idle: Arc<Mutex<IdleConnections>>) {
    loop {
        tokio::time::sleep(IDLE_TIME).await;
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.connections.retain(|(_, since)| since.elapsed() < IDLE_TIME);
        if idle.connections.is_empty() {
            idle.watched = false;
            return;
        }
    }
}

/// Whether a connection is open and has no data to read.
fn is_quiet(stream: &mut dyn ServiceStream) -> bool {
    let mut byte = [0];
    let mut buffer = ReadBuf::new(&mut byte);
    Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer).is_pending()
}

/// Reads a response; the flag says whether its connection can be reused.
async fn read<S: tokio::io::AsyncRead + Unpin>(
    from: &mut S,
    asked: Method,
    most: usize,
) -> Result<(ServiceResponse, bool), ServiceError> {
    let mut answer = ServiceResponse::default();
    let mut buffer = Vec::new();
    let mut begun = false;
    for interim in 0.. {
        let mut parser = ResponseParser::strict();
        let end = loop {
            if let Progress::Complete(end) =
                parser.advance(&buffer, asked, &mut answer.head, &RESPONSE_HEAD_LIMITS)?
            {
                break end;
            }
            if !more(from, &mut buffer).await {
                return Err(if begun || !buffer.is_empty() {
                    ServiceError::Cut
                } else {
                    ServiceError::Closed
                });
            }
        };
        buffer.drain(..end);
        begun = true;
        match answer.head {
            ResponseHead { status: 101, .. } => {
                return Err(ServiceError::Malformed(
                    "the answer of the service switches to another protocol",
                ));
            }
            ref head if !head.is_interim() => break,
            _ if interim >= INTERIM_MAX => {
                return Err(ServiceError::Malformed("the service sends interim answers without end"));
            }
            _ => {}
        }
    }
    if matches!(answer.head.length, BodyLength::Exactly(length) if length > most as u64) {
        return Err(ServiceError::TooLarge);
    }
    let mut body = BodyReader::new(answer.head.length);
    loop {
        if !body.is_done() && !buffer.is_empty() {
            let step = body.read(&mut buffer)?;
            if step.data.len() > most.saturating_sub(answer.body.len()) {
                return Err(ServiceError::TooLarge);
            }
            answer.body.extend_from_slice(&buffer[step.data]);
            buffer.drain(..step.used);
        }
        if body.is_done() {
            break;
        }
        if !more(from, &mut buffer).await {
            if !body.end_of_stream() {
                return Err(ServiceError::Cut);
            }
            break;
        }
    }
    let keeps = answer.head.keep_alive && buffer.is_empty();
    Ok((answer, keeps))
}

/// Reads more bytes; returns false at the end of the stream or on an error.
async fn more<S: tokio::io::AsyncRead + Unpin>(from: &mut S, buffer: &mut Vec<u8>) -> bool {
    buffer.reserve(READ_BYTES);
    from.read_buf(buffer).await.is_ok_and(|count| count > 0)
}

impl Debug for Http1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1").field("target", &self.target).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(bytes: &[u8], most: usize) -> Result<(u16, Vec<u8>, bool), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let read = runtime.block_on(read(&mut &*bytes, Method::Get, most));
        read.map(|(answer, keeps)| (answer.head.status, answer.body, keeps))
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn answers_end_where_they_say() {
        for (bytes, expected) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"[..], (200, &b"ab"[..], true)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1", (200, b"ab", false)),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
                (200, b"ab", true),
            ),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", (204, b"", true)),
            (b"HTTP/1.0 200 OK\r\n\r\nab", (200, b"ab", false)),
            (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", (200, b"", false)),
        ] {
            let (status, body, keeps) = expected;
            assert_eq!(answered(bytes, 2), Ok((status, body.to_vec(), keeps)));
        }
    }

    #[test]
    fn answers_that_the_data_path_would_refuse_are_none() {
        let long =
            format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(200 << 10));
        let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X-A: b\r\n".repeat(101));
        for bytes in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
                [..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            b"HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\na",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
            b"HTTP/2 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            b"",
            long.as_bytes(),
            many.as_bytes(),
        ] {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
            assert!(answered(bytes, 2).is_err(), "{shown}");
        }
        let endless = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100);
        assert!(answered(&endless, 2).is_err());
    }
}
