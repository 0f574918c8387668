//! What was changed, going back, and copies of the store.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_sources::{Handle, Intent, Refusal, versions};
use tollgate_store::{Entry, Error, Store};

use super::answer::{answered, body, change, problem, refused, wants_yaml};
use super::ask;
use super::body::read;
use super::changes::How;
use crate::access::Asker;
use crate::surface::Surface;

/// Versions that are told at once where nobody says how many.
const USUAL: usize = 50;
/// And at most.
const MOST: usize = 1000;

/// Which part of the history is wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Versions before this one.
    before: Option<u64>,
    /// At most so many.
    limit: Option<usize>,
}

/// Does something with the store, beside the control thread.
async fn with<T: Send + 'static>(
    surface: &Surface,
    act: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
) -> Result<T, Box<Response>> {
    let Some(store): Option<Arc<Store>> = surface.view.read(|state| state.store.clone()) else {
        return Err(Box::new(refused(&Refusal::NoStore)));
    };
    let done = tokio::task::spawn_blocking(move || act(&store)).await;
    let done = done.unwrap_or_else(|error| Err(std::io::Error::other(error).into()));
    done.map_err(|error| {
        Box::new(match error {
            Error::NoVersion(_) | Error::Forgotten(_) => refused(&Refusal::NoVersion(error.to_string())),
            Error::Closed => {
                refused(&Refusal::NotNow("another process is taking over: try again in a moment"))
            }
            error => problem(StatusCode::INSUFFICIENT_STORAGE, "store", &error.to_string()),
        })
    })
}

/// etcd, if it is there in place of a store.
fn shared(surface: &Surface) -> Option<Handle> {
    surface.view.read(|state| state.etcd.as_ref().map(|etcd| etcd.handle.clone()))
}

fn away(error: &impl ToString) -> Box<Response> {
    Box::new(refused(&Refusal::Away(error.to_string())))
}

/// One version, as etcd keeps it.
async fn in_etcd(etcd: &Handle, version: u64) -> Result<Entry, Box<Response>> {
    let found = versions(etcd, version.checked_add(1), 1).await.map_err(|error| away(&error))?;
    let none = || format!("etcd's history does not tell of version {version}");
    let entry = found.into_iter().find(|entry| entry.version == version);
    entry.ok_or_else(|| Box::new(refused(&Refusal::NoVersion(none()))))
}

/// `GET /api/v1/history`: the newest first.
pub async fn list(State(surface): State<Surface>, Query(part): Query<Part>, headers: HeaderMap) -> Response {
    let limit = part.limit.unwrap_or(USUAL).min(MOST);
    let entries = match shared(&surface) {
        Some(etcd) => versions(&etcd, part.before, limit).await.map_err(|error| away(&error)),
        None => with(&surface, move |store| store.history(part.before, limit)).await,
    };
    match entries {
        Ok(entries) => {
            let versions: Vec<Value> = entries.iter().map(brief).collect();
            body(StatusCode::OK, wants_yaml(&headers), &json!({ "versions": versions }))
        }
        Err(response) => *response,
    }
}

fn brief(entry: &Entry) -> Value {
    let resources =
        entry.entry.changes.iter().take(20).map(|change| format!("{}/{}", change.kind, change.name));
    json!({
        "version": entry.version,
        "at": crate::time::rfc3339(entry.entry.at),
        "who": entry.entry.who,
        "what": entry.entry.what,
        "resources": resources.collect::<Vec<_>>(),
        "count": entry.entry.changes.len(),
    })
}

/// `GET /api/v1/history/{version}`: with what it changed.
pub async fn one(State(surface): State<Surface>, Path(version): Path<u64>, headers: HeaderMap) -> Response {
    let entry = match shared(&surface) {
        Some(etcd) => in_etcd(&etcd, version).await,
        None => with(&surface, move |store| store.version(version)).await,
    };
    match entry {
        Ok(entry) => {
            let mut value = brief(&entry);
            let read = |text: &Option<String>| text.as_ref().and_then(|text| serde_json::from_str(text).ok());
            let changes = entry.entry.changes.iter().map(|it| {
                let (before, after): (Option<Value>, Option<Value>) = (read(&it.before), read(&it.after));
                change(&it.kind, &it.name, before.as_ref(), after.as_ref())
            });
            value["changes"] = changes.collect();
            body(StatusCode::OK, wants_yaml(&headers), &value)
        }
        Err(response) => *response,
    }
}

/// `POST /api/v1/rollback/{version}`: all becomes as it was then, as a new version.
pub async fn rollback(
    State(surface): State<Surface>,
    asker: Asker,
    Path(version): Path<u64>,
    Query(how): Query<How>,
    headers: HeaderMap,
) -> Response {
    match ask(&surface, asker.0, Intent::Rollback(version), how.dry_run).await {
        Ok(what) => answered(StatusCode::OK, &headers, &what, how.dry_run),
        Err(refusal) => refused(&refusal),
    }
}

/// `POST /api/v1/store/backup` with `{"to": PATH}`: a copy of the store, on the gateway's machine.
pub async fn backup(State(surface): State<Surface>, headers: HeaderMap, content: Body) -> Response {
    let value = match read(&headers, content).await {
        Ok(value) => value,
        Err(response) => return *response,
    };
    let path = value["to"].as_str().map(PathBuf::from).filter(|path| path.is_absolute());
    let Some(path) = path else {
        return refused(&Refusal::Senseless(
            "`to` is to be an absolute path on the gateway's machine".to_owned(),
        ));
    };
    let to = path.clone();
    match with(&surface, move |store| store.backup(&to)).await {
        Ok(()) => body(StatusCode::OK, wants_yaml(&headers), &json!({ "to": path.display().to_string() })),
        Err(response) => *response,
    }
}

/// `POST /api/v1/store/compact`: makes the store's file as small as can be.
pub async fn compact(State(surface): State<Surface>, headers: HeaderMap) -> Response {
    let length = |store: &Store| std::fs::metadata(store.path()).map(|data| data.len());
    let sizes = with(&surface, move |store| {
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
