//! The pages of the admin listener that this crate answers, by path.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::AdminState;
use super::accept::prefers;
use super::upstreams;
use crate::{Exposition, UpstreamStatus};

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

const INDEX: &str = "\
Tollgate, admin listener

/dashboard/   the dashboard, for a browser
/api/v1/live  the live state, for programs (JSON)
/metrics   metrics, as Prometheus text or OpenMetrics
/cost      CPU time per request and remaining headroom (JSON; as text: /cost.txt)
/status    the present configuration, the last reload and upgrade (JSON)
/upstreams every endpoint: its health, ejections, connections, requests (JSON; text or HTML by Accept)
/healthz   200 while the process runs
/readyz    200 while the gateway accepts new traffic, otherwise 503
";

/// Returns the router of the pages, for the code that assembles the admin listener. It also answers unknown
/// paths.
pub fn pages(state: AdminState) -> Router {
    Router::new()
        .route("/", get(async |headers: HeaderMap| index(accept(&headers))))
        .route(
            "/metrics",
            get(async |State(state): State<AdminState>, headers: HeaderMap| {
                render_on_thread(move || metrics(accept(&headers), &state)).await
            }),
        )
        .route("/cost", get(async |State(state), headers: HeaderMap| cost(accept(&headers), &state)))
        .route("/cost.txt", get(async |State(state)| cost("text/plain", &state)))
        .route("/status", get(status))
        .route(
            "/upstreams",
            get(async |State(state): State<AdminState>, headers: HeaderMap| {
                render_on_thread(move || upstreams(accept(&headers), &state)).await
            }),
        )
        .route("/healthz", get(async || respond(StatusCode::OK, TEXT, "ok\n")))
        .route("/readyz", get(ready))
        .method_not_allowed_fallback(async || {
            problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "only GET and HEAD")
        })
        .fallback(async || problem(StatusCode::NOT_FOUND, "not_found", "GET / lists what there is"))
        .with_state(state)
}

fn accept(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Redirects a browser to the dashboard; other clients get the list of pages.
fn index(accept: &str) -> Response {
    if !prefers(accept, "text/html", "text/plain") {
        return respond(StatusCode::OK, TEXT, INDEX);
    }
    let mut response = respond(StatusCode::SEE_OTHER, TEXT, "");
    // The location is relative, so that it also works under a path prefix.
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("dashboard/"));
    response
}

async fn status(State(state): State<AdminState>) -> Response {
    respond(StatusCode::OK, JSON, state.registry.status().json())
}

async fn ready(State(state): State<AdminState>) -> Response {
    match state.ready.load(Ordering::Relaxed) {
        true => respond(StatusCode::OK, TEXT, "ready\n"),
        false => respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, "not ready\n"),
    }
}

fn cost(accept: &str, state: &AdminState) -> Response {
    let reading = state.registry.cost();
    match prefers(accept, "text/plain", JSON) {
        true => respond(StatusCode::OK, TEXT, reading.text()),
        false => respond(StatusCode::OK, JSON, reading.json()),
    }
}

fn upstreams(accept: &str, state: &AdminState) -> Response {
    let all = state.registry.upstreams();
    match (prefers(accept, "text/html", JSON), prefers(accept, "text/plain", JSON)) {
        // A browser names HTML, and covers other types only with a lower weight.
        (true, false) => page(&all),
        (true, true) if prefers(accept, "text/html", "text/plain") => page(&all),
        (_, true) => respond(StatusCode::OK, TEXT, upstreams::text(&all)),
        (false, false) => respond(StatusCode::OK, JSON, upstreams::json(&all, SystemTime::now())),
    }
}

fn page(all: &[UpstreamStatus]) -> Response {
    let mut response = respond(StatusCode::OK, HTML, upstreams::html(all));
    let policy = HeaderValue::from_static(upstreams::POLICY);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    response
}

/// Renders a large answer on another thread, so that the control thread can still answer health checks.
async fn render_on_thread(make: impl FnOnce() -> Response + Send + 'static) -> Response {
    let made = tokio::task::spawn_blocking(make).await;
    made.unwrap_or_else(|_| {
        problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the answer could not be made")
    })
}

fn metrics(accept: &str, state: &AdminState) -> Response {
    if !state.registry.enabled() {
        return problem(
            StatusCode::NOT_FOUND,
            "metrics_off",
            "metrics are switched off in the configuration",
        );
    }
    let format = match prefers(accept, "application/openmetrics-text", "text/plain") {
        true => Exposition::OpenMetrics,
        false => Exposition::Text,
    };
    respond(StatusCode::OK, format.content_type(), state.registry.render_as(format))
}

fn problem(status: StatusCode, error: &str, message: &str) -> Response {
    respond(status, JSON, format!("{}\n", json!({ "error": error, "message": message })))
}

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Every answer describes this moment only.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
