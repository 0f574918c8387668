//! The gateway's configurations in a scenario.

use std::fmt::{Display, Write};

use fastrand::Rng;

use super::{ECHOES, Mood, OriginPlan, PROBE, STREAMS, UPSTREAMS, any};

/// The minimum rates are off: clients of a scenario may be arbitrarily slow, and their requests are still
/// served.
const NO_RATES: &str = "body_rate: off, response_rate: off";

/// Generates the plans; the first is in force at the start. Requests go to `/r0/...` to `/r2/...`.
/// `half_close` is whether a client may end its direction and still get its answers.
pub(super) fn generate(rng: &mut Rng, mood: Mood, origins: &[OriginPlan], half_close: bool) -> Vec<String> {
    let count = if rng.bool() { 1 } else { rng.usize(2..=4) };
    let capped = rng.bool();
    (0..count)
        .map(|_| plan(&mut Writing { rng, mood, capped, half_close, text: String::new() }, origins))
        .collect()
}

/// Returns a plan that listens and has no routes. The exchanges and upstreams of the previous plan end under
/// it.
#[must_use]
pub fn empty() -> String {
    format!(
        "listen: [10.0.0.1:80, {{bind: \"{STREAMS}\", name: l4, protocol: tcp}}]\nadmin: off\nroutes: []\n\
         streams: [{{listeners: l4, respond: close}}]\n"
    )
}

/// Returns the cookie name of a sticky upstream.
#[must_use]
pub fn cookie(upstream: usize) -> String {
    format!("home-{}", UPSTREAMS[upstream])
}

/// A plan that is being written.
struct Writing<'a> {
    rng: &'a mut Rng,
    mood: Mood,
    /// Whether upstreams may have limits.
    capped: bool,
    half_close: bool,
    text: String,
}

impl Writing<'_> {
    fn rough(&self) -> bool {
        self.mood == Mood::Rough
    }

    fn one_in(&mut self, of: u32) -> bool {
        self.rng.u32(0..of) == 0
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn milliseconds(&mut self, most: u64) -> String {
        format!("{}ms", self.rng.u64(most / 10..most))
    }

    /// Writes a mapping of randomly chosen keys, or nothing if none is chosen.
    fn some(&mut self, name: &str, keys: &[(&str, String)]) {
        let keys: Vec<_> = keys.iter().filter(|_| self.rng.bool()).collect();
        let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        if !keys.is_empty() {
            self.line(format_args!("    {name}: {{{}}}", keys.join(", ")));
        }
    }
}

fn plan(to: &mut Writing<'_>, origins: &[OriginPlan]) -> String {
    let half_close = if to.half_close { "on" } else { "off" };
    to.line(format_args!(
        "listen:\n- {{bind: 10.0.0.1:80, half_close: {half_close}}}\n\
         - {{bind: \"{STREAMS}\", name: l4, protocol: tcp, to: echo}}\nadmin: off"
    ));
    if to.rng.bool() {
        to.line("request_id: on");
    }
    if to.rough() && to.rng.bool() {
        let bounds = [
            ("header", 5000),
            ("body", 5000),
            ("idle", 20_000),
            ("write", 5000),
            ("connect", 2000),
            ("send", 5000),
            ("response_header", 5000),
            ("response_body", 5000),
            ("upgraded", 20_000),
        ];
        let bounds = bounds.map(|(name, most)| format!("{name}: {}", to.milliseconds(most)));
        to.line(format_args!("timeouts: {{{}}}", bounds.join(", ")));
    }
    if !to.rough() {
        // A slow reader has its answer long after the gateway has written it, and could run into the idle
        // timeout.
        to.line("timeouts: {idle: 30m}");
    }
    if to.rough() && to.one_in(6) {
        let (connections, requests) = (to.rng.u32(1..10), to.rng.u32(1..6));
        to.line(format_args!(
            "limits: {{connections: {connections}, requests_per_connection: {requests}, {NO_RATES}}}"
        ));
    } else {
        to.line(format_args!("limits: {{{NO_RATES}}}"));
    }
    // Some plans lack the second upstream.
    let named = if to.one_in(4) { 1 } else { UPSTREAMS.len() };
    to.line("upstreams:");
    for upstream in 0..named {
        write_upstream(to, upstream, origins);
    }
    let echoes = ECHOES.map(|address| format!("\"{address}\"")).join(", ");
    to.line(format_args!("  echo: {{endpoints: [{echoes}]}}"));
    to.line("routes:");
    for route in 0..3 {
        let target = match named {
            1 => "one",
            _ => any(to.rng, ["one", "two", "[{upstream: one, weight: 2}, {upstream: two}]"]),
        };
        to.line(format_args!("- match: /r{route}/*\n  to: {target}"));
        route_rules(to);
        match to.rng.u32(0..6) {
            0 => to.line("  priority: low"),
            1 => to.line("  priority: high"),
            _ => {}
        }
    }
    std::mem::take(&mut to.text)
}

fn route_rules(to: &mut Writing<'_>) {
    match to.rng.u32(0..8) {
        0 => to.line("  buffer: {request: {memory: 4KiB, file: 1MiB}}"),
        1 => to.line("  buffer: {response: {memory: 4KiB, file: 1MiB}}"),
        2 if to.rough() => {
            let total = to.milliseconds(10_000);
            to.line(format_args!("  timeouts: {{total: {total}}}"));
        }
        3 if to.rough() => {
            let most = to.rng.u32(1..50_000);
            to.line(format_args!("  limits: {{body: {most}}}"));
        }
        4 if to.rough() => to.line("  retry: off"),
        5 => {
            let (rate, upload) = (to.rng.u32(8..2000), to.rng.u32(8..2000));
            let after = any(to.rng, ["0", "3KiB"]);
            to.line(format_args!(
                "  policies: {{bandwidth: {{rate: {rate}KiB, after: {after}, upload: {upload}KiB}}}}"
            ));
        }
        _ => {}
    }
}

fn write_upstream(to: &mut Writing<'_>, upstream: usize, origins: &[OriginPlan]) {
    let name = UPSTREAMS[upstream];
    to.line(format_args!("  {name}:"));
    let looked_up = to.one_in(4);
    if looked_up {
        to.line(format_args!("    discover: srv://_{name}._tcp.internal"));
    }
    if !looked_up || to.one_in(3) {
        let mut members: Vec<_> = origins.iter().collect();
        to.rng.shuffle(&mut members);
        members.truncate(to.rng.usize(1..=origins.len()));
        to.line("    endpoints:");
        for member in members {
            let (target, weight, priority) =
                (member.target(upstream), to.rng.u32(1..4), to.rng.u32(0..5) / 4);
            to.line(format_args!("    - {{address: \"{target}\", weight: {weight}, priority: {priority}}}"));
        }
    }
    if origins.iter().any(|origin| origin.http2[upstream]) {
        to.line("    http2: on");
    }
    pool(to);
    health(to);
    balance(to, upstream);
    if to.capped {
        caps(to);
    }
    if to.one_in(4) {
        let after = any(to.rng, [1, 30, 300]) * to.rng.u32(1..5);
        let methods = any(to.rng, ["", ", methods: [GET, PUT]", ", methods: [HEAD]"]);
        to.line(format_args!("    hedge: {{after: {after}ms{methods}}}"));
    }
    if to.rough() {
        retry(to);
        breaker(to);
        adaptive(to);
    }
}

fn pool(to: &mut Writing<'_>) {
    if to.rng.bool() {
        return;
    }
    let keys = [
        ("max_idle", to.rng.u32(0..3).to_string()),
        ("idle_timeout", any(to.rng, ["20ms", "700ms", "3s", "off"]).to_owned()),
        ("max_requests", to.rng.u32(1..5).to_string()),
        ("max_age", format!("{}ms", to.rng.u32(10..3000))),
        ("warm", to.rng.u32(1..3).to_string()),
    ];
    // A single key occurs more often than all of them together.
    let only = to.rng.usize(0..keys.len() * 2);
    let (name, value) = &keys[only % keys.len()];
    match only < keys.len() {
        true => to.line(format_args!("    pool: {{{name}: {value}}}")),
        false => to.some("pool", &keys),
    }
}

/// Writes probes that only connect, or that send a request; and ejections that are short.
fn health(to: &mut Writing<'_>) {
    let probe = match to.rng.u32(0..5) {
        0 => "tcp: on".to_owned(),
        1 => format!("http: {PROBE}"),
        _ => String::new(),
    };
    if !probe.is_empty() {
        let (interval, timeout) = (to.rng.u32(100..3000), to.rng.u32(10..1000));
        let (unhealthy, healthy) = (to.rng.u32(1..4), to.rng.u32(1..3));
        to.line(format_args!(
            "    health: {{{probe}, interval: {interval}ms, timeout: {timeout}ms, unhealthy: {unhealthy}, \
             healthy: {healthy}}}"
        ));
    }
    match to.rng.u32(0..4) {
        0 => to.line("    outlier: off"),
        1 => {
            let (failures, time, most) = (to.rng.u32(1..5), to.rng.u32(10..5000), to.rng.u32(0..=100));
            to.line(format_args!(
                "    outlier: {{consecutive_5xx: {failures}, ejection: {time}ms, interval: 100ms, max_ejected: {most}}}"
            ));
        }
        _ => {}
    }
}

fn balance(to: &mut Writing<'_>, upstream: usize) {
    let policy = match to.rng.u32(0..8) {
        0 => "policy: least_requests",
        1 => "policy: least_requests, choices: all",
        2 => "policy: random",
        3 => "policy: hash, by: {header: X-Id}",
        4 => "policy: hash, by: client_address",
        _ => "policy: round_robin",
    };
    let sticky = match to.one_in(4) {
        true => format!(", sticky: {{cookie: {}}}", cookie(upstream)),
        false => String::new(),
    };
    let slow_start = if to.one_in(6) { ", slow_start: 2s" } else { "" };
    // In calm scenarios, an endpoint that is too slow for its probes must still get requests.
    let panic = if to.rough() && to.one_in(4) { ", panic_threshold: 0" } else { "" };
    to.line(format_args!("    balance: {{{policy}{sticky}{slow_start}{panic}}}"));
}

/// Writes limits, and a queue. Unless everything may go wrong, every queued request gets its turn.
fn caps(to: &mut Writing<'_>) {
    let connections = to.rng.u32(1..7);
    let each = to.rng.u32(1..=connections.min(3));
    let mut limits =
        vec![("connections", connections.to_string()), ("endpoint_connections", each.to_string())];
    if to.rough() {
        limits.push(("requests", to.rng.u32(1..9).to_string()));
        limits.push(("retries", to.rng.u32(1..4).to_string()));
    }
    to.some("limits", &limits);
    let queue = match to.rough() {
        false => "{size: 1024, timeout: 10m}".to_owned(),
        true if to.one_in(8) => "off".to_owned(),
        true => {
            let (size, timeout) = (any(to.rng, [1, 4, 1024]), any(to.rng, ["30ms", "1s", "10m"]));
            format!("{{size: {size}, timeout: {timeout}}}")
        }
    };
    to.line(format_args!("    queue: {queue}"));
}

fn retry(to: &mut Writing<'_>) {
    if to.one_in(3) {
        return;
    }
    let conditions = ["connect_failure", "reset", "timeout", "5xx"];
    let conditions: Vec<_> = conditions.into_iter().filter(|_| to.rng.bool()).collect();
    let keys = [
        ("attempts", to.rng.u32(1..6).to_string()),
        ("on", format!("[{}]", if conditions.is_empty() { "503".to_owned() } else { conditions.join(", ") })),
        ("per_try", to.milliseconds(3000)),
        ("within", to.milliseconds(3000)),
        ("backoff", to.milliseconds(250)),
        ("budget", format!("{}%", to.rng.u32(0..=100))),
        ("budget_min", to.rng.u32(0..20).to_string()),
    ];
    to.some("retry", &keys);
}

/// Writes an adaptive limit that a few clients can reach.
fn adaptive(to: &mut Writing<'_>) {
    if to.one_in(5) {
        let min = to.rng.u32(1..4);
        let (max, interval) = (min + to.rng.u32(0..6), to.rng.u32(10..300));
        to.line(format_args!(
            "    adaptive: {{min: {min}, max: {max}, interval: {interval}ms, probe: 1s, tolerance: 25%}}"
        ));
    }
}

fn breaker(to: &mut Writing<'_>) {
    if to.one_in(5) {
        let (failures, minimum, open) = (to.rng.u32(1..=100), to.rng.u32(1..8), to.milliseconds(3000));
        to.line(format_args!(
            "    breaker: {{failures: {failures}%, minimum: {minimum}, open: {open}, probes: 2}}"
        ));
    }
}
