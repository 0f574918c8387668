//! Checks that terms are equal: compares what the origin receives from each system for the same request, and
//! the headers that the client receives for the same response.
//!
//! For each distinct set-up, the probe starts every system once more in front of an origin that records
//! requests, and sends it a few requests on one connection. The recorded request, and the head of a response,
//! are compared with the direct ones and with the ones of the other systems. The origin delays each of its
//! responses, so that a response that arrives sooner is not its response: the system answers from a cache, or in
//! advance while it asks the origin in the background, which no count of requests shows.

use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::fleet::key;
use crate::generator::Run;
use crate::http::{connect_to, get_raw, read_head};
use crate::load_plan::{Aim, first_request, plan};
use crate::origin::Origin;
use crate::target::Target;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;
use tollgate_lab_load::{Length, tls_config};
use tollgate_lab_record::{LoadModel, Received};
use tollgate_lab_study::{OriginKind, PlannedCell, Settings};

/// Requests of a probe.
const REQUESTS: u64 = 8;

/// Milliseconds by which the recording origin delays each response.
const DELAY_MS: u64 = 20;

/// A response that arrives before this share of the delay is certainly not the origin's. Less than 1, because
/// histograms round times.
const SURELY: f64 = 0.95;

/// The difference to report about a system that answers before the origin does.
const EARLY: &str = "answers before the origin does: from a cache, or in advance";

/// Time limit of each read and write of the response whose headers are compared.
const PATIENCE: Duration = Duration::from_secs(5);

/// Probes the systems with the settings of a cell and names the cell's section in the result. Systems that
/// cannot be started or loaded are left out: their trials report the reason.
///
/// # Errors
/// If the recording origin does not start.
pub fn probe(
    environment: &Environment,
    arms: &[Arm],
    planned: &PlannedCell,
) -> Result<Vec<Received>, Failure> {
    let mut all = Vec::new();
    let mut early = Vec::new();
    for arm in arms {
        let own = of_probe(&arm.settings(&planned.settings));
        let origin = Origin::start(environment, &own, &environment.cores.origin, None)?;
        let control = origin.control_port();
        let body = origin.body.clone();
        let Ok(target) = Target::start(environment, arm, &own, Some(Rc::new(RefCell::new(origin))), 64)
        else {
            continue;
        };
        let before = target.origin.borrow().counted().unwrap_or_default();
        let aim = target.aim(&own, &body);
        let mut plan = plan(&own, aim, 5.0, None);
        plan.length = Length::Requests(REQUESTS);
        // With pauses, so that a system that answers in advance has finished its request to the origin before the next
        // one.
        plan.model = LoadModel::Constant { rps: 1e3 / (2 * DELAY_MS) as f64 };
        plan.time_limit = PATIENCE.as_secs_f64();
        // A system that cannot be loaded is left out too; its trials report the reason.
        let Ok(done) = Run::builtin(environment, &plan).and_then(|run| run.finish(|| ())) else { continue };
        let soonest_us = done.load.service_time.and_then(|times| times.min_us);
        if soonest_us.is_some_and(|us| us < DELAY_MS as f64 * 1e3 * SURELY) && !makes_answers(&own) {
            early.push(arm.name.clone());
        }
        let after = target.origin.borrow().counted().unwrap_or_default();
        let counted = target.origin.borrow().between(before, after, 1);
        let answer =
            get_raw(control, "/recorded").map_err(|error| Failure::of("the recording origin", error))?;
        if let Some((version, headers)) = last_request(&answer) {
            all.push(Received {
                system: arm.name.clone(),
                section: planned.cell.section.clone(),
                version,
                headers,
                connections: counted.connections,
                requests: counted.requests,
                // A response that cannot be read is left out: the trials report the reason.
                response: response(&own, aim).unwrap_or_default(),
                differences: Vec::new(),
            });
        }
    }
    compare(&mut all);
    for received in all.iter_mut().filter(|received| early.contains(&received.system)) {
        received.differences.push(EARLY.to_owned());
    }
    Ok(all)
}

/// Returns whether the settings make the system generate the answers itself, or store the origin's.
pub(crate) fn makes_answers(settings: &Settings) -> bool {
    settings.answer.is_some() || settings.features().iter().any(|name| name == "cache")
}

/// Returns whether the probe found that a system answers before the origin does.
pub(crate) fn is_early(received: &Received) -> bool {
    received.differences.iter().any(|difference| difference == EARLY)
}

/// Returns a key of the set-up of a probe. Probes with equal keys have the same result.
pub fn distinct(arm: &Arm, settings: &Settings) -> String {
    key(std::slice::from_ref(arm), &of_probe(&arm.settings(settings)))
}

/// Returns the settings of a probe: the cell's and the arm's, with one connection, a recording origin and no
/// limits.
fn of_probe(settings: &Settings) -> Settings {
    Settings {
        origin: Some(OriginKind::Builtin),
        origins: Some(1),
        origin_delay_ms: Some(DELAY_MS),
        origin_quota: None,
        origin_beside_target: None,
        quota: None,
        memory_mib: None,
        tool: None,
        relay: None,
        rate: None,
        connections: Some(1),
        threads: Some(1),
        requests: Some(REQUESTS),
        warm_up: Some(0.0),
        cold: None,
        keep_alive: Some(true),
        http: None,
        streams: None,
        workers: None,
        origin_workers: None,
        target_cores: None,
        until_steady: None,
        ..settings.clone()
    }
}

/// Sends a request of the settings' kind and returns the header lines of the response.
fn response(settings: &Settings, aim: Aim<'_>) -> io::Result<Vec<(String, String)>> {
    let mut stream = connect_to(aim.to, PATIENCE)?;
    let request = first_request(settings, aim);
    let (head, _) = match aim.tls {
        None => {
            stream.write_all(&request)?;
            read_head(&mut stream)?
        }
        Some(files) => {
            let key = settings.client_certificate().then_some(files.key.as_path());
            let config = tls_config(&files.certificate, key).map_err(io::Error::other)?;
            let name = ServerName::IpAddress(aim.to.ip().into());
            let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
            let mut stream = rustls::Stream::new(&mut tls, &mut stream);
            stream.write_all(&request)?;
            read_head(&mut stream)?
        }
    };
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    Ok(fields.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect())
}

/// Returns the version and the header lines of the last recorded request.
fn last_request(answer: &[u8]) -> Option<(String, Vec<(String, String)>)> {
    let text = String::from_utf8_lossy(answer);
    let list: serde_json::Value = serde_json::from_str(&text[text.find("\r\n\r\n")? + 4..]).ok()?;
    let last = list.as_array()?.last()?;
    let version = last.get("version")?.as_str()?.to_owned();
    let headers = last
        .get("headers")?
        .as_array()?
        .iter()
        .filter_map(|pair| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_str()?.to_owned())))
        .collect();
    Some((version, headers))
}

/// Fills in how each system's request differs from the direct one, and which headers only some systems send.
fn compare(all: &mut [Received]) {
    let names = |received: &Received| -> BTreeSet<String> {
        received.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect()
    };
    let direct = all.iter().find(|received| received.system == "direct").map(&names).unwrap_or_default();
    let mut senders: BTreeMap<String, usize> = BTreeMap::new();
    for received in all.iter().filter(|received| received.system != "direct") {
        for name in names(received) {
            *senders.entry(name).or_default() += 1;
        }
    }
    let gateways = all.iter().filter(|received| received.system != "direct").count();
    for received in all.iter_mut().filter(|received| received.system != "direct") {
        let own = names(received);
        let mut differences = Vec::new();
        for name in own.difference(&direct) {
            let others = senders.get(name).copied().unwrap_or(0);
            if others < gateways {
                differences.push(format!("adds {name} ({others} of {gateways} do)"));
            }
        }
        for name in direct.difference(&own) {
            differences.push(format!("does not pass {name} on"));
        }
        for (name, others) in &senders {
            if *others + 1 == gateways && !own.contains(name) && !direct.contains(name) {
                differences.push(format!("does not add {name}, which all others add"));
            }
        }
        if received.version != "HTTP/1.1" {
            differences.push(format!("speaks {} to the origin", received.version));
        }
        if received.connections > 2 {
            differences.push(format!(
                "opened {} connections for {} requests on one client connection",
                received.connections, received.requests
            ));
        }
        received.differences = differences;
    }
    compare_responses(all);
}

/// Headers that belong to a connection and not to a response, or differ from second to second.
const OF_A_HOP: [&str; 4] = ["connection", "keep-alive", "date", "transfer-encoding"];

/// Adds how each system's response differs from the direct one.
fn compare_responses(all: &mut [Received]) {
    type Fields = BTreeMap<String, Vec<String>>;
    let fields = |received: &Received| -> Fields {
        let mut fields = Fields::new();
        for (name, value) in &received.response {
            fields.entry(name.to_ascii_lowercase()).or_default().push(value.clone());
        }
        fields
    };
    let Some(direct) = all.iter().find(|one| one.system == "direct").map(&fields) else { return };
    if direct.is_empty() {
        return;
    }
    let of_response = |name: &&String| !OF_A_HOP.contains(&name.as_str());
    let is_gateway = |one: &&Received| one.system != "direct" && !one.response.is_empty();
    let reported: Vec<(String, Vec<(&str, String)>)> = all
        .iter()
        .filter(is_gateway)
        .map(|received| {
            let own = fields(received);
            let mut reported: Vec<(&str, String)> = Vec::new();
            for name in own.keys().filter(of_response) {
                match direct.get(name) {
                    None => reported.push(("adds", name.clone())),
                    Some(values) if values != &own[name] => reported.push(("changes", name.clone())),
                    Some(_) => {}
                }
            }
            let lost = direct.keys().filter(of_response).filter(|name| !own.contains_key(*name));
            reported.extend(lost.map(|name| ("removes", name.clone())));
            (received.system.clone(), reported)
        })
        .collect();
    for received in all.iter_mut() {
        let Some((_, own)) = reported.iter().find(|(system, _)| *system == received.system) else { continue };
        for one in own {
            let others = reported.iter().filter(|(_, all)| all.contains(one)).count();
            let (what, name) = one;
            if others < reported.len() || *what == "removes" {
                received
                    .differences
                    .push(format!("{what} the response header {name} ({others} of {} do)", reported.len()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(system: &str, version: &str, connections: u64, names: &[&str]) -> Received {
        Received {
            system: system.into(),
            section: "One".into(),
            version: version.into(),
            headers: names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect(),
            connections,
            requests: 8,
            response: vec![],
            differences: vec![],
        }
    }

    #[test]
    fn differences_of_responses_are_told_too() {
        let with = |system: &str, fields: &[(&str, &str)]| Received {
            response: fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ..received(system, "HTTP/1.1", 1, &["Host"])
        };
        let mut all = [
            with("direct", &[("Server", "origin"), ("Content-Length", "2"), ("Date", "now")]),
            with(
                "a",
                &[("server", "origin"), ("content-length", "2"), ("date", "then"), ("Connection", "close")],
            ),
            with("b", &[("Server", "b/1"), ("Content-Length", "2"), ("Via", "1.1 b")]),
            with("c", &[("Server", "c/2"), ("Transfer-Encoding", "chunked")]),
        ];
        compare(&mut all);
        assert!(all[1].differences.is_empty(), "{:?}", all[1].differences);
        assert_eq!(
            all[2].differences,
            ["changes the response header server (2 of 3 do)", "adds the response header via (1 of 3 do)"]
        );
        assert_eq!(
            all[3].differences,
            [
                "changes the response header server (2 of 3 do)",
                "removes the response header content-length (1 of 3 do)"
            ]
        );
    }

    #[test]
    fn differences_are_told_and_what_all_add_is_none() {
        let mut all = [
            received("direct", "HTTP/1.1", 1, &["Host", "Accept"]),
            received("a", "HTTP/1.1", 1, &["Host", "Accept", "X-Forwarded-For"]),
            received("b", "HTTP/1.1", 1, &["host", "accept", "x-forwarded-for", "Via"]),
            received("c", "HTTP/1.0", 8, &["Host", "X-Forwarded-For"]),
        ];
        compare(&mut all);
        assert!(all[1].differences.is_empty(), "{:?}", all[1].differences);
        assert_eq!(all[2].differences, ["adds via (1 of 3 do)"]);
        assert_eq!(
            all[3].differences,
            [
                "does not pass accept on",
                "speaks HTTP/1.0 to the origin",
                "opened 8 connections for 8 requests on one client connection"
            ]
        );
    }

    #[test]
    fn recordings_are_read() {
        let answer = b"HTTP/1.1 200 OK\r\n\r\n[{\"connection\":1,\"version\":\"HTTP/1.1\",\"headers\":[[\"Host\",\"a\"]]}]";
        let (version, headers) = last_request(answer).unwrap();
        assert_eq!((version.as_str(), headers), ("HTTP/1.1", vec![("Host".to_owned(), "a".to_owned())]));
        assert!(last_request(b"HTTP/1.1 404 Not Found\r\n\r\n").is_none());
    }
}
