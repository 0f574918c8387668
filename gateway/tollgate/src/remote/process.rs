//! `tollgate status`, `reload`, `stop` and `cost`: shows and controls the whole process.

use std::thread;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::CommandOutput;
use super::args::{CostArgs, OutputFormat, ReloadArgs, StatusArgs, StopArgs};
use super::format;
use super::request::AdminApi;
use crate::admin_client::RequestContent;
use crate::plural::count_noun;
use crate::time::rfc3339;

/// The interval at which `stop` checks whether the gateway has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Shows the state of the process.
pub fn status(args: &StatusArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    let mut status = gateway.get("/status")?;
    let summary = gateway.get("/api/v1")?;
    // Only points of the history after this time: none.
    let live = gateway.get("/api/v1/live?after=9999999999")?;
    status["uptime_seconds"] = live["uptime"].clone();
    status["config"]["store_version"] = summary["version"].clone();
    status["in_flight"] = live["requests"]["in_flight"].clone();
    status["endpoints"] = endpoints(&live);
    let text = match args.output {
        OutputFormat::Text => status_text(&status),
        output => format::document(&status, output),
    };
    Ok(CommandOutput::success(text))
}

/// Returns the number of endpoints, and the endpoints that take no requests.
fn endpoints(live: &Value) -> Value {
    let (mut total, mut unavailable) = (0_u64, Vec::new());
    for upstream in live["upstreams"].as_array().into_iter().flatten() {
        for endpoint in upstream["endpoints"].as_array().into_iter().flatten() {
            total += 1;
            if matches!(endpoint["state"].as_str(), Some("unhealthy" | "ejected" | "draining")) {
                unavailable.push(json!({
                    "upstream": upstream["name"],
                    "endpoint": endpoint["address"],
                    "state": endpoint["state"],
                    "problem": endpoint["problem"],
                }));
            }
        }
    }
    json!({ "total": total, "unavailable": unavailable })
}

fn status_text(status: &Value) -> String {
    let config = &status["config"];
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let mut out = format!(
        "tollgate {}, {}, process {}, up {}\n",
        format::text(&status["version"]),
        format::text(&status["state"]),
        status["pid"],
        duration(status["uptime_seconds"].as_f64().unwrap_or_default()),
    );
    let mut line = |name: &str, value: String| out.push_str(&format!("{name:<12} {value}\n"));
    line(
        "config",
        format!(
            "{}, generation {}, {}, store version {}",
            format::text(&config["file"]),
            config["generation"],
            count_noun(number(&config["routes"]), "route"),
            config["store_version"],
        ),
    );
    let listeners = status["listeners"].as_array().into_iter().flatten().map(format::text);
    line("listeners", listeners.collect::<Vec<_>>().join(", "));
    line("workers", status["workers"].to_string());
    line("in flight", count_noun(number(&status["in_flight"]), "request"));
    let unavailable = status["endpoints"]["unavailable"].as_array().cloned().unwrap_or_default();
    let total = count_noun(number(&status["endpoints"]["total"]), "endpoint");
    line(
        "upstreams",
        match unavailable.len() {
            0 => format!("{total}, none out of service"),
            some => format!("{total}, {some} out of service"),
        },
    );
    for endpoint in &unavailable {
        let problem = endpoint["problem"].as_str().and_then(|text| text.lines().next());
        let problem = problem.map(|text| format!(": {text}")).unwrap_or_default();
        let [upstream, address, state] =
            ["upstream", "endpoint", "state"].map(|key| format::text(&endpoint[key]));
        line("", format!("{upstream} {address} {state}{problem}"));
    }
    line("last reload", operation(&config["last_reload"]));
    if !status["last_failed_upgrade"].is_null() {
        line("last upgrade", operation(&status["last_failed_upgrade"]));
    }
    let shed = status["overload"]["shed"].as_array().into_iter().flatten().map(format::text);
    let shed = shed.collect::<Vec<_>>().join(", ");
    if !shed.is_empty() {
        line("overload", format!("turns away priority {shed}"));
    }
    if let Some(connected) = status["etcd"]["connected"].as_bool() {
        let state = if connected { "connected" } else { "not connected" };
        line(
            "etcd",
            format!(
                "{state}, revision {}, {} refused",
                status["etcd"]["revision"], status["etcd"]["refused"]
            ),
        );
    }
    out
}

/// Describes a reload or an upgrade.
fn operation(value: &Value) -> String {
    let Some(at) = value["at"].as_f64() else { return "none since the start".to_owned() };
    let at = rfc3339((at * 1e3).max(0.0) as u64);
    match value["problem"].as_str() {
        None => format!("{at}, in force after {} ms", value["milliseconds"]),
        Some(problem) => format!("{at}, failed: {problem}"),
    }
}

/// Formats an uptime with its two largest units.
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Reloads the file, and shows what changed.
pub fn reload(args: &ReloadArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    let answer = gateway.request(&Method::POST, "/api/v1/reload", RequestContent::default())?;
    let text = match args.output {
        OutputFormat::Text => reload_text(&answer),
        output => format::document(&answer, output),
    };
    Ok(match answer["problem"].is_null() {
        true => CommandOutput::success(text),
        false => CommandOutput::failure(text),
    })
}

fn reload_text(answer: &Value) -> String {
    let mut out = format::changes(&answer["changes"], true);
    let texts = |key: &str| {
        let values = answer[key].as_array().into_iter().flatten();
        values.map(format::text).collect::<Vec<_>>().join(", ")
    };
    let settings = texts("settings");
    if !settings.is_empty() {
        out.push_str(&format!("~ settings: {settings}\n"));
    }
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        out.push_str(&format!("{}\n", warning["text"].as_str().unwrap_or_default().trim_end()));
    }
    let fixed = texts("needs_restart");
    if !fixed.is_empty() {
        out.push_str(&format!(
            "warning: {fixed} changed: this needs an upgrade or a restart, the rest is in force\n"
        ));
    }
    if let Some(problem) = answer["problem"].as_str() {
        out.push_str(&format!("warning: {problem}\n"));
    }
    if out.is_empty() {
        out.push_str("nothing differs from before\n");
    }
    let routes = count_noun(answer["routes"].as_u64().unwrap_or_default(), "route");
    out.push_str(&format!(
        "reloaded {}: {routes}, generation {}, {} ms\n",
        format::text(&answer["file"]),
        answer["generation"],
        answer["milliseconds"],
    ));
    out
}

/// Stops the gateway, and waits for its end.
pub fn stop(args: &StopArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    let path = match args.timeout {
        Some(timeout) => format!("/api/v1/stop?timeout={}", timeout.as_secs_f64()),
        None => "/api/v1/stop".to_owned(),
    };
    let answer = gateway.request(&Method::POST, &path, RequestContent::default())?;
    let process = &answer["pid"];
    if args.no_wait {
        let in_flight = count_noun(answer["in_flight"].as_u64().unwrap_or_default(), "request");
        return Ok(CommandOutput::success(format!("process {process} stops: {in_flight} in flight\n")));
    }
    loop {
        thread::sleep(POLL_INTERVAL);
        if !gateway.is_listening() {
            return Ok(CommandOutput::success(format!("process {process} has ended\n")));
        }
        // A request may fail at the moment of the end; the next look decides.
        let serving = gateway.get("/status").map(|mut status| status["pid"].take());
        if let Ok(other) = serving
            && !other.is_null()
            && other != *process
        {
            return Ok(CommandOutput::success(format!(
                "process {process} has ended, and process {other} has been started in its place\n"
            )));
        }
    }
}

/// Shows the live cost meter.
pub fn cost(args: &CostArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    Ok(CommandOutput::success(match args.output {
        OutputFormat::Text => gateway.get_text("/cost.txt")?,
        output => format::document(&gateway.get("/cost")?, output),
    }))
}
