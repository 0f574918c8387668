//! Endpoints of the admin API that change resources.

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use tollgate_sources::{ChangeAction, ChangeError, Intent, Precondition, ResourceChange};

use super::body::{SentBody, read, read_put};
use super::resources::{find_kind, kind_of};
use super::response::{change_error_response, change_response, error_response, with_etag};
use super::submit_change;
use crate::access::{ClientName, UnauditedCheck};
use crate::admin_context::AdminContext;

/// The query parameters of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeQuery {
    /// Only report what would change.
    #[serde(default)]
    dry_run: bool,
    /// A dry run that leaves no line in the audit log, such as an editor makes while its user types.
    #[serde(default)]
    check: bool,
}

impl ChangeQuery {
    /// Returns whether nothing is changed.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run || self.check
    }

    /// Marks the response to a check, so that the guard writes no line to the audit log.
    pub fn mark_check(&self, mut response: Response) -> Response {
        if self.check {
            response.extensions_mut().insert(UnauditedCheck);
        }
        response
    }
}

type ResourcePath = Path<(String, String)>;

/// `PUT /api/v1/{kind}/{name}`.
pub async fn put(
    State(context): State<AdminContext>,
    client: ClientName,
    path: ResourcePath,
    Query(query): Query<ChangeQuery>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    change_from_body(&context, client, path, &query, &headers, body, ChangeAction::Put).await
}

/// `PATCH /api/v1/{kind}/{name}`, with a merge patch (RFC 7396).
pub async fn patch(
    State(context): State<AdminContext>,
    client: ClientName,
    path: ResourcePath,
    Query(query): Query<ChangeQuery>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    change_from_body(&context, client, path, &query, &headers, body, ChangeAction::Patch).await
}

/// `DELETE /api/v1/{kind}/{name}`.
pub async fn delete(
    State(context): State<AdminContext>,
    client: ClientName,
    path: ResourcePath,
    Query(query): Query<ChangeQuery>,
    headers: HeaderMap,
) -> Response {
    let response = change_one(&context, client, path, &query, &headers, ChangeAction::Delete, &[]).await;
    query.mark_check(response)
}

/// Makes a change whose value is in the body.
async fn change_from_body(
    context: &AdminContext,
    client: ClientName,
    path: ResourcePath,
    query: &ChangeQuery,
    headers: &HeaderMap,
    body: Body,
    action: fn(Value) -> ChangeAction,
) -> Response {
    let response = match read_put(headers, body).await {
        Ok(SentBody { value, sent }) => {
            change_one(context, client, path, query, headers, action(value), &sent).await
        }
        Err(response) => *response,
    };
    query.mark_check(response)
}

/// The longest text, in bytes, in which problems are shown to the client that sent it. A longer one would be parsed
/// once more for each problem.
const SHOWN_TEXT_MAX_BYTES: usize = 256 << 10;

/// Shows the problems of a refused change in the text that the client sent.
fn show_in_sent_text(error: &mut ChangeError, place: &str, sent: &[u8]) {
    let ChangeError::Invalid(problems) = error else { return };
    let Ok(text) = std::str::from_utf8(sent) else { return };
    if text.is_empty() || text.len() > SHOWN_TEXT_MAX_BYTES {
        return;
    }
    for problem in problems.iter_mut().filter(|problem| problem.place == place) {
        problem.show_in(text, "");
    }
}

/// Makes a change. `sent` is the body of the request.
async fn change_one(
    context: &AdminContext,
    client: ClientName,
    Path((kind, name)): ResourcePath,
    query: &ChangeQuery,
    headers: &HeaderMap,
    action: ChangeAction,
    sent: &[u8],
) -> Response {
    let kind = match find_kind(&kind) {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    if kind.name == "apisix" {
        // Written alone, it would have no effect on the gateway.
        let message =
            format!("an object of APISIX is written with what comes of it, over /apisix/admin/{name}");
        return error_response(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &message);
    }
    let precondition = match parse_precondition(headers) {
        Ok(precondition) => precondition,
        Err(response) => return *response,
    };
    let is_deletion = matches!(action, ChangeAction::Delete);
    let place = format!("{}/{name}", kind.name);
    let change = ResourceChange { kind, name, action, precondition };
    let answer = submit_change(context, client.0, Intent::Changes(vec![change]), query.is_dry_run()).await;
    match answer {
        Err(mut error) => {
            show_in_sent_text(&mut error, &place, sent);
            change_error_response(&error)
        }
        Ok(result) => {
            let new = result.changes.first().is_some_and(|change| change.before.is_none());
            let status = if new && !query.is_dry_run() { StatusCode::CREATED } else { StatusCode::OK };
            let version = result.version;
            let response = change_response(status, headers, result, query.is_dry_run()).await;
            if is_deletion || query.is_dry_run() { response } else { with_etag(response, version) }
        }
    }
}

/// Returns the precondition that a request sets on the resource (RFC 9110, section 13.1).
fn parse_precondition(headers: &HeaderMap) -> Result<Precondition, Box<Response>> {
    let bad = |message: &str| Box::new(error_response(StatusCode::BAD_REQUEST, "bad_request", message));
    let text = |name| {
        headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or_default().trim())
    };
    match (text(IF_MATCH), text(IF_NONE_MATCH)) {
        (None, None) => Ok(Precondition::None),
        (Some("*"), None) => Ok(Precondition::Exists),
        (None, Some("*")) => Ok(Precondition::Absent),
        (Some(tags), None) => {
            let versions =
                tags.split(',').map(|tag| tag.trim().strip_prefix('"')?.strip_suffix('"')?.parse().ok());
            let versions: Option<Vec<u64>> = versions.collect();
            versions
                .map(Precondition::Version)
                .ok_or_else(|| bad("`If-Match` holds no tag that this API gives"))
        }
        _ => Err(bad("of `If-None-Match` only `*` has a meaning here, and not together with `If-Match`")),
    }
}

/// `POST /api/v1/transactions`: several changes, all or none.
pub async fn transaction(
    State(context): State<AdminContext>,
    client: ClientName,
    Query(query): Query<ChangeQuery>,
    headers: HeaderMap,
    content: Body,
) -> Response {
    query.mark_check(change_several(&context, client, &query, &headers, content).await)
}

async fn change_several(
    context: &AdminContext,
    client: ClientName,
    query: &ChangeQuery,
    headers: &HeaderMap,
    content: Body,
) -> Response {
    let SentBody { value, sent } = match read(headers, content).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    // A body may hold 100,000 changes.
    let read = tokio::task::spawn_blocking(move || parse_changes(value)).await;
    let changes = match read.unwrap_or_else(|_| Err("the changes could not be read".to_owned())) {
        Ok(changes) => changes,
        Err(message) => return change_error_response(&ChangeError::Malformed(message)),
    };
    let places: Vec<String> =
        changes.iter().map(|change| format!("{}/{}", change.kind.name, change.name)).collect();
    match submit_change(context, client.0, Intent::Changes(changes), query.is_dry_run()).await {
        Ok(result) => change_response(StatusCode::OK, headers, result, query.is_dry_run()).await,
        Err(mut error) => {
            show_in_sent_changes(&mut error, &places, &sent);
            change_error_response(&error)
        }
    }
}

/// Shows the problems of a refused transaction in the text that the client sent, unless that is JSON on one line, as
/// programs write it: then a problem is shown in the resource alone.
fn show_in_sent_changes(error: &mut ChangeError, places: &[String], sent: &[u8]) {
    let ChangeError::Invalid(problems) = error else { return };
    let Ok(text) = std::str::from_utf8(sent) else { return };
    if text.len() > SHOWN_TEXT_MAX_BYTES || text.trim_end().lines().count() < 2 {
        return;
    }
    for problem in problems {
        if let Some(index) = places.iter().position(|place| *place == problem.place) {
            problem.show_in(text, &format!("/changes/{index}/value"));
        }
    }
}

fn parse_changes(mut value: Value) -> Result<Vec<ResourceChange>, String> {
    let list = value.get_mut("changes").map(Value::take);
    let Some(Value::Array(list)) = list else { return Err("`changes` must be a list".to_owned()) };
    list.into_iter()
        .enumerate()
        .map(|(index, change)| parse_change(change).map_err(|why| format!("/changes/{index}: {why}")))
        .collect()
}

fn parse_change(change: Value) -> Result<ResourceChange, String> {
    let Value::Object(mut entries) = change else { return Err("a change is a mapping".to_owned()) };
    let known = ["op", "kind", "name", "value", "if_version"];
    if let Some(key) = entries.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("unknown key `{key}`; there are `{}`", known.join("`, `")));
    }
    let value = entries.shift_remove("value");
    let text =
        |key: &str| entries.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{key}` must be a text"));
    let kind_name = text("kind")?;
    let kind = kind_of(kind_name).ok_or_else(|| format!("there is no kind `{kind_name}`"))?;
    let value = || value.ok_or("`value` is missing");
    let action = match text("op")? {
        "put" => ChangeAction::Put(value()?),
        "patch" => ChangeAction::Patch(value()?),
        "delete" => ChangeAction::Delete,
        other => return Err(format!("there is no `op` `{other}`: it is `put`, `patch` or `delete`")),
    };
    let precondition = match entries.get("if_version") {
        None => Precondition::None,
        Some(Value::Null) => Precondition::Absent,
        Some(version) => {
            Precondition::Version(vec![version.as_u64().ok_or("`if_version` must be a version, or null")?])
        }
    };
    Ok(ResourceChange { kind, name: text("name")?.to_owned(), action, precondition })
}
