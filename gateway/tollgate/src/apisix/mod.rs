//! `/apisix/admin`: routes and upstreams as Apache APISIX's admin API has them, so that what adds them to one of its
//! gateways adds them to this one.
//!
//! An object with an id becomes resources of the store, `routes/apisix-ID` and `upstreams/apisix-ID`, and the upstream
//! that stands in a route `upstreams/apisix-route-ID`. What this gateway has no counterpart for is refused by its name.
//!
//! | Module | What it has |
//! |---|---|
//! | `body` | reading a body |
//! | `fields` | taking an object apart, so that nothing in it is passed over |
//! | `route`, `upstream` | one form to the other, and back |
//! | `answer` | answers, as clients of version 1 to 3 read them |

mod answer;
mod body;
mod fields;
mod route;
mod upstream;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{any, get};
use serde_json::{Map, Value};
use tollgate_config::{KINDS, Kind, kind};
use tollgate_sources::{Change, Condition, Intent, To};

use self::answer::{listed, missing, object, refused, wrong};
use self::fields::Fields;
use crate::access::Asker;
use crate::api::ask;
use crate::surface::Surface;

/// What resources of this front are called.
const PREFIX: &str = "apisix-";

/// The front's paths.
pub fn router(surface: &Surface) -> Router {
    Router::new()
        .route("/apisix/admin/{kind}", get(list).post(post).put(without_id))
        .route("/apisix/admin/{kind}/{id}", get(one).put(put).patch(patch).delete(delete))
        .route("/apisix/admin/{kind}/{id}/{*rest}", any(deeper))
        .with_state(surface.clone())
}

/// The name of an object's resource.
fn resource_name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// The id of the object that a resource is; nothing, if it is none.
fn id_of(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX).filter(|id| !id.starts_with("route-"))
}

/// The kind; this front has no others.
fn known(name: &str) -> Result<&'static Kind, Box<Response>> {
    match name {
        "routes" | "upstreams" => Ok(kind(name).unwrap_or(&KINDS[0])),
        _ => {
            let message = format!(
                "`{name}` has no counterpart in this gateway's APISIX front: it has `routes` and `upstreams`"
            );
            Err(Box::new(wrong(StatusCode::NOT_FOUND, &message)))
        }
    }
}

/// An id is letters, digits, `-`, `_` and `.`, 64 at most, and not what an upstream of a route is called.
fn checked(id: &str) -> Result<(), Box<Response>> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match (1..=64).contains(&id.len()) && id.bytes().all(fits) && !id.starts_with("route-") {
        true => Ok(()),
        false => Err(Box::new(wrong(StatusCode::BAD_REQUEST, &format!("`{id}` cannot be an id here")))),
    }
}

/// An object as the client knows it.
///
/// # Errors
/// It is not there, or was changed so that this front cannot show it.
fn found(surface: &Surface, kind: &'static Kind, id: &str) -> Result<Map<String, Value>, Box<Response>> {
    let path = format!("{}/{id}", kind.name);
    let item = surface.view.get(kind, &resource_name(id)).ok_or_else(|| Box::new(missing(&path)))?;
    let shown = match kind.name {
        "routes" => {
            let own = kind_of_upstreams().and_then(|kind| surface.view.get(kind, &route::own_upstream(id)));
            route::shown(id, &item.value, own.as_ref().map(|own| &own.value))
        }
        _ => upstream::shown(&item.value).filter(|shown| {
            let again = upstream::resource(Fields::new(shown.clone(), ""));
            again.is_ok_and(|again| again == item.value)
        }),
    };
    shown.ok_or_else(|| {
        let name = resource_name(id);
        let message =
            format!("it was changed over /api/v1/{}/{name}: look at it and change it there", kind.name);
        Box::new(wrong(StatusCode::CONFLICT, &message))
    })
}

fn kind_of_upstreams() -> Option<&'static Kind> {
    kind("upstreams")
}

/// `GET /apisix/admin/{kind}`.
async fn list(State(surface): State<Surface>, Path(name): Path<String>) -> Response {
    let kind = match known(&name) {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    let shown = tokio::task::spawn_blocking(move || {
        let items = surface.view.all(kind);
        let ids = items.iter().filter_map(|item| id_of(&item.name));
        ids.filter_map(|id| Some((id.to_owned(), found(&surface, kind, id).ok()?))).collect::<Vec<_>>()
    });
    match shown.await {
        Ok(items) => listed(kind.name, items),
        Err(error) => wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// `GET /apisix/admin/{kind}/{id}`.
async fn one(State(surface): State<Surface>, Path((name, id)): Path<(String, String)>) -> Response {
    let found = known(&name).and_then(|kind| found(&surface, kind, &id));
    match found {
        Ok(value) => object(StatusCode::OK, "get", &name, &id, Some(value)),
        Err(response) => *response,
    }
}

/// `PUT /apisix/admin/{kind}/{id}`: new, or in the place of the one there is.
async fn put(
    State(surface): State<Surface>,
    asker: Asker,
    Path((name, id)): Path<(String, String)>,
    body: Body,
) -> Response {
    let kind = match known(&name).and_then(|kind| checked(&id).map(|()| kind)) {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    match body::read(body).await {
        Ok(entries) => written(&surface, asker, kind, &id, entries, Condition::None).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// `POST /apisix/admin/{kind}`: a new one, with an id of the gateway's choice.
async fn post(
    State(surface): State<Surface>,
    asker: Asker,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let kind = match known(&name) {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    // Of two at once one finds the id taken, and is told so.
    let id = format!("{:020}", surface.view.read(|state| state.version) + 1);
    match body::read(body).await {
        Ok(entries) => written(&surface, asker, kind, &id, entries, Condition::NotThere).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// `PATCH /apisix/admin/{kind}/{id}`: what is sent is merged into what is there; `null` takes a key away.
async fn patch(
    State(surface): State<Surface>,
    asker: Asker,
    Path((name, id)): Path<(String, String)>,
    body: Body,
) -> Response {
    let (kind, before) = match known(&name).and_then(|kind| Ok((kind, found(&surface, kind, &id)?))) {
        Ok(both) => both,
        Err(response) => return *response,
    };
    let version = surface.view.get(kind, &resource_name(&id)).and_then(|item| item.version);
    match body::read(body).await {
        Ok(patch) => {
            let mut value = Value::Object(before);
            merge(&mut value, Value::Object(patch));
            let Value::Object(entries) = value else { return missing(&name) };
            let condition = Condition::Version(version.into_iter().collect());
            written(&surface, asker, kind, &id, entries, condition).await
        }
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// RFC 7396.
fn merge(into: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *into = patch;
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(entries) = into else { return };
    for (key, value) in patch {
        match value {
            Value::Null => drop(entries.shift_remove(&key)),
            value => merge(entries.entry(key).or_insert(Value::Null), value),
        }
    }
}

/// Writes an object: all of its resources, or none.
async fn written(
    surface: &Surface,
    asker: Asker,
    kind: &'static Kind,
    id: &str,
    entries: Map<String, Value>,
    condition: Condition,
) -> Response {
    let changes = match changes(surface, kind, id, entries, condition) {
        Ok(changes) => changes,
        Err(message) => return wrong(StatusCode::BAD_REQUEST, &message),
    };
    match ask(surface, asker.0, Intent::Changes(changes), false).await {
        Err(refusal) => refused(&refusal),
        Ok(done) => {
            let new = done.changes.iter().any(|it| it.name == resource_name(id) && it.before.is_none());
            let status = if new { StatusCode::CREATED } else { StatusCode::OK };
            let value = found(surface, kind, id).ok();
            answer::audited(object(status, "set", kind.name, id, value), &done)
        }
    }
}

/// The changes that write an object.
fn changes(
    surface: &Surface,
    kind: &'static Kind,
    id: &str,
    entries: Map<String, Value>,
    condition: Condition,
) -> Result<Vec<Change>, String> {
    let name = resource_name(id);
    if kind.name != "routes" {
        let mut fields = Fields::new(entries, "");
        fields.only("id", &[id.into(), id.parse::<u64>().map_or(Value::Null, Value::from)])?;
        return Ok(vec![Change { kind, name, to: To::Value(upstream::resource(fields)?), condition }]);
    }
    let route::Parts { route, upstream } = route::parts(id, entries)?;
    let mut changes = vec![Change { kind, name, to: To::Value(route), condition }];
    changes.extend(own(surface, id, upstream.map(To::Value)));
    Ok(changes)
}

/// What becomes of the upstream that stands, or stood, in a route.
fn own(surface: &Surface, id: &str, to: Option<To>) -> Option<Change> {
    let (kind, name) = (kind_of_upstreams()?, route::own_upstream(id));
    let to = to.or_else(|| surface.view.get(kind, &name).map(|_| To::Gone))?;
    Some(Change { kind, name, to, condition: Condition::None })
}

/// `DELETE /apisix/admin/{kind}/{id}`.
async fn delete(
    State(surface): State<Surface>,
    asker: Asker,
    Path((name, id)): Path<(String, String)>,
) -> Response {
    let kind = match known(&name) {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    let gone = Change { kind, name: resource_name(&id), to: To::Gone, condition: Condition::None };
    let mut changes = vec![gone];
    if kind.name == "routes" {
        changes.extend(own(&surface, &id, None));
    }
    match ask(&surface, asker.0, Intent::Changes(changes), false).await {
        Err(refusal) => refused(&refusal),
        Ok(done) => answer::audited(object(StatusCode::OK, "delete", kind.name, &id, None), &done),
    }
}

/// `PUT` without an id.
async fn without_id(Path(name): Path<String>) -> Response {
    wrong(StatusCode::BAD_REQUEST, &format!("`PUT` needs an id: /apisix/admin/{name}/ID"))
}

/// `PATCH /apisix/admin/routes/1/upstream` and the like.
async fn deeper() -> Response {
    wrong(StatusCode::NOT_FOUND, "a part of an object has no address here: `PATCH` the object")
}
