//! What the admin API tells of the running gateway: what goes on, and where a request would go.

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tollgate_observe::live::Live;

use crate::api::body::whole;
use crate::explain::{Asked, Wrong, running};
use crate::surface::Surface;

/// Largest question, in bytes: a head is less than that.
const LARGEST: usize = 2 << 20;

/// The routes; all of them only read.
pub fn routes() -> Router<Surface> {
    Router::new().route("/api/v1/live", get(live)).route("/api/v1/explain", post(explain))
}

/// Which part of the history is wanted.
#[derive(Debug, Deserialize)]
struct Part {
    /// Points after this time, in seconds since 1970.
    #[serde(default)]
    after: f64,
}

/// `GET /api/v1/live?after=TIME`: what goes on.
async fn live(State(surface): State<Surface>, Query(part): Query<Part>) -> Json<Live> {
    Json(surface.admin.registry.live(part.after))
}

/// `POST /api/v1/explain`: where a request would go by the plan in force, and why. The body is an [`Asked`].
async fn explain(State(surface): State<Surface>, body: Body) -> Response {
    let body = match whole(body, LARGEST).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let asked: Asked = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(error) => return refused(String::new(), error.to_string()).into_response(),
    };
    let plan = surface.plan.borrow().clone();
    // With many routes it takes milliseconds, which this thread has not.
    let answer = match spawn_blocking(move || running(&asked, &plan)).await {
        Ok(Ok(report)) => (StatusCode::OK, Json(report)),
        Ok(Err(Wrong { pointer, message })) => refused(pointer, message),
        Err(error) => {
            let value = json!({ "error": "internal_error", "message": error.to_string() });
            (StatusCode::INTERNAL_SERVER_ERROR, Json(value))
        }
    };
    answer.into_response()
}

/// What is asked is no request. `pointer` is where (RFC 6901).
fn refused(pointer: String, message: String) -> (StatusCode, Json<Value>) {
    let problem = json!({ "pointer": pointer, "message": message });
    let value = json!({ "error": "invalid", "message": message, "problems": [problem] });
    (StatusCode::UNPROCESSABLE_ENTITY, Json(value))
}
