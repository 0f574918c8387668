//! Endpoints of the admin API for the stored responses of the policies `cache`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_cache::{Counts, DiskStatus, Store};
use tollgate_net::component;
use tollgate_sources::{list_gateways, write_purge};
use tracing::info;

use super::body;
use super::response::{body as respond, error_response, json_or_yaml, wants_yaml};
use crate::access::ClientName;
use crate::admin_context::AdminContext;
use crate::purge_request::PurgeRequest;

/// `GET /api/v1/cache`: returns how much is stored, and how many requests it has answered.
pub async fn get(State(context): State<AdminContext>, headers: HeaderMap) -> Response {
    let counts = store(&context).map_or_else(Counts::default, |store| store.counts());
    let capacity = context.plan.borrow().settings.cache.memory;
    let looked_up = counts.hits + counts.misses;
    let ratio = (looked_up > 0).then(|| counts.hits as f64 / looked_up as f64);
    let mut state = json!({
        "objects": counts.objects,
        "bytes": counts.bytes,
        "capacity": capacity,
        "hits": counts.hits,
        "misses": counts.misses,
        "hit_ratio": ratio.map(|ratio| (ratio * 1e4).round() / 1e4),
        "followed": counts.followed,
        "evictions": counts.evictions,
        "refused": counts.refused,
    });
    if let Some(status) = store(&context).and_then(|store| store.disk_status()) {
        state["disk"] = disk_tier(&status);
    }
    json_or_yaml(&headers, &state)
}

fn disk_tier(status: &DiskStatus) -> Value {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &status.counters;
    json!({
        "state": status.state.as_str(),
        "objects": status.objects,
        "bytes": status.bytes,
        "capacity": status.size_bytes,
        "waiting_bytes": status.waiting_bytes,
        "waiting_purges": status.waiting_purges,
        "hits": count(&counters.hits),
        "read_bytes": count(&counters.read_bytes),
        "writes": count(&counters.writes),
        "written_bytes": count(&counters.written_bytes),
        "drops": count(&counters.drops),
        "evictions": count(&counters.evictions),
        "errors": count(&counters.errors),
        "problem": status.problem,
    })
}

/// `POST /api/v1/cache/purge`: removes stored responses, or marks them as stale. With etcd as a source, it holds for every
/// gateway that shares it, else for this process.
pub async fn purge(
    State(context): State<AdminContext>,
    ClientName(who): ClientName,
    headers: HeaderMap,
    content: Body,
) -> Response {
    let value = match body::read(&headers, content).await {
        Ok(body) => body.value,
        Err(response) => return *response,
    };
    let request = match PurgeRequest::parse(&value) {
        Ok(request) => request,
        Err(message) => return error_response(StatusCode::BAD_REQUEST, "bad_request", &message),
    };
    info!(target: component::ADMIN, "audit: purge of the cache by {who}: {value}");
    let etcd = context.view.read(|state| state.etcd.as_ref().map(|etcd| etcd.handle.clone()));
    let Some(etcd) = etcd else {
        let (purged, is_durable) = purge_here(&context, request).await;
        let mut answer = json!({ "purged": purged });
        if !is_durable {
            answer["durable"] = json!(false);
        }
        return respond(StatusCode::OK, wants_yaml(&headers), &answer);
    };
    match write_purge(&etcd, value.to_string().into_bytes()).await {
        Ok(version) => {
            let purged = context.purges.wait(version).await;
            let gateways = list_gateways(&etcd).await.ok().map(|gateways| gateways.len());
            let result = json!({ "purged": purged, "version": version, "gateways": gateways });
            respond(StatusCode::OK, wants_yaml(&headers), &result)
        }
        Err(error) => {
            let (purged, _) = purge_here(&context, request).await;
            let message = format!("{error}; only this gateway was purged: {purged} stored responses");
            error_response(StatusCode::SERVICE_UNAVAILABLE, "etcd", &message)
        }
    }
}

/// Purges the store of this process. Returns how many responses in memory that concerned, and whether it holds after a
/// restart too.
async fn purge_here(context: &AdminContext, request: PurgeRequest) -> (u64, bool) {
    match store(context) {
        // It visits all objects, and waits for the disk.
        Some(store) => {
            tokio::task::spawn_blocking(move || request.carry_out(&store)).await.unwrap_or_default()
        }
        None => (0, true),
    }
}

/// Returns the store of responses, if a policy has used it.
pub fn store(context: &AdminContext) -> Option<Arc<Store>> {
    context.plan.borrow().policies().known_cache().cloned()
}
