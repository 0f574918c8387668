//! The state layer: what a worker, a connection and a request are, without what happens to them.
//!
//! [`worker`] holds the state that all requests of a worker share, [`active`] the plan that they run with,
//! [`client`] a connection or stream, [`request_state`] the heads and buffers of one request, and [`record`]
//! its facts for statistics and log. [`client_side`] is the trait through which all layers read from a client
//! and write to it. Invariant: nothing here knows the exchange, policies or the front.

pub(crate) mod active;
pub(crate) mod active_policy;
pub(crate) mod announced;
pub(crate) mod backlog;
pub(crate) mod client;
pub(crate) mod client_certificate;
pub(crate) mod client_side;
pub(crate) mod client_tls;
pub(crate) mod close_record;
pub(crate) mod command;
pub(crate) mod connection_fate;
pub(crate) mod fallback_state;
pub(crate) mod followers;
pub(crate) mod future_pool;
pub(crate) mod grpc_call;
pub(crate) mod listener;
pub(crate) mod object_pool;
pub(crate) mod pace;
pub(crate) mod peer_error;
pub(crate) mod record;
pub(crate) mod request_guard;
pub(crate) mod request_path;
pub(crate) mod request_state;
pub(crate) mod rollout;
pub(crate) mod split;
pub(crate) mod spool;
pub(crate) mod stand_in;
pub(crate) mod stream_facts;
pub(crate) mod stream_record;
pub(crate) mod stream_states;
pub(crate) mod time_limit;
pub(crate) mod trusted_proxies;
pub(crate) mod websocket;
pub(crate) mod worker;
pub(crate) mod write_body;
