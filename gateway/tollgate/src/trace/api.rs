//! `GET /api/v1/trace`: sends traces of requests and of streams of layer 4.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tollgate_net::component;
use tollgate_observe::trace::LostTraces;
use tollgate_proxy::GatheredTrace;
use tracing::info;

use super::filter::{TraceQuery, filter};
use super::followers::{FOLLOWERS_MAX, Following};
use crate::access::ClientName;
use crate::admin_context::AdminContext;
use crate::api::error_response;

/// How often an empty line is sent while no request ends. A client that has vanished is detected when it takes
/// no bytes.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// How long the response waits until all workers gather. A worker that is busy for longer joins later.
const ADOPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the routes of this part.
pub fn routes() -> Router<AdminContext> {
    Router::new().route("/api/v1/trace", get(stream))
}

/// `GET /api/v1/trace?host=&path=&client=&status=&reason=&stream=&limit=`: sends one line of JSON for each request and
/// each stream that ends from now on, until the limit is reached or the client leaves.
async fn stream(
    State(context): State<AdminContext>,
    client: ClientName,
    query: Result<Query<TraceQuery>, QueryRejection>,
) -> Response {
    let bad = |message: &str| error_response(StatusCode::BAD_REQUEST, "bad_request", message);
    let query = match query {
        Ok(Query(query)) => query,
        Err(rejection) => return bad(&rejection.body_text()),
    };
    // On a blocking thread: conditions are compiled.
    let (limit, built) = (query.limit, spawn_blocking(move || filter(&query)).await);
    let filter = match built {
        Ok(Ok(filter)) => filter,
        Ok(Err(message)) => return bad(&message),
        Err(error) => {
            return error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", &error.to_string());
        }
    };
    let Some((following, traces, receipts)) = context.followers.follow(filter) else {
        let message = format!("{FOLLOWERS_MAX} clients follow requests already: try again when one has left");
        return error_response(StatusCode::SERVICE_UNAVAILABLE, "busy", &message);
    };
    info!(target: component::ADMIN, "audit: requests are followed by {}", client.0);
    let _ = tokio::time::timeout(ADOPT_TIMEOUT, receipts.all()).await;
    let (sender, lines) = mpsc::channel(1);
    tokio::spawn(send(following, traces, sender, limit.unwrap_or(u64::MAX)));
    let mut response = Response::new(Body::new(TraceLines(lines)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Sends traces as lines until the limit is reached, the client has left, or no worker is left.
async fn send(
    following: Following,
    mut traces: mpsc::Receiver<Arc<GatheredTrace>>,
    lines: mpsc::Sender<Bytes>,
    limit: u64,
) {
    let mut left = limit;
    while left > 0 {
        let next = tokio::select! {
            () = lines.closed() => return,
            next = traces.recv() => next,
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => {
                if lines.send(Bytes::from_static(b"\n")).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(trace) = next else { return };
        let lost = following.follower.take_lost();
        // On a blocking thread: with many routes, the explanation takes milliseconds.
        let Ok(line) = spawn_blocking(move || line(&trace, lost)).await else { continue };
        if lines.send(line).await.is_err() {
            return;
        }
        left -= 1;
    }
}

/// Returns the line of a trace, after a line that counts the traces lost before it.
fn line(trace: &GatheredTrace, lost: u64) -> Bytes {
    let mut text = Vec::new();
    // Serialising into memory cannot fail.
    if lost > 0 {
        let _ = serde_json::to_writer(&mut text, &LostTraces { lost });
        text.push(b'\n');
    }
    let _ = serde_json::to_writer(&mut text, &trace.complete());
    text.push(b'\n');
    text.into()
}

/// The body of the response.
struct TraceLines(mpsc::Receiver<Bytes>);

impl hyper::body::Body for TraceLines {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}
