//! The adapters, one in each file, and the helpers that they share. Tools report less than the built-in
//! generator. The helpers classify what is there, and record in [`LoadResult::verification`] how much a tool
//! has really checked.

mod ab;
mod bombardier;
mod fortio;
mod gatling;
mod h2load;
mod hey;
mod json;
mod k6;
mod oha;
mod siege;
mod vegeta;
mod wrk;
mod wrk2;

pub(crate) use ab::Ab;
pub(crate) use bombardier::Bombardier;
pub(crate) use fortio::Fortio;
pub(crate) use gatling::Gatling;
pub(crate) use h2load::H2load;
pub(crate) use hey::Hey;
pub(crate) use k6::K6;
pub(crate) use oha::Oha;
pub(crate) use siege::Siege;
pub(crate) use vegeta::Vegeta;
pub(crate) use wrk::Wrk;
pub(crate) use wrk2::Wrk2;

use crate::output::Output;
use crate::request::Request;
use std::collections::BTreeMap;
use tollgate_lab_record::{Failures, LoadResult, Verification};

/// Returns a result with the values of the request, to which the tool's figures are added.
fn asked(tool: &'static str, request: &Request, output: &Output) -> LoadResult {
    LoadResult {
        tool: tool.into(),
        tool_version: output.version.clone(),
        command: output.command.clone(),
        threads: request.threads,
        connections: request.connections,
        keep_alive: request.keep_alive,
        model: request.model,
        verification: Verification::Status,
        seconds: 0.0,
        sent: None,
        ok: 0,
        failures: Failures::default(),
        statuses: BTreeMap::new(),
        body_bytes: None,
        connections_opened: None,
        response_time: None,
        service_time: None,
        send_lag: None,
        windows: Vec::new(),
    }
}

/// Adds the responses by status and counts the expected ones.
fn count_statuses(result: &mut LoadResult, request: &Request, statuses: BTreeMap<u16, u64>) {
    for (status, count) in &statuses {
        let sum = if request.expects(*status) { &mut result.ok } else { &mut result.failures.status };
        *sum = sum.saturating_add(*count);
    }
    result.statuses = statuses;
}

/// Counts responses if the tool reports only whether their status was an error (400 and above). If an error
/// status is expected, any error status may be the expected one; the result's verification is then
/// `Presence`.
fn count_good_and_errors(result: &mut LoadResult, request: &Request, good: u64, errors: u64) {
    if request.status.is_some_and(|status| status >= 400) {
        (result.ok, result.failures.status) = (errors, good);
        result.verification = Verification::Presence;
    } else {
        (result.ok, result.failures.status) = (good, errors);
    }
}

/// Adds failures that a tool describes in its own words or in the words of its HTTP library.
fn classify(failures: &mut Failures, words: &str, count: u64) {
    let words = words.to_lowercase();
    let has = |any: &[&str]| any.iter().any(|word| words.contains(word));
    let kind = if has(&["timeout", "timed out", "deadline exceeded", "timeoutexception"]) {
        &mut failures.timeout
    } else if has(&[
        "dial ",
        "connection refused",
        "connectexception",
        "cannot assign",
        "no route",
        "too many open",
    ]) {
        &mut failures.connect
    } else if has(&["malformed", "parse", "invalid", "protocol"]) {
        &mut failures.protocol
    } else if has(&["broken pipe", "write"]) {
        &mut failures.write
    } else {
        &mut failures.read
    };
    *kind = kind.saturating_add(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_http_libraries_are_told_apart() {
        for (words, expected) in [
            ("Get \"http://x/\": dial tcp 127.0.0.1:1: connect: connection refused", "connect"),
            ("context deadline exceeded (Client.Timeout exceeded while awaiting headers)", "timeout"),
            ("dial tcp 127.0.0.1:1: i/o timeout", "timeout"),
            ("read: connection reset by peer", "read"),
            ("Get \"http://x/\": EOF", "read"),
            ("write: broken pipe", "write"),
            ("net/http: HTTP/1.x transport connection broken: malformed HTTP response", "protocol"),
        ] {
            let mut failures = Failures::default();
            classify(&mut failures, words, 2);
            assert_eq!(failures.total(), 2);
            let json = serde_json::to_value(&failures).unwrap();
            assert_eq!(json[expected], 2, "{words} became {json}");
        }
    }
}
