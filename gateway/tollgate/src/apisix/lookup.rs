//! Finds objects and their kinds for the requests of this front, and shows objects as their clients wrote them.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use tollgate_config::{kind, masked};

use super::derive;
use super::names::resource_name;
use super::objects::{ObjectId, ObjectKind, Objects, raw_kind};
use super::response::{not_found, wrong};
use super::stored::stored;
use super::{consumer, ssl};
use crate::admin_context::AdminContext;

/// Returns the kind of this name; the error says what to use instead. Credentials have no kind here: their
/// path is below a consumer.
pub fn find_kind(name: &str) -> Result<ObjectKind, Box<Response>> {
    ObjectKind::from_name(name).filter(|kind| *kind != ObjectKind::Credentials).ok_or_else(|| {
        let instead = match name {
            "stream_routes" => "write `streams`, over /api/v1 (docs/layer4.md)",
            "protos" => "this gateway does not translate JSON to gRPC",
            "secrets" => "the file refers to a secret as an environment variable, `${NAME}`",
            "plugin_metadata" => "write the settings of a plugin in `plugins` of each object that uses it",
            "plugins" => "`GET /apisix/admin/plugins/list` lists the plugins; they cannot be reloaded",
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
pub fn check_id(id: &str) -> Result<(), Box<Response>> {
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
pub fn find_object(
    context: &AdminContext,
    objects: &Objects,
    id: &ObjectId,
) -> Result<Map<String, Value>, Box<Response>> {
    let Some(object) = objects.get(id.kind, &id.id) else {
        return Err(Box::new(missing_object(context, id)));
    };
    if let Some((kind, name)) = changed_document(context, objects, id) {
        let message = format!("it was changed over /api/v1/{kind}/{name}: read and change it there");
        return Err(Box::new(wrong(StatusCode::CONFLICT, &message)));
    }
    let mut visible = Map::new();
    let own = id.kind.id_field();
    visible.insert(own.to_owned(), json!(id.own_id()));
    visible.extend(
        object.iter().filter(|(other, _)| *other != own).map(|(key, value)| (key.clone(), value.clone())),
    );
    match id.kind {
        ObjectKind::Consumers | ObjectKind::Credentials => consumer::mask_secrets(&mut visible),
        ObjectKind::Ssls => ssl::mask_secrets(&mut visible),
        _ => {}
    }
    match masked(raw_kind(), &Value::Object(visible)) {
        Value::Object(visible) => Ok(visible),
        _ => Err(Box::new(not_found(&id.document()))),
    }
}

/// Returns the response for an object that does not exist. A resource of its name may still exist.
pub fn missing_object(context: &AdminContext, id: &ObjectId) -> Response {
    let kind =
        matches!(id.kind, ObjectKind::Routes | ObjectKind::Upstreams).then(|| kind(id.kind.name())).flatten();
    let name = resource_name(&id.id);
    match kind.and_then(|kind| context.view.get(kind, &name)) {
        None => not_found(&id.document()),
        Some(_) => {
            let message =
                format!("it was changed over /api/v1/{}/{name}: read and change it there", id.kind.name());
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
    documents.into_iter().find_map(|((kind_name, name), value)| {
        let stored = kind(kind_name).and_then(|kind| context.view.get(kind, &name));
        (stored.as_ref().map(|item| &item.value) != Some(&value)).then_some((kind_name, name))
    })
}

/// Returns the store version that changed an object last.
pub fn version(context: &AdminContext, id: &ObjectId) -> Option<u64> {
    context.view.get(raw_kind(), &id.document()).and_then(|item| item.version)
}

/// Returns the objects on which this one can depend. Reads them on a blocking thread.
pub async fn objects_of(context: &AdminContext, id: &ObjectId) -> Objects {
    let (context, id) = (context.clone(), id.clone());
    tokio::task::spawn_blocking(move || stored(&context, Some(&id))).await.unwrap_or_default()
}
