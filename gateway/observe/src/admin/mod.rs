//! The admin listener's HTTP server, with the pages for metrics, cost, upstreams and health.
//!
//! It runs on the control thread and never accesses a worker: everything that it shows comes from the
//! [`Registry`].

mod accept;
mod answer;
mod body;
mod counts;
mod peer;
mod security;
mod stream;
mod table;
mod upstreams;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use crate::Registry;

use body::{BodyBudget, BudgetShare, CountedBody};
use security::secured;
use stream::Tracked;
use table::{ConnectionSlot, ConnectionTable, Phase};

pub use answer::pages;
pub use counts::{AdminCounts, AdminCountsSnapshot, AdminRefusal};
pub use peer::{Peer, PeerAddress};

/// Time limit for a whole request head. It also ends idle kept-alive connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may accept no byte of its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bound of a request head, in bytes: enough for any scraper, small enough for all connections together.
const HEAD_MAX_BYTES: usize = 16 * 1024;

/// Pause after a failed accept (no descriptors left, for example), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a request waits for a regular slot, and how often it checks.
const SLOT_TIMEOUT: Duration = Duration::from_secs(1);
const SLOT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The data behind the [`pages`].
#[derive(Clone, Debug)]
pub struct AdminState {
    /// Source of metrics, cost, status and upstreams.
    pub registry: Arc<Registry>,
    /// Whether the gateway accepts new traffic; `/readyz` reports it.
    pub ready: Arc<AtomicBool>,
}

/// A function for refused client certificates; takes the client's address and the reason.
pub type CertificateRefused = Arc<dyn Fn(PeerAddress, &str) + Send + Sync>;

/// Receivers of the admin listener's events.
#[derive(Clone)]
pub struct AdminEvents {
    /// The counters.
    pub counts: Arc<AdminCounts>,
    /// Called for each client certificate that is refused.
    pub certificate_refused: CertificateRefused,
}

impl std::fmt::Debug for AdminEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminEvents").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The listening socket of the admin server.
#[derive(Debug)]
pub enum AdminListener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

trait AdminStream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> AdminStream for S {}

impl AdminListener {
    async fn accept(&self) -> io::Result<(Pin<Box<dyn AdminStream>>, PeerAddress)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                (Box::pin(stream), PeerAddress::Tcp(address))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|credentials| credentials.uid());
                (Box::pin(stream), PeerAddress::Unix(user))
            }
        })
    }
}

/// The TLS configuration for handshakes, read for each connection; `None`: plain text.
pub type AdminTls = watch::Receiver<Option<Arc<ServerConfig>>>;

/// Serves `router` until the future is dropped, which also closes all connections. Each request carries its
/// [`Peer`] in its extensions.
///
/// Needs a tokio runtime with I/O and time. A stalled client loses its connection after 30 s without a whole
/// request head, or after 10 s without accepting a byte. It loses it earlier when all places are taken: see
/// `table`. `/healthz` and `/readyz` have reserved slots. The handler sets the time limit for a request's
/// body; this module bounds the bytes of all bodies together.
pub async fn serve(listener: AdminListener, tls: AdminTls, router: Router, watch: AdminEvents) {
    let limits = ServerLimits { head: HEAD_TIMEOUT, write: WRITE_TIMEOUT };
    serve_within(listener, tls, ServerState { router, limits, watch, budget: Arc::default() }).await;
}

#[derive(Clone, Copy)]
struct ServerLimits {
    head: Duration,
    write: Duration,
}

/// The state that all connections share.
#[derive(Clone)]
struct ServerState {
    router: Router,
    limits: ServerLimits,
    watch: AdminEvents,
    budget: Arc<BodyBudget>,
}

async fn serve_within(listener: AdminListener, tls: AdminTls, shared: ServerState) {
    let table = ConnectionTable::default();
    let mut connections = JoinSet::new();
    loop {
        // Remove ended tasks, or the set would grow.
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, address)) => {
                let (place, evicted) = table.admit();
                if evicted {
                    shared.watch.counts.evicted();
                }
                let (shared, config, id) = (shared.clone(), tls.borrow().clone(), place.id());
                let task = connections.spawn(async move {
                    let stream = limited(stream, shared.limits);
                    match config {
                        None => connection(stream, Peer { address, certificate: None }, place, shared).await,
                        Some(config) => encrypted(stream, address, config, place, shared).await,
                    }
                });
                table.set_abort(id, task);
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

type TimeLimitedStream = Pin<Box<TimeoutStream<Pin<Box<dyn AdminStream>>>>>;

fn limited(stream: Pin<Box<dyn AdminStream>>, limits: ServerLimits) -> TimeLimitedStream {
    let mut stream = Box::pin(TimeoutStream::new(stream));
    stream.as_mut().set_write_timeout_pinned(Some(limits.write));
    stream
}

/// Serves a connection that starts with a TLS handshake. A failed handshake affects no other connection.
async fn encrypted(
    stream: TimeLimitedStream,
    address: PeerAddress,
    config: Arc<ServerConfig>,
    place: ConnectionSlot,
    shared: ServerState,
) {
    let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await;
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            if let Some(why) = certificate_problem(&error) {
                shared.watch.counts.refused(AdminRefusal::Certificate);
                (shared.watch.certificate_refused)(address, &why);
            }
            return;
        }
        Err(_) => return,
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let certificate = shown.map(|certificate| Arc::new(certificate.clone().into_owned()));
    connection(stream, Peer { address, certificate }, place, shared).await;
}

/// Returns why a handshake failed, if the client's certificate is the cause.
fn certificate_problem(error: &io::Error) -> Option<String> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::NoCertificatesPresented => Some("none was shown".to_owned()),
        rustls::Error::InvalidCertificate(why) => Some(why.to_string()),
        _ => None,
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: Peer,
    place: ConnectionSlot,
    shared: ServerState,
) {
    let activity = place.activity.clone();
    let place = Arc::new(place);
    let limits = shared.limits;
    let service = service_fn(move |request| answered(request, peer.clone(), place.clone(), shared.clone()));
    // An error is caused by the client and affects no other connection.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(Tracked { stream, activity }), service)
        .await;
}

/// Answers a request.
async fn answered(
    request: Request<Incoming>,
    peer: Peer,
    place: Arc<ConnectionSlot>,
    shared: ServerState,
) -> Result<Response, std::convert::Infallible> {
    place.activity.enter(Phase::Busy);
    let is_health = matches!(request.uri().path(), "/healthz" | "/readyz");
    let response = if is_health || wait_for_regular_slot(&place).await {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(peer);
        let share = BudgetShare::new(&shared.budget);
        let body = CountedBody { body, share: share.clone(), activity: place.activity.clone() };
        let request = Request::from_parts(head, Body::new(body));
        let response = TowerToHyperService::new(shared.router.clone()).call(request).await?;
        match share.is_exceeded() {
            false => response,
            true => busy(&shared, "the bodies of other requests take all the room"),
        }
    } else {
        busy(&shared, "every connection of the admin listener is at work")
    };
    place.activity.enter(Phase::Writing);
    Ok(secured(response))
}

/// Waits up to [`SLOT_TIMEOUT`] for a regular slot.
async fn wait_for_regular_slot(place: &ConnectionSlot) -> bool {
    let end = tokio::time::Instant::now() + SLOT_TIMEOUT;
    while !place.is_regular() {
        if tokio::time::Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(SLOT_POLL_INTERVAL).await;
    }
    true
}

/// Answers 503 to a request for which there is no room. Its connection closes and frees its place.
fn busy(shared: &ServerState, message: &str) -> Response {
    shared.watch.counts.refused(AdminRefusal::Busy);
    let text = format!("{}\n", json!({ "error": AdminRefusal::Busy.as_str(), "message": message }));
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use serde_json::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::CostMeter;
    use crate::upstreams::sample::{Fixed, shop};

    struct Server {
        address: SocketAddr,
        state: AdminState,
        _task: JoinSet<()>,
    }

    async fn start(enabled: bool, limits: ServerLimits) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = AdminState { registry: Registry::new(enabled), ready: Arc::default() };
        let mut task = JoinSet::new();
        let plain = watch::channel(None).1;
        let watch = AdminEvents { counts: Arc::default(), certificate_refused: Arc::new(|_, _| {}) };
        let shared = ServerState { router: pages(state.clone()), limits, watch, budget: Arc::default() };
        task.spawn(serve_within(AdminListener::Tcp(listener), plain, shared));
        Server { address, state, _task: task }
    }

    async fn plain() -> Server {
        start(true, ServerLimits { head: HEAD_TIMEOUT, write: WRITE_TIMEOUT }).await
    }

    impl Server {
        /// Sends the text and reads to the end. Returns head and body.
        async fn send(&self, request: &str) -> (String, String) {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
            (head.to_owned(), body.to_owned())
        }

        async fn get(&self, path: &str, accept: &str) -> (String, String) {
            self.send(&format!(
                "GET {path} HTTP/1.1\r\nhost: x\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
            ))
            .await
        }
    }

    #[tokio::test]
    async fn metrics_in_both_formats() {
        let server = plain().await;
        let (head, body) = server.get("/metrics", "*/*").await;
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        assert!(body.contains("# TYPE tollgate_requests_total counter"));
        let scraper =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        let (head, body) = server.get("/metrics?x", scraper).await;
        assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
        assert!(body.ends_with("# EOF\n"));
    }

    #[tokio::test]
    async fn metrics_that_are_off_say_so() {
        let server = start(false, ServerLimits { head: HEAD_TIMEOUT, write: WRITE_TIMEOUT }).await;
        let (head, body) = server.get("/metrics", "*/*").await;
        assert!(head.starts_with("HTTP/1.1 404"), "{head}");
        assert!(body.contains("switched off"), "{body}");
    }

    #[tokio::test]
    async fn cost_as_json_and_text() {
        let server = plain().await;
        let mut meter = CostMeter::new();
        let now = Instant::now();
        meter.sample(now, Duration::ZERO, 0, 2.0);
        meter.sample(now + Duration::from_secs(10), Duration::from_secs(1), 100_000, 2.0);
        server.state.registry.set_cost(meter.reading());
        let (head, body) = server.get("/cost", "*/*").await;
        assert!(head.contains("content-type: application/json"), "{head}");
        let value: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["windows"][0]["headroom_requests_per_second"], 190_000.0);
        let (head, body) = server.get("/cost", "text/plain").await;
        assert!(head.contains("content-type: text/plain"), "{head}");
        assert!(body.contains("190000 more requests/s"), "{body}");
        let (head, by_path) = server.get("/cost.txt", "*/*").await;
        assert!(head.contains("content-type: text/plain"), "{head}");
        assert_eq!(by_path, body);
    }

    #[tokio::test]
    async fn upstreams_in_three_formats() {
        let server = plain().await;
        let (head, body) = server.get("/upstreams", "*/*").await;
        assert!(head.contains("content-type: application/json"), "{head}");
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["upstreams"], serde_json::json!([]));
        server.state.registry.watch_upstreams(Arc::new(Fixed(vec![shop()])));
        let (_, body) = server.get("/upstreams", "application/json").await;
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["upstreams"][0]["name"], "shop");
        let (head, body) = server.get("/upstreams", "text/plain").await;
        assert!(head.contains("content-type: text/plain") && body.starts_with("shop\n"), "{head}{body}");
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for accept in [browser, "text/html, text/plain;q=0.5"] {
            let (head, body) = server.get("/upstreams", accept).await;
            assert!(head.contains("content-type: text/html") && body.contains("<h2>shop</h2>"), "{head}");
        }
    }

    #[tokio::test]
    async fn health_and_readiness() {
        let server = plain().await;
        assert!(server.get("/healthz", "*/*").await.0.starts_with("HTTP/1.1 200"));
        assert!(server.get("/readyz", "*/*").await.0.starts_with("HTTP/1.1 503"));
        server.state.ready.store(true, Ordering::Relaxed);
        assert!(server.get("/readyz", "*/*").await.0.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn what_is_not_there() {
        let server = plain().await;
        let (head, body) = server.get("/", "*/*").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(
            ["/metrics", "/cost", "/status", "/upstreams", "/healthz", "/readyz"]
                .iter()
                .all(|path| body.contains(path))
        );
        let (head, body) = server.get("/nothing", "*/*").await;
        assert!(head.starts_with("HTTP/1.1 404"), "{head}");
        let value: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["error"], "not_found");
        let post = "POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx";
        let (head, _) = server.send(post).await;
        assert!(head.starts_with("HTTP/1.1 405") && head.contains("allow: GET,HEAD"), "{head}");
        let (head, body) = server.send("HEAD /cost HTTP/1.0\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.0 200") && body.is_empty(), "{head}");
    }

    #[tokio::test]
    async fn a_connection_is_kept_for_the_next_request() {
        let server = plain().await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        for _ in 0..3 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            let mut answer = [0; 1024];
            let read = stream.read(&mut answer).await.unwrap();
            assert!(answer[..read].ends_with(b"ok\n"));
        }
    }

    #[tokio::test]
    async fn a_client_that_stalls_is_let_go() {
        let brief = Duration::from_millis(50);
        let server = start(true, ServerLimits { head: brief, write: brief }).await;
        for request in ["", "GET /metr", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"] {
            let answer = tokio::time::timeout(Duration::from_secs(10), server.send(request)).await;
            assert!(answer.is_ok(), "{request:?} holds its connection");
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_let_go() {
        let brief = Duration::from_millis(200);
        let server = start(true, ServerLimits { head: HEAD_TIMEOUT, write: brief }).await;
        let mut stuck = TcpStream::connect(server.address).await.unwrap();
        let requests = "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
        let written = async {
            // Writes until the server, which cannot write either, drops the connection.
            while stuck.write_all(requests.as_bytes()).await.is_ok() {}
        };
        assert!(tokio::time::timeout(Duration::from_secs(20), written).await.is_ok());
    }

    #[tokio::test]
    async fn silent_connections_block_no_other() {
        let server = plain().await;
        let mut idle = Vec::new();
        for _ in 0..table::REGULAR_SLOTS + table::RESERVED_SLOTS {
            idle.push(TcpStream::connect(server.address).await.unwrap());
        }
        for path in ["/healthz", "/metrics"] {
            let (head, _) =
                tokio::time::timeout(Duration::from_secs(10), server.get(path, "*/*")).await.unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        }
    }

    #[tokio::test]
    async fn every_answer_has_what_browsers_need() {
        let server = plain().await;
        for (path, accept) in [("/metrics", "*/*"), ("/nothing", "*/*"), ("/upstreams", "text/html")] {
            let (head, _) = server.get(path, accept).await;
            for field in
                ["content-security-policy", "x-content-type-options: nosniff", "x-frame-options: DENY"]
            {
                assert!(head.contains(field), "{path}: {head}");
            }
        }
    }
}
