//! The exchange layer: carries a request to an endpoint and its response back, or answers in the endpoint's
//! place.
//!
//! [`dispatch`] is the entry: it carries out the action of a route. [`forward`] picks endpoints, gets
//! connections and retries; [`engine`] runs one attempt, between the client's side and an
//! [`upstream_side`]. [`files`] answers with files, [`cache`] with stored responses, [`respond`] sends the gateway's
//! own responses, [`tunnel`] relays after a protocol switch, [`stream`] relays the connections of layer 4 and
//! [`session`] its datagrams, and [`grpc`] translates calls. Invariant: this layer knows only
//! [`state`](crate::state).

pub(crate) mod affinity;
pub(crate) mod body_limits;
pub(crate) mod cache;
pub(crate) mod choose_fallback;
pub(crate) mod choose_upstream;
pub(crate) mod collect;
pub(crate) mod deliver;
pub(crate) mod dispatch;
pub(crate) mod drain_response;
pub(crate) mod engine;
pub(crate) mod error_body;
pub(crate) mod files;
pub(crate) mod forward;
pub(crate) mod forward_target;
pub(crate) mod forwarded;
pub(crate) mod grpc;
pub(crate) mod http2_endpoint;
pub(crate) mod relay;
pub(crate) mod respond;
pub(crate) mod response_policies;
pub(crate) mod rewrite;
pub(crate) mod session;
pub(crate) mod skip_body;
pub(crate) mod stream;
pub(crate) mod tunnel;
pub(crate) mod upstream_side;
