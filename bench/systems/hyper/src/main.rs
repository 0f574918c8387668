//! A reverse proxy of hyper and its client pool, and nothing else: the lower bound for Rust gateways built on
//! hyper.
//!
//! It has one thread for each worker. Each thread has its own runtime, listening socket and idle connections,
//! so that no lock is contended. The settings come from the environment, see system.yaml.

use http_body_util::{Either, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue, TE, UPGRADE};
use hyper::{Request, Response, StatusCode, Uri, Version, server, service::service_fn};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpSocket;

type Failure = Box<dyn Error + Send + Sync>;
type Pool = Client<HttpConnector, Incoming>;

/// Fields of one connection that must not be forwarded (RFC 9110, 7.6.1); hyper itself handles
/// Transfer-Encoding.
const HOP_BY_HOP: [HeaderName; 5] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    UPGRADE,
];

fn setting(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| format!("{name} is not set in the environment").into())
}

fn number(name: &str) -> Result<usize, Failure> {
    setting(name)?.parse().map_err(|_| format!("{name} must be a whole number").into())
}

fn seconds(name: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_secs(number(name)? as u64))
}

fn main() -> Result<(), Failure> {
    let workers = number("WORKERS")?;
    let threads: Vec<_> = (0..workers).map(|_| std::thread::spawn(move || worker(workers))).collect();
    for thread in threads {
        thread.join().map_err(|_| "a worker panicked")??;
    }
    Ok(())
}

fn worker(workers: usize) -> Result<(), Failure> {
    let listen: SocketAddr = setting("LISTEN")?.parse()?;
    let origin: &'static str = setting("ORIGIN")?.leak();
    let forwarded = std::env::var("FORWARDED").is_ok_and(|value| value == "on");
    let response = seconds("RESPONSE_SECONDS")?;
    let idle = seconds("IDLE_SECONDS")?;
    let keepalive = number("KEEPALIVE")?.div_ceil(workers);
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(seconds("CONNECT_SECONDS")?));
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let socket = if listen.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(true)?;
        socket.bind(listen)?;
        let listener = socket.listen(4096)?;
        let pool: Pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(idle)
            .pool_max_idle_per_host(keepalive)
            .build(connector);
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await; // out of file descriptors: let some close
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (pool, client) = (pool.clone(), forwarded.then_some(peer.ip()));
            let service = service_fn(move |request| {
                let pool = pool.clone();
                async move { forward(request_to(origin, client, request)?, &pool, response).await }
            });
            tokio::spawn(
                server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(idle)
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    })
}

/// Returns the request for the origin.
fn request_to(
    origin: &str,
    client: Option<IpAddr>,
    mut request: Request<Incoming>,
) -> Result<Request<Incoming>, Failure> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = Uri::builder().scheme("http").authority(origin).path_and_query(path).build()?;
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
    if let Some(client) = client {
        headers.insert("x-forwarded-for", HeaderValue::try_from(client.to_string())?);
        headers.insert("x-forwarded-proto", HeaderValue::from_static("http"));
        if let Some(host) = headers.get(HOST).cloned() {
            headers.insert("x-forwarded-host", host);
        }
    }
    Ok(request)
}

/// Returns the origin's response; 502 without one, 504 if it takes longer than `patience`.
async fn forward(
    request: Request<Incoming>,
    pool: &Pool,
    patience: Duration,
) -> Result<Response<Either<Incoming, Empty<Bytes>>>, Failure> {
    let status = match tokio::time::timeout(patience, pool.request(request)).await {
        Ok(Ok(mut response)) => {
            for name in &HOP_BY_HOP {
                response.headers_mut().remove(name);
            }
            *response.version_mut() = Version::HTTP_11;
            return Ok(response.map(Either::Left));
        }
        Ok(Err(_)) => StatusCode::BAD_GATEWAY,
        Err(_) => StatusCode::GATEWAY_TIMEOUT,
    };
    let mut failed = Response::new(Either::Right(Empty::new()));
    *failed.status_mut() = status;
    Ok(failed)
}
