//! Endpoints that speak HTTP/2 (`h2c://`, and `https://` by ALPN), for clients of either version.

mod batches;
mod bodies;
mod connected_streams;
mod connections;
mod ends;
mod heads;
mod hedging;
mod hostile;
mod late_frames;
mod never_indexed;
mod retries;
mod rules;
mod settings;
mod tls;
mod websocket;

use tollgate_tests::{Gateway, Http2Origin};

/// Starts a gateway whose only endpoint is this origin.
fn to(origin: &Http2Origin) -> Gateway {
    Gateway::start(&format!("workers: 1\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n", origin.address()))
}

/// Starts a gateway whose only endpoint is this origin, with further keys of the upstream, each on a line of
/// its own.
fn with(origin: &Http2Origin, keys: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: up}}\nupstreams:\n  up:\n    endpoints: \"h2c://{}\"\n{keys}",
        origin.address()
    ))
}

fn reconcile(gateway: &Gateway, origin: &Http2Origin) {
    gateway.reconcile_with(|| origin.count());
}
