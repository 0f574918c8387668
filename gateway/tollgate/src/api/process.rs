//! Endpoints of the admin API that act on the whole process: reload and stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tollgate_config::{KINDS, SourceFile, file_resources, from_yaml};
use tollgate_net::component;
use tollgate_sources::ChangeError;
use tracing::info;

use super::response::{
    body, change_error_response, change_to_json, error_response, refused_response, wants_yaml,
};
use crate::access::ClientName;
use crate::admin_context::AdminContext;
use crate::operation::{Operation, ReloadOutcome, ReloadReport};

/// How long a stop waits before it begins, so that its answer reaches the client.
const STOP_DELAY: Duration = Duration::from_millis(100);

/// The longest time that a client may give requests in flight, in seconds.
const STOP_TIMEOUT_MAX_SECONDS: f64 = 7.0 * 86_400.0;

/// `POST /api/v1/reload`: reads the file again, as SIGHUP does. Answers when every worker runs it, or with the
/// errors of the file.
pub async fn reload(
    State(context): State<AdminContext>,
    ClientName(who): ClientName,
    headers: HeaderMap,
) -> Response {
    let before = context.view.read(|state| state.files.clone());
    let (answer, outcome) = oneshot::channel();
    info!(target: component::ADMIN, "audit: reload by {who}");
    let outcome = match context.operations.send(Operation::Reload(answer)).await {
        Ok(()) => outcome.await.ok(),
        Err(_) => None,
    };
    match outcome.unwrap_or(ReloadOutcome::NotNow("the gateway stops")) {
        ReloadOutcome::NotNow(why) => change_error_response(&ChangeError::NotNow(why)),
        ReloadOutcome::Refused { message, problems } => refused_response(&message, problems),
        ReloadOutcome::InForce(report) => {
            let after = context.view.read(|state| state.files.clone());
            let yaml = wants_yaml(&headers);
            // On a blocking thread: with many routes it takes milliseconds.
            let make = move || body(StatusCode::OK, yaml, &report_to_json(&report, &before, &after));
            tokio::task::spawn_blocking(make).await.unwrap_or_else(|_| {
                let lost = "the file is in force, but the answer could not be made";
                error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal", lost)
            })
        }
    }
}

fn report_to_json(
    report: &ReloadReport,
    before: &Arc<Vec<SourceFile>>,
    after: &Arc<Vec<SourceFile>>,
) -> Value {
    json!({
        "file": report.file,
        "generation": report.generation,
        "routes": report.routes,
        "routes_read": report.routes_read,
        "milliseconds": (report.took.as_secs_f64() * 1e6).round() / 1e3,
        "changes": changed_resources(before, after),
        "settings": changed_settings(before, after),
        "needs_restart": report.needs_restart,
        "problem": report.problem,
        "warnings": report.warnings,
    })
}

/// Returns the resources of the file that differ, as a change of the store reports them.
fn changed_resources(before: &[SourceFile], after: &[SourceFile]) -> Vec<Value> {
    // Names need not be unique in a file: unnamed routes are called by their match.
    let by_name = |files: &[SourceFile]| {
        let mut all: BTreeMap<(usize, String, usize), Value> = BTreeMap::new();
        for resource in file_resources(files) {
            let kind = KINDS.iter().position(|kind| kind == resource.kind).unwrap_or_default();
            let same =
                all.range((kind, resource.name.clone(), 0)..=(kind, resource.name.clone(), usize::MAX));
            let number = same.count();
            all.insert((kind, resource.name, number), resource.value);
        }
        all
    };
    let (before, after) = (by_name(before), by_name(after));
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differ = keys.into_iter().filter(|key| before.get(key) != after.get(key));
    differ.map(|key| change_to_json(KINDS[key.0].name, &key.1, before.get(key), after.get(key))).collect()
}

/// Returns the other keys of the main file whose values differ, in alphabetical order.
fn changed_settings(before: &[SourceFile], after: &[SourceFile]) -> Vec<String> {
    let settings = |files: &[SourceFile]| -> BTreeMap<String, Value> {
        let main = files.first().and_then(|file| from_yaml(&file.text).ok());
        let Some(Value::Object(entries)) = main else { return BTreeMap::new() };
        // A listener without a name is a setting.
        let is_setting = |key: &str| key == "listen" || KINDS.iter().all(|kind| kind.key != key);
        entries.into_iter().filter(|(key, _)| is_setting(key)).collect()
    };
    let (before, after) = (settings(before), settings(after));
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    keys.into_iter().filter(|key| before.get(*key) != after.get(*key)).cloned().collect()
}

/// The query parameters of a stop.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopQuery {
    /// How long requests in flight may take, in seconds, in place of `timeouts.drain`.
    timeout: Option<f64>,
}

/// `POST /api/v1/stop`: drains and stops, as SIGTERM does. Answers before it begins.
pub async fn stop(
    State(context): State<AdminContext>,
    ClientName(who): ClientName,
    Query(query): Query<StopQuery>,
    headers: HeaderMap,
) -> Response {
    let valid = |seconds: &f64| (0.0..=STOP_TIMEOUT_MAX_SECONDS).contains(seconds);
    if query.timeout.is_some_and(|seconds| !valid(&seconds)) {
        let message = "`timeout` must be a number of seconds, at most seven days";
        return error_response(StatusCode::BAD_REQUEST, "bad_request", message);
    }
    if context.operations.is_closed() {
        return change_error_response(&ChangeError::NotNow("the gateway stops already"));
    }
    info!(target: component::ADMIN, "audit: stop by {who}");
    let limit = query.timeout.map(Duration::from_secs_f64);
    let operations = context.operations.clone();
    // A task of its own: it must not depend on the connection of the client.
    tokio::spawn(async move {
        tokio::time::sleep(STOP_DELAY).await;
        // The queue is closed if a signal has already stopped the gateway.
        let _ = operations.send(Operation::Stop(limit)).await;
    });
    let in_flight = context.admin.registry.in_flight();
    let value = json!({
        "state": "draining",
        "pid": std::process::id(),
        "in_flight": in_flight,
        "timeout": query.timeout,
    });
    body(StatusCode::ACCEPTED, wants_yaml(&headers), &value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Vec<SourceFile> {
        vec![SourceFile { name: "a.yaml".to_owned(), text: text.to_owned() }]
    }

    #[test]
    fn a_reload_names_what_differs() {
        tollgate_policy::register();
        let before = files(
            "listen: 127.0.0.1:1\nlog: info\nroutes: [{match: /a, respond: a}, {match: /b, respond: b}]",
        );
        let after = files(
            "listen: 127.0.0.1:1\ntimeouts: {drain: 1s}\n\
             routes: [{match: /a, respond: A}, {name: c, match: /c, to: c}]\nupstreams: {c: '127.0.0.1:1'}",
        );
        let changes = changed_resources(&before, &after);
        let shown: Vec<_> = changes
            .iter()
            .map(|it| {
                ["change", "kind", "name"]
                    .map(|key| it[key].as_str().unwrap_or_default().to_owned())
                    .join(" ")
            })
            .collect();
        assert_eq!(shown, ["changed routes /a", "removed routes /b", "added routes c", "added upstreams c"]);
        assert_eq!(changed_settings(&before, &after), ["log", "timeouts"]);
        assert!(changed_resources(&after, &after).is_empty() && changed_settings(&after, &after).is_empty());
    }
}
