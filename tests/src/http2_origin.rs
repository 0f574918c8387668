//! An origin that speaks HTTP/2 and records the requests that it receives.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;

use crate::DEADLINE;
use crate::message::{Framing, Headers, Request};

/// The settings of the origin's connections.
#[derive(Clone, Debug)]
pub struct Http2Settings {
    /// The limit of concurrent streams that the origin announces; `None` announces none.
    pub streams: Option<u32>,
    /// The initial stream window: how many bytes of a request's body may arrive before the script reads any.
    pub window: u32,
    /// Whether CONNECT with a `:protocol` is allowed (RFC 8441).
    pub connect: bool,
}

impl Default for Http2Settings {
    fn default() -> Self {
        Self { streams: Some(100), window: 65_535, connect: false }
    }
}

#[derive(Debug, Default)]
struct Shared {
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    active: AtomicUsize,
    most: AtomicUsize,
    resets: Mutex<Vec<Reason>>,
}

/// An HTTP/2 origin. A script answers each request in a thread of its own.
#[derive(Debug)]
pub struct Http2Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    goodbye: watch::Sender<usize>,
    kill: watch::Sender<usize>,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
}

/// One request of an [`Http2Origin`], as its script sees it. If the script returns with the stream open, the
/// stream is reset.
#[derive(Debug)]
pub struct OriginStream {
    /// The request, with the part of its body that was read.
    pub request: Request,
    index: usize,
    body: RecvStream,
    respond: SendResponse<Bytes>,
    sender: Option<SendStream<Bytes>>,
    shared: Arc<Shared>,
    runtime: Handle,
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn headers(map: &HeaderMap) -> Headers {
    Headers(map.iter().map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect())
}

fn map(fields: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        (name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"))
    };
    let mut map = HeaderMap::new();
    fields.iter().map(pair).for_each(|(name, value)| {
        map.append(name, value);
    });
    map
}

impl Http2Origin {
    /// Starts an origin that speaks HTTP/2 by prior knowledge.
    ///
    /// # Panics
    /// Panics if no socket can be bound.
    #[must_use]
    pub fn play(script: impl Fn(&mut OriginStream) + Send + Sync + 'static) -> Self {
        Self::play_with(Http2Settings::default(), script)
    }

    /// Starts an origin as [`Http2Origin::play`] does, with settings.
    ///
    /// # Panics
    /// Panics if no socket can be bound.
    #[must_use]
    pub fn play_with(
        settings: Http2Settings,
        script: impl Fn(&mut OriginStream) + Send + Sync + 'static,
    ) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared::default());
        let (goodbye, kill) = (watch::Sender::new(0), watch::Sender::new(0));
        let server = Server {
            settings,
            shared: Arc::clone(&shared),
            script: Arc::new(script),
            goodbye: goodbye.subscribe(),
            kill: kill.subscribe(),
        };
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let mut server = server.clone();
                server.goodbye.mark_unchanged();
                server.kill.mark_unchanged();
                let index = server.shared.connections.fetch_add(1, Ordering::SeqCst);
                server.shared.open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let shared = Arc::clone(&server.shared);
                    server.serve(stream, index).await;
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, shared, goodbye, kill, runtime: Some(runtime) }
    }

    /// Starts an origin that answers every complete request with its method, target and body: `POST /x
    /// hello`.
    #[must_use]
    pub fn echo() -> Self {
        Self::play(OriginStream::echo)
    }

    /// Returns the address on which the origin listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests, in order of arrival.
    ///
    /// # Panics
    /// Panics if a script panicked while it recorded a request.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("requests").clone()
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

    /// Returns how many connections were opened to the origin, and how many are still open.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        (self.shared.connections.load(Ordering::SeqCst), self.shared.open.load(Ordering::SeqCst))
    }

    /// Returns the highest number of scripts that ran at the same time.
    #[must_use]
    pub fn most_at_once(&self) -> usize {
        self.shared.most.load(Ordering::SeqCst)
    }

    /// Returns the reasons of the stream resets for which scripts [waited](OriginStream::wait_reset).
    ///
    /// # Panics
    /// Panics if a script panicked while it recorded a reset.
    #[must_use]
    pub fn resets(&self) -> Vec<Reason> {
        self.shared.resets.lock().expect("resets").clone()
    }

    /// Sends a GOAWAY on every connection. Requests in progress continue.
    pub fn say_goodbye(&self) {
        self.goodbye.send_modify(|count| *count += 1);
    }

    /// Closes every connection at once.
    pub fn kill_connections(&self) {
        self.kill.send_modify(|count| *count += 1);
    }
}

impl Drop for Http2Origin {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

type Script = dyn Fn(&mut OriginStream) + Send + Sync;

#[derive(Clone)]
struct Server {
    settings: Http2Settings,
    shared: Arc<Shared>,
    script: Arc<Script>,
    goodbye: watch::Receiver<usize>,
    kill: watch::Receiver<usize>,
}

impl Server {
    async fn serve(&mut self, stream: TcpStream, index: usize) {
        let mut builder = Builder::new();
        builder.initial_window_size(self.settings.window).initial_connection_window_size(1 << 20);
        if let Some(streams) = self.settings.streams {
            builder.max_concurrent_streams(streams);
        }
        if self.settings.connect {
            builder.enable_connect_protocol();
        }
        let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
        let mut leaving = false;
        loop {
            let accepted = tokio::select! {
                accepted = connection.accept() => accepted,
                Ok(()) = self.goodbye.changed(), if !leaving => {
                    leaving = true;
                    connection.graceful_shutdown();
                    continue;
                }
                Ok(()) = self.kill.changed() => return,
            };
            let Some(Ok((request, respond))) = accepted else { return };
            self.begin(request, respond, index);
        }
    }

    fn begin(&self, request: http::Request<RecvStream>, respond: SendResponse<Bytes>, connection: usize) {
        let (head, body) = request.into_parts();
        let protocol = head.extensions.get::<h2::ext::Protocol>().map(|it| it.as_str().to_owned());
        let mut fields =
            Headers(vec![(":scheme".to_owned(), head.uri.scheme_str().unwrap_or("").to_owned())]);
        fields.0.extend(head.uri.authority().map(|it| (":authority".to_owned(), it.as_str().to_owned())));
        fields.0.extend(protocol.map(|it| (":protocol".to_owned(), it)));
        fields.0.extend(headers(&head.headers).0);
        let length = head.headers.get("content-length").and_then(|value| value.to_str().ok()?.parse().ok());
        let framing = match (length, body.is_end_stream()) {
            (Some(length), _) => Framing::Length(length),
            (None, true) => Framing::None,
            (None, false) => Framing::Close,
        };
        let request = Request {
            method: head.method.as_str().to_owned(),
            target: head.uri.path_and_query().map(|it| it.as_str().to_owned()).unwrap_or_default(),
            version: "HTTP/2.0".to_owned(),
            headers: fields,
            framing,
            complete: body.is_end_stream(),
            connection,
            ..Request::default()
        };
        let shared = Arc::clone(&self.shared);
        let index = {
            let mut requests = shared.requests.lock().expect("requests");
            requests.push(request.clone());
            requests.len() - 1
        };
        let active = shared.active.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most.fetch_max(active, Ordering::SeqCst);
        let runtime = Handle::current();
        let mut stream = OriginStream { request, index, body, respond, sender: None, shared, runtime };
        let script = Arc::clone(&self.script);
        std::thread::spawn(move || {
            script(&mut stream);
            stream.shared.active.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

impl OriginStream {
    /// Reads a part of the body. Returns `None` at its end, or if it is cut off.
    pub fn data(&mut self) -> Option<Bytes> {
        let runtime = self.runtime.clone();
        let data = runtime.block_on(async { tokio::time::timeout(DEADLINE, self.body.data()).await.ok() });
        let data = data??.ok()?;
        let _ = self.body.flow_control().release_capacity(data.len());
        self.request.body.extend_from_slice(&data);
        Some(data)
    }

    /// Reads the body to its end, with its trailers. Returns `false` if it is cut off.
    pub fn body(&mut self) -> bool {
        while self.data().is_some() {}
        let runtime = self.runtime.clone();
        let trailers = runtime.block_on(async { self.body.trailers().await });
        let Ok(trailers) = trailers else { return false };
        self.request.trailers = trailers.map(|trailers| headers(&trailers)).unwrap_or_default();
        self.request.complete = self.body.is_end_stream();
        self.shared.requests.lock().expect("requests")[self.index] = self.request.clone();
        self.request.complete
    }

    /// Sends an interim head.
    pub fn interim(&mut self, status: u16, fields: &[(&str, &str)]) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        *response.headers_mut() = map(fields);
        let _ = self.respond.send_informational(response);
    }

    /// Sends the head of the response. With `ends`, nothing follows it.
    pub fn head(&mut self, status: u16, fields: &[(&str, &str)], ends: bool) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        *response.headers_mut() = map(fields);
        self.sender = self.respond.send_response(response, ends).ok();
    }

    /// Sends a part of the body, as fast as the gateway's windows permit. Returns `false` at the end of the stream.
    pub fn send(&mut self, data: impl Into<Bytes>, ends: bool) -> bool {
        let mut data = data.into();
        let runtime = self.runtime.clone();
        let Some(sender) = &mut self.sender else { return false };
        let work = async {
            while !data.is_empty() {
                sender.reserve_capacity(data.len());
                let Some(Ok(count)) = poll_fn(|cx| sender.poll_capacity(cx)).await else { return false };
                let piece = data.split_to(count.min(data.len()));
                let last = ends && data.is_empty();
                if sender.send_data(piece, last).is_err() || last {
                    return last;
                }
            }
            !ends || sender.send_data(Bytes::new(), true).is_ok()
        };
        runtime.block_on(async { tokio::time::timeout(DEADLINE, work).await.unwrap_or(false) })
    }

    /// Sends as much as the windows permit, and stops when they stay closed for `pause`. Returns how many
    /// bytes it sent.
    pub fn send_what_goes(&mut self, pause: Duration, most: usize) -> usize {
        let runtime = self.runtime.clone();
        let Some(sender) = &mut self.sender else { return 0 };
        let mut sent = 0;
        runtime.block_on(async {
            while sent < most {
                sender.reserve_capacity(16 * 1024);
                let capacity = poll_fn(|cx| sender.poll_capacity(cx));
                let Ok(Some(Ok(count))) = tokio::time::timeout(pause, capacity).await else { return };
                if sender.send_data(Bytes::from(vec![b'd'; count]), false).is_err() {
                    return;
                }
                sent += count;
            }
        });
        sent
    }

    /// Ends the response with trailers.
    pub fn trailers(&mut self, fields: &[(&str, &str)]) {
        if let Some(sender) = &mut self.sender {
            let _ = sender.send_trailers(map(fields));
        }
    }

    /// Resets the stream.
    pub fn reset(&mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }

    /// Waits until the gateway resets the stream, and records the reason. Returns `None` if the gateway does
    /// not.
    pub fn wait_reset(&mut self) -> Option<Reason> {
        let runtime = self.runtime.clone();
        let (respond, sender) = (&mut self.respond, &mut self.sender);
        let reset = poll_fn(|cx| match sender {
            Some(sender) => sender.poll_reset(cx),
            None => respond.poll_reset(cx),
        });
        let reset = runtime.block_on(async { tokio::time::timeout(DEADLINE, reset).await.ok() });
        let reason = reset?.ok()?;
        self.shared.resets.lock().expect("resets").push(reason);
        Some(reason)
    }

    /// Sends a `200` with this body and its length.
    pub fn ok(&mut self, body: &str) {
        self.head(200, &[("content-length", &body.len().to_string())], body.is_empty());
        if !body.is_empty() {
            self.send(body.to_owned(), true);
        }
    }

    /// Reads the request and answers with its method, target and body.
    pub fn echo(&mut self) {
        self.body();
        let body = String::from_utf8_lossy(&self.request.body).into_owned();
        let text = format!("{} {} {body}", self.request.method, self.request.target);
        if self.request.method == "HEAD" {
            return self.head(200, &[("content-length", &text.len().to_string())], true);
        }
        self.ok(&text);
    }
}
