//! The list of the objects that a run created, and their deletion.
//!
//! The run's thread and the signal handler share the list. An object is created under its lock, so that none
//! appears once the deletion began. The lock is held during the deletion, so that a caller returns only when
//! everything is gone.

use crate::connection::{Connection, text};
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, Status};
use kube::{Config, Error, Resource};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a namespace may take to go. Its pods have some seconds to end.
const GONE: Duration = Duration::from_secs(120);

/// The objects that a run created.
#[derive(Clone)]
pub struct Created(Arc<Mutex<State>>);

struct State {
    config: Config,
    objects: Vec<Object>,
    /// Whether the deletion began, after which nothing may be created.
    ends: bool,
}

struct Object {
    kind: ApiResource,
    namespace: Option<String>,
    name: String,
}

/// Returns the resource of a type.
pub(crate) fn kind_of<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

impl Created {
    pub(crate) fn new(config: Config) -> Self {
        Self(Arc::new(Mutex::new(State { config, objects: Vec::new(), ends: false })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The list is complete after every operation on it, so a panic in another thread does no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an object and adds it to the list.
    ///
    /// # Errors
    /// The message of the API server, such as that the object exists.
    pub(crate) fn create(
        &self,
        connection: &Connection,
        kind: &ApiResource,
        namespace: Option<&str>,
        mut object: Value,
    ) -> Result<(), String> {
        object["apiVersion"] = kind.api_version.as_str().into();
        object["kind"] = kind.kind.as_str().into();
        let object: DynamicObject = serde_json::from_value(object).map_err(|error| error.to_string())?;
        let name = object.metadata.name.clone().ok_or("an object without a name")?;
        let mut state = self.state();
        if state.ends {
            return Err("the run ends".into());
        }
        let api = api(connection, kind, namespace);
        let made = connection.wait(api.create(&PostParams::default(), &object));
        // An object may exist although the answer was lost. A refused object is not this run's.
        if !matches!(made, Err(Error::Api(_))) {
            let namespace = namespace.map(str::to_owned);
            state.objects.push(Object { kind: kind.clone(), namespace, name: name.clone() });
        }
        made.map(|_| ()).map_err(|error| format!("{} {name}: {}", kind.kind, text(&error)))
    }

    /// Deletes all objects, the last first, and waits until they are gone. A second call waits for the first and
    /// does nothing.
    ///
    /// # Errors
    /// What remains, with the reason.
    pub fn delete(&self) -> Result<(), String> {
        let mut state = self.state();
        state.ends = true;
        let objects = std::mem::take(&mut state.objects);
        if objects.is_empty() {
            return Ok(());
        }
        // The run's own connection may be in use by the other thread.
        let connection = Connection::open(&state.config)?;
        let mut remaining = Vec::new();
        for object in objects.iter().rev() {
            let api = api(&connection, &object.kind, object.namespace.as_deref());
            match connection.wait(api.delete(&object.name, &DeleteParams::background())) {
                Ok(_) => {}
                Err(Error::Api(status)) if is_gone(&status) => {}
                Err(error) => remaining.push(format!("{}: {}", object.describe(), text(&error))),
            }
        }
        let started = Instant::now();
        for object in &objects {
            let api = api(&connection, &object.kind, object.namespace.as_deref());
            while let Ok(Some(_)) = connection.wait(api.get_metadata_opt(&object.name)) {
                if started.elapsed() > GONE {
                    remaining.push(format!("{} is being deleted still", object.describe()));
                    break;
                }
                std::thread::sleep(crate::PAUSE);
            }
        }
        if remaining.is_empty() { Ok(()) } else { Err(remaining.join("; ")) }
    }
}

impl Object {
    fn describe(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        }
    }
}

fn is_gone(status: &Status) -> bool {
    status.code == 404
}

fn api(connection: &Connection, kind: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(connection.client.clone(), namespace, kind),
        None => Api::all_with(connection.client.clone(), kind),
    }
}
