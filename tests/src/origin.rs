//! An origin that plays any behaviour on raw TCP and records what it receives.

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

/// An origin. Its drop asserts that every request it received was strict HTTP.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// One connection of an [`Origin`], as the script sees it. The connection closes when the script returns.
#[derive(Debug)]
pub struct OriginConn {
    wire: Wire,
    shared: Arc<Shared>,
    index: usize,
}

/// Returns a `200 OK` with this body.
fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

impl Origin {
    /// Starts an origin. `script` plays each of its connections.
    ///
    /// # Panics
    /// Panics if no socket can be bound.
    #[must_use]
    pub fn play(script: impl Fn(&mut OriginConn) + Send + Sync + 'static) -> Self {
        Self::play_on(TcpListener::bind("127.0.0.1:0").expect("loopback"), script)
    }

    /// Starts an origin as [`Origin::play`] does, on a socket that the test has bound.
    ///
    /// # Panics
    /// Panics if the socket has no address.
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

    /// Starts an origin that answers every request with `200` and `ok`, and keeps connections open.
    #[must_use]
    pub fn ok() -> Self {
        Self::fixed(ok("ok"))
    }

    /// Starts an origin that answers every request with `200` and this body, so that a test can tell origins
    /// apart.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::fixed(ok(name))
    }

    /// Starts an origin that answers every complete request with exactly these bytes, and keeps connections
    /// open.
    #[must_use]
    pub fn fixed(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::play(move |conn| {
            while conn.request().is_some() {
                conn.send(&response);
            }
        })
    }

    /// Starts an origin that answers every request with these bytes and then closes the connection.
    #[must_use]
    pub fn fixed_then_close(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::play(move |conn| {
            if conn.request().is_some() {
                conn.send(&response);
            }
        })
    }

    /// Starts an origin that answers every request with its method, target and body: `POST /x hello`.
    #[must_use]
    pub fn echo() -> Self {
        Self::play(|conn| {
            while let Some(request) = conn.request() {
                let body = String::from_utf8_lossy(&request.body);
                let text = format!("{} {} {body}", request.method, request.target);
                let bytes = ok(&text);
                // The answer to a HEAD has no body.
                let length = if request.method == "HEAD" { bytes.len() - text.len() } else { bytes.len() };
                conn.send(&bytes[..length]);
            }
        })
    }

    /// Returns the address on which the origin listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests whose head was complete, in order of arrival.
    ///
    /// # Panics
    /// Panics if a script panicked while it recorded a request.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("requests").clone()
    }

    /// Returns the [`requests`](Self::requests) whose body is as long as their `Content-Length`. The others
    /// are still in progress.
    ///
    /// # Panics
    /// Panics if a script panicked while it recorded a request.
    #[must_use]
    pub fn whole_requests(&self) -> Vec<Request> {
        let is_whole = |request: &Request| {
            request.headers.get("Content-Length") == Some(request.body.len().to_string().as_str())
        };
        self.requests().into_iter().filter(is_whole).collect()
    }

    /// Returns the only request.
    ///
    /// # Panics
    /// Panics if there was no request, or more than one.
    #[must_use]
    pub fn request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "requests at the origin: {requests:?}");
        requests.remove(0)
    }

    /// Returns how many requests the origin received.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.requests.lock().expect("requests").len()
    }

    /// Returns how many connections were opened to the origin.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Returns how many connections the scripts still play.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Returns every byte that connection `index` received (at most 4 MiB).
    ///
    /// # Panics
    /// Panics if there is no such connection.
    #[must_use]
    pub fn bytes(&self, index: usize) -> Vec<u8> {
        self.shared.records.lock().expect("records")[index].lock().expect("record").clone()
    }

    /// Returns how many bytes the origin received, counting at most 4 MiB for each connection.
    ///
    /// # Panics
    /// Panics if a script panicked while it recorded bytes.
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
    /// Returns the index of this connection, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the underlying connection, for operations that the methods here do not offer.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Reads a request's head and records the request. Returns `None` if the connection ended.
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

    /// Reads the body of the request read last. Returns `false` if it is cut off.
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

    /// Reads a whole request. Returns `None` if the connection ended or the request is cut off.
    pub fn request(&mut self) -> Option<Request> {
        let mut request = self.head()?;
        self.body(&mut request).then_some(request)
    }

    /// Sends bytes. Returns `false` if the gateway has closed the connection.
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

    /// Sends a `200` with this body.
    pub fn ok(&mut self, body: &str) {
        self.send(ok(body));
    }

    /// Waits for `how_long`.
    pub fn pause(&self, how_long: Duration) {
        thread::sleep(how_long);
    }

    /// Waits until the gateway ends the connection. Returns `false` if it does not within
    /// [`crate::DEADLINE`].
    pub fn wait_close(&mut self) -> bool {
        self.wire.wait_close()
    }

    /// Ends the connection with a reset.
    pub fn reset(&mut self) {
        // The kernel sends the reset when the last clone closes, so the registry's clone is closed first.
        if let Some(peer) = self.wire.stream().and_then(|stream| stream.peer_addr().ok()) {
            let mut streams = self.shared.streams.lock().expect("streams");
            streams.retain(|kept| kept.peer_addr().is_ok_and(|kept| kept != peer));
        }
        self.wire.reset();
    }

    /// Echoes received bytes until the gateway ends its side.
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
