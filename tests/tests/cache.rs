//! The proxy cache: which responses it stores, which requests it answers, and how the two meet.

mod admission;
mod coalescing;
mod compressed;
mod controller;
mod corners;
mod disk;
mod failures;
mod fleet;
mod poisoning;
mod protocols;
mod purge;
mod ranges;
mod reuse;
mod rules;
mod shared_disk;
mod slices;
mod stale;
mod stampede;
mod validation;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_tests::{Gateway, Origin, Request, Response};

/// Starts a gateway with one route, whose policy `cache` has these settings.
fn gateway(origin: &Origin, settings: &str) -> Gateway {
    with_policies(origin, &format!("cache: {settings}"), "")
}

/// Starts a gateway with one route, with these policies and further keys of the file.
fn with_policies(origin: &Origin, policies: &str, file: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{name: r, match: \"/*\", to: \"{}\", policies: {{{policies}}}}}]\n{file}\n",
        origin.address()
    ))
}

/// Starts an origin that answers with these field lines and the number of the request as the body: `1`, `2`, ...
fn numbered(lines: &'static str) -> Origin {
    answering(move |number, _| {
        format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n{number}", digits(number))
    })
}

fn digits(number: usize) -> usize {
    number.to_string().len()
}

/// Starts an origin whose responses `answer` makes from the number of the request, over all connections, and the
/// request.
fn answering(answer: impl Fn(usize, &Request) -> String + Send + Sync + 'static) -> Origin {
    let count = Arc::new(AtomicUsize::new(0));
    Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            let bytes = answer(count.fetch_add(1, Ordering::SeqCst) + 1, &request);
            let end = bytes.find("\r\n\r\n").map_or(bytes.len(), |at| at + 4);
            let bytes = if request.method == "HEAD" { &bytes[..end] } else { &bytes };
            if !conn.send(bytes) {
                return;
            }
        }
    })
}

/// Sends a GET with these field lines on a connection of its own.
fn get(gateway: &Gateway, target: &str, lines: &str) -> Response {
    ask(gateway, "GET", target, lines)
}

fn ask(gateway: &Gateway, method: &str, target: &str, lines: &str) -> Response {
    let mut client = gateway.client();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"));
    client.response_to(method)
}

/// Returns the bodies of responses to the same request, one after another.
fn bodies(gateway: &Gateway, lines: &str, times: usize) -> Vec<String> {
    (0..times).map(|_| get(gateway, "/", lines).text()).collect()
}

/// Returns the values of the field `cache_status` in the access log.
fn outcomes(gateway: &Gateway, count: usize) -> Vec<String> {
    let records = gateway.wait_records(count);
    records.iter().map(|record| record["cache_status"].as_str().unwrap_or("-").to_owned()).collect()
}
