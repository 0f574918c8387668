//! `/apisix/admin`: objects as Apache APISIX's admin API has them, so that what configures one of its gateways configures this one.
//!
//! An object is kept as its client has written it, as a document of the kind `apisix`, but for its secrets. What the gateway does
//! are the documents of its own kinds that come of all objects: routes, upstreams, consumers and certificates called
//! `apisix-ID` and the like. Both are written in one transaction, so that history and rollback have them together. What this
//! gateway has no counterpart for is refused by its name.
//!
//! | Module | What it has |
//! |---|---|
//! | `body` | reading a body |
//! | `fields` | taking an object apart, so that nothing in it is passed over |
//! | `objects` | the objects that there are, and which ones depend on which |
//! | `derive` | what comes of them |
//! | `route`, `vars`, `upstream`, `consumer`, `ssl`, `plugins` | one form to the other |
//! | `answer` | answers, as clients of version 1 to 3 read them |

mod answer;
mod body;
mod consumer;
mod derive;
mod fields;
mod objects;
mod plugins;
mod route;
mod ssl;
mod upstream;
mod vars;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{any, get};
use serde_json::{Map, Value, json};
use tokio::sync::RwLock;
use tollgate_config::{Kind, kind, masked};
use tollgate_sources::{Change, Condition, Intent, To};

use self::answer::{listed, missing, object, refused, wrong};
use self::derive::Documents;
use self::objects::{Id, Objects, Of, document, named, raw_kind};
use crate::access::Asker;
use crate::api::ask;
use crate::surface::Surface;

/// What resources of this front are called.
const PREFIX: &str = "apisix-";

/// Held while an object is written; alone by whoever writes one that others depend on, or removes one.
static WRITING: RwLock<()> = RwLock::const_new(());

/// The front's paths.
pub fn router(surface: &Surface) -> Router {
    Router::new()
        .route("/apisix/admin/{kind}", get(list).post(post).put(without_id))
        .route("/apisix/admin/{kind}/{id}", get(one).put(put).patch(patch).delete(delete))
        .route("/apisix/admin/{kind}/{id}/{*rest}", any(deeper).patch(part))
        .with_state(surface.clone())
}

/// The name of an object's resource.
fn resource_name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// The kind; this front has no others.
fn known(name: &str) -> Result<Of, Box<Response>> {
    Of::named(name).ok_or_else(|| {
        let instead = match name {
            "stream_routes" => "this gateway proxies HTTP alone",
            "protos" => "this gateway translates no JSON to gRPC",
            "secrets" => "a secret of the file is a variable of the environment, `${NAME}`",
            "plugin_metadata" | "plugins" => "a plugin's settings stand where it is used",
            _ => "it has `routes`, `upstreams`, `services`, `consumers`, `consumer_groups`, `ssls`, `plugin_configs` and `global_rules`",
        };
        let message = format!("`{name}` has no counterpart in this gateway's APISIX front: {instead}");
        Box::new(wrong(StatusCode::NOT_FOUND, &message))
    })
}

/// An id is letters, digits, `-`, `_` and `.`, 64 at most, and not what an upstream of a route is called.
fn checked(id: &str) -> Result<(), Box<Response>> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match (1..=64).contains(&id.len()) && id.bytes().all(fits) && !id.starts_with("route-") {
        true => Ok(()),
        false => Err(Box::new(wrong(StatusCode::BAD_REQUEST, &format!("`{id}` cannot be an id here")))),
    }
}

fn kind_of_upstreams() -> Option<&'static Kind> {
    kind("upstreams")
}

/// An object as the client knows it.
///
/// # Errors
/// It is not there, or what came of it was changed otherwise.
fn found(surface: &Surface, objects: &Objects, id: &Id) -> Result<Map<String, Value>, Box<Response>> {
    let Some(object) = objects.get(id.0, &id.1) else { return Err(Box::new(lost(surface, id))) };
    if let Some((kind, name)) = changed(surface, objects, id) {
        let message = format!("it was changed over /api/v1/{kind}/{name}: look at it and change it there");
        return Err(Box::new(wrong(StatusCode::CONFLICT, &message)));
    }
    let mut shown = Map::new();
    let key = if id.0 == Of::Consumers { "username" } else { "id" };
    shown.insert(key.to_owned(), json!(id.1));
    shown.extend(
        object.iter().filter(|(other, _)| *other != key).map(|(key, value)| (key.clone(), value.clone())),
    );
    match id.0 {
        Of::Consumers => consumer::masked(&mut shown),
        Of::Ssls => ssl::masked(&mut shown),
        _ => {}
    }
    match masked(raw_kind(), &Value::Object(shown)) {
        Value::Object(shown) => Ok(shown),
        _ => Err(Box::new(missing(&document(id)))),
    }
}

/// What is said of an object that is not there: a resource of its name may be.
fn lost(surface: &Surface, id: &Id) -> Response {
    let kind = matches!(id.0, Of::Routes | Of::Upstreams).then(|| kind(id.0.name())).flatten();
    let name = resource_name(&id.1);
    match kind.and_then(|kind| surface.view.get(kind, &name)) {
        None => missing(&document(id)),
        Some(_) => {
            let message =
                format!("it was changed over /api/v1/{}/{name}: look at it and change it there", id.0.name());
            wrong(StatusCode::CONFLICT, &message)
        }
    }
}

/// The first document of an object that is not what comes of it.
fn changed(surface: &Surface, objects: &Objects, id: &Id) -> Option<(&'static str, String)> {
    let documents = derive::documents(objects, id).unwrap_or_default();
    documents.into_iter().find_map(|((of, name), value)| {
        let is = kind(of).and_then(|kind| surface.view.get(kind, &name));
        (is.as_ref().map(|item| &item.value) != Some(&value)).then_some((of, name))
    })
}

/// `GET /apisix/admin/{kind}`.
async fn list(State(surface): State<Surface>, Path(name): Path<String>) -> Response {
    let of = match known(&name) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    let shown = tokio::task::spawn_blocking(move || {
        let objects = Objects::of(&surface, None);
        let ids: Vec<_> = objects.all(of).map(|(id, _)| id.to_owned()).collect();
        let shown = |id: String| Some((id.clone(), found(&surface, &objects, &(of, id)).ok()?));
        ids.into_iter().filter_map(shown).collect::<Vec<_>>()
    });
    match shown.await {
        Ok(items) => listed(of.name(), items),
        Err(error) => wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The objects on which this one can depend, read on a thread that may be slow.
async fn objects_of(surface: &Surface, id: &Id) -> Objects {
    let (surface, id) = (surface.clone(), id.clone());
    tokio::task::spawn_blocking(move || Objects::of(&surface, Some(&id))).await.unwrap_or_default()
}

/// `GET /apisix/admin/{kind}/{id}`.
async fn one(State(surface): State<Surface>, Path((name, id)): Path<(String, String)>) -> Response {
    let of = match known(&name) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    let id = (of, id);
    match found(&surface, &objects_of(&surface, &id).await, &id) {
        Ok(value) => object(StatusCode::OK, "get", of.name(), &id.1, Some(value)),
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
    let of = match known(&name).and_then(|of| checked(&id).map(|()| of)) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    match body::read(body).await {
        Ok(entries) => written(&surface, asker, (of, id), Wish::Whole(entries)).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// `PUT /apisix/admin/{kind}`, whose object says its id: a consumer does.
async fn without_id(
    State(surface): State<Surface>,
    asker: Asker,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let of = match known(&name) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    let entries = match body::read(body).await {
        Ok(entries) => entries,
        Err(message) => return wrong(StatusCode::BAD_REQUEST, &message),
    };
    let key = if of == Of::Consumers { "username" } else { "id" };
    let Some(id) = entries.get(key).and_then(named) else {
        let message = format!("`PUT` needs an id: /apisix/admin/{}/ID, or `{key}`", of.name());
        return wrong(StatusCode::BAD_REQUEST, &message);
    };
    match checked(&id) {
        Ok(()) => written(&surface, asker, (of, id), Wish::Whole(entries)).await,
        Err(response) => *response,
    }
}

/// `POST /apisix/admin/{kind}`: a new one, with an id of the gateway's choice.
async fn post(
    State(surface): State<Surface>,
    asker: Asker,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let of = match known(&name) {
        Ok(Of::Consumers) => {
            return wrong(
                StatusCode::METHOD_NOT_ALLOWED,
                "a consumer has a name: `PUT /apisix/admin/consumers`",
            );
        }
        Ok(of) => of,
        Err(response) => return *response,
    };
    // Of two at once one finds the id taken, and is told so.
    let id = format!("{:020}", surface.view.read(|state| state.version) + 1);
    match body::read(body).await {
        Ok(entries) => written(&surface, asker, (of, id), Wish::New(entries)).await,
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
    let of = match known(&name) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    match body::read(body).await {
        Ok(patch) => written(&surface, asker, (of, id), Wish::Patch(patch)).await,
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

/// What is to become of an object.
enum Wish {
    /// This, whatever it was.
    Whole(Map<String, Value>),
    /// This, if it is not there.
    New(Map<String, Value>),
    /// What it is, with this merged into it.
    Patch(Map<String, Value>),
    /// What it is, with this in the place that these steps lead to.
    Part(Vec<String>, Value),
    /// It goes.
    Gone,
}

/// Writes an object: all that comes of it, or nothing.
async fn written(surface: &Surface, asker: Asker, id: Id, wish: Wish) -> Response {
    let gone = matches!(wish, Wish::Gone);
    // Who depends on what is looked at first and written then.
    let alone = gone || !matches!(id.0, Of::Routes | Of::Upstreams | Of::Ssls);
    let (_read, _write);
    if alone {
        _write = WRITING.write().await;
    } else {
        _read = WRITING.read().await;
    }
    let (there, wanted) = (surface.clone(), id.clone());
    let planned = tokio::task::spawn_blocking(move || planned(&there, &wanted, wish)).await;
    let changes = match planned {
        Ok(Ok(changes)) => changes,
        Ok(Err(response)) => return *response,
        Err(error) => return wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    match ask(surface, asker.0, Intent::Changes(changes), false).await {
        Err(refusal) => refused(&refusal),
        Ok(done) if gone => {
            answer::audited(object(StatusCode::OK, "delete", id.0.name(), &id.1, None), &done)
        }
        Ok(done) => {
            let name = document(&id);
            let new =
                done.changes.iter().any(|it| it.kind == raw_kind() && it.name == name && it.before.is_none());
            let of = id.0.name();
            let known = done
                .changes
                .iter()
                .any(|it| it.kind.name == of && it.name == resource_name(&id.1) && it.before.is_some());
            let status = if new && !known { StatusCode::CREATED } else { StatusCode::OK };
            let value = found(surface, &objects_of(surface, &id).await, &id).ok();
            answer::audited(object(status, "set", of, &id.1, value), &done)
        }
    }
}

/// The changes that make an object what is wished.
fn planned(surface: &Surface, id: &Id, wish: Wish) -> Result<Vec<Change>, Box<Response>> {
    let bad = |message: String| Box::new(wrong(StatusCode::BAD_REQUEST, &message));
    let before = Objects::of(surface, Some(id));
    let raw = surface.view.get(raw_kind(), &document(id));
    let version = raw.as_ref().and_then(|item| item.version);
    let mut condition = Condition::None;
    let entries = match wish {
        Wish::Whole(entries) => Some(entries),
        Wish::New(entries) => {
            condition = Condition::NotThere;
            Some(entries)
        }
        wish @ (Wish::Patch(_) | Wish::Part(..)) => {
            let object = found(surface, &before, id)?;
            condition = version.map_or(Condition::None, |version| Condition::Version(vec![version]));
            let mut value = Value::Object(object);
            match wish {
                Wish::Part(steps, part) => place(&mut value, &steps, part),
                Wish::Patch(patch) => merge(&mut value, Value::Object(patch)),
                _ => {}
            }
            let Value::Object(entries) = value else { return Err(Box::new(missing(&document(id)))) };
            Some(entries)
        }
        Wish::Gone => {
            if before.get(id.0, &id.1).is_none() {
                return Err(Box::new(lost(surface, id)));
            }
            if let Some(user) = before.users(id).first() {
                let (name, user) = (resource_name(&id.1), document(user));
                return Err(bad(format!(
                    "{}/{name} cannot be deleted: {user} is still using it",
                    id.0.name()
                )));
            }
            None
        }
    };
    let mut certificates = None;
    let entries = match entries {
        None => None,
        Some(mut entries) => {
            let ids = [json!(id.1), id.1.parse::<u64>().map_or(Value::Null, Value::from)];
            if let Some(other) = entries.shift_remove("id").filter(|own| !own.is_null() && !ids.contains(own))
            {
                return Err(bad(format!("`id` can only be {} here, not {other}", ids[0])));
            }
            let known = before.get(id.0, &id.1);
            match id.0 {
                Of::Consumers => {
                    if known.is_none()
                        && kind("consumers").is_some_and(|kind| surface.view.get(kind, &id.1).is_some())
                    {
                        return Err(bad(format!(
                            "there is a consumer `{}` already, of /api/v1/consumers or the file",
                            id.1
                        )));
                    }
                    consumer::hashed(&mut entries, known).map_err(bad)?;
                }
                Of::Ssls => {
                    let key = |name: &str| {
                        Some(surface.view.get(kind("certificates")?, name)?.value["key"].clone())
                    };
                    certificates = Some(derive::certificates(&id.1, &mut entries, &key).map_err(bad)?);
                }
                _ => {}
            }
            Some(entries)
        }
    };
    let gives_ids = surface.plan.borrow().settings.request_id.enabled;
    let mut after = before.clone();
    after.set(id.clone(), entries.clone());
    let raw_to = entries.map_or(To::Gone, |entries| To::Value(Value::Object(entries)));
    let mut changes = Vec::new();
    if raw.is_some() || !matches!(raw_to, To::Gone) {
        changes.push(Change { kind: raw_kind(), name: document(id), to: raw_to, condition });
    }
    let mut ids = vec![id.clone()];
    ids.extend(after.depending(id));
    for other in ids {
        let mut old = derive::documents(&before, &other).unwrap_or_default();
        let new = derive::documents(&after, &other).map_err(|message| match other == *id {
            true => bad(message),
            false => bad(format!("{}: {message}", document(&other))),
        })?;
        let mut new: Documents = new;
        if other == *id && id.0 == Of::Ssls {
            let kept = |index: usize| match index {
                0 => resource_name(&id.1),
                index => format!("{}/{index}", resource_name(&id.1)),
            };
            let there = (0..).map(kept).take_while(|name| {
                kind("certificates").is_some_and(|kind| surface.view.get(kind, name).is_some())
            });
            old.extend(there.map(|name| (("certificates", name), Value::Null)));
            new.extend(certificates.take().unwrap_or_default());
        }
        for ((of, name), _) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
            let Some(kind) = kind(of).filter(|kind| surface.view.get(kind, name).is_some()) else { continue };
            changes.push(Change { kind, name: name.clone(), to: To::Gone, condition: Condition::None });
        }
        for ((of, name), value) in new {
            let Some(kind) = kind(of) else { continue };
            // What is filled in would be empty, and nobody would be told.
            if !gives_ids && value.to_string().contains("{request_id}") {
                let message =
                    "`plugins/request-id`: requests have no ids: write `request_id: on` in the file";
                return Err(bad(message.to_owned()));
            }
            if surface.view.get(kind, &name).is_none_or(|item| item.value != value) {
                changes.push(Change { kind, name, to: To::Value(value), condition: Condition::None });
            }
        }
    }
    Ok(changes)
}

/// `DELETE /apisix/admin/{kind}/{id}`.
async fn delete(
    State(surface): State<Surface>,
    asker: Asker,
    Path((name, id)): Path<(String, String)>,
) -> Response {
    match known(&name) {
        Ok(of) => written(&surface, asker, (of, id), Wish::Gone).await,
        Err(response) => *response,
    }
}

/// `PATCH /apisix/admin/routes/1/upstream` and the like: that part becomes what is sent.
async fn part(
    State(surface): State<Surface>,
    asker: Asker,
    Path((name, id, path)): Path<(String, String, String)>,
    body: Body,
) -> Response {
    let of = match known(&name) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    let steps: Vec<_> = path.split('/').filter(|step| !step.is_empty()).map(str::to_owned).collect();
    match body::read_any(body).await {
        Ok(value) if steps.len() <= DEEPEST => {
            written(&surface, asker, (of, id), Wish::Part(steps, value)).await
        }
        Ok(_) => wrong(StatusCode::BAD_REQUEST, "no part of an object is that deep"),
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// Steps to a part of an object.
const DEEPEST: usize = 32;

/// Puts a value where these steps lead to; `null` takes away what is there.
fn place(into: &mut Value, steps: &[String], value: Value) {
    let Some((step, rest)) = steps.split_first() else {
        *into = value;
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    if let Value::Object(entries) = into {
        if rest.is_empty() && value.is_null() {
            entries.shift_remove(step);
            return;
        }
        place(entries.entry(step.clone()).or_insert(Value::Null), rest, value);
    }
}

/// Other methods of `/apisix/admin/routes/1/upstream` and the like.
async fn deeper() -> Response {
    wrong(StatusCode::NOT_FOUND, "a part of an object has no address here but for `PATCH`")
}
