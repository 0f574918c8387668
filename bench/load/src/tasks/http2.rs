//! Requests over HTTP/2 and unary gRPC calls. A [`Link`] is one connection, which all of its streams' tasks
//! share; the first of them that finds it closed opens it again.

use super::connect::connect;
use super::{Answer, Shared, digested};
use crate::clock::now;
use crate::expect::Fault;
use crate::kept::Kept;
use crate::parts::Parts;
use crate::response::Response;
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Method, Request};
use std::cell::{Cell, RefCell};
use tokio::sync::Mutex;
use tokio::task::spawn_local;
use xxhash_rust::xxh3::Xxh3;

/// Flow-control windows of a stream and of a connection, in bytes: large enough never to slow a server down.
const WINDOWS: (u32, u32) = (1 << 20, 16 << 20);

/// An HTTP/2 connection.
#[derive(Default)]
pub(super) struct Link {
    open: RefCell<Option<SendRequest<Bytes>>>,
    /// Held while the connection is opened.
    opening: Mutex<()>,
}

impl Link {
    /// Returns a handle that can send a request. Opens the connection if it is closed, and waits while the
    /// server allows no further stream.
    pub(super) async fn sender(&self, shared: &Shared) -> Result<SendRequest<Bytes>, Fault> {
        if let Some(sender) = self.current().await {
            return Ok(sender);
        }
        let _turn = self.opening.lock().await;
        if let Some(sender) = self.current().await {
            return Ok(sender);
        }
        let io = connect(shared).await?;
        let mut builder = Builder::new();
        builder.initial_window_size(WINDOWS.0).initial_connection_window_size(WINDOWS.1).enable_push(false);
        let (sender, connection) = builder.handshake(io).await.map_err(|_| Fault::Connect)?;
        // Ends with the connection; its error appears in every request.
        spawn_local(async move { connection.await.ok() });
        self.open.replace(Some(sender.clone()));
        sender.ready().await.map_err(|_| Fault::Connect)
    }

    async fn current(&self) -> Option<SendRequest<Bytes>> {
        let sender = self.open.borrow().clone()?;
        let ready = sender.ready().await;
        if ready.is_err() {
            self.open.replace(None);
        }
        ready.ok()
    }
}

/// Returns the counter of an error while a response was awaited.
pub(super) fn fault(error: &h2::Error) -> Fault {
    if error.is_library() { Fault::Protocol } else { Fault::Read }
}

/// Builds the head of a request. A gRPC call gets the fields that the protocol requires.
pub(super) fn head(shared: &Shared, parts: &Parts, grpc: bool) -> Result<Request<()>, Fault> {
    let scheme = if shared.tls.is_some() { "https" } else { "http" };
    let mut request = Request::builder()
        .method(Method::from_bytes(parts.method.as_bytes()).map_err(|_| Fault::Write)?)
        .uri(format!("{scheme}://{}{}", parts.host, parts.path));
    let given = |name: &str| parts.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    if grpc {
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
            if !given(name) {
                request = request.header(name, value);
            }
        }
    }
    for (name, value) in &parts.headers {
        request = request.header(name, value);
    }
    if let Some(body) = parts.body.as_ref().filter(|_| !grpc) {
        request = request.header("content-length", body.len());
    }
    request.body(()).map_err(|_| Fault::Write)
}

/// Returns a message as it is transferred: not compressed, its length, its bytes.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat().into()
}

/// Returns whether these fields report that a gRPC call succeeded; `None` if they report nothing.
pub(super) fn grpc_status(fields: &HeaderMap) -> Option<Result<(), Fault>> {
    let status = fields.get("grpc-status")?;
    Some(if status == "0" { Ok(()) } else { Err(Fault::Status) })
}

/// Performs one request, or one unary call.
pub(super) async fn call(
    link: &Link,
    shared: &Shared,
    parts: &Parts,
    grpc: bool,
    keep: bool,
    sent: &Cell<u64>,
) -> Result<Answer, Fault> {
    let mut sender = link.sender(shared).await?;
    let head = head(shared, parts, grpc)?;
    let body = match &parts.body {
        body if grpc => Some(framed(body.as_deref().unwrap_or_default())),
        Some(body) if !body.is_empty() => Some(Bytes::copy_from_slice(body)),
        _ => None,
    };
    sent.set(now());
    let (response, mut stream) = sender.send_request(head, body.is_none()).map_err(|_| Fault::Write)?;
    if let Some(body) = body {
        stream.send_data(body, true).map_err(|_| Fault::Write)?;
    }
    let response = response.await.map_err(|error| fault(&error))?;
    let status = response.status().as_u16();
    let mut kept = keep.then(Kept::default);
    if let Some(kept) = &mut kept {
        kept.head.extend_from_slice(b"HTTP/2\n");
        for (name, value) in response.headers() {
            kept.head.extend_from_slice(&[name.as_str().as_bytes(), b":", value.as_bytes(), b"\n"].concat());
        }
    }
    let mut outcome = grpc_status(response.headers());
    let mut hasher = digested(&shared.plan).then(Xxh3::new);
    let mut length = 0;
    let mut body = response.into_body();
    while let Some(bytes) = body.data().await {
        let bytes = bytes.map_err(|error| fault(&error))?;
        length += bytes.len() as u64;
        // Fails only for more than was received.
        let _ = body.flow_control().release_capacity(bytes.len());
        if let Some(hasher) = &mut hasher {
            hasher.update(&bytes);
        }
        if let Some(kept) = &mut kept {
            kept.push(&bytes);
        }
    }
    let trailers = body.trailers().await.map_err(|error| fault(&error))?;
    outcome = trailers.as_ref().and_then(grpc_status).or(outcome);
    Ok(Answer {
        response: Response {
            status,
            length,
            digest: hasher.map_or(0, |hasher| hasher.digest()),
            keep_alive: true,
        },
        also: if grpc { outcome.unwrap_or(Err(Fault::Protocol)) } else { Ok(()) },
        kept,
    })
}
