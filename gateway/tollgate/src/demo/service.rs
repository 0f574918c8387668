//! The demo's services: minimal HTTP servers for the gateway to forward to.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Buf, Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// The pause after a failed accept (for lack of descriptors, say), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Starts a service for each name on a free port of the loopback address. They end with the process.
pub fn start(names: [&'static str; 2]) -> io::Result<[SocketAddr; 2]> {
    let mut args = [SocketAddr::from(([127, 0, 0, 1], 0)); 2];
    for (name, address) in names.into_iter().zip(&mut args) {
        let listener = TcpListener::bind(*address)?;
        listener.set_nonblocking(true)?;
        *address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name(format!("service-{name}"));
        thread.spawn(move || runtime.block_on(serve(name, listener)))?;
    }
    Ok(args)
}

async fn serve(name: &'static str, listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let service =
            service_fn(move |request| async move { Ok::<_, Infallible>(answer(name, request).await) });
        // The gateway reports failed connections.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(name: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let wants_html =
        request.headers().get(ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/html"));
    match request.uri().path() {
        "/" if wants_html => {
            respond(StatusCode::OK, HTML, include_str!("welcome.html").replace("{service}", name))
        }
        "/" => respond(
            StatusCode::OK,
            TEXT,
            format!("Welcome to Tollgate. This is service `{name}`, behind it.\n"),
        ),
        "/hello" => {
            respond(StatusCode::OK, JSON, format!("{{\"service\":\"{name}\",\"message\":\"hello\"}}\n"))
        }
        path if path.starts_with("/echo") => echo(name, request).await,
        _ => respond(StatusCode::NOT_FOUND, TEXT, format!("service `{name}` has no such page\n")),
    }
}

/// Returns the request as it arrived.
async fn echo(name: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, mut body) = request.into_parts();
    let mut text = format!("service `{name}` got:\n\n{} {} {:?}\n", head.method, head.uri, head.version);
    for (name, value) in &head.headers {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    // The body is counted, not stored, since it may be of any size.
    let mut length = 0;
    while let Some(Ok(frame)) = body.frame().await {
        length += frame.data_ref().map_or(0, Buf::remaining);
    }
    let _ = writeln!(text, "\nand a body of {length} bytes");
    respond(StatusCode::OK, TEXT, text)
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
