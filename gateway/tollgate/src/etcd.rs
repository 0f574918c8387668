//! etcd as a source: joins it at the start, and reports its state.

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tollgate_config::LogLevel;
use tollgate_net::component;
use tollgate_observe::EtcdStatus;
use tollgate_plan::compile_parts;
use tollgate_sources::{EtcdEvent, EtcdView, GatewayIdentity, RefusedEntry, Sources, View, list_gateways};
use tracing::{error, info, warn};

use crate::admin_context::AdminContext;
use crate::api::problem_to_json;
use crate::load::LoadedPlan;

/// Joins the etcd that the configuration names, if any. The plan made with its resources replaces the plan of
/// the file.
///
/// # Errors
/// A message: etcd does not answer, and no last good state is cached.
pub fn join(
    sources: &mut Sources,
    loaded: &mut LoadedPlan,
) -> Result<Option<mpsc::Receiver<EtcdEvent>>, String> {
    let Some(settings) = &loaded.config.etcd else { return Ok(None) };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "gateway" } else { host.trim() };
    let identity = GatewayIdentity {
        program: format!("tollgate {}", env!("CARGO_PKG_VERSION")),
        name: format!("{host}-{}", std::process::id()),
    };
    let (applied, etcd_events) = sources.join(settings, identity, |parts| Ok(compile_parts(parts)?.plan))?;
    applied.messages.iter().for_each(log_message);
    if let Some(plan) = applied.compiled {
        loaded.plan = plan;
    }
    // The generation of the first plan.
    sources.publish_presence(1);
    Ok(Some(etcd_events))
}

/// Writes a message of the source to the log.
pub fn log_message((level, text): &(LogLevel, String)) {
    match level {
        LogLevel::Error => error!(target: component::ETCD, "{text}"),
        LogLevel::Warn => warn!(target: component::ETCD, "{text}"),
        _ => info!(target: component::ETCD, "{text}"),
    }
}

/// Returns etcd's state for metrics and the status page.
pub fn status(view: &View) -> Option<EtcdStatus> {
    view.read(|state| {
        let etcd = state.etcd.as_ref()?;
        Some(EtcdStatus {
            connected: etcd.member.is_some(),
            losses: etcd.losses,
            revision: etcd.revision,
            refused: etcd.refused.len(),
        })
    })
}

/// Returns the part of the admin API for etcd; it only reads.
pub fn routes() -> Router<AdminContext> {
    Router::new().route("/api/v1/etcd", get(get_etcd))
}

/// `GET /api/v1/etcd`: returns whether etcd answers, which entries were refused, and which gateways have
/// joined.
async fn get_etcd(State(context): State<AdminContext>) -> (StatusCode, Json<Value>) {
    let Some(etcd): Option<EtcdView> = context.view.read(|state| state.etcd.clone()) else {
        let message = "etcd is no source of this gateway: the configuration file does not name it";
        return (StatusCode::NOT_FOUND, Json(json!({ "error": "not_found", "message": message })));
    };
    let since = etcd.since.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    let refused: Vec<Value> = etcd.refused.iter().map(refused_to_json).collect();
    let gateways = match etcd.member {
        Some(_) => list_gateways(&etcd.handle).await.ok(),
        None => None,
    };
    let value = json!({
        "connected": etcd.member.is_some(),
        "member": etcd.member,
        "problem": etcd.problem,
        "since": crate::time::rfc3339(u64::try_from(since).unwrap_or_default()),
        "losses": etcd.losses,
        "cached": etcd.cached,
        "prefix": etcd.handle.settings().prefix,
        "name": etcd.handle.settings().name,
        "revision": etcd.revision,
        "refused": refused,
        "gateways": gateways,
    });
    (StatusCode::OK, Json(value))
}

fn refused_to_json(entry: &RefusedEntry) -> Value {
    json!({
        "resource": entry.key,
        "revision": entry.revision,
        "removal": entry.removal,
        "in_force": entry.in_force,
        "problems": entry.problems.iter().map(problem_to_json).collect::<Vec<_>>(),
    })
}
