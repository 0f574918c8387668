//! Events: what is wrong with an object whose status has no conditions, so that `kubectl describe` shows it.
//!
//! The gateway that writes statuses makes them. The name of an event follows from its object and its text, so the
//! same one is made once as long as the API server keeps it.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};
use tollgate_net::component;
use tracing::{debug, warn};

use crate::object::{Meta, Reference};
use crate::translate::fingerprint;

/// The longest text of an event, in bytes.
const NOTE_MAX: usize = 1000;
/// The longest name of an object.
const NAME_MAX: usize = 253;

/// Makes an event about an object. A failure is logged only.
pub fn make(client: &Client, controller: &str, object: &Reference, meta: &Meta, text: &str) {
    let event = event(controller, object, meta, text);
    let api: Api<Event> = Api::namespaced(client.clone(), &object.name.namespace);
    let object = object.clone();
    tokio::spawn(async move {
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {
                debug!(target: component::KUBERNETES, "the event of {object} exists");
            }
            Err(error) => {
                warn!(target: component::KUBERNETES, "no event of {object} was made: {error}");
            }
        }
    });
}

fn event(controller: &str, object: &Reference, meta: &Meta, text: &str) -> Event {
    let (group, version, kind, _) = object.kind.names();
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut note = text.to_owned();
    if note.len() > NOTE_MAX {
        let end = (0..=NOTE_MAX).rev().find(|end| note.is_char_boundary(*end)).unwrap_or_default();
        note.truncate(end);
    }
    let suffix = format!(".{:016x}", fingerprint(&format!("{}{text}", meta.uid)));
    let start: String = object.name.name.chars().take(NAME_MAX - suffix.len()).collect();
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Event {
        metadata: ObjectMeta {
            name: Some(start + &suffix),
            namespace: some(&object.name.namespace),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(Timestamp::now())),
        reporting_controller: some(controller),
        reporting_instance: some(controller),
        action: some("Translate"),
        reason: some("NotServed"),
        type_: some("Warning"),
        note: some(&note),
        regarding: Some(ObjectReference {
            api_version: Some(api_version),
            kind: some(kind),
            namespace: some(&object.name.namespace),
            name: some(&object.name.name),
            uid: some(&meta.uid),
            ..ObjectReference::default()
        }),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Kind, ObjectName};

    #[test]
    fn the_same_text_about_the_same_object_has_one_name() {
        let object = Reference { kind: Kind::Ingress, name: ObjectName::new("demo", &"a".repeat(253)) };
        let meta = Meta { uid: "1".to_owned(), ..Meta::default() };
        let name =
            |meta: &Meta, text: &str| event("c", &object, meta, text).metadata.name.unwrap_or_default();
        let one = name(&meta, "x");
        assert_eq!((one.len(), &one), (253, &name(&meta, "x")));
        assert_ne!(one, name(&meta, "y"));
        assert_ne!(one, name(&Meta { uid: "2".to_owned(), ..Meta::default() }, "x"));
        let long = event("c", &object, &meta, &"ä".repeat(600));
        assert_eq!(long.note.map(|note| note.len()), Some(1000));
        let regarding = long.regarding.unwrap_or_default();
        assert_eq!(regarding.api_version.as_deref(), Some("networking.k8s.io/v1"));
    }
}
