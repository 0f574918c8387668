//! A second attempt during a slow first one: the client gets one answer, from either, and the losing attempt
//! leaves no trace.

mod bounds;
mod losers;
mod requests;

use tollgate_tests::{Gate, Gateway, Origin};

/// Starts a gateway with these origins in turn, with a hedge and further keys of the upstream. Unless the
/// keys set it, no endpoint is ejected.
fn gateway(origins: &[&Origin], upstream: &str, route: &str, file: &str) -> Gateway {
    let endpoints: Vec<_> = origins.iter().map(|origin| format!("\"{}\"", origin.address())).collect();
    let hedge = if upstream.contains("hedge:") { "" } else { ", hedge: 20ms" };
    let outlier = if upstream.contains("outlier:") { "" } else { ", outlier: off" };
    Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: u{route}}}]\n\
         upstreams: {{u: {{endpoints: [{}]{hedge}{outlier}{upstream}}}}}\n{file}\n",
        endpoints.join(", ")
    ))
}

/// Starts an origin that answers with its name, the target and the length of the body, while the gate is
/// open.
fn gated(name: &str) -> (Gate, Origin) {
    let (gate, name) = (Gate::new(), name.to_owned());
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            opened.wait();
            conn.ok(&format!("{name} {} {}", request.target, request.body.len()));
        }
    });
    (gate, origin)
}

/// Starts an origin as [`gated`] does, with an open gate.
fn quick(name: &str) -> Origin {
    let (gate, origin) = gated(name);
    gate.open();
    origin
}

/// Returns how many hedged attempts were sent, and how many of them won.
fn hedges(gateway: &Gateway) -> (u64, u64) {
    let metrics = gateway.metrics();
    let sum = |name| metrics.sum(name, "upstream=\"u\"").expect("the metric") as u64;
    (sum("tollgate_upstream_hedges_total"), sum("tollgate_upstream_hedges_won_total"))
}
