//! The harness of the end-to-end tests: the real binary between an origin and a client that both work on raw
//! bytes.
//!
//! Nothing here shares code with the gateway. The reader that the origin and the client use is strict and
//! written only for the tests, so that a mistake in the gateway's own codec cannot hide behind itself.
//!
//! - [`Gateway`] starts `tollgate run` on an address of its own, and when it is dropped demands that the process
//!   is still there and never panicked.
//! - [`Origin`] plays any behaviour and records what it got.
//! - [`Http2Origin`] does the same in HTTP/2, by the request.
//! - [`Service`] is an origin in a process of its own, which can be killed.
//! - [`Client`] sends raw bytes and reads answers; [`http2`] does so in HTTP/2, [`frames`] by the frame.
//! - [`TlsClient`] and [`TlsOrigin`] speak TLS, with certificates of an [`Authority`] of the test's own.
//! - [`Established`] counts connections in the kernel's own table.
//! - [`api`] asks the admin API.
//! - [`Etcd`] is a real one, of as many members as are wanted.
//! - [`Dns`] is a name server whose answers a test changes.
//! - [`Browser`] is a real one, for pages.
//! - [`Gateway::reconcile`] holds the books together: requests seen by origins against attempts logged, answers
//!   got by clients against requests logged.

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

/// How long the harness waits for anything before it says that it hangs. Generous: no test passes or fails
/// because a machine is slow.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not within [`DEADLINE`]; the message says `what` was waited for.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited {DEADLINE:?} in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
