//! Routes: which requests they match, and how the gateway answers those.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    AccessLog, At, Fallback, Match, PathMatch, Policies, Priority, Redirect, Respond, Retry, Rewrite,
    RouteBuffer, RouteRates, RouteStay, RouteTimeouts, Spanned, Target,
};

/// Identifies a route as it was read, so that results computed for it can be found again. A clone keeps the
/// identity; code that changes a route must assign a new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity(u64);

/// Omits the number, so that two reads of the same text print alike.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    /// Returns an identity that no other route has.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two defaults would differ")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Identity of this reading of the route.
    pub identity: Identity,
    /// Name in logs, metrics and `explain`; `None`: the match as text is used.
    pub name: Option<Spanned<String>>,
    /// Source position of the route.
    pub at: At,
    /// Conditions of the requests that it matches.
    pub matches: Match,
    /// How it answers requests.
    pub action: Action,
    /// Changes to the request before it is forwarded.
    pub rewrite: Rewrite,
    /// Overrides of the gateway's timeouts.
    pub timeouts: RouteTimeouts,
    /// Maximum request body in bytes; `None`: the gateway's.
    pub body_limit: Option<u64>,
    /// Overrides of the gateway's minimum rates.
    pub rates: RouteRates,
    /// Overrides of the gateway's `buffer`.
    pub buffer: RouteBuffer,
    /// Protocols that a client may request with `Upgrade`, lower case. Default `websocket`.
    pub upgrade: Vec<String>,
    /// Retry rules; `None`: the upstream's.
    pub retry: Option<Retry>,
    /// Priority of its requests under overload.
    pub priority: Priority,
    /// Whether gRPC-Web calls are translated to gRPC. Default false.
    pub grpc_web: bool,
    /// Its policies.
    pub policies: Policies,
    /// Its access logs, which replace the gateway's; `None`: the gateway's.
    pub access_log: Option<Vec<AccessLog>>,
    /// Replacements for error responses, in the order tried.
    pub fallback: Vec<Fallback>,
    /// Overrides of the time that a client connection is kept.
    pub stay: RouteStay,
}

impl Route {
    /// Returns the name in logs, metrics and `explain`: the route's name, or its match as text.
    #[must_use]
    pub fn display_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.value.clone();
        }
        let host = self.matches.host.as_ref().map_or("", |host| host.value.as_str());
        let path = match self.matches.path.as_ref().map(|path| &path.value) {
            None => "/*".to_owned(),
            Some(PathMatch::Exact(path)) => path.clone(),
            Some(PathMatch::Prefix(path)) => format!("{path}/*"),
            Some(PathMatch::Regex(pattern)) => format!("~{pattern}"),
        };
        let methods = self.matches.methods.join(",");
        let space = if methods.is_empty() { "" } else { " " };
        format!("{methods}{space}{host}{path}")
    }
}

/// How a route answers.
#[derive(Clone, Debug)]
pub enum Action {
    /// Forward to upstreams, chosen by weight.
    Forward(Vec<Target>),
    /// Answer with a redirect.
    Redirect(Redirect),
    /// Answer with a fixed response.
    Respond(Respond),
}
