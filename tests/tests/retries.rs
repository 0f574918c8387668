//! Attempts that follow failed ones: after what, of which requests, how many, and never twice what must not be.

mod bodies;
mod bounds;
mod budget;
mod conditions;

use tollgate_tests::{Gateway, Origin};

/// A gateway that sends everything to these, in turn, with further keys of the upstream. Nothing is ejected, so that
/// the turns are as each test has them.
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

/// Reads every request whole and closes without a word.
fn mute() -> Origin {
    Origin::play(|conn| {
        conn.request();
    })
}

/// Answers every request with this status and a body that tells it.
fn always(status: u16) -> Origin {
    let body = format!("answer {status}");
    Origin::fixed(format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}
