//! What the admin listener serves: the one place where its pages and its API are put together.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::sync::{mpsc, watch};
use tollgate_observe::{AdminState, AdminWatch, PeerAddress, pages};
use tollgate_proxy::Rollout;
use tollgate_sources::{Pending, View};

use crate::access::{Access, Attempts, guard, refused_certificate};
use crate::{api, apisix, etcd, live};

/// What the pages and the API are made from. It is cheap to clone, and each handler has one.
#[derive(Clone, Debug)]
pub struct Surface {
    /// The counters, and whether the gateway is ready.
    pub admin: AdminState,
    /// The plan that the workers run, or are about to. Who looks at it lets go of it soon: while somebody holds a plan
    /// it is not freed.
    pub plan: watch::Receiver<Arc<Rollout>>,
    /// What the sources hold.
    pub view: Arc<View>,
    /// Where changes are asked for.
    pub asking: mpsc::Sender<Pending>,
    /// Who may do what; it changes with the file.
    pub access: watch::Receiver<Arc<Access>>,
    /// Wrong credentials of the last minute.
    pub attempts: Arc<Attempts>,
}

/// All that the admin listener answers, behind its guard. A part with pages of its own is merged here.
pub fn router(surface: &Surface) -> Router {
    pages(surface.admin.clone())
        .merge(api::router(surface))
        .merge(apisix::router(surface))
        .merge(live::routes().merge(etcd::routes()).with_state(surface.clone()))
        .merge(tollgate_dashboard::router())
        .layer(from_fn_with_state(surface.clone(), guard))
}

/// Receives the client certificates that a handshake refuses.
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
