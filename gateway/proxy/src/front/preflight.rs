//! Routes CORS preflights as the requests that they ask about (Fetch, section 3.2.2).
//!
//! [`decide`](crate::front::decide::decide) and [`dry_run`](crate::front::dry_run::dry_run) call [`route`] for each
//! OPTIONS request. Invariant: a preflight takes another route than its own only if that route has a `cors`
//! policy, which answers it. So it never reaches an upstream by this.

use tollgate_http::{Method, RequestHead};
use tollgate_plan::{Plan, PlannedListener, Route};
use tollgate_route::{Request, Router};

use crate::state::request_path::Routed;

/// Fields that a browser may send without naming them in a preflight (Fetch, section 2.2.2), and fields that
/// it adds itself.
const UNNAMED: [&str; 7] =
    ["accept", "accept-language", "authorization", "content-language", "content-type", "cookie", "range"];

/// The request that a preflight asks about. It has the host, path and query of the preflight.
pub(crate) struct Preflight<'a> {
    own: Routed<'a>,
    /// The method in `Access-Control-Request-Method`.
    pub method: &'a [u8],
    /// Whether the fields of [`UNNAMED`] count as sent.
    unnamed: bool,
}

impl Request for Preflight<'_> {
    fn method(&self) -> &[u8] {
        self.method
    }

    fn host(&self) -> &[u8] {
        self.own.host()
    }

    fn path(&self) -> &[u8] {
        self.own.path
    }

    fn query(&self) -> Option<&[u8]> {
        self.own.query()
    }

    fn header(&self, lower_case_name: &str) -> Option<&[u8]> {
        self.own.header(lower_case_name)
    }

    fn has_unknown(&self, lower_case_name: &str) -> bool {
        let named = |line: &[u8]| {
            let mut names = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            names.any(|name| name.eq_ignore_ascii_case(lower_case_name.as_bytes()))
        };
        let mut lines = self.own.request.head.all_by_text(b"access-control-request-headers");
        lines.any(named) || self.unnamed && UNNAMED.contains(&lower_case_name)
    }
}

/// Returns the route whose `cors` answers a preflight that came in at the listener, and the request
/// that it was found for. `None` if the request is no preflight, or if the other request's route has no
/// `cors`.
pub(crate) fn route<'a>(
    plan: &Plan,
    router: &Router,
    request: &'a RequestHead,
    path: &'a [u8],
    listener: Option<&PlannedListener>,
) -> Option<(u32, Preflight<'a>)> {
    if request.method != Method::Options {
        return None;
    }
    request.head.get_by_text(b"origin")?;
    let method = request.head.get_by_text(b"access-control-request-method")?;
    // The named fields decide first. An unnamed field may be there or not.
    [false, true].into_iter().find_map(|unnamed| {
        let asked = Preflight { own: Routed { request, path }, method, unnamed };
        let route = router.find(&asked)?;
        answers(plan, &plan.routes[route as usize], listener).then_some((route, asked))
    })
}

/// Returns whether every request of the route meets a `cors` policy.
fn answers(plan: &Plan, route: &Route, listener: Option<&PlannedListener>) -> bool {
    let has_cors = |chain: Option<u32>| {
        let chain = chain.and_then(|chain| plan.chains.get(chain as usize));
        let mut policies = chain.into_iter().flatten().filter_map(|index| plan.policies.get(*index as usize));
        policies.any(|attached| attached.policy.kind() == "cors")
    };
    let Some(chains) = &route.policies else { return false };
    let chain = listener.map_or(chains.default, |listener| chains.at(listener));
    if has_cors(chain) {
        return true;
    }
    let mut shares = route.shares().unwrap_or_default().iter().peekable();
    shares.peek().is_some()
        && shares.all(|share| has_cors(plan.upstream_chains.get(share.upstream).copied().flatten()))
}
