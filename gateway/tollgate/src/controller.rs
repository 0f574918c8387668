//! A controller as a source: joins it at the start, and reports the state of the connection.

use std::sync::PoisonError;

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};
use tollgate_observe::ControllerStatus;
use tollgate_sources::{GatewayIdentity, Sources, View};

use crate::admin_context::AdminContext;
use crate::documents::{self, JoinedSource};
use crate::fleet::position_to_json;
use crate::load::{LoadedPlan, compile_at_start};
use crate::time::since_1970;

/// Joins the controller that the configuration names, if any. The plan made with its documents replaces the plan of the
/// file.
///
/// # Errors
/// A message: no controller answers, and no last good state is kept.
pub fn join(sources: &mut Sources, loaded: &mut LoadedPlan) -> Result<Option<JoinedSource>, String> {
    let Some(settings) = &loaded.config.controller else { return Ok(None) };
    let (applied, first, events) = sources.join_controller(settings, identity(), compile_at_start)?;
    applied.messages.iter().for_each(|message| documents::log_message(applied.source, message));
    if let Some(plan) = applied.compiled {
        loaded.plan = plan;
    }
    Ok(Some(JoinedSource { events, first, refused: applied.refused }))
}

/// Returns the identity of this gateway, unless the configuration names it.
pub fn identity() -> GatewayIdentity {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "gateway" } else { host.trim() };
    GatewayIdentity {
        program: format!("tollgate {}", env!("CARGO_PKG_VERSION")),
        name: format!("{host}-{}", std::process::id()),
    }
}

/// Returns the state of the connection for metrics and the status page.
pub fn status(view: &View) -> Option<ControllerStatus> {
    let shared = view.read(|state| state.controller.clone())?;
    let status = shared.lock().unwrap_or_else(PoisonError::into_inner);
    Some(ControllerStatus {
        connected: status.controller.is_some(),
        losses: status.losses,
        version: status.position.as_ref().map_or(0, |position| position.version),
        refused: status.refused.len(),
        purge: status.purge,
    })
}

/// Returns the part of the admin API for the controller; it only reads.
pub fn routes() -> Router<AdminContext> {
    Router::new().route("/api/v1/controller", get(get_controller))
}

/// `GET /api/v1/controller`: returns whether a controller answers, which version this gateway serves, and which
/// documents it refused.
async fn get_controller(State(context): State<AdminContext>) -> (StatusCode, Json<Value>) {
    let Some(shared) = context.view.read(|state| state.controller.clone()) else {
        let message = "a controller is no source of this gateway: the configuration file does not name one";
        return (StatusCode::NOT_FOUND, Json(json!({ "error": "not_found", "message": message })));
    };
    let status = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let value = json!({
        "name": status.name,
        "connected": status.controller.is_some(),
        "controller": status.controller,
        "problem": status.problem,
        "since": since_1970(status.since),
        "losses": status.losses,
        "cached": status.cached,
        "position": status.position.as_ref().map(position_to_json),
        "purge": status.purge,
        "refused": status.refused.iter()
            .map(|(resource, problem)| json!({ "resource": resource, "problem": problem }))
            .collect::<Vec<_>>(),
    });
    (StatusCode::OK, Json(value))
}
