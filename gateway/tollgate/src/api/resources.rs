//! Endpoints of the admin API that read resources.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_config::{KINDS, ResourceKind, Role, kind, masked};
use tollgate_plan::PlannedListener;
use tollgate_sources::{ListedResource, ResourceItem};

use super::response::{body, error_response, wants_yaml, with_etag};
use crate::access::ClientName;
use crate::admin_context::AdminContext;
use crate::build_info;

/// The query parameters of a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListFilter {
    /// Only names that contain this text.
    pub name: Option<String>,
    /// `file`, `store` or `etcd`.
    pub source: Option<String>,
    /// Only resources whose JSON contains this text.
    pub q: Option<String>,
    /// Only names after this one, in the order of the list.
    pub after: Option<String>,
    /// How many resources to skip, of those that the other parameters leave.
    #[serde(default)]
    pub offset: usize,
    /// The most resources to return.
    pub limit: Option<usize>,
    /// The order; without it, the file's, and then the documents by name.
    pub sort: Option<ListSort>,
    #[serde(default)]
    pub order: ListOrder,
}

/// The key of a list's order.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListSort {
    Name,
    Source,
}

/// The direction of a list's order.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ListOrder {
    #[default]
    Asc,
    Desc,
}

/// Returns the kind of this name. The key of the file is accepted too: `policy_sets` for `policies`.
pub fn kind_of(name: &str) -> Option<&'static ResourceKind> {
    kind(name).or_else(|| KINDS.iter().find(|kind| kind.key == name && kind.name != "apisix"))
}

/// Returns the kind of this name, or a 404 that lists the kinds.
pub fn find_kind(name: &str) -> Result<&'static ResourceKind, Box<Response>> {
    kind_of(name).ok_or_else(|| {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        let message = format!("there is no kind `{name}`; there are {}", names.join(", "));
        Box::new(error_response(StatusCode::NOT_FOUND, "not_found", &message))
    })
}

/// `GET /api/v1`: a summary of the running plan, of the API, and of the client's role, which the guard
/// determined.
pub async fn summary(
    State(context): State<AdminContext>,
    client: ClientName,
    Extension(role): Extension<Role>,
    headers: HeaderMap,
) -> Response {
    let plan = context.plan.borrow().clone();
    let (version, stores) = context.view.read(|state| (state.version, state.is_writable()));
    let value = json!({
        "program": format!("tollgate {}", env!("CARGO_PKG_VERSION")),
        "commit": build_info::commit(),
        "generation": plan.generation(),
        "version": version,
        "writable": stores,
        "who": client.0,
        "role": role.as_str(),
        "routes": plan.routes.len(),
        "upstreams": plan.upstreams.len(),
        "listen": listen_urls(&plan.listeners),
        "kinds": KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>(),
        "prometheus": context.access.borrow().prometheus,
        "description": "/api/v1/openapi.json",
    });
    body(StatusCode::OK, wants_yaml(&headers), &value)
}

/// Returns the URL of each TCP listener, as the file has its address. A listener that only redirects is last.
fn listen_urls(listeners: &[Arc<PlannedListener>]) -> Vec<String> {
    let mut listeners: Vec<_> = listeners.iter().collect();
    listeners.sort_by_key(|listener| listener.redirect.is_some());
    let url = |listener: &Arc<PlannedListener>| {
        let scheme = if listener.tls.is_some() { "https" } else { "http" };
        let address = listener.bind.to_string();
        (!address.starts_with("unix:")).then(|| format!("{scheme}://{address}"))
    };
    listeners.into_iter().filter_map(url).collect()
}

/// `GET /api/v1/{kind}`.
pub async fn list(
    State(context): State<AdminContext>,
    Path(name): Path<String>,
    Query(filter): Query<ListFilter>,
    headers: HeaderMap,
) -> Response {
    let kind = match find_kind(&name) {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    let wanted = move || {
        let mut items = context.view.list(kind);
        let total = items.len();
        if let Some(after) = &filter.after {
            let place =
                items.iter().position(|item| item.name() == after).map_or(items.len(), |place| place + 1);
            items.drain(..place);
        }
        items.retain(|item| {
            filter.name.as_ref().is_none_or(|name| item.name().contains(name.as_str()))
                && filter.source.as_ref().is_none_or(|wanted| wanted == item.source())
                && filter
                    .q
                    .as_ref()
                    .is_none_or(|text| masked(kind, &item.value()).to_string().contains(text.as_str()))
        });
        let found = items.len();
        match filter.sort {
            Some(ListSort::Name) => items.sort_by(|one, other| one.name().cmp(other.name())),
            Some(ListSort::Source) => items.sort_by(|one, other| one.source().cmp(other.source())),
            None => {}
        }
        if filter.order == ListOrder::Desc {
            items.reverse();
        }
        items.drain(..filter.offset.min(found));
        items.truncate(filter.limit.unwrap_or(usize::MAX));
        let plan = context.plan.borrow().clone();
        let shadowed: HashMap<&str, &str> =
            if kind.name == "routes" { plan.shadowed_routes().collect() } else { HashMap::new() };
        let to_json = |item: &ListedResource| {
            let mut value = resource_to_json(&item.to_item());
            if let Some(by) = shadowed.get(item.name()) {
                value["shadowed_by"] = json!(by);
            }
            value
        };
        let items: Vec<Value> = items.iter().map(to_json).collect();
        json!({ "total": total, "found": found, "items": items })
    };
    let yaml = wants_yaml(&headers);
    match tokio::task::spawn_blocking(move || body(StatusCode::OK, yaml, &wanted())).await {
        Ok(response) => response,
        Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the list could not be made"),
    }
}

fn resource_to_json(item: &ResourceItem) -> Value {
    json!({
        "name": item.name,
        "source": item.source,
        "version": item.version,
        "value": masked(item.kind, &item.value),
    })
}

/// `GET /api/v1/{kind}/{name}`: returns the resource as it would be written, so that a client can edit it and
/// write it back.
pub async fn one(
    State(context): State<AdminContext>,
    Path((kind, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let kind = match find_kind(&kind) {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    // The first request after a reload waits until the texts of the file are read.
    let (view, of) = (context.view.clone(), name.clone());
    let Ok(found) = tokio::task::spawn_blocking(move || view.get(kind, &of)).await else {
        return error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the resource could not be read",
        );
    };
    let Some(item) = found else {
        let message = format!("there is no {} of the name `{name}`", kind.noun);
        return error_response(StatusCode::NOT_FOUND, "not_found", &message);
    };
    let mut response = body(StatusCode::OK, wants_yaml(&headers), &masked(kind, &item.value));
    let source = HeaderValue::from_str(&item.source).unwrap_or(HeaderValue::from_static("file"));
    response.headers_mut().insert("tollgate-source", source);
    match item.version {
        Some(version) => with_etag(response, version),
        None => response,
    }
}

/// `GET /api/v1/config`: returns all resources in the language of the file, as `import` accepts them.
pub async fn config(State(context): State<AdminContext>, headers: HeaderMap) -> Response {
    let yaml = wants_yaml(&headers);
    let made = tokio::task::spawn_blocking(move || {
        let mut read_whole = Map::new();
        for kind in &KINDS {
            let items = context.view.all(kind);
            if items.is_empty() && is_optional_key(kind) {
                continue;
            }
            read_whole.insert(kind.key.to_owned(), resources_in_file_form(kind, &items));
        }
        body(StatusCode::OK, yaml, &Value::Object(read_whole))
    });
    match made.await {
        Ok(response) => response,
        Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the list could not be made"),
    }
}

/// Returns whether the key of a kind is left out of a file without such resources: a file cannot have it, or it cannot be an
/// empty list there.
pub fn is_optional_key(kind: &ResourceKind) -> bool {
    kind.key.starts_with("x-") || kind.key == "listen"
}

/// Returns the resources of a kind in the form that a file has: a list with names, or a mapping of names.
fn resources_in_file_form(kind: &ResourceKind, items: &[ResourceItem]) -> Value {
    if !kind.is_list() {
        return Value::Object(
            items.iter().map(|item| (item.name.clone(), masked(kind, &item.value))).collect(),
        );
    }
    let named = items.iter().map(|item| {
        let mut value = masked(kind, &item.value);
        if let (Value::Object(entries), Some(_)) = (&mut value, item.version) {
            entries.shift_insert(0, "name".to_owned(), Value::from(item.name.as_str()));
        }
        value
    });
    named.collect()
}
