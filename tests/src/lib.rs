//! The harness of the end-to-end tests. It runs the real binary between an origin and a client that both work
//! on raw bytes.
//!
//! Nothing here shares code with the gateway. The reader that the origin and the client use is strict and
//! written only for the tests, so that a mistake in the gateway's own codec cannot go unnoticed.
//!
//! - [`Gateway`] starts `tollgate run` on an address of its own. Its drop asserts that the process still runs
//!   and never panicked.
//! - [`Origin`] plays any behaviour and records what it receives.
//! - [`Http2Origin`] does the same for HTTP/2, request by request.
//! - [`Service`] is an origin in a process of its own, which can be killed.
//! - [`Client`] sends raw bytes and reads answers; [`http2`] does so in HTTP/2, [`frames`] frame by frame.
//! - [`TlsClient`] and [`TlsOrigin`] speak TLS, with certificates of an [`Authority`] of the test's own.
//! - [`Established`] counts connections in the kernel's own table.
//! - [`api`] sends requests to the admin API.
//! - [`Etcd`] is a real cluster of any number of members.
//! - [`Dns`] is a DNS server whose answers a test changes.
//! - [`Browser`] is a real browser, for the dashboard's pages.
//! - [`Gateway::reconcile`] compares the counts on all sides: requests seen by origins with attempts logged,
//!   and answers received by clients with requests logged.

mod address;
pub mod api;
mod browser;
mod client;
mod dns;
mod established;
mod etcd;
pub mod frames;
mod gate;
mod gateway;
pub mod http2;
mod http2_origin;
mod message;
mod metrics;
mod origin;
mod process;
mod reconcile;
mod redis;
mod service;
mod tls;
mod tls_front;
mod websocket;
mod wire;

pub use address::{free_address, free_port, full_backlog, refused_address};
pub use browser::Browser;
pub use client::Client;
pub use dns::{Dns, DnsError, DnsRecord, DnsSays};
pub use established::{Established, Most};
pub use etcd::Etcd;
pub use gate::Gate;
pub use gateway::Gateway;
pub use http2_origin::{Http2Origin, Http2Settings, OriginStream};
pub use message::{Framing, Headers, Request, Response};
pub use metrics::Metrics;
pub use origin::{Origin, OriginConn};
pub use process::{Ran, binary, binary_with_plugin, limit_files, run, tollgate};
pub use redis::Redis;
pub use rustix::process::Signal;
pub use service::Service;
pub use tls::{Authority, Issued, TlsClient, TlsOrigin, TlsPeer};
pub use tls_front::TlsFront;
pub use websocket::websocket_accept;
pub use wire::{ReadError, Wire};

use std::time::{Duration, Instant};

/// How long the harness waits for anything before it reports a hang. The value is generous, so that no test
/// passes or fails because a machine is slow.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds.
///
/// # Panics
/// Panics if it does not hold within [`DEADLINE`]. `what` names the condition in the message.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited {DEADLINE:?} in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
