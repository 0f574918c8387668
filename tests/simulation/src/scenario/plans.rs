//! What the gateway is told to do.

use std::fmt::Write;

use fastrand::Rng;

use super::{Mood, OriginPlan};

/// Plans, the first for the beginning. Requests go to `/r0/...` to `/r2/...`.
pub(super) fn generate(rng: &mut Rng, mood: Mood, origins: &[OriginPlan]) -> Vec<String> {
    let count = if rng.bool() { 1 } else { rng.usize(2..=4) };
    (0..count).map(|_| plan(rng, mood, origins)).collect()
}

fn plan(rng: &mut Rng, mood: Mood, origins: &[OriginPlan]) -> String {
    let mut text = String::from("listen: 10.0.0.1:80\nadmin: off\n");
    if rng.bool() {
        text.push_str("request_id: on\n");
    }
    let milliseconds = |rng: &mut Rng, most: u64| rng.u64(most / 10..most);
    if mood == Mood::Rough && rng.bool() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "timeouts: {{header: {}ms, body: {}ms, idle: {}ms, write: {}ms, connect: {}ms, response_header: {}ms, \
             response_body: {}ms, upgraded: {}ms}}",
            milliseconds(rng, 5000),
            milliseconds(rng, 5000),
            milliseconds(rng, 20_000),
            milliseconds(rng, 5000),
            milliseconds(rng, 2000),
            milliseconds(rng, 5000),
            milliseconds(rng, 5000),
            milliseconds(rng, 20_000),
        );
    }
    if mood == Mood::Rough && rng.u32(0..6) == 0 {
        let (connections, requests) = (rng.u32(1..10), rng.u32(1..6));
        let _ = writeln!(text, "limits: {{connections: {connections}, requests_per_connection: {requests}}}");
    }
    text.push_str("upstreams:\n");
    for name in ["one", "two"] {
        let mut members: Vec<_> = origins.iter().collect();
        rng.shuffle(&mut members);
        members.truncate(rng.usize(1..=origins.len()));
        let _ = writeln!(text, "  {name}:\n    endpoints:");
        for member in members {
            let _ = writeln!(text, "    - {{address: \"{}\", weight: {}}}", member.target(), rng.u32(1..4));
        }
        pool(rng, &mut text);
        health(rng, &mut text);
    }
    text.push_str("routes:\n");
    for route in 0..3 {
        let to = super::any(rng, ["one", "two", "[{upstream: one, weight: 2}, {upstream: two}]"]);
        let _ = writeln!(text, "- match: /r{route}/*\n  to: {to}");
        match rng.u32(0..6) {
            0 => text.push_str("  buffer: {request: {memory: 4KiB, file: 1MiB}}\n"),
            1 => text.push_str("  buffer: {response: {memory: 4KiB, file: 1MiB}}\n"),
            2 if mood == Mood::Rough => {
                let _ = writeln!(text, "  timeouts: {{total: {}ms}}", milliseconds(rng, 10_000));
            }
            3 if mood == Mood::Rough => {
                let _ = writeln!(text, "  limits: {{body: {}}}", rng.u32(1..50_000));
            }
            _ => {}
        }
    }
    text
}

fn pool(rng: &mut Rng, text: &mut String) {
    let _ = match rng.u32(0..5) {
        0 => writeln!(text, "    pool: {{max_idle: {}}}", rng.u32(0..3)),
        1 => writeln!(text, "    pool: {{idle_timeout: {}ms}}", rng.u32(10..3000)),
        2 => writeln!(text, "    pool: {{max_requests: {}}}", rng.u32(1..5)),
        3 => writeln!(text, "    pool: {{max_age: {}ms}}", rng.u32(10..3000)),
        _ => Ok(()),
    };
}

/// Probes that open a connection and ask nothing, and ejection that comes and goes quickly.
fn health(rng: &mut Rng, text: &mut String) {
    let _ = match rng.u32(0..3) {
        0 => writeln!(
            text,
            "    health: {{tcp: on, interval: {}ms, timeout: {}ms, unhealthy: {}, healthy: {}}}",
            rng.u32(100..3000),
            rng.u32(10..1000),
            rng.u32(1..4),
            rng.u32(1..3)
        ),
        _ => Ok(()),
    };
    let _ = match rng.u32(0..4) {
        0 => writeln!(text, "    outlier: off"),
        1 => writeln!(
            text,
            "    outlier: {{consecutive_5xx: {}, ejection: {}ms, interval: 100ms, max_ejected: {}}}",
            rng.u32(1..5),
            rng.u32(10..5000),
            rng.u32(0..=100)
        ),
        _ => Ok(()),
    };
}
