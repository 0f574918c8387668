//! Replacements for an error: a page, a page from an upstream, or the answer of another upstream.

mod pages;
mod refused_at_start;
mod requests;
mod upstream_pages;

use serde_json::Value;
use tollgate_tests::{Gateway, Http2Origin, Origin, Response};

/// Starts a gateway whose route goes to `to`, with these fallbacks and further keys of the route and the
/// file.
fn gateway(to: &str, fallback: &str, route: &str, file: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 1\nroutes: [{{name: r, match: \"/*\", to: \"{to}\"{route}, fallback: {fallback}}}]\n{file}\n"
    ))
}

/// Starts an endpoint whose status each request chooses: `/503` gets a 503. Other targets are echoed.
fn by_target() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            let path = request.target[1..].split('?').next().unwrap_or_default();
            let status = path.parse::<u16>().unwrap_or(200);
            let body = format!("own {} {}", request.target, String::from_utf8_lossy(&request.body));
            let length = if request.method == "HEAD" { 7 } else { body.len() };
            let shown = if request.method == "HEAD" { "" } else { body.as_str() };
            let lines = "X-Own: yes\r\nRetry-After: 7\r\nWWW-Authenticate: Basic";
            if !conn
                .send(format!("HTTP/1.1 {status} Own\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{shown}"))
            {
                return;
            }
        }
    })
}

/// Starts an endpoint as [`by_target`] does, in HTTP/2.
fn by_target_in_http2() -> Http2Origin {
    Http2Origin::play(|stream| {
        stream.body();
        let status = stream.request.target[1..].parse::<u16>().unwrap_or(200);
        let body = format!("own {}", stream.request.target);
        stream.head(status, &[("x-own", "yes"), ("retry-after", "7")], false);
        stream.send(body, true);
    })
}

fn field<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or("-")
}

fn reported(response: &Response) -> (u16, String) {
    (response.status, response.text())
}

fn fallbacks(gateway: &Gateway, upstream: &str) -> u64 {
    let labels = format!("upstream=\"{upstream}\"");
    gateway.metrics().sum("tollgate_upstream_fallbacks_total", &labels).unwrap_or_default() as u64
}
