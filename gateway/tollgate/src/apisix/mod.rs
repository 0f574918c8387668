//! `/apisix/admin`: an admin API with the objects of Apache APISIX. Tools that configure an APISIX gateway
//! can configure this one through it.
//!
//! An object is stored as its client wrote it, except for most secrets, as a document of the kind `apisix`.
//! The gateway runs documents of its own kinds that are derived from all objects: routes, upstreams, consumers
//! and certificates named `apisix-ID` and the like. Both are written in one transaction, so history and
//! rollback cover them together. A setting without a counterpart in this gateway is refused by name.
//!
//! | Module | Contents |
//! |---|---|
//! | `body` | reading a request's body |
//! | `fields` | taking an object apart so that no entry is ignored |
//! | `objects` | the stored objects and their dependencies |
//! | `derive` | the documents derived from an object |
//! | `route`, `vars`, `upstream`, `consumer`, `ssl`, `plugins` | conversion of each kind |
//! | `answer` | responses as clients of versions 1 to 3 expect them |

mod answer;
mod body;
mod checks;
mod consumer;
mod derive;
mod fields;
mod list;
mod names;
mod objects;
mod parts;
mod plugins;
mod route;
mod ssl;
mod stored;
mod upstream;
mod vars;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{any, get};
use serde_json::{Map, Value, json};
use tokio::sync::RwLock;
use tollgate_config::{kind, masked};
use tollgate_sources::{ChangeAction, Intent, Precondition, ResourceChange};

use self::answer::{missing, object, refused, wrong};
use self::list::Args;
use self::names::resource_name;
use self::objects::{Id, Objects, Of, document, key, named, raw_kind};
use self::parts::Documents;
use self::stored::stored;
use crate::access::Asker;
use crate::admin_context::AdminContext;
use crate::api::ask;

/// Orders the writes of this front. Writers of routes and certificates, from which nothing else is derived,
/// hold it shared. Every other write and every deletion holds it exclusively.
static WRITING: RwLock<()> = RwLock::const_new(());

/// Returns the routes of the front.
pub fn router(context: &AdminContext) -> Router {
    Router::new()
        .route("/apisix/admin/{kind}", get(list).post(post).put(without_id))
        .route("/apisix/admin/{kind}/{id}", get(one).put(put).patch(patch).delete(delete))
        .route("/apisix/admin/{kind}/{id}/{*rest}", any(deeper))
        .with_state(context.clone())
}

/// Returns the kind of this name; the error says what to use instead. Credentials have no kind here: their
/// path is below a consumer.
fn known(name: &str) -> Result<Of, Box<Response>> {
    Of::named(name).filter(|of| *of != Of::Credentials).ok_or_else(|| {
        let instead = match name {
            "stream_routes" => "this gateway proxies HTTP alone",
            "protos" => "this gateway translates no JSON to gRPC",
            "secrets" => "a secret of the file is a variable of the environment, `${NAME}`",
            "plugin_metadata" => "a plugin's settings stand where it is used: write them in `plugins` of each object",
            "plugins" => "`GET /apisix/admin/plugins/list` has their names, and nothing is loaded anew",
            "schema" => "an object is checked by `POST /apisix/admin/schema/validate/KIND`; docs/admin-api.md says what it may have",
            "credentials" => "a credential is one of a consumer: `/apisix/admin/consumers/NAME/credentials/ID`",
            _ => "it has `routes`, `upstreams`, `services`, `consumers`, `consumer_groups`, `ssls`, `plugin_configs` and `global_rules`",
        };
        let message = format!("`{name}` has no counterpart in this gateway's APISIX front: {instead}");
        Box::new(wrong(StatusCode::NOT_FOUND, &message))
    })
}

/// Checks an id: 1 to 64 letters, digits, `-`, `_` and `.`. It must not look like the name of an upstream
/// inside a route.
fn checked(id: &str) -> Result<(), Box<Response>> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match (1..=64).contains(&id.len()) && id.bytes().all(fits) && !id.starts_with("route-") {
        true => Ok(()),
        false => Err(Box::new(wrong(StatusCode::BAD_REQUEST, &format!("`{id}` cannot be an id here")))),
    }
}

/// Returns an object as its client knows it.
///
/// # Errors
/// The object does not exist, or one of its documents was changed through `/api/v1`.
fn found(context: &AdminContext, objects: &Objects, id: &Id) -> Result<Map<String, Value>, Box<Response>> {
    let Some(object) = objects.get(id.0, &id.1) else { return Err(Box::new(lost(context, id))) };
    if let Some((kind, name)) = changed(context, objects, id) {
        let message = format!("it was changed over /api/v1/{kind}/{name}: look at it and change it there");
        return Err(Box::new(wrong(StatusCode::CONFLICT, &message)));
    }
    let mut shown = Map::new();
    let own = if id.0 == Of::Consumers { "username" } else { "id" };
    shown.insert(own.to_owned(), json!(id.1.rsplit('/').next()));
    shown.extend(
        object.iter().filter(|(other, _)| *other != own).map(|(key, value)| (key.clone(), value.clone())),
    );
    match id.0 {
        Of::Consumers | Of::Credentials => consumer::masked(&mut shown),
        Of::Ssls => ssl::masked(&mut shown),
        _ => {}
    }
    match masked(raw_kind(), &Value::Object(shown)) {
        Value::Object(shown) => Ok(shown),
        _ => Err(Box::new(missing(&document(id)))),
    }
}

/// Returns the response for an object that does not exist. A resource of its name may still exist.
fn lost(context: &AdminContext, id: &Id) -> Response {
    let kind = matches!(id.0, Of::Routes | Of::Upstreams).then(|| kind(id.0.name())).flatten();
    let name = resource_name(&id.1);
    match kind.and_then(|kind| context.view.get(kind, &name)) {
        None => missing(&document(id)),
        Some(_) => {
            let message =
                format!("it was changed over /api/v1/{}/{name}: look at it and change it there", id.0.name());
            wrong(StatusCode::CONFLICT, &message)
        }
    }
}

/// Returns the first document that differs from what the object derives.
fn changed(context: &AdminContext, objects: &Objects, id: &Id) -> Option<(&'static str, String)> {
    let documents = derive::documents(objects, id).unwrap_or_default();
    documents.into_iter().find_map(|((of, name), value)| {
        let is = kind(of).and_then(|kind| context.view.get(kind, &name));
        (is.as_ref().map(|item| &item.value) != Some(&value)).then_some((of, name))
    })
}

/// `GET /apisix/admin/{kind}`.
async fn list(
    State(context): State<AdminContext>,
    Path(name): Path<String>,
    Query(args): Query<Args>,
) -> Response {
    if name == "plugins" && args.get("all").is_some_and(|all| all == "true") {
        return answer::plugins(true);
    }
    match known(&name) {
        Ok(of) => list_of(&context, of, None, args).await,
        Err(response) => *response,
    }
}

/// Lists the objects of a kind; only one consumer's, if they are credentials.
async fn list_of(context: &AdminContext, of: Of, consumer: Option<String>, args: Args) -> Response {
    let context = context.clone();
    let shown = tokio::task::spawn_blocking(move || {
        let objects = stored(&context, None);
        let whose = consumer.map(|consumer| format!("{consumer}/"));
        let ids = objects.all(of).map(|(id, _)| id.to_owned());
        let ids = ids.filter(|id| whose.as_ref().is_none_or(|whose| id.starts_with(whose.as_str())));
        let shown = |id: String| {
            let id = (of, id);
            let value = found(&context, &objects, &id).ok()?;
            Some((key(&id), value, version(&context, &id)))
        };
        ids.collect::<Vec<_>>().into_iter().filter_map(shown).collect::<Vec<_>>()
    });
    match shown.await {
        Ok(items) => match list::chosen(items, &args) {
            Ok((items, total)) => answer::listed(of.name(), items, total),
            Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
        },
        Err(error) => wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Returns the store version that changed an object last.
fn version(context: &AdminContext, id: &Id) -> Option<u64> {
    context.view.get(raw_kind(), &document(id)).and_then(|item| item.version)
}

/// Returns the objects on which this one can depend. Reads them on a blocking thread.
async fn objects_of(context: &AdminContext, id: &Id) -> Objects {
    let (context, id) = (context.clone(), id.clone());
    tokio::task::spawn_blocking(move || stored(&context, Some(&id))).await.unwrap_or_default()
}

/// `GET /apisix/admin/{kind}/{id}`.
async fn one(State(context): State<AdminContext>, Path((name, id)): Path<(String, String)>) -> Response {
    if name == "plugins" && id == "list" {
        return answer::plugins(false);
    }
    match known(&name) {
        Ok(of) => one_of(&context, &(of, id)).await,
        Err(response) => *response,
    }
}

async fn one_of(context: &AdminContext, id: &Id) -> Response {
    match found(context, &objects_of(context, id).await, id) {
        Ok(value) => object(StatusCode::OK, "get", &key(id), Some(value), version(context, id)),
        Err(response) => *response,
    }
}

/// `PUT /apisix/admin/{kind}/{id}`: creates or replaces an object.
async fn put(
    State(context): State<AdminContext>,
    asker: Asker,
    Path((name, id)): Path<(String, String)>,
    Query(args): Query<Args>,
    body: Body,
) -> Response {
    let of = match known(&name).and_then(|of| checked(&id).map(|()| of)).and_then(|of| lasting(of, &args)) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    match body::read(body).await {
        Ok(entries) => written(&context, asker, (of, id), Wish::Whole(entries)).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// `PUT /apisix/admin/{kind}`: creates or replaces an object that contains its id, such as a consumer.
async fn without_id(
    State(context): State<AdminContext>,
    asker: Asker,
    Path(name): Path<String>,
    Query(args): Query<Args>,
    body: Body,
) -> Response {
    match known(&name).and_then(|of| lasting(of, &args)) {
        Ok(of) => written_by_own_id(&context, asker, of, None, body).await,
        Err(response) => *response,
    }
}

/// Writes an object that contains its id. With `consumer`, it is a credential of that consumer.
async fn written_by_own_id(
    context: &AdminContext,
    asker: Asker,
    of: Of,
    consumer: Option<&str>,
    body: Body,
) -> Response {
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
        Ok(()) => {
            let id = consumer.map_or(id.clone(), |consumer| format!("{consumer}/{id}"));
            written(context, asker, (of, id), Wish::Whole(entries)).await
        }
        Err(response) => *response,
    }
}

/// Refuses a time to live: objects stay until they are deleted.
fn lasting(of: Of, args: &Args) -> Result<Of, Box<Response>> {
    match args.get("ttl").map(String::as_str) {
        None | Some("0") => Ok(of),
        Some(_) => {
            let message = "`ttl`: no object goes by itself here: `DELETE` it when its time is over";
            Err(Box::new(wrong(StatusCode::BAD_REQUEST, message)))
        }
    }
}

/// `POST /apisix/admin/{kind}`: creates an object with an id that the gateway chooses.
async fn post(
    State(context): State<AdminContext>,
    asker: Asker,
    Path(name): Path<String>,
    Query(args): Query<Args>,
    body: Body,
) -> Response {
    let of = match known(&name).and_then(|of| lasting(of, &args)) {
        Ok(Of::Consumers) => {
            return wrong(
                StatusCode::METHOD_NOT_ALLOWED,
                "a consumer has a name: `PUT /apisix/admin/consumers`",
            );
        }
        Ok(of) => of,
        Err(response) => return *response,
    };
    // If two requests choose the same id at once, one of them fails because it exists.
    let id = format!("{:020}", context.view.read(|state| state.version) + 1);
    match body::read(body).await {
        Ok(entries) => written(&context, asker, (of, id), Wish::New(entries)).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// `PATCH /apisix/admin/{kind}/{id}`: merges the body into the object; `null` removes a key.
async fn patch(
    State(context): State<AdminContext>,
    asker: Asker,
    Path((name, id)): Path<(String, String)>,
    body: Body,
) -> Response {
    let of = match known(&name) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    match body::read(body).await {
        Ok(patch) => written(&context, asker, (of, id), Wish::Patch(patch)).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// Applies a merge patch (RFC 7396).
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

/// The change that a request makes to an object.
enum Wish {
    /// Replaces it, or creates it.
    Whole(Map<String, Value>),
    /// Creates it; fails if it exists.
    New(Map<String, Value>),
    /// Merges this into it.
    Patch(Map<String, Value>),
    /// Replaces the part at this path.
    Part(Vec<String>, Value),
    /// Deletes it.
    Gone,
}

/// Writes an object and everything derived from it in one transaction, and returns the response.
async fn written(context: &AdminContext, asker: Asker, id: Id, wish: Wish) -> Response {
    let gone = matches!(wish, Wish::Gone);
    // The dependencies are read first and the changes written later; no conflicting write may come in
    // between.
    let alone = gone || !matches!(id.0, Of::Routes | Of::Ssls);
    let (_read, _write);
    if alone {
        _write = WRITING.write().await;
    } else {
        _read = WRITING.read().await;
    }
    let (there, wanted) = (context.clone(), id.clone());
    let planned = tokio::task::spawn_blocking(move || planned(&there, &wanted, wish)).await;
    let changes = match planned {
        Ok(Ok(changes)) => changes,
        Ok(Err(response)) => return *response,
        Err(error) => return wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    match ask(context, asker.0, Intent::Changes(changes), false).await {
        Err(error) => refused(&error),
        Ok(done) if gone => answer::audited(object(StatusCode::OK, "delete", &key(&id), None, None), &done),
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
            let value = found(context, &objects_of(context, &id).await, &id).ok();
            answer::audited(object(status, "set", &key(&id), value, version(context, &id)), &done)
        }
    }
}

/// Returns the changes that carry out a wish.
fn planned(context: &AdminContext, id: &Id, wish: Wish) -> Result<Vec<ResourceChange>, Box<Response>> {
    let bad = |message: String| Box::new(wrong(StatusCode::BAD_REQUEST, &message));
    let before = stored(context, Some(id));
    let raw = context.view.get(raw_kind(), &document(id));
    let version = raw.as_ref().and_then(|item| item.version);
    let mut precondition = Precondition::None;
    let entries = match wish {
        Wish::Whole(entries) => Some(entries),
        Wish::New(entries) => {
            precondition = Precondition::Absent;
            Some(entries)
        }
        wish @ (Wish::Patch(_) | Wish::Part(..)) => {
            let object = found(context, &before, id)?;
            precondition = version.map_or(Precondition::None, |version| Precondition::Version(vec![version]));
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
                return Err(Box::new(lost(context, id)));
            }
            if let Some(user) = before.users(id).first() {
                let (name, user) = (resource_name(&id.1), document(user));
                return Err(bad(format!(
                    "{}/{name} cannot be deleted: {user} is still using it; delete that first, `force` does not help",
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
            let own = id.1.rsplit('/').next().unwrap_or_default();
            let ids = [json!(own), own.parse::<u64>().map_or(Value::Null, Value::from)];
            if let Some(other) = entries.shift_remove("id").filter(|own| !own.is_null() && !ids.contains(own))
            {
                return Err(bad(format!("`id` can only be {} here, not {other}", ids[0])));
            }
            let known = before.get(id.0, &id.1);
            match id.0 {
                Of::Consumers => {
                    if known.is_none()
                        && kind("consumers").is_some_and(|kind| context.view.get(kind, &id.1).is_some())
                    {
                        return Err(bad(format!(
                            "there is a consumer `{}` already, of /api/v1/consumers or the file",
                            id.1
                        )));
                    }
                    consumer::hashed(&mut entries, known).map_err(bad)?;
                }
                Of::Credentials => {
                    let consumer = id.1.split('/').next().unwrap_or_default();
                    if before.get(Of::Consumers, consumer).is_none() {
                        return Err(Box::new(missing(&format!("consumers/{consumer}"))));
                    }
                    consumer::hashed(&mut entries, known).map_err(bad)?;
                }
                Of::Ssls => {
                    let key = |name: &str| {
                        Some(context.view.get(kind("certificates")?, name)?.value["key"].clone())
                    };
                    certificates = Some(derive::certificates(&id.1, &mut entries, &key).map_err(bad)?);
                }
                _ => {}
            }
            Some(entries)
        }
    };
    let gives_ids = context.plan.borrow().settings.request_id.enabled;
    let mut after = before.clone();
    after.set(id.clone(), entries.clone());
    let raw_action =
        entries.map_or(ChangeAction::Delete, |entries| ChangeAction::Put(Value::Object(entries)));
    let mut changes = Vec::new();
    if raw.is_some() || !matches!(raw_action, ChangeAction::Delete) {
        changes.push(ResourceChange {
            kind: raw_kind(),
            name: document(id),
            action: raw_action,
            precondition,
        });
    }
    // Deleting a consumer deletes its credentials.
    if after.get(id.0, &id.1).is_none() && id.0 == Of::Consumers {
        for credential in after.credentials(&id.1) {
            let id = (Of::Credentials, credential);
            changes.push(ResourceChange {
                kind: raw_kind(),
                name: document(&id),
                action: ChangeAction::Delete,
                precondition: Precondition::None,
            });
            after.set(id, None);
        }
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
                kind("certificates").is_some_and(|kind| context.view.get(kind, name).is_some())
            });
            old.extend(there.map(|name| (("certificates", name), Value::Null)));
            new.extend(certificates.take().unwrap_or_default());
        }
        for ((of, name), _) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
            let Some(kind) = kind(of).filter(|kind| context.view.get(kind, name).is_some()) else { continue };
            changes.push(ResourceChange {
                kind,
                name: name.clone(),
                action: ChangeAction::Delete,
                precondition: Precondition::None,
            });
        }
        for ((of, name), value) in new {
            let Some(kind) = kind(of) else { continue };
            // Without request ids the placeholder would silently become an empty text.
            if !gives_ids && value.to_string().contains("{request_id}") {
                let message =
                    "`plugins/request-id`: requests have no ids: write `request_id: on` in the file";
                return Err(bad(message.to_owned()));
            }
            if context.view.get(kind, &name).is_none_or(|item| item.value != value) {
                changes.push(ResourceChange {
                    kind,
                    name,
                    action: ChangeAction::Put(value),
                    precondition: Precondition::None,
                });
            }
        }
    }
    Ok(changes)
}

/// `DELETE /apisix/admin/{kind}/{id}`.
async fn delete(
    State(context): State<AdminContext>,
    asker: Asker,
    Path((name, id)): Path<(String, String)>,
) -> Response {
    match known(&name) {
        Ok(of) => written(&context, asker, (of, id), Wish::Gone).await,
        Err(response) => *response,
    }
}

/// Serves the paths below an object: its credentials, and its parts.
async fn deeper(
    State(context): State<AdminContext>,
    asker: Asker,
    Path((name, id, path)): Path<(String, String, String)>,
    Query(args): Query<Args>,
    method: Method,
    body: Body,
) -> Response {
    let steps: Vec<_> = path.split('/').filter(|step| !step.is_empty()).map(str::to_owned).collect();
    match (name.as_str(), steps.as_slice()) {
        ("consumers", [first, rest @ ..]) if first == "credentials" && rest.len() < 2 => {
            let own = rest.first().map(|own| (Of::Credentials, format!("{id}/{own}")));
            match (method, own) {
                (Method::GET, None) => list_of(&context, Of::Credentials, Some(id), args).await,
                (Method::GET, Some(own)) => one_of(&context, &own).await,
                (Method::PUT, None) => {
                    written_by_own_id(&context, asker, Of::Credentials, Some(&id), body).await
                }
                (Method::PUT, Some(own)) => match (checked(&rest[0]), body::read(body).await) {
                    (Ok(()), Ok(entries)) => written(&context, asker, own, Wish::Whole(entries)).await,
                    (Err(response), _) => *response,
                    (_, Err(message)) => wrong(StatusCode::BAD_REQUEST, &message),
                },
                (Method::DELETE, Some(own)) => written(&context, asker, own, Wish::Gone).await,
                _ => wrong(StatusCode::METHOD_NOT_ALLOWED, "a credential is written as a whole: `PUT` it"),
            }
        }
        ("schema", [kind]) if id == "validate" && method == Method::POST => {
            validated(&context, asker, kind, body).await
        }
        _ => match known(&name) {
            Err(response) => *response,
            Ok(_) if method != Method::PATCH => {
                wrong(StatusCode::NOT_FOUND, "a part of an object has no address here but for `PATCH`")
            }
            Ok(of) => part(&context, asker, (of, id), steps, body).await,
        },
    }
}

/// `POST /apisix/admin/schema/validate/{kind}`: checks an object without writing it.
async fn validated(context: &AdminContext, asker: Asker, kind: &str, body: Body) -> Response {
    let of = match known(kind) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    let entries = match body::read(body).await {
        Ok(entries) => entries,
        Err(message) => return wrong(StatusCode::BAD_REQUEST, &message),
    };
    let own = if of == Of::Consumers { "username" } else { "id" };
    let id = entries.get(own).and_then(named).unwrap_or_else(|| "validate".to_owned());
    if let Err(response) = checked(&id) {
        return *response;
    }
    let _read = WRITING.read().await;
    let there = context.clone();
    let planned = tokio::task::spawn_blocking(move || planned(&there, &(of, id), Wish::Whole(entries))).await;
    let changes = match planned {
        Ok(Ok(changes)) => changes,
        Ok(Err(response)) => return *response,
        Err(error) => return wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    match ask(context, asker.0, Intent::Changes(changes), true).await {
        Err(error) => refused(&error),
        Ok(done) => answer::audited(answer::good(), &done),
    }
}

/// `PATCH /apisix/admin/routes/1/upstream` and the like: replaces that part by the body.
async fn part(context: &AdminContext, asker: Asker, id: Id, steps: Vec<String>, body: Body) -> Response {
    match body::read_any(body).await {
        Ok(value) if steps.len() <= DEEPEST => written(context, asker, id, Wish::Part(steps, value)).await,
        Ok(_) => wrong(StatusCode::BAD_REQUEST, "no part of an object is that deep"),
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// The most steps of a path to a part of an object.
const DEEPEST: usize = 32;

/// Sets the value at this path; `null` removes the entry.
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
