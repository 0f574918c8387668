//! Everything that the admin listener serves: its pages and its API are combined here.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tollgate_observe::{AdminEvents, PeerAddress, pages};

use crate::access::{guard, report_refused_certificate};
use crate::admin_context::AdminContext;
use crate::{api, apisix, controller, etcd, fleet, live, trace};

/// Returns the routes of the admin listener, behind its guard. Parts with their own pages are merged here.
pub fn router(context: &AdminContext) -> Router {
    pages(context.admin.clone())
        .merge(api::router(context))
        .merge(apisix::router(context))
        .merge(live::routes().merge(trace::routes()).with_state(context.clone()))
        .merge(etcd::routes().merge(controller::routes()).merge(fleet::routes()).with_state(context.clone()))
        .merge(tollgate_dashboard::router())
        .layer(from_fn_with_state(context.clone(), guard))
}

/// Returns the hooks by which the listener reports client certificates that a handshake refused.
pub fn watch(context: &AdminContext) -> AdminEvents {
    let (access, attempts) = (context.access.clone(), context.attempts.clone());
    let certificate_refused = move |peer: PeerAddress, why: &str| {
        report_refused_certificate(&access.borrow().clone(), &attempts, peer, why);
    };
    AdminEvents {
        counts: context.admin.registry.admin_counts(),
        certificate_refused: Arc::new(certificate_refused),
    }
}
