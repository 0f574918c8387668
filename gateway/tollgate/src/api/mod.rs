//! `/api/v1`: reads and changes what the gateway runs.
//!
//! A change goes to the control thread, which makes it durable and rolls it out. The client gets its answer
//! when both are done. Reads never wait for the control thread: they use the
//! [`View`](tollgate_sources::View).

pub(crate) mod body;
mod cache;
mod cache_objects;
mod changes;
mod history;
mod listeners;
mod log;
mod openapi;
mod process;
mod resources;
mod response;

pub use resources::is_optional_key;
pub use response::{audited_change, change_error_response, error_response, json_or_yaml, problem_to_json};

use std::collections::HashMap;

use axum::Router;
use axum::routing::{get, post};
use tokio::sync::oneshot;
use tollgate_config::DocumentProblem;
use tollgate_sources::{ChangeError, ChangeOutcome, ChangeRequest, ChangeResult, Intent, PendingRequest};

use crate::admin_context::AdminContext;

/// Returns the routes of the API. The [guard](crate::access::guard) decides who may use them.
pub fn router(context: &AdminContext) -> Router {
    Router::new()
        .route("/api/v1", get(resources::summary))
        .route("/api/v1/openapi.json", get(openapi::document))
        .route("/api/v1/config", get(resources::config))
        .route("/api/v1/transactions", post(changes::transaction))
        .route("/api/v1/history", get(history::list))
        .route("/api/v1/history/{version}", get(history::one))
        .route("/api/v1/rollback/{version}", post(history::rollback))
        .route("/api/v1/store/backup", post(history::backup))
        .route("/api/v1/store/compact", post(history::compact))
        .route("/api/v1/listeners", get(listeners::list))
        .route("/api/v1/cache", get(cache::get))
        .route("/api/v1/cache/objects", get(cache_objects::list))
        .route("/api/v1/cache/purge", post(cache::purge))
        .route("/api/v1/log", get(log::get).put(log::put))
        .route("/api/v1/reload", post(process::reload))
        .route("/api/v1/stop", post(process::stop))
        .route("/api/v1/{kind}", get(resources::list))
        .route(
            "/api/v1/{kind}/{*name}",
            get(resources::one).put(changes::put).patch(changes::patch).delete(changes::delete),
        )
        .method_not_allowed_fallback(response::wrong_method)
        .with_state(context.clone())
}

/// Sends a change to the control thread, and waits until it is done.
pub async fn submit_change(
    context: &AdminContext,
    who: String,
    intent: Intent,
    dry_run: bool,
) -> ChangeOutcome {
    let (answer, change_response) = oneshot::channel();
    let pending = PendingRequest {
        request: ChangeRequest { who, intent, dry_run },
        received_at: std::time::Instant::now(),
        answer,
    };
    let stops = || ChangeError::NotNow("the gateway stops");
    context.change_queue.send(pending).await.map_err(|_| stops())?;
    let mut answer = change_response.await.unwrap_or_else(|_| Err(stops()));
    if let (true, Ok(done)) = (dry_run, &mut answer) {
        // The generation that the change would have, unless another change comes first.
        done.generation = context.plan.borrow().generation() + u64::from(!done.changes.is_empty());
    }
    if let (false, Ok(done)) = (dry_run, &mut answer) {
        warn_of_shadows(context, done);
    }
    answer
}

/// Adds a warning for each changed route that takes no request, because an older one has the same conditions.
fn warn_of_shadows(context: &AdminContext, done: &mut ChangeResult) {
    let plan = context.plan.borrow().clone();
    let shadowed: HashMap<&str, &str> = plan.shadowed_routes().collect();
    for change in done.changes.iter().filter(|change| change.kind.name == "routes" && change.after.is_some())
    {
        if let Some(by) = shadowed.get(change.name.as_str()) {
            let message = format!("this route is shadowed: `{by}` takes its requests");
            done.warnings.push(DocumentProblem::warning(
                &format!("routes/{}", change.name),
                "/match",
                &message,
            ));
        }
    }
}
