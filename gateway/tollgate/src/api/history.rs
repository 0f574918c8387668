//! Endpoints of the admin API for the history, rollbacks, and copies of the store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path as UrlPath, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_config::file_access::Scope;
use tollgate_sources::{ChangeError, EtcdHandle, Intent, list_versions};
use tollgate_store::{Error, Store, VersionRecord};

use super::body::read;
use super::changes::ChangeQuery;
use super::response::{
    body, change_error_response, change_response, change_to_json, error_response, wants_yaml,
};
use super::submit_change;
use crate::access::ClientName;
use crate::admin_context::AdminContext;

/// How many versions a list has unless the client sets `limit`.
const LIMIT_DEFAULT: usize = 50;
/// The most versions in a list.
const LIMIT_MAX: usize = 1000;
/// How many versions are fetched from etcd at once.
const PAGE_VERSIONS: usize = 20;

/// The query parameters of a list of versions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// Only versions before this one.
    before: Option<u64>,
    /// The most versions to return.
    limit: Option<usize>,
}

/// The query parameters of a single version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionQuery {
    /// Report all changes after this version, not only the changes of the requested one.
    since: Option<u64>,
}

/// Runs an operation on the store, off the control thread.
async fn with_store<T: Send + 'static>(
    context: &AdminContext,
    act: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
) -> Result<T, Box<Response>> {
    let Some(store): Option<Arc<Store>> = context.view.read(|state| state.store.clone()) else {
        return Err(Box::new(change_error_response(&ChangeError::NoStore)));
    };
    let done = tokio::task::spawn_blocking(move || act(&store)).await;
    let done = done.unwrap_or_else(|error| Err(std::io::Error::other(error).into()));
    done.map_err(|error| {
        Box::new(match error {
            Error::UnknownVersion(_) | Error::VersionExpired(_) => {
                change_error_response(&ChangeError::UnknownVersion(error.to_string()))
            }
            Error::Closed => change_error_response(&ChangeError::NotNow(
                "another process is taking over: try again in a moment",
            )),
            error => error_response(StatusCode::INSUFFICIENT_STORAGE, "store", &error.to_string()),
        })
    })
}

/// Returns the etcd connection, if etcd is used in place of a store.
fn etcd_handle(context: &AdminContext) -> Option<EtcdHandle> {
    context.view.read(|state| state.etcd.as_ref().map(|etcd| etcd.handle.clone()))
}

fn etcd_unavailable(error: &impl ToString) -> Box<Response> {
    Box::new(change_error_response(&ChangeError::EtcdUnavailable(error.to_string())))
}

/// Returns one version from etcd's history.
async fn version_in_etcd(etcd: &EtcdHandle, version: u64) -> Result<VersionRecord, Box<Response>> {
    let found =
        list_versions(etcd, version.checked_add(1), 1).await.map_err(|error| etcd_unavailable(&error))?;
    let none = || format!("etcd's history does not tell of version {version}");
    let entry = found.into_iter().find(|entry| entry.version == version);
    entry.ok_or_else(|| Box::new(change_error_response(&ChangeError::UnknownVersion(none()))))
}

/// `GET /api/v1/history`: lists versions, the newest first.
pub async fn list(
    State(context): State<AdminContext>,
    Query(query): Query<ListQuery>,
    headers: HeaderMap,
) -> Response {
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX);
    let list_versions = match etcd_handle(&context) {
        Some(etcd) => summaries_in_etcd(&etcd, query.before, limit).await,
        None => {
            with_store(&context, move |store| store.history(query.before, limit, |entry| summary(&entry)))
                .await
        }
    };
    match list_versions {
        Ok(list_versions) => {
            body(StatusCode::OK, wants_yaml(&headers), &json!({ "versions": list_versions }))
        }
        Err(response) => *response,
    }
}

/// Lists versions from etcd. etcd returns whole entries, so they are fetched in pages to bound memory.
async fn summaries_in_etcd(
    etcd: &EtcdHandle,
    mut before: Option<u64>,
    limit: usize,
) -> Result<Vec<Value>, Box<Response>> {
    let mut out = Vec::new();
    while out.len() < limit {
        let page = list_versions(etcd, before, PAGE_VERSIONS.min(limit - out.len()))
            .await
            .map_err(|error| etcd_unavailable(&error))?;
        let Some(last) = page.last() else { break };
        before = Some(last.version);
        out.extend(page.iter().map(summary));
    }
    Ok(out)
}

fn summary(entry: &VersionRecord) -> Value {
    let resources =
        entry.content.changes.iter().take(20).map(|change| format!("{}/{}", change.kind, change.name));
    json!({
        "version": entry.version,
        "at": crate::time::rfc3339(entry.content.at),
        "who": entry.content.who,
        "what": entry.content.what,
        "resources": resources.collect::<Vec<_>>(),
        "count": entry.content.changes.len(),
    })
}

/// `GET /api/v1/history/{version}`: returns a version with its changes, or its differences from an earlier
/// version.
pub async fn one(
    State(context): State<AdminContext>,
    UrlPath(version): UrlPath<u64>,
    Query(VersionQuery { since }): Query<VersionQuery>,
    headers: HeaderMap,
) -> Response {
    let Some(since) = since else {
        let entry = match etcd_handle(&context) {
            Some(etcd) => version_in_etcd(&etcd, version).await,
            None => with_store(&context, move |store| store.version(version)).await,
        };
        return match entry {
            Ok(entry) => {
                respond(&headers, move || {
                    let mut value = summary(&entry);
                    value["changes"] = changes_to_json(&combine_changes(vec![entry])).into();
                    value
                })
                .await
            }
            Err(response) => *response,
        };
    };
    if since > version {
        let message = format!("`since` must be a version before {version}");
        return change_error_response(&ChangeError::Malformed(message));
    }
    let entries = match etcd_handle(&context) {
        Some(etcd) => versions_after_in_etcd(&etcd, since, version).await,
        None => versions_after(&context, since, version).await,
    };
    match entries {
        Ok(entries) => {
            respond(&headers, move || {
                let changes = changes_to_json(&combine_changes(entries));
                json!({ "version": version, "since": since, "count": changes.len(), "changes": changes })
            })
            .await
        }
        Err(response) => *response,
    }
}

/// Makes a response on a blocking thread, since a version may have changed 100,000 resources.
async fn respond(headers: &HeaderMap, value: impl FnOnce() -> Value + Send + 'static) -> Response {
    let yaml = wants_yaml(headers);
    let made = tokio::task::spawn_blocking(move || body(StatusCode::OK, yaml, &value()));
    let lost =
        |_| error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the answer could not be made");
    made.await.unwrap_or_else(lost)
}

/// Returns the versions after `versions_since` up to `version`, the newest first.
async fn versions_after(
    context: &AdminContext,
    since: u64,
    version: u64,
) -> Result<Vec<VersionRecord>, Box<Response>> {
    let entries = with_store(context, move |store| {
        // An unknown version is refused. Version 0 is the empty store and has no entry.
        if version > 0 {
            store.version(version)?;
        }
        let mut entries = store.versions_since(since)?;
        entries.retain(|entry| entry.version <= version);
        Ok(entries)
    });
    entries.await
}

/// Returns the same from etcd's history. Both versions must still be in it, or the versions in between may be
/// missing.
async fn versions_after_in_etcd(
    etcd: &EtcdHandle,
    since: u64,
    version: u64,
) -> Result<Vec<VersionRecord>, Box<Response>> {
    let none = |missing: u64| {
        let message =
            format!("etcd's history does not tell of version {missing}, or not with {LIMIT_MAX} others");
        Box::new(change_error_response(&ChangeError::UnknownVersion(message)))
    };
    let mut found = list_versions(etcd, version.checked_add(1), LIMIT_MAX)
        .await
        .map_err(|error| etcd_unavailable(&error))?;
    for wanted in [version, since] {
        if !found.iter().any(|entry| entry.version == wanted) {
            return Err(none(wanted));
        }
    }
    found.retain(|entry| entry.version > since);
    Ok(found)
}

/// The JSON text of a resource before and after.
type BeforeAfter = (Option<String>, Option<String>);

/// Returns the combined effect of these versions, given newest first.
fn combine_changes(entries: Vec<VersionRecord>) -> BTreeMap<(String, String), BeforeAfter> {
    let mut all: BTreeMap<(String, String), BeforeAfter> = BTreeMap::new();
    for change in entries.into_iter().flat_map(|entry| entry.content.changes) {
        all.entry((change.kind, change.name))
            .and_modify(|both| both.0.clone_from(&change.before))
            .or_insert((change.before, change.after));
    }
    all.retain(|_, (before, after)| before != after);
    all
}

fn changes_to_json(changes: &BTreeMap<(String, String), BeforeAfter>) -> Vec<Value> {
    let read = |text: &Option<String>| -> Option<Value> { serde_json::from_str(text.as_deref()?).ok() };
    let one = |((kind, name), (before, after)): (&(String, String), &BeforeAfter)| {
        change_to_json(kind, name, read(before).as_ref(), read(after).as_ref())
    };
    changes.iter().map(one).collect()
}

/// `POST /api/v1/rollback/{version}`: restores the state of a version, as a new version.
pub async fn rollback(
    State(context): State<AdminContext>,
    client: ClientName,
    UrlPath(version): UrlPath<u64>,
    Query(query): Query<ChangeQuery>,
    headers: HeaderMap,
) -> Response {
    let response =
        match submit_change(&context, client.0, Intent::Rollback(version), query.is_dry_run()).await {
            Ok(result) => change_response(StatusCode::OK, &headers, result, query.is_dry_run()).await,
            Err(error) => change_error_response(&error),
        };
    query.mark_check(response)
}

/// Returns the real path of a new backup; `None` if no backup may lie there. A backup lies in the store's own
/// directory, or below a directory of `admin.files`.
fn backup_path(store: &Path, files: &[PathBuf], to: &Path) -> Option<PathBuf> {
    if let Ok(real) = Scope::below(files).resolve(to) {
        return Some(real);
    }
    let directory = store.parent()?.canonicalize().ok()?;
    let real = Scope::below(std::slice::from_ref(&directory)).resolve(to).ok()?;
    (real.parent() == Some(&directory)).then_some(real)
}

/// `POST /api/v1/store/backup` with `{"to": PATH}`: copies the store to a new file on the gateway's machine.
pub async fn backup(State(context): State<AdminContext>, headers: HeaderMap, content: Body) -> Response {
    let value = match read(&headers, content).await {
        Ok(body) => body.value,
        Err(response) => return *response,
    };
    let path = value["to"].as_str().map(PathBuf::from).filter(|path| path.is_absolute());
    let Some(path) = path else {
        return change_error_response(&ChangeError::Malformed(
            "`to` must be an absolute path on the gateway's machine".to_owned(),
        ));
    };
    let to = path.clone();
    let files = context.view.read(|state| state.document_files.clone());
    let copied = with_store(&context, move |store| match backup_path(store.path(), &files, &to) {
        Some(real) => store.backup(&real).map(|()| true),
        None => Ok(false),
    });
    match copied.await {
        Ok(true) => body(StatusCode::OK, wants_yaml(&headers), &json!({ "to": path.display().to_string() })),
        Ok(false) => error_response(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid",
            "`to` must be a file in the directory of the store, or in a directory of `admin.files`",
        ),
        Err(response) => *response,
    }
}

/// `POST /api/v1/store/compact`: makes the store's file as small as possible.
pub async fn compact(State(context): State<AdminContext>, headers: HeaderMap) -> Response {
    let length = |store: &Store| std::fs::metadata(store.path()).map(|data| data.len());
    let sizes = with_store(&context, move |store| {
        let before = length(store)?;
        store.compact()?;
        Ok((before, length(store)?))
    });
    match sizes.await {
        Ok((before, after)) => body(
            StatusCode::OK,
            wants_yaml(&headers),
            &json!({ "bytes_before": before, "bytes_after": after }),
        ),
        Err(response) => *response,
    }
}
