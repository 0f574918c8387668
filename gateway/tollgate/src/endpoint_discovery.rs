//! Starts the discovery of endpoints before the workers, and changes it with the plan.

use std::sync::Arc;
use std::time::Duration;

use tollgate_net::component;
use tollgate_proxy::Rollout;
use tollgate_upstream::{Discovery, EndedLookups, UpstreamStates};
use tracing::warn;

/// How long the gateway waits for first answers, at the start and with each new plan. Without answers, the
/// first requests of these upstreams get 503. But a dead name server must not keep all other upstreams from
/// being served.
const FIRST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts the discovery that a plan needs, and waits for first answers.
pub async fn start(shared: &Arc<UpstreamStates>, plan: &Rollout) -> Discovery {
    let log = |text: &str| warn!(target: component::DISCOVERY, "{text}");
    let mut discovery = Discovery::new(shared.clone(), Arc::new(log));
    apply(&mut discovery, plan).await.forget();
    discovery
}

/// Changes to a plan that is not in force yet, and waits for first answers of new upstreams.
pub async fn apply(discovery: &mut Discovery, plan: &Rollout) -> EndedLookups {
    let ended = discovery.apply(&plan.upstreams);
    for upstream in discovery.wait_for_first_lookups(FIRST_ANSWERS_TIMEOUT).await {
        warn!(
            target: component::DISCOVERY,
            upstream,
            "upstream {upstream}: its endpoints are not looked up yet; it goes on trying"
        );
    }
    ended
}
