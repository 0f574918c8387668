//! What the admin listener serves: the one place where its pages and its API are put together.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::watch;
use tollgate_observe::{AdminState, pages};
use tollgate_proxy::Rollout;

/// What the pages and the API are made from. It is cheap to clone, and each handler has one.
#[derive(Clone, Debug)]
pub struct Surface {
    /// The counters, and whether the gateway is ready.
    pub admin: AdminState,
    /// The plan that the workers run, or are about to. Who looks at it lets go of it soon: while somebody holds a plan
    /// it is not freed.
    pub plan: watch::Receiver<Arc<Rollout>>,
}

/// All that the admin listener answers. A part with pages of its own is merged here.
pub fn router(surface: &Surface) -> Router {
    let api = Router::new().route("/api/v1", get(summary)).with_state(surface.clone());
    pages(surface.admin.clone()).merge(api)
}

/// `GET /api/v1`: what runs.
async fn summary(State(surface): State<Surface>) -> Json<Value> {
    let plan = surface.plan.borrow().clone();
    let (routes, upstreams) = (plan.routes.len(), plan.upstreams.len());
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "generation": plan.generation(),
        "routes": routes,
        "upstreams": upstreams,
    }))
}
