//! Endpoints that speak HTTP/2 (`h2c://`, and `https://` by ALPN), for clients of either version.

mod bodies;
mod heads;

use tollgate_tests::{Gateway, Http2Origin};

/// A gateway whose only endpoint is this origin.
fn to(origin: &Http2Origin) -> Gateway {
    Gateway::start(&format!("workers: 1\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n", origin.address()))
}

fn reconcile(gateway: &Gateway, origin: &Http2Origin) {
    gateway.reconcile_with(|| origin.count());
}
