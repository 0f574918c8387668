//! Writes objects: computes the changes of one request, and submits them as one transaction.
//!
//! A write changes the object's own document, and every document that is derived from it or from objects that depend on
//! it. [`write_object`] submits the changes; [`check_object`] only has them checked. Invariant: no two conflicting writes
//! read the objects at the same time, see [`WRITE_LOCK`].

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use tokio::sync::RwLock;
use tollgate_config::{ResourceKind, kind};
use tollgate_sources::{ChangeAction, Intent, Precondition, ResourceChange, apply_merge_patch};

use super::lookup::{find_object, missing_object, objects_of, version};
use super::names::resource_name;
use super::objects::{ObjectId, ObjectKind, Objects, raw_kind};
use super::parts::DerivedDocuments;
use super::response::{self, change_error_response, not_found, object_response, wrong};
use super::stored::stored;
use super::{consumer, derive, ssl};
use crate::access::ClientName;
use crate::admin_context::AdminContext;
use crate::api::submit_change;

/// Orders the writes of this front. Writers of routes and certificates, from which nothing else is derived,
/// hold it shared. Every other write and every deletion holds it exclusively.
static WRITE_LOCK: RwLock<()> = RwLock::const_new(());

/// The change that a request makes to an object.
pub enum ObjectEdit {
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
pub async fn write_object(
    context: &AdminContext,
    client: ClientName,
    id: ObjectId,
    edit: ObjectEdit,
) -> Response {
    let is_deletion = matches!(edit, ObjectEdit::Delete);
    // The dependencies are read first and the changes written later; no conflicting write may come in
    // between.
    let is_exclusive = is_deletion || !matches!(id.kind, ObjectKind::Routes | ObjectKind::Ssls);
    let (_read, _write);
    if is_exclusive {
        _write = WRITE_LOCK.write().await;
    } else {
        _read = WRITE_LOCK.read().await;
    }
    let changes = match planned_changes(context, &id, edit).await {
        Ok(changes) => changes,
        Err(response) => return *response,
    };
    match submit_change(context, client.0, Intent::Changes(changes), false).await {
        Err(error) => change_error_response(&error),
        Ok(done) if is_deletion => {
            response::with_audit(object_response(StatusCode::OK, "delete", &id.etcd_key(), None, None), &done)
        }
        Ok(done) => {
            let name = id.document();
            let is_new =
                done.changes.iter().any(|it| it.kind == raw_kind() && it.name == name && it.before.is_none());
            // An object of an older version has derived documents, but no document of its own.
            let was_derived = done.changes.iter().any(|it| {
                it.kind.name == id.kind.name() && it.name == resource_name(&id.id) && it.before.is_some()
            });
            let status = if is_new && !was_derived { StatusCode::CREATED } else { StatusCode::OK };
            let value = find_object(context, &objects_of(context, &id).await, &id).ok();
            response::with_audit(
                object_response(status, "set", &id.etcd_key(), value, version(context, &id)),
                &done,
            )
        }
    }
}

/// Checks an object as a write would, without writing it, and returns the response.
pub async fn check_object(
    context: &AdminContext,
    client: ClientName,
    id: ObjectId,
    entries: Map<String, Value>,
) -> Response {
    let _read = WRITE_LOCK.read().await;
    let changes = match planned_changes(context, &id, ObjectEdit::Replace(entries)).await {
        Ok(changes) => changes,
        Err(response) => return *response,
    };
    match submit_change(context, client.0, Intent::Changes(changes), true).await {
        Err(error) => change_error_response(&error),
        Ok(done) => response::with_audit(response::valid(), &done),
    }
}

/// Runs [`plan_changes`] on a blocking thread.
async fn planned_changes(
    context: &AdminContext,
    id: &ObjectId,
    edit: ObjectEdit,
) -> Result<Vec<ResourceChange>, Box<Response>> {
    let (context, id) = (context.clone(), id.clone());
    let planned = tokio::task::spawn_blocking(move || plan_changes(&context, &id, edit)).await;
    planned
        .unwrap_or_else(|error| Err(Box::new(wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))))
}

fn bad_request(message: String) -> Box<Response> {
    Box::new(wrong(StatusCode::BAD_REQUEST, &message))
}

/// Returns the changes that carry out an edit.
fn plan_changes(
    context: &AdminContext,
    id: &ObjectId,
    edit: ObjectEdit,
) -> Result<Vec<ResourceChange>, Box<Response>> {
    // Read before the object: a change in between then fails the precondition.
    let version = version(context, id);
    let before = stored(context, Some(id));
    let EditedObject { mut entries, precondition } = edited_object(context, &before, id, edit, version)?;
    let certificates = match &mut entries {
        Some(entries) => prepare_entries(context, &before, id, entries)?,
        None => None,
    };
    let mut after = before.clone();
    after.set(id.clone(), entries.clone());
    let mut changes = Vec::new();
    match entries {
        Some(entries) => changes.push(ResourceChange {
            kind: raw_kind(),
            name: id.document(),
            action: ChangeAction::Put(Value::Object(entries)),
            precondition,
        }),
        // An object of an older version has no document of its own.
        None => changes.extend(
            context.view.get(raw_kind(), &id.document()).map(|_| deletion(raw_kind(), id.document())),
        ),
    }
    // Deleting a consumer deletes its credentials.
    if after.get(id.kind, &id.id).is_none() && id.kind == ObjectKind::Consumers {
        for credential in after.credentials(&id.id) {
            let id = ObjectId::new(ObjectKind::Credentials, credential);
            changes.push(deletion(raw_kind(), id.document()));
            after.set(id, None);
        }
    }
    let mut old = derive::documents(&before, id).unwrap_or_default();
    let mut new = derive::documents(&after, id).map_err(bad_request)?;
    if id.kind == ObjectKind::Ssls {
        old.extend(stored_certificates(context, id));
        new.extend(certificates.unwrap_or_default());
    }
    push_derived_changes(context, old, new, &mut changes)?;
    for other in after.dependents(id) {
        let old = derive::documents(&before, &other).unwrap_or_default();
        let new = derive::documents(&after, &other)
            .map_err(|message| bad_request(format!("{}: {message}", other.document())))?;
        push_derived_changes(context, old, new, &mut changes)?;
    }
    Ok(changes)
}

/// An object after an edit.
struct EditedObject {
    /// `None`: the edit deletes it.
    entries: Option<Map<String, Value>>,
    precondition: Precondition,
}

/// Applies an edit to the stored object, which has this version. A deletion is checked here; other results are not checked
/// yet.
fn edited_object(
    context: &AdminContext,
    before: &Objects,
    id: &ObjectId,
    edit: ObjectEdit,
    version: Option<u64>,
) -> Result<EditedObject, Box<Response>> {
    let unchanged = || version.map_or(Precondition::None, |version| Precondition::Version(vec![version]));
    let stored_value = || find_object(context, before, id).map(Value::Object);
    let edited = |value: Value| match value {
        Value::Object(entries) => Ok(EditedObject { entries: Some(entries), precondition: unchanged() }),
        _ => Err(Box::new(not_found(&id.document()))),
    };
    match edit {
        ObjectEdit::Replace(entries) => {
            Ok(EditedObject { entries: Some(entries), precondition: Precondition::None })
        }
        ObjectEdit::Create(entries) => {
            Ok(EditedObject { entries: Some(entries), precondition: Precondition::Absent })
        }
        ObjectEdit::Patch(patch) => {
            let mut value = stored_value()?;
            apply_merge_patch(&mut value, Value::Object(patch));
            edited(value)
        }
        ObjectEdit::ReplacePart(steps, part) => {
            let mut value = stored_value()?;
            set_at_path(&mut value, &steps, part);
            edited(value)
        }
        ObjectEdit::Delete => {
            check_deletion(context, before, id)?;
            Ok(EditedObject { entries: None, precondition: Precondition::None })
        }
    }
}

fn check_deletion(context: &AdminContext, before: &Objects, id: &ObjectId) -> Result<(), Box<Response>> {
    if before.get(id.kind, &id.id).is_none() {
        return Err(Box::new(missing_object(context, id)));
    }
    let Some(user) = before.referrers(id).into_iter().next() else { return Ok(()) };
    Err(bad_request(format!(
        "{}/{} cannot be deleted: {} is still using it; delete that first, `force` does not help",
        id.kind.name(),
        resource_name(&id.id),
        user.document()
    )))
}

/// Checks the id inside an object, and replaces its secrets by hashes. Returns the documents of a certificate: they alone
/// hold its key.
fn prepare_entries(
    context: &AdminContext,
    before: &Objects,
    id: &ObjectId,
    entries: &mut Map<String, Value>,
) -> Result<Option<DerivedDocuments>, Box<Response>> {
    let own = id.own_id();
    let ids = [json!(own), own.parse::<u64>().map_or(Value::Null, Value::from)];
    if let Some(other) = entries.shift_remove("id").filter(|own| !own.is_null() && !ids.contains(own)) {
        return Err(bad_request(format!("`id` must be {} here, not {other}", ids[0])));
    }
    let known = before.get(id.kind, &id.id);
    match id.kind {
        ObjectKind::Consumers => {
            if known.is_none()
                && kind("consumers").is_some_and(|kind| context.view.get(kind, &id.id).is_some())
            {
                return Err(bad_request(format!(
                    "the consumer `{}` exists already, in /api/v1/consumers or the file",
                    id.id
                )));
            }
            consumer::hash_secrets(entries, known).map_err(bad_request)?;
            Ok(None)
        }
        ObjectKind::Credentials => {
            let consumer = id.id.split('/').next().unwrap_or_default();
            if before.get(ObjectKind::Consumers, consumer).is_none() {
                return Err(Box::new(not_found(&format!("consumers/{consumer}"))));
            }
            consumer::hash_secrets(entries, known).map_err(bad_request)?;
            Ok(None)
        }
        ObjectKind::Ssls => {
            let key = |name: &str| Some(context.view.get(kind("certificates")?, name)?.value["key"].clone());
            derive::certificates(&id.id, entries, &key).map(Some).map_err(bad_request)
        }
        _ => Ok(None),
    }
}

/// Returns the stored documents of a certificate object, without their values: one for each of its certificates.
fn stored_certificates(context: &AdminContext, id: &ObjectId) -> DerivedDocuments {
    let is_stored =
        |name: &String| kind("certificates").is_some_and(|kind| context.view.get(kind, name).is_some());
    (0..)
        .map(|index| ssl::certificate_name(&id.id, index))
        .take_while(is_stored)
        .map(|name| (("certificates", name), Value::Null))
        .collect()
}

fn deletion(kind: &'static ResourceKind, name: String) -> ResourceChange {
    ResourceChange { kind, name, action: ChangeAction::Delete, precondition: Precondition::None }
}

/// Adds the changes that turn the documents derived from an object before an edit into those after it.
fn push_derived_changes(
    context: &AdminContext,
    old: DerivedDocuments,
    new: DerivedDocuments,
    changes: &mut Vec<ResourceChange>,
) -> Result<(), Box<Response>> {
    for (kind_name, name) in old.into_keys().filter(|key| !new.contains_key(key)) {
        let stored_kind = kind(kind_name).filter(|kind| context.view.get(kind, &name).is_some());
        changes.extend(stored_kind.map(|kind| deletion(kind, name)));
    }
    let gives_ids = context.plan.borrow().settings.request_id.enabled;
    for ((kind_name, name), value) in new {
        let Some(kind) = kind(kind_name) else { continue };
        // Without request ids the placeholder would silently become an empty text.
        if !gives_ids && value.to_string().contains("{request_id}") {
            let message =
                "`plugins/request-id`: the gateway has no request ids: write `request_id: on` in the file";
            return Err(bad_request(message.to_owned()));
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
    Ok(())
}

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
