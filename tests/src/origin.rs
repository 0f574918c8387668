//! An origin that plays any behaviour on raw TCP and records what it got.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::message::{Framing, Request};
use crate::wire::{ReadError, Wire};

#[derive(Debug, Default)]
struct Shared {
    requests: Mutex<Vec<Request>>,
    records: Mutex<Vec<Arc<Mutex<Vec<u8>>>>>,
    streams: Mutex<Vec<TcpStream>>,
    violations: Mutex<Vec<String>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    stopping: AtomicBool,
}

/// An origin. When it is dropped it demands that everything it received was strict HTTP.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// One connection of an [`Origin`], as the script sees it. It is closed when the script returns.
#[derive(Debug)]
pub struct OriginConn {
    wire: Wire,
    shared: Arc<Shared>,
    index: usize,
}

/// `200 OK` with this body.
fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

impl Origin {
    /// Starts an origin whose connections are each played by `script`.
    ///
    /// # Panics
    /// When no socket can be bound.
    #[must_use]
    pub fn play(script: impl Fn(&mut OriginConn) + Send + Sync + 'static) -> Self {
        Self::play_on(TcpListener::bind("127.0.0.1:0").expect("loopback"), script)
    }

    /// As [`Origin::play`], on a socket that the test has bound.
    ///
    /// # Panics
    /// When the socket has no address.
    #[must_use]
    pub fn play_on(listener: TcpListener, script: impl Fn(&mut OriginConn) + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared::default());
        let script = Arc::new(script);
        let inner = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if inner.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let record = Arc::new(Mutex::new(Vec::new()));
                inner.records.lock().expect("records").push(Arc::clone(&record));
                if let Ok(clone) = stream.try_clone() {
                    inner.streams.lock().expect("streams").push(clone);
                }
                let index = inner.connections.fetch_add(1, Ordering::SeqCst);
                inner.open.fetch_add(1, Ordering::SeqCst);
                let mut conn =
                    OriginConn { wire: Wire::new(stream, Some(record)), shared: Arc::clone(&inner), index };
                let script = Arc::clone(&script);
                thread::spawn(move || {
                    script(&mut conn);
                    // The registry above holds a clone, which would keep the connection open.
                    if let Some(stream) = conn.wire.stream() {
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                    conn.shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, shared }
    }

    /// Answers every request with `200` and `ok`, and keeps connections.
    #[must_use]
    pub fn ok() -> Self {
        Self::fixed(ok("ok"))
    }

    /// Answers every request with `200` and this body: tells origins apart.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::fixed(ok(name))
    }

    /// Answers every request, once it is complete, with exactly these bytes, and keeps connections.
    #[must_use]
    pub fn fixed(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::play(move |conn| {
            while conn.request().is_some() {
                conn.send(&response);
            }
        })
    }

    /// Answers every request with these bytes and then closes the connection.
    #[must_use]
    pub fn fixed_then_close(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::play(move |conn| {
            if conn.request().is_some() {
                conn.send(&response);
            }
        })
    }

    /// Answers every request with its own method, target and body: `POST /x hello`.
    #[must_use]
    pub fn echo() -> Self {
        Self::play(|conn| {
            while let Some(request) = conn.request() {
                let body = String::from_utf8_lossy(&request.body);
                let text = format!("{} {} {body}", request.method, request.target);
                let bytes = ok(&text);
                // A HEAD is answered without the body.
                let length = if request.method == "HEAD" { bytes.len() - text.len() } else { bytes.len() };
                conn.send(&bytes[..length]);
            }
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests whose head was complete, in order of arrival.
    ///
    /// # Panics
    /// When a script panicked while it recorded.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("requests").clone()
    }

    /// Those of the [`requests`](Self::requests) whose body has come as far as its `Content-Length` says: of the others it is
    /// still under way.
    ///
    /// # Panics
    /// When a script panicked while it recorded.
    #[must_use]
    pub fn whole_requests(&self) -> Vec<Request> {
        let is_whole = |request: &Request| {
            request.headers.get("Content-Length") == Some(request.body.len().to_string().as_str())
        };
        self.requests().into_iter().filter(is_whole).collect()
    }

    /// The only request.
    ///
    /// # Panics
    /// When there was none, or more than one.
    #[must_use]
    pub fn request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "requests at the origin: {requests:?}");
        requests.remove(0)
    }

    /// How many requests it got.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.requests.lock().expect("requests").len()
    }

    /// How many connections were opened to it.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many connections its scripts still play.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Every byte that connection `index` received (at most 4 MiB).
    ///
    /// # Panics
    /// When there is no such connection.
    #[must_use]
    pub fn bytes(&self, index: usize) -> Vec<u8> {
        self.shared.records.lock().expect("records")[index].lock().expect("record").clone()
    }

    /// How many bytes it received in all (at most 4 MiB a connection are counted).
    ///
    /// # Panics
    /// When a script panicked while it recorded.
    #[must_use]
    pub fn bytes_received(&self) -> usize {
        self.shared.records.lock().expect("records").iter().map(|r| r.lock().expect("record").len()).sum()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        for stream in self.shared.streams.lock().expect("streams").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if !thread::panicking() {
            let violations = self.shared.violations.lock().expect("violations");
            assert!(violations.is_empty(), "the gateway sent what is not strict HTTP: {violations:#?}");
        }
    }
}

impl OriginConn {
    /// Which connection this is, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The connection, for what the methods here do not offer.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Reads a request's head and records the request. `None`: the connection ended.
    pub fn head(&mut self) -> Option<Request> {
        match self.wire.request_head() {
            Ok(mut request) => {
                request.connection = self.index;
                request.complete = request.framing == Framing::None;
                self.shared.requests.lock().expect("requests").push(request.clone());
                Some(request)
            }
            Err(ReadError::Malformed(what)) => {
                self.violation(what);
                None
            }
            Err(_) => None,
        }
    }

    fn violation(&self, what: String) {
        self.shared.violations.lock().expect("violations").push(what);
    }

    /// Reads the body of the request last read; `false`: it was cut.
    pub fn body(&mut self, request: &mut Request) -> bool {
        let mut body = Vec::new();
        let outcome = self.wire.body(request.framing, |piece| body.extend_from_slice(piece));
        request.body = body;
        match outcome {
            Ok(trailers) => {
                request.trailers = trailers;
                request.complete = true;
            }
            Err(ReadError::Malformed(what)) => self.violation(what),
            Err(_) => {}
        }
        let mut requests = self.shared.requests.lock().expect("requests");
        if let Some(kept) = requests.iter_mut().rev().find(|kept| kept.connection == self.index) {
            *kept = request.clone();
        }
        request.complete
    }

    /// Reads a whole request. `None`: the connection ended, or the request was cut.
    pub fn request(&mut self) -> Option<Request> {
        let mut request = self.head()?;
        self.body(&mut request).then_some(request)
    }

    /// Sends bytes; `false` when the gateway has gone.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.wire.send(bytes.as_ref()).is_ok()
    }

    /// Sends bytes one at a time, each in its own segment.
    pub fn dribble(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref() {
            if !self.send([*byte]) {
                return;
            }
        }
    }

    /// Sends `200` with this body.
    pub fn ok(&mut self, body: &str) {
        self.send(ok(body));
    }

    /// Waits.
    pub fn pause(&self, how_long: Duration) {
        thread::sleep(how_long);
    }

    /// Waits until the gateway ends the connection; `false` when it does not within [`crate::DEADLINE`].
    pub fn wait_close(&mut self) -> bool {
        self.wire.wait_close()
    }

    /// Ends the connection with a reset.
    pub fn reset(&mut self) {
        // The reset is sent when the last clone closes, so the registry's goes first.
        if let Some(peer) = self.wire.stream().and_then(|stream| stream.peer_addr().ok()) {
            let mut streams = self.shared.streams.lock().expect("streams");
            streams.retain(|kept| kept.peer_addr().is_ok_and(|kept| kept != peer));
        }
        self.wire.reset();
    }

    /// Sends back whatever comes, until the gateway ends its side.
    pub fn echo_bytes(&mut self) {
        loop {
            let pending = self.wire.take_pending();
            if !pending.is_empty() && !self.send(&pending) {
                return;
            }
            if !matches!(self.wire.fill(), Ok(true)) {
                return;
            }
        }
    }
}
