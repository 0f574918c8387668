//! Endpoints that are looked up: begun before the workers, changed with the plan.

use std::sync::Arc;
use std::time::Duration;

use tollgate_net::notice;
use tollgate_proxy::Rollout;
use tollgate_upstream::{Discovery, Gone, Shared};

/// How long the gateway waits for first answers, at the start and with each new plan. Without them the upstreams' first
/// requests would be answered 503; but a name server that is dead must not keep all others from being served.
const FIRST: Duration = Duration::from_secs(3);

/// Begins to look up what a plan names, and waits for first answers.
pub async fn begin(shared: &Arc<Shared>, plan: &Rollout) -> Discovery {
    let mut discovery = Discovery::new(shared.clone(), Arc::new(|text| notice!("warning: {text}")));
    change(&mut discovery, plan).await.forget();
    discovery
}

/// Goes over to a plan that is not in force yet, and waits for the answers that are new.
pub async fn change(discovery: &mut Discovery, plan: &Rollout) -> Gone {
    let gone = discovery.apply(&plan.upstreams);
    for upstream in discovery.looked_up(FIRST).await {
        notice!("warning: upstream {upstream}: its endpoints are not looked up yet; it goes on trying");
    }
    gone
}
