//! Rolls out changes of documents: requests over the API, events of etcd, and changes of objects.
//!
//! The control thread calls these functions with the results of [`source_reader`](crate::source_reader). Each gives the
//! new plan to the workers and returns. A task answers when all workers run the plan, and in a controller also when the
//! connected gateways serve the documents. [`reload`](crate::reload) does the same for the file.

use std::time::SystemTime;

use tollgate_fleet::FleetHandle;
use tollgate_net::component;
use tollgate_observe::Registry;
use tollgate_plan::UpstreamChange;
use tollgate_proxy::{Receipt, Rollout};
use tollgate_sources::{Applied, ChangeError, ChangeResult, CompletedRequest, Refused};
use tollgate_upstream::health::HealthMonitor;
use tracing::{debug, info, warn};

use crate::documents;
use crate::endpoint_discovery;
use crate::etcd;
use crate::files::certificate_expiries;
use crate::fleet;
use crate::gateway::Gateway;
use crate::job_context::PreparedRollout;
use crate::listeners::ListenersChange;
use crate::source_reader::{ObjectChanges, SourceReader, StoreChanges};

/// Puts changes in force. They are answered when all workers run the plan.
pub async fn apply_changes(
    changed: StoreChanges,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    reader: &mut SourceReader,
) {
    let StoreChanges { rollout, mut completed, deferred } = changed;
    let (requests, deferred_requests) = (completed.len(), deferred.len());
    debug!(target: component::RELOAD, requests, deferred_requests, "compiled the changes of the API");
    reader.queue_deferred(deferred);
    for request in &completed {
        let who = &request.pending.request.who;
        if !request.result.changes.is_empty() {
            let (version, summary) = (request.result.version, &request.summary);
            info!(target: component::ADMIN, version, "audit: version {version} by {who}: {summary}");
        }
    }
    let Some(PreparedRollout { rollout, listeners }) = rollout else {
        let generation = gateway.current().generation();
        for CompletedRequest { pending, result, .. } in completed {
            pending.send_answer(Ok(ChangeResult { generation, ..result }));
        }
        return;
    };
    let ended_lookups = endpoint_discovery::apply(&mut gateway.discovery, &rollout).await;
    let receipts = gateway.roll_out(rollout.clone(), listeners).await;
    log_rollout(&rollout);
    health.apply_plan(rollout.change());
    if let Some(sources) = reader.sources() {
        sources.publish(&completed);
    }
    let published = Published::new(gateway, reader);
    let registry = gateway.registry.clone();
    tokio::spawn(async move {
        let done = receipts.all().await;
        let generation = rollout.generation();
        record_in_force(&rollout, &registry);
        drop(rollout);
        published.wait_until_served().await;
        for CompletedRequest { pending, result, .. } in completed.drain(..) {
            pending.send_answer(match &done {
                Ok(()) => Ok(ChangeResult { generation, ..result }),
                Err(error) => Err(ChangeError::StoreFailed(error.to_string())),
            });
        }
        ended_lookups.forget();
    });
}

/// Puts changes from etcd in force.
pub async fn apply_etcd(
    rollout: Option<PreparedRollout>,
    applied: &Applied<()>,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    reader: &SourceReader,
) {
    applied.messages.iter().for_each(etcd::log_message);
    if let Some(sources) = reader.sources() {
        sources.publish_applied(applied);
    }
    if let Some(rollout) = rollout {
        put_in_force(rollout, gateway, health, Published::new(gateway, reader), |_| ()).await;
    }
}

/// Puts changed documents of a source in force. They are answered when all workers run the plan.
pub async fn apply_documents(
    changed: ObjectChanges,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    reader: &SourceReader,
) {
    let ObjectChanges { rollout, applied, changes } = changed;
    applied.messages.iter().for_each(|message| documents::log_message(applied.source, message));
    if let Some(sources) = reader.sources() {
        sources.publish_documents(&applied);
    }
    let mut refused = applied.refused;
    let answer = move |by_gateways: Refused| {
        for (key, why) in by_gateways {
            refused.entry(key).or_insert(why);
        }
        documents::answer(changes, refused);
    };
    let published = Published::new(gateway, reader);
    match rollout {
        Some(rollout) => put_in_force(rollout, gateway, health, published, answer).await,
        None => drop(tokio::spawn(async move { answer(published.wait_until_served().await) })),
    }
}

/// The documents of a controller that its gateways get. It is empty for a gateway.
pub(crate) struct Published(Option<(FleetHandle, u64)>);

impl Published {
    /// Publishes the documents of a controller's sources.
    pub fn new(gateway: &Gateway, reader: &SourceReader) -> Self {
        Self(gateway.fleet.clone().zip(reader.sources()).map(|(fleet, sources)| {
            let version = fleet.publish(sources.fleet_documents());
            (fleet, version)
        }))
    }

    /// Waits until the connected gateways serve the documents. Returns the documents that gateways refuse.
    pub async fn wait_until_served(self) -> Refused {
        match self.0 {
            Some((fleet, version)) => fleet.wait_until_served(version, fleet::SERVED_TIMEOUT).await,
            None => Refused::new(),
        }
    }
}

/// Gives a plan to all workers. Calls `done` when all of them, and the gateways of a fleet, run it.
async fn put_in_force(
    PreparedRollout { rollout, listeners }: PreparedRollout,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    published: Published,
    done: impl FnOnce(Refused) + Send + 'static,
) {
    let ended_lookups = endpoint_discovery::apply(&mut gateway.discovery, &rollout).await;
    let receipts = gateway.roll_out(rollout.clone(), listeners).await;
    log_rollout(&rollout);
    health.apply_plan(rollout.change());
    let registry = gateway.registry.clone();
    tokio::spawn(async move {
        if receipts.all().await.is_ok() {
            record_in_force(&rollout, &registry);
        }
        drop(rollout);
        done(published.wait_until_served().await);
        ended_lookups.forget();
    });
}

/// Reports that the plan is on its way to the workers.
pub(crate) fn log_rollout(rollout: &Rollout) {
    let UpstreamChange { added, changed, removed } = rollout.change();
    debug!(
        target: component::RELOAD,
        generation = rollout.generation(),
        routes = rollout.routes.len(),
        upstreams_added = added.len(),
        upstreams_changed = changed.len(),
        upstreams_removed = removed.len(),
        "sent the plan to the workers"
    );
}

/// Records that every worker runs the plan.
fn record_in_force(rollout: &Rollout, registry: &Registry) {
    let (generation, routes) = (rollout.generation(), rollout.routes.len());
    debug!(target: component::RELOAD, generation, "every worker runs the plan");
    registry.update_status(|status| {
        if generation > status.generation {
            status.generation = generation;
            status.routes = routes;
            status.connections_limit = rollout.settings.limits.connections;
            status.certificates = certificate_expiries(rollout);
            status.in_force_since = SystemTime::now();
        }
    });
}

/// Adopts sockets of listeners that could not be opened before.
pub fn apply_sockets(change: ListenersChange, gateway: &mut Gateway) {
    if change.is_empty() {
        return;
    }
    info!(target: component::LISTENER, "opened listeners of documents that were missing");
    let (receipt, _) = Receipt::new();
    if let Err(error) = gateway.change_listeners(change, &receipt) {
        warn!(target: component::LISTENER, "{error}");
    }
}
