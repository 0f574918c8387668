//! One adapter a file.

mod ab;
mod h2load;
mod siege;
mod wrk;

pub(crate) use ab::Ab;
pub(crate) use h2load::H2load;
pub(crate) use siege::Siege;
pub(crate) use wrk::Wrk;

use crate::output::Output;
use crate::request::Request;
use std::collections::BTreeMap;
use tollgate_lab_record::{Failures, LoadResult, Verification};

/// A result in which nothing has been told yet but what was asked for.
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

/// Takes the responses by status and counts the expected ones.
fn count_statuses(result: &mut LoadResult, request: &Request, statuses: BTreeMap<u16, u64>) {
    for (status, count) in &statuses {
        let sum = if request.expects(*status) { &mut result.ok } else { &mut result.failures.status };
        *sum = sum.saturating_add(*count);
    }
    result.statuses = statuses;
}

/// Counts responses of which the tool tells only whether their status was an error (400 and above). Where an error
/// status is expected, any of them may be it: the result then says that only presence was looked at.
fn count_good_and_errors(result: &mut LoadResult, request: &Request, good: u64, errors: u64) {
    if request.status.is_some_and(|status| status >= 400) {
        (result.ok, result.failures.status) = (errors, good);
        result.verification = Verification::Presence;
    } else {
        (result.ok, result.failures.status) = (good, errors);
    }
}
