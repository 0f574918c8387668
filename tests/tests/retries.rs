//! Attempts after failed ones: after which failures, for which requests, how many, and never twice if a
//! request must not be repeated.

mod bodies;
mod bounds;
mod budget;
mod conditions;
mod refused;

use tollgate_tests::{Gateway, Origin};

/// Starts a gateway with these endpoints in turn and further keys of the upstream. No endpoint is ejected, so
/// that the turns stay as each test sets them.
fn gateway(endpoints: &[String], upstream: &str, route: &str, file: &str) -> Gateway {
    let endpoints: Vec<_> = endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
    Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: u{route}}}]\n\
         upstreams: {{u: {{endpoints: [{}], outlier: off{upstream}}}}}\n{file}\n",
        endpoints.join(", ")
    ))
}

fn addresses(origins: &[&Origin]) -> Vec<String> {
    origins.iter().map(|origin| origin.address().to_string()).collect()
}

/// Starts an origin that reads every request whole and closes without an answer.
fn mute() -> Origin {
    Origin::play(|conn| {
        conn.request();
    })
}

/// Starts an origin that answers every request with this status and a body that names it.
fn always(status: u16) -> Origin {
    let body = format!("answer {status}");
    Origin::fixed(format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}
