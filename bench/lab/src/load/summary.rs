//! The result of a load as text for people, and the line that is printed each second.

use std::fmt::Write as _;
use tollgate_lab_load::{Plan, Protocol, Second};
use tollgate_lab_record::{Distribution, Failures, LoadModel, LoadResult};
use tollgate_lab_report::number::{memory, plain, time, whole};

/// Returns the line of one second.
pub fn second(second: &Second) -> String {
    let latency = |name: &str, us: Option<f64>| format!("{name} {:>9}", us.map_or("-".into(), time));
    format!(
        "{:>4} s {:>10}/s   {}   {}   errors {}",
        second.end,
        whole(second.ok as f64),
        latency("p50", second.p50_us),
        latency("p99", second.p99_us),
        whole(second.failed as f64),
    )
}

/// Returns what is sent, in a few words.
pub fn about(plan: &Plan, tls: Option<&str>) -> String {
    let mut text = plan.protocol.name().to_owned();
    if let Some(tls) = tls {
        let _ = write!(text, " over {tls}");
    }
    let _ = write!(text, ", {} connections", whole(f64::from(plan.connections)));
    if plan.streams > 1 {
        let _ = write!(text, " of {} streams", plan.streams);
    }
    let _ = match (plan.arrivals(), &plan.replay) {
        (_, Some(replay)) => write!(text, ", a recording of {} requests", whole(replay.order.len() as f64)),
        (LoadModel::Closed, _) => match plan.think {
            Some(_) => write!(text, ", each request after a pause"),
            None => write!(text, ", as fast as answers come"),
        },
        (LoadModel::Constant { rps }, _) if plan.stages.is_empty() => write!(text, ", {}/s", plain(rps)),
        (LoadModel::Constant { rps }, _) => write!(text, ", {}/s on average", plain(rps)),
        (LoadModel::Poisson { rps }, _) => write!(text, ", {}/s on average at random", plain(rps)),
    };
    text
}

/// Returns the kinds of failure that occurred, with their counts.
pub fn failures(failures: &Failures) -> Vec<(&'static str, u64)> {
    let Failures { connect, read, write, timeout, status, length, body, protocol } = failures;
    [
        ("could not connect", *connect),
        ("connection ended", *read),
        ("could not be sent", *write),
        ("timed out", *timeout),
        ("wrong status", *status),
        ("wrong length", *length),
        ("wrong body", *body),
        ("no valid answer", *protocol),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .collect()
}

/// Returns the rows of a table of latencies: a name and a time.
pub fn latencies(times: &Distribution) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    rows.extend(times.min_us.map(|us| ("min".to_owned(), time(us))));
    rows.push(("mean".to_owned(), time(times.mean_us)));
    for (at, us) in times.percentiles.iter().filter(|(at, _)| *at < 100.0) {
        rows.push((format!("p{at}"), time(*us)));
    }
    rows.extend(times.max_us.map(|us| ("max".to_owned(), time(us))));
    rows
}

/// Returns what the latencies count from.
pub fn latency_kind(load: &LoadResult, plan: &Plan) -> &'static str {
    match (&load.response_time, plan.protocol) {
        (Some(_), _) => "from the intended time of sending",
        (None, Protocol::Sse) => "from one event to the next",
        (None, _) => "from the time of sending: a closed loop waits with the server",
    }
}

/// Returns the summary.
pub fn summary(load: &LoadResult, plan: &Plan) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    let failed = load.failures.total();
    row("duration", format!("{} s", plain(load.seconds)));
    row("good", whole(load.ok as f64));
    let share = failed as f64 * 100.0 / ((load.ok + failed).max(1)) as f64;
    row("failed", format!("{} ({share:.2} %)", whole(failed as f64)));
    for (kind, count) in failures(&load.failures) {
        row("", format!("{} {kind}", whole(count as f64)));
    }
    let offered = load.model.rps().map_or_else(String::new, |rps| format!(" of {}/s offered", plain(rps)));
    row("rate", format!("{}/s{offered}", plain(load.rps())));
    if let Some(bytes) = load.body_bytes {
        let a_second = bytes as f64 / 1_024.0 / load.seconds.max(1e-9);
        row("bodies", format!("{}, {}/s", memory(bytes as f64 / 1_024.0), memory(a_second)));
    }
    if !matches!(plan.protocol, Protocol::WebSocket | Protocol::GrpcStream | Protocol::Sse) {
        let statuses: Vec<String> = load
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {}", whole(*count as f64)))
            .collect();
        row("statuses", if statuses.is_empty() { "none".into() } else { statuses.join(", ") });
    }
    match load.latency().filter(|times| times.count > 0) {
        None => row("latency", "none: no good answer".into()),
        Some(times) => {
            row("latency", latency_kind(load, plan).to_owned());
            for (name, time) in latencies(times) {
                row("", format!("{name:<8}{time:>10}"));
            }
        }
    }
    if let Some(advice) = advice(load, plan) {
        row("note", advice.to_owned());
    }
    if let Some(p99) = load.send_lag.as_ref().and_then(|lag| lag.percentile(99.0)).filter(|us| *us > 1_000.0)
    {
        row(
            "note",
            format!(
                "the generator itself was late (p99 {}): the latencies are partly its own; use fewer requests a second \
                 or more --threads",
                time(p99)
            ),
        );
    }
    if load.model.rps().is_some() && !load.keeps_its_rate() {
        row("note", "the rate was not kept: the latencies are those of a queue that grows".into());
    }
    text
}

/// Returns a likely cause if a server accepts connections and gives no good answer.
fn advice(load: &LoadResult, plan: &Plan) -> Option<&'static str> {
    let Failures { read, protocol, .. } = load.failures;
    let plain = plan.tls.is_none() && plan.https.is_none();
    if load.ok > 0 || !plain || read + protocol == 0 || read + protocol < load.failures.total() {
        return None;
    }
    Some(match plan.protocol {
        Protocol::Http2 | Protocol::Grpc | Protocol::GrpcStream => {
            "the server may not speak HTTP/2 with prior knowledge; with TLS the URL begins with https://"
        }
        _ => "if the server speaks TLS, the URL begins with https:// (or wss://)",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_without_answers_has_no_latency() {
        let line = second(&Second { end: 3, ok: 0, failed: 12, p50_us: None, p99_us: None });
        assert_eq!(line, "   3 s          0/s   p50         -   p99         -   errors 12");
        let line =
            second(&Second { end: 10, ok: 4_998, failed: 0, p50_us: Some(410.0), p99_us: Some(1_900.0) });
        assert_eq!(line, "  10 s      4,998/s   p50    410 µs   p99   1.90 ms   errors 0");
    }
}
