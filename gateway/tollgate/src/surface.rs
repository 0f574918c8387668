//! Everything that the admin listener serves: its pages and its API are combined here.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::sync::{mpsc, watch};
use tollgate_observe::{AdminState, AdminWatch, PeerAddress, pages};
use tollgate_proxy::Rollout;
use tollgate_sources::{Pending, View};

use crate::access::{Access, Attempts, guard, refused_certificate};
use crate::{api, apisix, etcd, live};

/// The state from which pages and API answer. Every handler has a clone, which is cheap.
#[derive(Clone, Debug)]
pub struct Surface {
    /// The counters, and whether the gateway is ready.
    pub admin: AdminState,
    /// The plan that the workers run or are about to run. Handlers must drop it soon, since a plan is freed
    /// only when its last holder drops it.
    pub plan: watch::Receiver<Arc<Rollout>>,
    /// The contents of the sources.
    pub view: Arc<View>,
    /// The queue of changes for the control thread.
    pub asking: mpsc::Sender<Pending>,
    /// The access rules, which a reload may change.
    pub access: watch::Receiver<Arc<Access>>,
    /// Wrong credentials of the last minute.
    pub attempts: Arc<Attempts>,
}

/// Returns the routes of the admin listener, behind its guard. Parts with their own pages are merged here.
pub fn router(surface: &Surface) -> Router {
    pages(surface.admin.clone())
        .merge(api::router(surface))
        .merge(apisix::router(surface))
        .merge(live::routes().merge(etcd::routes()).with_state(surface.clone()))
        .merge(tollgate_dashboard::router())
        .layer(from_fn_with_state(surface.clone(), guard))
}

/// Returns the hooks by which the listener reports client certificates that a handshake refused.
pub fn watch(surface: &Surface) -> AdminWatch {
    let (access, attempts) = (surface.access.clone(), surface.attempts.clone());
    let certificate_refused = move |peer: PeerAddress, why: &str| {
        refused_certificate(&access.borrow().clone(), &attempts, peer, why);
    };
    AdminWatch {
        counts: surface.admin.registry.admin_counts(),
        certificate_refused: Arc::new(certificate_refused),
    }
}
