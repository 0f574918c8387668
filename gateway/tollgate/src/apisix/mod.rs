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
mod response;
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
use tollgate_sources::{ChangeAction, Intent, Precondition, ResourceChange, apply_merge_patch};

use self::list::QueryArgs;
use self::names::resource_name;
use self::objects::{ObjectId, ObjectKind, Objects, document, etcd_key, id_text, raw_kind};
use self::parts::DerivedDocuments;
use self::response::{change_error_response, not_found, object_response, wrong};
use self::stored::stored;
use crate::access::ClientName;
use crate::admin_context::AdminContext;
use crate::api::submit_change;

/// Orders the writes of this front. Writers of routes and certificates, from which nothing else is derived,
/// hold it shared. Every other write and every deletion holds it exclusively.
static WRITE_LOCK: RwLock<()> = RwLock::const_new(());

/// Returns the routes of the front.
pub fn router(context: &AdminContext) -> Router {
    Router::new()
        .route("/apisix/admin/{kind}", get(list).post(post).put(put_without_id))
        .route("/apisix/admin/{kind}/{id}", get(get_object).put(put).patch(patch).delete(delete))
        .route("/apisix/admin/{kind}/{id}/{*rest}", any(serve_subpath))
        .with_state(context.clone())
}

/// Returns the kind of this name; the error says what to use instead. Credentials have no kind here: their
/// path is below a consumer.
fn find_kind(name: &str) -> Result<ObjectKind, Box<Response>> {
    ObjectKind::id_text(name).filter(|of| *of != ObjectKind::Credentials).ok_or_else(|| {
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
fn check_id(id: &str) -> Result<(), Box<Response>> {
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
fn find_object(
    context: &AdminContext,
    objects: &Objects,
    id: &ObjectId,
) -> Result<Map<String, Value>, Box<Response>> {
    let Some(object) = objects.get(id.0, &id.1) else { return Err(Box::new(missing_object(context, id))) };
    if let Some((kind, name)) = changed_document(context, objects, id) {
        let message = format!("it was changed over /api/v1/{kind}/{name}: look at it and change it there");
        return Err(Box::new(wrong(StatusCode::CONFLICT, &message)));
    }
    let mut shown = Map::new();
    let own = if id.0 == ObjectKind::Consumers { "username" } else { "id" };
    shown.insert(own.to_owned(), json!(id.1.rsplit('/').next()));
    shown.extend(
        object.iter().filter(|(other, _)| *other != own).map(|(key, value)| (key.clone(), value.clone())),
    );
    match id.0 {
        ObjectKind::Consumers | ObjectKind::Credentials => consumer::mask_secrets(&mut shown),
        ObjectKind::Ssls => ssl::mask_secrets(&mut shown),
        _ => {}
    }
    match masked(raw_kind(), &Value::Object(shown)) {
        Value::Object(shown) => Ok(shown),
        _ => Err(Box::new(not_found(&document(id)))),
    }
}

/// Returns the response for an object that does not exist. A resource of its name may still exist.
fn missing_object(context: &AdminContext, id: &ObjectId) -> Response {
    let kind =
        matches!(id.0, ObjectKind::Routes | ObjectKind::Upstreams).then(|| kind(id.0.name())).flatten();
    let name = resource_name(&id.1);
    match kind.and_then(|kind| context.view.get(kind, &name)) {
        None => not_found(&document(id)),
        Some(_) => {
            let message =
                format!("it was changed over /api/v1/{}/{name}: look at it and change it there", id.0.name());
            wrong(StatusCode::CONFLICT, &message)
        }
    }
}

/// Returns the first document that differs from what the object derives.
fn changed_document(
    context: &AdminContext,
    objects: &Objects,
    id: &ObjectId,
) -> Option<(&'static str, String)> {
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
    Query(args): Query<QueryArgs>,
) -> Response {
    if name == "plugins" && args.get("all").is_some_and(|all| all == "true") {
        return response::plugins(true);
    }
    match find_kind(&name) {
        Ok(of) => list_objects(&context, of, None, args).await,
        Err(response) => *response,
    }
}

/// Lists the objects of a kind; only one consumer's, if they are credentials.
async fn list_objects(
    context: &AdminContext,
    of: ObjectKind,
    consumer: Option<String>,
    args: QueryArgs,
) -> Response {
    let context = context.clone();
    let shown = tokio::task::spawn_blocking(move || {
        let objects = stored(&context, None);
        let whose = consumer.map(|consumer| format!("{consumer}/"));
        let ids = objects.all(of).map(|(id, _)| id.to_owned());
        let ids = ids.filter(|id| whose.as_ref().is_none_or(|whose| id.starts_with(whose.as_str())));
        let shown = |id: String| {
            let id = (of, id);
            let value = find_object(&context, &objects, &id).ok()?;
            Some((etcd_key(&id), value, version(&context, &id)))
        };
        ids.collect::<Vec<_>>().into_iter().filter_map(shown).collect::<Vec<_>>()
    });
    match shown.await {
        Ok(items) => match list::filter_and_page(items, &args) {
            Ok((items, total)) => response::list_response(of.name(), items, total),
            Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
        },
        Err(error) => wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Returns the store version that changed an object last.
fn version(context: &AdminContext, id: &ObjectId) -> Option<u64> {
    context.view.get(raw_kind(), &document(id)).and_then(|item| item.version)
}

/// Returns the objects on which this one can depend. Reads them on a blocking thread.
async fn objects_of(context: &AdminContext, id: &ObjectId) -> Objects {
    let (context, id) = (context.clone(), id.clone());
    tokio::task::spawn_blocking(move || stored(&context, Some(&id))).await.unwrap_or_default()
}

/// `GET /apisix/admin/{kind}/{id}`.
async fn get_object(
    State(context): State<AdminContext>,
    Path((name, id)): Path<(String, String)>,
) -> Response {
    if name == "plugins" && id == "list" {
        return response::plugins(false);
    }
    match find_kind(&name) {
        Ok(of) => get_object_by_id(&context, &(of, id)).await,
        Err(response) => *response,
    }
}

async fn get_object_by_id(context: &AdminContext, id: &ObjectId) -> Response {
    match find_object(context, &objects_of(context, id).await, id) {
        Ok(value) => object_response(StatusCode::OK, "get", &etcd_key(id), Some(value), version(context, id)),
        Err(response) => *response,
    }
}

/// `PUT /apisix/admin/{kind}/{id}`: creates or replaces an object.
async fn put(
    State(context): State<AdminContext>,
    client: ClientName,
    Path((name, id)): Path<(String, String)>,
    Query(args): Query<QueryArgs>,
    body: Body,
) -> Response {
    let of =
        match find_kind(&name).and_then(|of| check_id(&id).map(|()| of)).and_then(|of| refuse_ttl(of, &args))
        {
            Ok(of) => of,
            Err(response) => return *response,
        };
    match body::read(body).await {
        Ok(entries) => write_object(&context, client, (of, id), ObjectEdit::Replace(entries)).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// `PUT /apisix/admin/{kind}`: creates or replaces an object that contains its id, such as a consumer.
async fn put_without_id(
    State(context): State<AdminContext>,
    client: ClientName,
    Path(name): Path<String>,
    Query(args): Query<QueryArgs>,
    body: Body,
) -> Response {
    match find_kind(&name).and_then(|of| refuse_ttl(of, &args)) {
        Ok(of) => write_with_own_id(&context, client, of, None, body).await,
        Err(response) => *response,
    }
}

/// Writes an object that contains its id. With `consumer`, it is a credential of that consumer.
async fn write_with_own_id(
    context: &AdminContext,
    client: ClientName,
    of: ObjectKind,
    consumer: Option<&str>,
    body: Body,
) -> Response {
    let entries = match body::read(body).await {
        Ok(entries) => entries,
        Err(message) => return wrong(StatusCode::BAD_REQUEST, &message),
    };
    let key = if of == ObjectKind::Consumers { "username" } else { "id" };
    let Some(id) = entries.get(key).and_then(id_text) else {
        let message = format!("`PUT` needs an id: /apisix/admin/{}/ID, or `{key}`", of.name());
        return wrong(StatusCode::BAD_REQUEST, &message);
    };
    match check_id(&id) {
        Ok(()) => {
            let id = consumer.map_or(id.clone(), |consumer| format!("{consumer}/{id}"));
            write_object(context, client, (of, id), ObjectEdit::Replace(entries)).await
        }
        Err(response) => *response,
    }
}

/// Refuses a time to live: objects stay until they are deleted.
fn refuse_ttl(of: ObjectKind, args: &QueryArgs) -> Result<ObjectKind, Box<Response>> {
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
    client: ClientName,
    Path(name): Path<String>,
    Query(args): Query<QueryArgs>,
    body: Body,
) -> Response {
    let of = match find_kind(&name).and_then(|of| refuse_ttl(of, &args)) {
        Ok(ObjectKind::Consumers) => {
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
        Ok(entries) => write_object(&context, client, (of, id), ObjectEdit::Create(entries)).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// `PATCH /apisix/admin/{kind}/{id}`: merges the body into the object; `null` removes a key.
async fn patch(
    State(context): State<AdminContext>,
    client: ClientName,
    Path((name, id)): Path<(String, String)>,
    body: Body,
) -> Response {
    let of = match find_kind(&name) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    match body::read(body).await {
        Ok(patch) => write_object(&context, client, (of, id), ObjectEdit::Patch(patch)).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// The change that a request makes to an object.
enum ObjectEdit {
    /// Replaces it, or creates it.
    Replace(Map<String, Value>),
    /// Creates it; fails if it exists.
    Create(Map<String, Value>),
    /// Merges this into it.
    Patch(Map<String, Value>),
    /// Replaces the part at this path.
    ReplacePart(Vec<String>, Value),
    /// Deletes it.
    Delete,
}

/// Writes an object and everything derived from it in one transaction, and returns the response.
async fn write_object(
    context: &AdminContext,
    client: ClientName,
    id: ObjectId,
    edit: ObjectEdit,
) -> Response {
    let is_deletion = matches!(edit, ObjectEdit::Delete);
    // The dependencies are read first and the changes written later; no conflicting write may come in
    // between.
    let is_exclusive = is_deletion || !matches!(id.0, ObjectKind::Routes | ObjectKind::Ssls);
    let (_read, _write);
    if is_exclusive {
        _write = WRITE_LOCK.write().await;
    } else {
        _read = WRITE_LOCK.read().await;
    }
    let (there, wanted) = (context.clone(), id.clone());
    let planned = tokio::task::spawn_blocking(move || plan_changes(&there, &wanted, edit)).await;
    let changes = match planned {
        Ok(Ok(changes)) => changes,
        Ok(Err(response)) => return *response,
        Err(error) => return wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    match submit_change(context, client.0, Intent::Changes(changes), false).await {
        Err(error) => change_error_response(&error),
        Ok(done) if is_deletion => {
            response::with_audit(object_response(StatusCode::OK, "delete", &etcd_key(&id), None, None), &done)
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
            let value = find_object(context, &objects_of(context, &id).await, &id).ok();
            response::with_audit(
                object_response(status, "set", &etcd_key(&id), value, version(context, &id)),
                &done,
            )
        }
    }
}

/// Returns the changes that carry out a wish.
fn plan_changes(
    context: &AdminContext,
    id: &ObjectId,
    edit: ObjectEdit,
) -> Result<Vec<ResourceChange>, Box<Response>> {
    let bad = |message: String| Box::new(wrong(StatusCode::BAD_REQUEST, &message));
    let before = stored(context, Some(id));
    let raw = context.view.get(raw_kind(), &document(id));
    let version = raw.as_ref().and_then(|item| item.version);
    let mut precondition = Precondition::None;
    let entries = match edit {
        ObjectEdit::Replace(entries) => Some(entries),
        ObjectEdit::Create(entries) => {
            precondition = Precondition::Absent;
            Some(entries)
        }
        edit @ (ObjectEdit::Patch(_) | ObjectEdit::ReplacePart(..)) => {
            let object = find_object(context, &before, id)?;
            precondition = version.map_or(Precondition::None, |version| Precondition::Version(vec![version]));
            let mut value = Value::Object(object);
            match edit {
                ObjectEdit::ReplacePart(steps, part) => set_at_path(&mut value, &steps, part),
                ObjectEdit::Patch(patch) => apply_merge_patch(&mut value, Value::Object(patch)),
                _ => {}
            }
            let Value::Object(entries) = value else { return Err(Box::new(not_found(&document(id)))) };
            Some(entries)
        }
        ObjectEdit::Delete => {
            if before.get(id.0, &id.1).is_none() {
                return Err(Box::new(missing_object(context, id)));
            }
            if let Some(user) = before.referrers(id).first() {
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
                ObjectKind::Consumers => {
                    if known.is_none()
                        && kind("consumers").is_some_and(|kind| context.view.get(kind, &id.1).is_some())
                    {
                        return Err(bad(format!(
                            "there is a consumer `{}` already, of /api/v1/consumers or the file",
                            id.1
                        )));
                    }
                    consumer::hash_secrets(&mut entries, known).map_err(bad)?;
                }
                ObjectKind::Credentials => {
                    let consumer = id.1.split('/').next().unwrap_or_default();
                    if before.get(ObjectKind::Consumers, consumer).is_none() {
                        return Err(Box::new(not_found(&format!("consumers/{consumer}"))));
                    }
                    consumer::hash_secrets(&mut entries, known).map_err(bad)?;
                }
                ObjectKind::Ssls => {
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
    if after.get(id.0, &id.1).is_none() && id.0 == ObjectKind::Consumers {
        for credential in after.credentials(&id.1) {
            let id = (ObjectKind::Credentials, credential);
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
    ids.extend(after.dependents(id));
    for other in ids {
        let mut old = derive::documents(&before, &other).unwrap_or_default();
        let new = derive::documents(&after, &other).map_err(|message| match other == *id {
            true => bad(message),
            false => bad(format!("{}: {message}", document(&other))),
        })?;
        let mut new: DerivedDocuments = new;
        if other == *id && id.0 == ObjectKind::Ssls {
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
    client: ClientName,
    Path((name, id)): Path<(String, String)>,
) -> Response {
    match find_kind(&name) {
        Ok(of) => write_object(&context, client, (of, id), ObjectEdit::Delete).await,
        Err(response) => *response,
    }
}

/// Serves the paths below an object: its credentials, and its parts.
async fn serve_subpath(
    State(context): State<AdminContext>,
    client: ClientName,
    Path((name, id, path)): Path<(String, String, String)>,
    Query(args): Query<QueryArgs>,
    method: Method,
    body: Body,
) -> Response {
    let steps: Vec<_> = path.split('/').filter(|step| !step.is_empty()).map(str::to_owned).collect();
    match (name.as_str(), steps.as_slice()) {
        ("consumers", [first, rest @ ..]) if first == "credentials" && rest.len() < 2 => {
            let own = rest.first().map(|own| (ObjectKind::Credentials, format!("{id}/{own}")));
            match (method, own) {
                (Method::GET, None) => list_objects(&context, ObjectKind::Credentials, Some(id), args).await,
                (Method::GET, Some(own)) => get_object_by_id(&context, &own).await,
                (Method::PUT, None) => {
                    write_with_own_id(&context, client, ObjectKind::Credentials, Some(&id), body).await
                }
                (Method::PUT, Some(own)) => match (check_id(&rest[0]), body::read(body).await) {
                    (Ok(()), Ok(entries)) => {
                        write_object(&context, client, own, ObjectEdit::Replace(entries)).await
                    }
                    (Err(response), _) => *response,
                    (_, Err(message)) => wrong(StatusCode::BAD_REQUEST, &message),
                },
                (Method::DELETE, Some(own)) => write_object(&context, client, own, ObjectEdit::Delete).await,
                _ => wrong(StatusCode::METHOD_NOT_ALLOWED, "a credential is written as a whole: `PUT` it"),
            }
        }
        ("schema", [kind]) if id == "validate" && method == Method::POST => {
            validate_object(&context, client, kind, body).await
        }
        _ => match find_kind(&name) {
            Err(response) => *response,
            Ok(_) if method != Method::PATCH => {
                wrong(StatusCode::NOT_FOUND, "a part of an object has no address here but for `PATCH`")
            }
            Ok(of) => replace_part(&context, client, (of, id), steps, body).await,
        },
    }
}

/// `POST /apisix/admin/schema/validate/{kind}`: checks an object without writing it.
async fn validate_object(context: &AdminContext, client: ClientName, kind: &str, body: Body) -> Response {
    let of = match find_kind(kind) {
        Ok(of) => of,
        Err(response) => return *response,
    };
    let entries = match body::read(body).await {
        Ok(entries) => entries,
        Err(message) => return wrong(StatusCode::BAD_REQUEST, &message),
    };
    let own = if of == ObjectKind::Consumers { "username" } else { "id" };
    let id = entries.get(own).and_then(id_text).unwrap_or_else(|| "validate".to_owned());
    if let Err(response) = check_id(&id) {
        return *response;
    }
    let _read = WRITE_LOCK.read().await;
    let there = context.clone();
    let planned =
        tokio::task::spawn_blocking(move || plan_changes(&there, &(of, id), ObjectEdit::Replace(entries)))
            .await;
    let changes = match planned {
        Ok(Ok(changes)) => changes,
        Ok(Err(response)) => return *response,
        Err(error) => return wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    match submit_change(context, client.0, Intent::Changes(changes), true).await {
        Err(error) => change_error_response(&error),
        Ok(done) => response::with_audit(response::valid(), &done),
    }
}

/// `PATCH /apisix/admin/routes/1/upstream` and the like: replaces that part by the body.
async fn replace_part(
    context: &AdminContext,
    client: ClientName,
    id: ObjectId,
    steps: Vec<String>,
    body: Body,
) -> Response {
    match body::read_any(body).await {
        Ok(value) if steps.len() <= PATH_STEPS_MAX => {
            write_object(context, client, id, ObjectEdit::ReplacePart(steps, value)).await
        }
        Ok(_) => wrong(StatusCode::BAD_REQUEST, "no part of an object is that deep"),
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// The most steps of a path to a part of an object.
const PATH_STEPS_MAX: usize = 32;

/// Sets the value at this path; `null` removes the entry.
fn set_at_path(into: &mut Value, steps: &[String], value: Value) {
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
        set_at_path(entries.entry(step.clone()).or_insert(Value::Null), rest, value);
    }
}
