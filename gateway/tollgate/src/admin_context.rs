//! The state that the pages and the API of the admin listener share.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tollgate_fleet::FleetHandle;
use tollgate_observe::AdminState;
use tollgate_proxy::Rollout;
use tollgate_sources::{PendingRequest, View};

use crate::access::{AccessRules, FailedAttempts};
use crate::fleet_purges::FleetPurges;
use crate::operation::Operation;
use crate::trace::RequestFollowers;

/// The state from which pages and API answer. Every handler has a clone, which is cheap.
#[derive(Clone, Debug)]
pub struct AdminContext {
    /// The counters, and whether the gateway is ready.
    pub admin: AdminState,
    /// The plan that the workers run or are about to run. Handlers must drop it soon, since a plan is freed
    /// only when its last holder drops it.
    pub plan: watch::Receiver<Arc<Rollout>>,
    /// The contents of the sources.
    pub view: Arc<View>,
    /// The queue of changes for the control thread.
    pub change_queue: mpsc::Sender<PendingRequest>,
    /// The queue of operations on the process, for the control thread.
    pub operations: mpsc::Sender<Operation>,
    /// The access rules, which a reload may change.
    pub access: watch::Receiver<Arc<AccessRules>>,
    /// Wrong credentials of the last minute.
    pub attempts: Arc<FailedAttempts>,
    /// The gateways that take their documents from this process; `None`: it is no controller.
    pub fleet: Option<FleetHandle>,
    /// The purges that this gateway shares with others.
    pub purges: Arc<FleetPurges>,
    /// The clients that follow requests.
    pub followers: Arc<RequestFollowers>,
}
