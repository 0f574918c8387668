//! An HTTP/1 client: the test sends raw bytes, and the client parses the answers strictly.

use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::message::{Framing, Response};
use crate::wire::{ReadError, Wire};

/// A client connection. Final answers are counted for [`crate::Gateway::reconcile`].
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    answers: Arc<AtomicU64>,
}

impl Client {
    /// Connects. Final answers are added to `answers`.
    ///
    /// # Panics
    /// Panics if the connection is refused.
    #[must_use]
    pub fn connect(address: SocketAddr, answers: Arc<AtomicU64>) -> Self {
        let stream = TcpStream::connect(address).expect("the gateway accepts");
        Self { wire: Wire::new(stream, None), answers }
    }

    /// Connects, or returns `None` if the connection is refused.
    #[must_use]
    pub fn try_connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        Some(Self { wire: Wire::new(stream, None), answers: Arc::default() })
    }

    /// Connects with a receive buffer of about `bytes`, so that the gateway soon notices a client that does
    /// not read.
    ///
    /// # Panics
    /// Panics if the connection is refused.
    #[must_use]
    pub fn connect_small(address: SocketAddr, answers: Arc<AtomicU64>, bytes: usize) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        socket.set_recv_buffer_size(bytes).expect("receive buffer");
        socket.connect(&address.into()).expect("the gateway accepts");
        Self { wire: Wire::new(socket.into(), None), answers }
    }

    /// Returns the client's own address.
    ///
    /// # Panics
    /// Panics if the socket has no address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.wire.stream().expect("not reset").local_addr().expect("bound")
    }

    /// Returns the underlying connection, for operations that the methods here do not offer.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Sends bytes. If the gateway has already answered and closed, that is no error: the test reads the
    /// answer next.
    ///
    /// # Panics
    /// Panics if the gateway takes no byte for [`crate::DEADLINE`].
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        if let Err(e) = self.wire.send(bytes.as_ref()) {
            let gone = matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            assert!(gone, "the gateway takes no more bytes: {e}");
        }
    }

    /// Sends bytes one at a time, each in its own segment.
    pub fn dribble(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref() {
            self.send([*byte]);
        }
    }

    /// Reads a response's head, with the 1xx responses before it in `interim`. 101 counts as final.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn try_head(&mut self, method: &str) -> Result<Response, ReadError> {
        let mut interim = Vec::new();
        loop {
            let mut response = self.wire.response_head(method)?;
            if response.status >= 200 || response.status == 101 {
                self.answers.fetch_add(1, Ordering::SeqCst);
                response.interim = interim;
                return Ok(response);
            }
            interim.push(response);
        }
    }

    /// Reads the body that belongs to `response`.
    ///
    /// # Errors
    /// See [`ReadError`]. The bytes that arrived before the error are in the body.
    pub fn try_body(&mut self, response: &mut Response) -> Result<(), ReadError> {
        let body = &mut response.body;
        response.trailers = self.wire.body(response.framing, |piece| body.extend_from_slice(piece))?;
        Ok(())
    }

    /// Reads a whole response to a request with `method`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn try_response(&mut self, method: &str) -> Result<Response, ReadError> {
        let mut response = self.try_head(method)?;
        self.try_body(&mut response)?;
        Ok(response)
    }

    /// Reads a response's head.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn head(&mut self) -> Response {
        self.try_head("GET")
            .unwrap_or_else(|e| panic!("no response head: {e:?}; bytes {:?}", self.wire.pending()))
    }

    /// Reads one 1xx response.
    ///
    /// # Panics
    /// Panics if something else comes.
    pub fn interim(&mut self) -> Response {
        let response = self.wire.response_head("GET").expect("an interim response");
        assert!(response.status < 200, "expected 1xx, got {response:?}");
        response
    }

    /// Reads a whole response.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// Reads a whole response to a request with `method`.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn response_to(&mut self, method: &str) -> Response {
        self.try_response(method)
            .unwrap_or_else(|e| panic!("no response: {e:?}; bytes {:?}", self.wire.pending()))
    }

    /// Sends bytes and reads a whole response.
    pub fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Response {
        self.send(bytes);
        self.response()
    }

    /// Sends `GET target` with a Host, and reads the response.
    pub fn get(&mut self, target: &str) -> Response {
        self.ask(format!("GET {target} HTTP/1.1\r\nHost: test.example\r\n\r\n"))
    }

    /// Sends `GET target` with a Host, for tests in which a lost answer is a valid outcome.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn try_exchange(&mut self, target: &str) -> Result<Response, ReadError> {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: test.example\r\n\r\n"));
        self.try_response("GET")
    }

    /// Sends `POST target` with a Host and a body, and reads the response.
    pub fn post(&mut self, target: &str, body: &[u8]) -> Response {
        let head =
            format!("POST {target} HTTP/1.1\r\nHost: test.example\r\nContent-Length: {}\r\n\r\n", body.len());
        self.ask([head.as_bytes(), body].concat())
    }

    /// Sends FIN; answers can still be read.
    pub fn half_close(&self) {
        if let Some(stream) = self.wire.stream() {
            // The gateway may have closed already.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// Ends the connection with a reset.
    pub fn reset(mut self) {
        self.wire.reset();
    }

    /// Asserts that the gateway ends the connection without sending anything first.
    ///
    /// # Panics
    /// Panics if the gateway sends something or leaves the connection open.
    pub fn expect_close(&mut self) {
        let closed = self.wire.wait_close();
        let rest = String::from_utf8_lossy(self.wire.pending()).into_owned();
        assert!(rest.is_empty(), "bytes after the last answer: {rest:?}");
        assert!(closed, "the gateway leaves the connection open");
    }

    /// Asserts that nothing arrives and that the connection stays open for `how_long`.
    ///
    /// # Panics
    /// Panics if something arrives or the connection ends.
    pub fn expect_silence(&mut self, how_long: Duration) {
        self.wire.set_deadline(how_long);
        let outcome = self.wire.fill();
        self.wire.set_deadline(crate::DEADLINE);
        assert_eq!(
            outcome,
            Err(ReadError::TimedOut),
            "got {:?}",
            String::from_utf8_lossy(self.wire.pending())
        );
    }

    /// Asserts that the connection still carries requests.
    ///
    /// # Panics
    /// Panics if the request gets no answer.
    pub fn expect_alive(&mut self) {
        let response = self.get("/alive");
        assert!(response.status < 500 && response.framing != Framing::Close, "{response:?}");
    }
}
