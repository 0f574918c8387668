//! The fleet of a controller: `tollgate controller` serves its documents to gateways, and reports what each serves.
//!
//! A controller is a gateway without workers and listeners: the same sources, jobs and admin API. It compiles documents
//! only to check them. A version is in force when the connected gateways serve it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};
use tollgate_config::{FleetSettings, PemFile, kind};
use tollgate_fleet::{
    FleetHandle, FleetServer, GatewayStatus, PROTOCOL, Position, PurgeFile, PurgeList, PurgePosition,
};
use tollgate_net::component;
use tollgate_observe::FleetStatus;
use tollgate_sources::Sources;
use tollgate_tls::{AdmittedClients, ClientAuthentication, Pem, ServerOptions, TlsIdentity, TlsServerConfig};
use tracing::{info, warn};

use crate::admin_context::AdminContext;
use crate::plural::count_noun;
use crate::startup::cannot_listen;
use crate::time::since_1970;

/// How long a change waits for the connected gateways before it is reported as in force.
pub const SERVED_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts to serve the documents of these sources to gateways. `etcd_has_purges`: the list of purges comes from etcd,
/// and is not known yet.
///
/// # Errors
/// A message: the address, a certificate or the file of purges cannot be used.
pub fn start(
    settings: &FleetSettings,
    sources: &Sources,
    etcd_has_purges: bool,
) -> Result<FleetServer, String> {
    let tls = server_tls(settings)?;
    let mut sockets = tollgate_listen::bind(settings.listen, 1)
        .map_err(|error| cannot_listen("fleet.listen", settings.listen, &error).to_string())?;
    let socket = sockets.pop().ok_or("no socket was opened")?;
    let kinds = |name: &str| kind(name).map(|kind| kind.name);
    let epoch = format!("{:032x}", fastrand::u128(..));
    let (purges, file) = match &settings.purges {
        _ if etcd_has_purges => (PurgeList::default(), None),
        None => (PurgeList::new(epoch), None),
        Some(path) => {
            let opened = PurgeFile::open(path.clone(), epoch, SystemTime::now());
            let (file, purges) = opened
                .map_err(|error| format!("fleet: cannot keep purges in {}: {error}", path.display()))?;
            (purges, Some(file))
        }
    };
    let server = FleetServer::start(socket, tls, kinds, sources.fleet_documents(), purges, file)
        .map_err(|error| format!("cannot serve gateways: {error}"))?;
    let documents = count_noun(server.handle().position().1, "document");
    info!(target: component::CONTROLLER, "the controller listens for gateways on {}: {documents}", server.address());
    Ok(server)
}

/// Uses the certificates of another version of the file for new connections.
pub fn renew_tls(fleet: &FleetHandle, settings: &FleetSettings) {
    match server_tls(settings) {
        Ok(tls) => fleet.set_tls(tls),
        Err(why) => warn!(target: component::CONTROLLER, "{why}; the last certificates stay in use"),
    }
}

fn server_tls(settings: &FleetSettings) -> Result<Arc<rustls::ServerConfig>, String> {
    let pem = |file: &PemFile| Pem::from(file.bytes.0.as_slice());
    let FleetSettings { certificate, ca, .. } = settings;
    let options = ServerOptions {
        certificates: vec![TlsIdentity { chain: pem(&certificate.chain), key: pem(&certificate.key) }],
        scopes: Vec::new(),
        only_13: true,
        clients: Some(ClientAuthentication { authorities: pem(ca), admits: AdmittedClients::Certified }),
        alpn: vec![PROTOCOL.to_vec()],
    };
    let tls = TlsServerConfig::new(&options).map_err(|problems| {
        let messages = problems.into_iter().map(|problem| problem.message);
        format!("fleet: {}", messages.collect::<Vec<_>>().join("; "))
    })?;
    Ok(tls.config())
}

/// Returns the state of the fleet for metrics and the status page.
pub fn status(fleet: &FleetHandle) -> FleetStatus {
    let (position, documents) = fleet.position();
    let gateways = fleet.gateways();
    let connected = gateways.iter().filter(|gateway| gateway.left.is_none());
    let purges = fleet.read_purges(PurgeList::position);
    FleetStatus {
        version: position.version,
        documents,
        gateways: connected.clone().count(),
        behind: connected.clone().filter(|gateway| versions_behind(gateway, &position) != Some(0)).count(),
        refused: connected.clone().map(|gateway| gateway.refused_count).max().unwrap_or_default(),
        rejected: fleet.rejected(),
        purges: purges.number,
        purges_behind: connected.filter(|gateway| purges.number > 0 && !gateway.has_purged(&purges)).count(),
    }
}

/// Returns the number of connected gateways, and how many of them have carried out all purges up to a number.
pub fn count_purged(fleet: &FleetHandle, number: u64) -> (usize, usize) {
    let position = PurgePosition { number, ..fleet.read_purges(PurgeList::position) };
    let gateways = fleet.gateways();
    let connected = gateways.iter().filter(|gateway| gateway.left.is_none());
    (connected.clone().count(), connected.filter(|gateway| gateway.has_purged(&position)).count())
}

/// Returns how many changes a gateway is behind; `None`: it has not reported.
fn versions_behind(gateway: &GatewayStatus, present: &Position) -> Option<u64> {
    gateway.position.as_ref().map(|position| present.version.saturating_sub(position.version))
}

/// Returns the part of the admin API for the fleet; it only reads.
pub fn routes() -> Router<AdminContext> {
    Router::new().route("/api/v1/fleet", get(get_fleet))
}

/// `GET /api/v1/fleet`: returns the present version, and which version each gateway serves since when.
async fn get_fleet(State(context): State<AdminContext>) -> (StatusCode, Json<Value>) {
    let Some(fleet) = &context.fleet else {
        let message = "this process serves no fleet: it was not started by `tollgate controller`";
        return (StatusCode::NOT_FOUND, Json(json!({ "error": "not_found", "message": message })));
    };
    let (position, documents) = fleet.position();
    let now = SystemTime::now();
    let (purges, kept) = fleet.read_purges(|list| (list.position(), list.kept()));
    let gateways: Vec<Value> =
        fleet.gateways().iter().map(|gateway| gateway_to_json(gateway, &position, &purges, now)).collect();
    let acknowledged = count_purged(fleet, purges.number).1;
    let refused: Vec<Value> = context.view.read(|state| {
        let refused = state.refused.iter();
        refused
            .map(|(key, why)| json!({ "resource": format!("{}/{}", key.kind, key.name), "problem": why }))
            .collect()
    });
    let mut problem = None;
    context.admin.registry.update_status(|status| {
        problem = status.last_reload.as_ref().and_then(|reload| reload.problem.clone());
    });
    let value = json!({
        "position": position_to_json(&position),
        "documents": documents,
        "refused": refused,
        "problem": problem,
        "rejected_connections": fleet.rejected(),
        "purges": { "last": purges.number, "kept": kept, "acknowledged": acknowledged },
        "gateways": gateways,
    });
    (StatusCode::OK, Json(value))
}

fn gateway_to_json(
    gateway: &GatewayStatus,
    present: &Position,
    purges: &PurgePosition,
    now: SystemTime,
) -> Value {
    let purged = gateway.purges.as_ref().filter(|of| of.epoch == purges.epoch).map(|of| of.number);
    let age = |at: SystemTime| now.duration_since(at).unwrap_or_default().as_secs_f64();
    let seconds = |at: SystemTime| (age(at) * 1e3).round() / 1e3;
    json!({
        "name": gateway.name,
        "program": gateway.program,
        "address": gateway.address.to_string(),
        "connected": gateway.left.is_none(),
        "connected_since": since_1970(gateway.connected_at),
        "heard_seconds": seconds(gateway.heard_at),
        "version": gateway.position.as_ref().map(|position| position.version),
        "versions_behind": versions_behind(gateway, present),
        "version_seconds": gateway.position.as_ref().map(|_| seconds(gateway.position_since)),
        "refused_count": gateway.refused_count,
        "refused": gateway.refused.iter()
            .map(|(resource, problem)| json!({ "resource": resource, "problem": problem }))
            .collect::<Vec<_>>(),
        "problem": gateway.left,
        "purge": purged,
        "purges_behind": purged.map(|number| purges.number.saturating_sub(number)),
        "sent_bytes": gateway.sent_bytes,
    })
}

/// Describes a position.
pub fn position_to_json(position: &Position) -> Value {
    json!({ "epoch": position.epoch, "version": position.version, "digest": position.digest })
}
