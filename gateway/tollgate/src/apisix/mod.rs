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
//! | `mod.rs` | the handlers of all requests |
//! | `lookup`, `list` | finds an object for a request; filters and pages lists |
//! | `write` | the changes of one write, and the transaction |
//! | `body` | reads a request's body |
//! | `fields` | takes an object apart so that no entry is ignored |
//! | `objects`, `stored` | the stored objects and their dependencies |
//! | `derive` | the documents derived from an object |
//! | `route`, `vars`, `upstream`, `consumer`, `ssl`, `plugins` | conversion of each kind |
//! | `response` | responses as clients of versions 1 to 3 expect them |

mod body;
mod checks;
mod consumer;
mod derive;
mod fields;
mod list;
mod lookup;
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
mod write;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{any, get};

use self::list::QueryArgs;
use self::lookup::{check_id, find_kind, find_object, objects_of, version};
use self::objects::{ObjectId, ObjectKind, id_text};
use self::response::{object_response, wrong};
use self::stored::stored;
use self::write::{ObjectEdit, check_object, write_object};
use crate::access::ClientName;
use crate::admin_context::AdminContext;

/// Maximum number of steps of a path to a part of an object.
const PATH_STEPS_MAX: usize = 32;

/// Returns the routes of the front.
pub fn router(context: &AdminContext) -> Router {
    Router::new()
        .route("/apisix/admin/{kind}", get(list).post(post).put(put_without_id))
        .route("/apisix/admin/{kind}/{id}", get(get_object).put(put).patch(patch).delete(delete))
        .route("/apisix/admin/{kind}/{id}/{*rest}", any(serve_subpath))
        .with_state(context.clone())
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
        Ok(kind) => list_objects(&context, kind, None, args).await,
        Err(response) => *response,
    }
}

/// Lists the objects of a kind; only one consumer's, if they are credentials.
async fn list_objects(
    context: &AdminContext,
    kind: ObjectKind,
    consumer: Option<String>,
    args: QueryArgs,
) -> Response {
    let context = context.clone();
    let items = tokio::task::spawn_blocking(move || {
        let objects = stored(&context, None);
        let whose = consumer.map(|consumer| format!("{consumer}/"));
        let ids = objects.all(kind).map(|(id, _)| id.to_owned());
        let ids = ids.filter(|id| whose.as_ref().is_none_or(|whose| id.starts_with(whose.as_str())));
        let item = |id: String| {
            let id = ObjectId::new(kind, id);
            let value = find_object(&context, &objects, &id).ok()?;
            Some((id.etcd_key(), value, version(&context, &id)))
        };
        ids.collect::<Vec<_>>().into_iter().filter_map(item).collect::<Vec<_>>()
    });
    match items.await {
        Ok(items) => match list::filter_and_page(items, &args) {
            Ok((items, total)) => response::list_response(kind.name(), items, total),
            Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
        },
        Err(error) => wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
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
        Ok(kind) => get_object_by_id(&context, &ObjectId::new(kind, id)).await,
        Err(response) => *response,
    }
}

async fn get_object_by_id(context: &AdminContext, id: &ObjectId) -> Response {
    match find_object(context, &objects_of(context, id).await, id) {
        Ok(value) => {
            object_response(StatusCode::OK, "get", &id.etcd_key(), Some(value), version(context, id))
        }
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
    let kind = match find_kind(&name)
        .and_then(|kind| check_id(&id).map(|()| kind))
        .and_then(|kind| refuse_ttl(kind, &args))
    {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    match body::read(body).await {
        Ok(entries) => {
            write_object(&context, client, ObjectId::new(kind, id), ObjectEdit::Replace(entries)).await
        }
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
    match find_kind(&name).and_then(|kind| refuse_ttl(kind, &args)) {
        Ok(kind) => write_with_own_id(&context, client, kind, None, body).await,
        Err(response) => *response,
    }
}

/// Writes an object that contains its id. With `consumer`, it is a credential of that consumer.
async fn write_with_own_id(
    context: &AdminContext,
    client: ClientName,
    kind: ObjectKind,
    consumer: Option<&str>,
    body: Body,
) -> Response {
    let entries = match body::read(body).await {
        Ok(entries) => entries,
        Err(message) => return wrong(StatusCode::BAD_REQUEST, &message),
    };
    let key = kind.id_field();
    let Some(id) = entries.get(key).and_then(id_text) else {
        let message = format!("`PUT` needs an id: /apisix/admin/{}/ID, or `{key}`", kind.name());
        return wrong(StatusCode::BAD_REQUEST, &message);
    };
    match check_id(&id) {
        Ok(()) => {
            let id = consumer.map_or(id.clone(), |consumer| format!("{consumer}/{id}"));
            write_object(context, client, ObjectId::new(kind, id), ObjectEdit::Replace(entries)).await
        }
        Err(response) => *response,
    }
}

/// Refuses a time to live: objects stay until they are deleted.
fn refuse_ttl(kind: ObjectKind, args: &QueryArgs) -> Result<ObjectKind, Box<Response>> {
    match args.get("ttl").map(String::as_str) {
        None | Some("0") => Ok(kind),
        Some(_) => {
            let message = "`ttl`: objects do not expire here: send `DELETE` when the time is over";
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
    let kind = match find_kind(&name).and_then(|kind| refuse_ttl(kind, &args)) {
        Ok(ObjectKind::Consumers) => {
            return wrong(
                StatusCode::METHOD_NOT_ALLOWED,
                "a consumer has a name: `PUT /apisix/admin/consumers`",
            );
        }
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    // If two requests choose the same id at once, one of them fails because it exists.
    let id = format!("{:020}", context.view.read(|state| state.version) + 1);
    match body::read(body).await {
        Ok(entries) => {
            write_object(&context, client, ObjectId::new(kind, id), ObjectEdit::Create(entries)).await
        }
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
    let kind = match find_kind(&name) {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    match body::read(body).await {
        Ok(patch) => write_object(&context, client, ObjectId::new(kind, id), ObjectEdit::Patch(patch)).await,
        Err(message) => wrong(StatusCode::BAD_REQUEST, &message),
    }
}

/// `DELETE /apisix/admin/{kind}/{id}`.
async fn delete(
    State(context): State<AdminContext>,
    client: ClientName,
    Path((name, id)): Path<(String, String)>,
) -> Response {
    match find_kind(&name) {
        Ok(kind) => write_object(&context, client, ObjectId::new(kind, id), ObjectEdit::Delete).await,
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
        ("consumers", [first]) if first == "credentials" => {
            serve_credentials(&context, client, &id, args, method, body).await
        }
        ("consumers", [first, own]) if first == "credentials" => {
            serve_credential(&context, client, &id, own, method, body).await
        }
        ("schema", [kind]) if id == "validate" && method == Method::POST => {
            validate(&context, client, kind, body).await
        }
        _ => match find_kind(&name) {
            Err(response) => *response,
            Ok(_) if method != Method::PATCH => {
                wrong(StatusCode::NOT_FOUND, "only `PATCH` takes the path of a part of an object here")
            }
            Ok(kind) => replace_part(&context, client, ObjectId::new(kind, id), steps, body).await,
        },
    }
}

/// `/apisix/admin/consumers/NAME/credentials`: lists the credentials of a consumer, or writes a credential by the id in its body.
async fn serve_credentials(
    context: &AdminContext,
    client: ClientName,
    consumer: &str,
    args: QueryArgs,
    method: Method,
    body: Body,
) -> Response {
    let kind = ObjectKind::Credentials;
    match method {
        Method::GET => list_objects(context, kind, Some(consumer.to_owned()), args).await,
        Method::PUT => write_with_own_id(context, client, kind, Some(consumer), body).await,
        _ => credential_method_not_allowed(),
    }
}

/// `/apisix/admin/consumers/NAME/credentials/ID`: shows, writes or deletes a credential.
async fn serve_credential(
    context: &AdminContext,
    client: ClientName,
    consumer: &str,
    own: &str,
    method: Method,
    body: Body,
) -> Response {
    let id = ObjectId::new(ObjectKind::Credentials, format!("{consumer}/{own}"));
    match method {
        Method::GET => get_object_by_id(context, &id).await,
        Method::PUT => match (check_id(own), body::read(body).await) {
            (Ok(()), Ok(entries)) => write_object(context, client, id, ObjectEdit::Replace(entries)).await,
            (Err(response), _) => *response,
            (_, Err(message)) => wrong(StatusCode::BAD_REQUEST, &message),
        },
        Method::DELETE => write_object(context, client, id, ObjectEdit::Delete).await,
        _ => credential_method_not_allowed(),
    }
}

fn credential_method_not_allowed() -> Response {
    wrong(StatusCode::METHOD_NOT_ALLOWED, "a credential is replaced as a whole: use `PUT`")
}

/// `POST /apisix/admin/schema/validate/{kind}`: checks an object without writing it.
async fn validate(context: &AdminContext, client: ClientName, kind: &str, body: Body) -> Response {
    let kind = match find_kind(kind) {
        Ok(kind) => kind,
        Err(response) => return *response,
    };
    let entries = match body::read(body).await {
        Ok(entries) => entries,
        Err(message) => return wrong(StatusCode::BAD_REQUEST, &message),
    };
    let id = entries.get(kind.id_field()).and_then(id_text).unwrap_or_else(|| "validate".to_owned());
    match check_id(&id) {
        Ok(()) => check_object(context, client, ObjectId::new(kind, id), entries).await,
        Err(response) => *response,
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
