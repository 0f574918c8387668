//! Endpoints of the admin API for the stored responses of the policies `cache`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_cache::{Counts, DiskStatus, Store};
use tollgate_fleet::{FleetHandle, PurgeReceipt};
use tollgate_net::component;
use tollgate_sources::{EtcdHandle, list_gateways, write_purge};
use tracing::info;

use super::body;
use super::response::{body as respond, error_response, json_or_yaml, wants_yaml};
use crate::access::ClientName;
use crate::admin_context::AdminContext;
use crate::fleet::count_purged;
use crate::purge_request::{DISK_WAIT, PurgeRequest};
use crate::time::since_1970;

/// How long a controller waits until its gateways have carried out a purge.
const FLEET_TIMEOUT: Duration = Duration::from_secs(5);
/// Bound of a purge of a fleet, in bytes of its text: the controller keeps thousands.
const FLEET_PURGE_MAX_BYTES: usize = 16 << 10;

/// `GET /api/v1/cache`: returns how much is stored, and how many requests it has answered.
pub async fn get(State(context): State<AdminContext>, headers: HeaderMap) -> Response {
    let counts = store(&context).map_or_else(Counts::default, |store| store.counts());
    let disk = store(&context).and_then(|store| store.disk_status());
    let capacity = context.plan.borrow().settings.cache.memory;
    let looked_up = counts.hits + counts.misses;
    // A miss in memory may be a hit on disk.
    let from_disk = disk.as_ref().map_or(0, |disk| disk.counters.hits.load(Ordering::Relaxed));
    let hits = (counts.hits + from_disk).min(looked_up);
    let ratio = (looked_up > 0).then(|| hits as f64 / looked_up as f64);
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
        "compressed": counts.forms,
        "compressed_bytes": counts.form_bytes,
    });
    if let Some(status) = &disk {
        state["disk"] = disk_tier(status);
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
        "problem": status.problem.as_ref().map(|(problem, _)| problem),
        "problem_since": status.problem.as_ref().map(|(_, since)| since_1970(*since)),
        "last_error": status.last_error_at.map(since_1970),
        "emptied_at_start": status.was_outdated,
    })
}

/// `POST /api/v1/cache/purge`: removes stored responses, or marks them as stale. At a controller it holds for its
/// gateways; with etcd as a source, for every gateway that shares it; else for this process.
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
    if let Some(fleet) = &context.fleet {
        return purge_fleet(&context, fleet, value, etcd.as_ref(), wants_yaml(&headers)).await;
    }
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

/// Purges the gateways of this controller. With etcd, the purge is a record there, which every controller relays.
async fn purge_fleet(
    context: &AdminContext,
    fleet: &FleetHandle,
    request: Value,
    etcd: Option<&EtcdHandle>,
    wants_yaml: bool,
) -> Response {
    let text = request.to_string();
    if text.len() > FLEET_PURGE_MAX_BYTES {
        let message = format!("the purge has more than {FLEET_PURGE_MAX_BYTES} bytes");
        return error_response(StatusCode::BAD_REQUEST, "bad_request", &message);
    }
    let written = match etcd {
        Some(etcd) => match write_purge(etcd, text.into_bytes()).await {
            Ok(version) => {
                let Some(number) = context.purges.wait(version).await else {
                    let message = format!("the purge {version} is in etcd, which has not reported it yet");
                    return error_response(StatusCode::SERVICE_UNAVAILABLE, "etcd", &message);
                };
                Ok((PurgeReceipt { number, is_durable: Ok(true) }, version))
            }
            Err(error) => Err(("etcd", error.to_string(), add_purge(fleet, request).await)),
        },
        None => match add_purge(fleet, request).await {
            PurgeReceipt { number, is_durable: Err(why) } => {
                let why = format!("the purge could not be kept: {why}");
                Err(("file", why, PurgeReceipt { number, is_durable: Ok(false) }))
            }
            receipt => Ok((receipt.clone(), receipt.number)),
        },
    };
    let number = match &written {
        Ok((receipt, _)) | Err((_, _, receipt)) => receipt.number,
    };
    fleet.wait_until_purged(number, FLEET_TIMEOUT).await;
    let (gateways, acknowledged) = count_purged(fleet, number);
    let purged = fleet.read_purges(|list| list.purged(number));
    match written {
        Ok((receipt, version)) => {
            let result = json!({
                "purged": purged,
                "version": version,
                "gateways": gateways,
                "acknowledged": acknowledged,
                "durable": receipt.is_durable == Ok(true),
            });
            respond(StatusCode::OK, wants_yaml, &result)
        }
        Err((code, why, _)) => {
            let message = format!(
                "{why}; only connected gateways were purged: {acknowledged} of {gateways}, {purged} stored responses"
            );
            error_response(StatusCode::SERVICE_UNAVAILABLE, code, &message)
        }
    }
}

/// Adds a purge to the list of a controller. It may wait for the disk.
async fn add_purge(fleet: &FleetHandle, request: Value) -> PurgeReceipt {
    let (fleet, request) = (fleet.clone(), Arc::new(request));
    let added = tokio::task::spawn_blocking(move || fleet.purge(request)).await;
    added.unwrap_or_else(|error| PurgeReceipt { number: 0, is_durable: Err(error.to_string()) })
}

/// Purges the store of this process. Returns how many responses in memory that concerned, and whether it holds after a
/// restart too.
async fn purge_here(context: &AdminContext, request: PurgeRequest) -> (u64, bool) {
    match store(context) {
        // It visits all objects, and waits for the disk.
        Some(store) => tokio::task::spawn_blocking(move || request.carry_out(&store, DISK_WAIT))
            .await
            .unwrap_or_default(),
        None => (0, true),
    }
}

/// Returns the store of responses, if a policy has used it.
pub fn store(context: &AdminContext) -> Option<Arc<Store>> {
    context.plan.borrow().policies().known_cache().cloned()
}
