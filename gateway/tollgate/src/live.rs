//! Endpoints of the admin API for live figures and for `explain`.

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tollgate_observe::live::{HistoryScope, LiveDocument};
use tollgate_plan::Plan;

use crate::admin_context::AdminContext;
use crate::api::body::read_whole;
use crate::api::error_response;
use crate::explain::{ExplainRequest, InvalidRequest, explain_running};
use crate::live_lists;

/// The largest question, in bytes. It must hold a request head.
const QUESTION_MAX_BYTES: usize = 2 << 20;

/// Returns the routes of this part; all of them only read.
pub fn routes() -> Router<AdminContext> {
    Router::new()
        .route("/api/v1/live", get(live))
        .route("/api/v1/live/history", get(history))
        .route("/api/v1/live/routes", get(live_lists::routes))
        .route("/api/v1/live/upstreams", get(live_lists::upstreams))
        .route("/api/v1/explain", post(explain))
}

/// The query parameters of a request for live figures.
#[derive(Debug, Deserialize)]
struct LiveQuery {
    /// Only points after this time, in seconds since 1970.
    #[serde(default)]
    after: f64,
    /// The most routes.
    routes: Option<usize>,
    /// The most upstreams.
    upstreams: Option<usize>,
    /// A route that is there in any case.
    route: Option<String>,
    /// An upstream that is there in any case.
    upstream: Option<String>,
}

/// `GET /api/v1/live?after=TIME`: returns counts, workers, routes, endpoints, cost and history.
async fn live(State(context): State<AdminContext>, Query(query): Query<LiveQuery>) -> Json<LiveDocument> {
    let mut live = context.admin.registry.live(query.after);
    if let Some(most) = query.routes {
        keep(&mut live.routes, most, |route| query.route.as_ref() == Some(&route.name));
    }
    if let Some(most) = query.upstreams {
        let before = live.upstreams.len();
        keep(&mut live.upstreams, most, |upstream| query.upstream.as_ref() == Some(&upstream.name));
        live.upstreams_left_out += before - live.upstreams.len();
    }
    add_limits(&mut live, &context.plan.borrow());
    Json(live)
}

/// The query parameters of a request for the last hour.
#[derive(Debug, Deserialize)]
struct HistoryQuery {
    /// `gateway`, `route` or `upstream`.
    scope: Option<String>,
    /// The route or the upstream.
    #[serde(default)]
    name: String,
    /// Only rows after this time, in seconds since 1970.
    #[serde(default)]
    after: f64,
}

/// `GET /api/v1/live/history?scope=SCOPE&name=NAME&after=TIME`: returns the last hour in steps of ten seconds.
async fn history(State(context): State<AdminContext>, Query(query): Query<HistoryQuery>) -> Response {
    let bad = |message: &str| error_response(StatusCode::BAD_REQUEST, "bad_request", message);
    let scope = match query.scope.as_deref().unwrap_or("gateway") {
        "gateway" => HistoryScope::Gateway,
        "route" => HistoryScope::Route,
        "upstream" => HistoryScope::Upstream,
        _ => return bad("`scope` must be `gateway`, `route` or `upstream`"),
    };
    match scope {
        HistoryScope::Gateway if !query.name.is_empty() => {
            bad("`name` needs `scope=route` or `scope=upstream`")
        }
        HistoryScope::Route | HistoryScope::Upstream if query.name.is_empty() => {
            bad("`name` is missing: the route or the upstream")
        }
        _ => Json(context.admin.registry.hour(scope, &query.name, query.after)).into_response(),
    }
}

/// Keeps the first `most` entries, and the entries that `wanted` names.
fn keep<T>(entries: &mut Vec<T>, most: usize, wanted: impl Fn(&T) -> bool) {
    let mut place = 0;
    entries.retain(|entry| {
        place += 1;
        place <= most || wanted(entry)
    });
}

/// Adds the limits that the plan sets to the current figures.
fn add_limits(live: &mut LiveDocument, plan: &Plan) {
    live.clients.limit = plan.settings.limits.connections;
    let limits = live_lists::upstream_limits(plan);
    for upstream in &mut live.upstreams {
        if let Some(limits) = limits.get(upstream.name.as_str()) {
            upstream.limits = limits.clone();
        }
    }
}

/// `POST /api/v1/explain`: explains a request by the plan in force. The body is an [`ExplainRequest`].
async fn explain(State(context): State<AdminContext>, body: Body) -> Response {
    let body = match read_whole(body, QUESTION_MAX_BYTES).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let request: ExplainRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return invalid_request(String::new(), error.to_string()).into_response(),
    };
    let plan = context.plan.borrow().clone();
    let disk = plan.policies().known_cache().and_then(|store| store.disk_status());
    // On a blocking thread: with many routes it takes milliseconds.
    let answer = match spawn_blocking(move || explain_running(&request, &plan)).await {
        Ok(Ok(mut report)) => {
            let stores = report.pointer_mut("/stores/disk").and_then(Value::as_object_mut);
            if let (Some(disk), Some(stores)) = (disk, stores) {
                stores.insert("state".to_owned(), disk.state.as_str().into());
            }
            (StatusCode::OK, Json(report))
        }
        Ok(Err(InvalidRequest { pointer, message })) => invalid_request(pointer, message),
        Err(error) => {
            let value = json!({ "error": "internal_error", "message": error.to_string() });
            (StatusCode::INTERNAL_SERVER_ERROR, Json(value))
        }
    };
    answer.into_response()
}

/// Returns the response to an invalid question. `pointer` is its position (RFC 6901).
fn invalid_request(pointer: String, message: String) -> (StatusCode, Json<Value>) {
    let problem = json!({ "pointer": pointer, "message": message });
    let value = json!({ "error": "invalid", "message": message, "problems": [problem] });
    (StatusCode::UNPROCESSABLE_ENTITY, Json(value))
}
