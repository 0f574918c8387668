//! The thread of the source. It watches the API server, translates, hands the documents to the gateway, waits
//! until they are in force or refused, and then writes the statuses. So a status never says more than the
//! gateway does.
//!
//! One translation is on its way at a time. What changes meanwhile is translated together afterwards: a change
//! is on its way at once when the source is idle, and a flood of changes costs as many translations as the
//! gateway can take.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch as latest};
use tokio::task::JoinHandle;
use tollgate_net::component;
use tracing::{info, warn};

use crate::connection::{ClusterAccess, connect};
use crate::election::{self, LeaseSettings};
use crate::events;
use crate::object::{Kind, Reference};
use crate::objects::{Change, Objects};
use crate::translate::{DocumentKey, Translation, TranslationSettings, translate};
use crate::watch::{self, Observation, Scope};
use crate::writer::StatusWriter;

/// Capacity of the queue of observations. When it is full, watches wait.
const OBSERVATIONS_MAX: usize = 1024;
/// Capacity of the queue of translations.
const EVENTS_MAX: usize = 4;
/// How long a translation waits for the first listing of a Secret or ConfigMap that it refers to.
const REFERENCES_TIMEOUT: Duration = Duration::from_secs(2);
/// How often statuses are compared again, and refused documents are tried again. It repeats writes that failed.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The settings of the source.
#[derive(Clone, Debug)]
pub struct KubernetesSettings {
    /// How the API server is found.
    pub access: ClusterAccess,
    /// The namespaces whose objects count; empty: all.
    pub namespaces: Vec<String>,
    /// The Lease that elects the gateway which writes statuses; `None`: this one does not.
    pub lease: Option<LeaseSettings>,
    /// The settings of the translation.
    pub translation: TranslationSettings,
}

/// Documents that changed.
#[derive(Debug)]
pub struct DocumentChanges {
    /// The changed documents; `None`: the document is gone.
    pub changes: Vec<(DocumentKey, Option<Arc<Value>>)>,
    /// Takes the documents that are refused, with the reasons: all of them, not only those that changed. It is
    /// answered when the others are in force.
    pub answer: oneshot::Sender<BTreeMap<DocumentKey, String>>,
}

/// A message of the source to the gateway.
#[derive(Debug)]
pub enum KubernetesEvent {
    /// Documents changed.
    Documents(DocumentChanges),
    /// Whether the API server answers, with the reason if it does not.
    Connected(Result<(), String>),
}

/// The thread of the source. Dropping it ends the thread.
#[derive(Debug)]
pub struct KubernetesThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl KubernetesThread {
    /// Starts to watch the API server.
    ///
    /// # Errors
    /// Returns an error if no thread can be started, or the access to the API server is not configured.
    pub fn start(settings: KubernetesSettings) -> io::Result<(Self, mpsc::Receiver<KubernetesEvent>)> {
        let (event_sender, events) = mpsc::channel(EVENTS_MAX);
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("kubernetes".to_owned()).spawn(move || {
            runtime.block_on(async {
                let client = match connect(&settings.access).await {
                    Ok(client) => client,
                    Err(why) => {
                        let _ = ready.send(Err(why));
                        return;
                    }
                };
                let _ = ready.send(Ok(()));
                let lease = settings.lease.clone();
                let source = Source::new(settings, client.clone(), event_sender);
                let leads = source.leads.clone();
                tokio::select! {
                    () = source.run() => {}
                    _ = stopped => {}
                }
                if let Some(lease) = lease.filter(|_| *leads.borrow()) {
                    election::release(client, &lease).await;
                }
            });
        })?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok((Self { stop: Some(stop), thread: Some(thread) }, events)),
            Ok(Err(why)) => Err(io::Error::other(why)),
            Err(_) => Err(io::Error::other("the thread ended")),
        }
    }
}

impl Drop for KubernetesThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It ends at its next pause: it never blocks.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Source {
    settings: KubernetesSettings,
    client: Client,
    events: mpsc::Sender<KubernetesEvent>,
    observations: mpsc::Receiver<Observation>,
    observation_sender: mpsc::Sender<Observation>,
    objects: Objects,
    /// The scopes that are watched and not listed yet.
    unlisted: BTreeSet<(Kind, Scope)>,
    /// The watches of single Secrets and ConfigMaps.
    named: BTreeMap<Reference, JoinHandle<()>>,
    /// The documents that the gateway has or refused.
    documents: BTreeMap<DocumentKey, Arc<Value>>,
    writer: StatusWriter,
    /// Whether this gateway writes statuses.
    leads: latest::Receiver<bool>,
    /// Whether something changed since the last translation.
    is_changed: bool,
    /// What the last translation noted, so that it is logged once.
    notes: BTreeMap<Reference, BTreeSet<String>>,
    /// Whether the gateway refused documents.
    has_refused: bool,
    /// Why the last request of a kind failed.
    failures: BTreeMap<Kind, String>,
}

impl Source {
    fn new(settings: KubernetesSettings, client: Client, events: mpsc::Sender<KubernetesEvent>) -> Self {
        let (observation_sender, observations) = mpsc::channel(OBSERVATIONS_MAX);
        let controller = settings.translation.controller.clone();
        let writer = StatusWriter::new(client.clone(), controller, observation_sender.clone());
        let (sender, leads) = latest::channel(false);
        if let Some(lease) = settings.lease.clone() {
            tokio::spawn(election::run(client.clone(), lease, sender));
        }
        Self {
            settings,
            client,
            events,
            observations,
            observation_sender,
            objects: Objects::default(),
            unlisted: BTreeSet::new(),
            named: BTreeMap::new(),
            documents: BTreeMap::new(),
            writer,
            leads,
            is_changed: false,
            notes: BTreeMap::new(),
            has_refused: false,
            failures: BTreeMap::new(),
        }
    }

    /// Runs until the gateway has ended.
    async fn run(mut self) {
        for kind in Kind::WATCHED {
            let scopes = match self.settings.namespaces.as_slice() {
                names if names.is_empty() || kind.is_cluster_wide() => vec![Scope::All],
                names => names.iter().map(|name| Scope::Namespace(name.clone())).collect(),
            };
            for scope in scopes {
                self.unlisted.insert((kind, scope.clone()));
                watch::start(&self.client, kind, scope, self.observation_sender.clone());
            }
        }
        while !self.unlisted.is_empty() {
            self.observe().await;
        }
        info!(target: component::KUBERNETES, "read all objects: {}", self.summary());
        self.is_changed = true;
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        loop {
            while self.is_changed {
                if self.translate().await.is_err() {
                    return;
                }
            }
            if *self.leads.borrow_and_update() {
                self.writer.start(&self.objects);
            }
            let mut leads = self.leads.clone();
            tokio::select! {
                () = self.observe() => {}
                // A new leader does not know what the last one has written.
                Ok(()) = leads.changed() => {
                    self.check_all();
                    self.notes.iter().for_each(|(object, notes)| {
                        notes.iter().for_each(|note| self.make_event(object, note));
                    });
                }
                _ = check.tick() => {
                    // An address that was in use may be free now.
                    self.is_changed |= self.has_refused;
                    self.check_all();
                }
            }
        }
    }

    /// Makes an event of a note, if this gateway leads.
    fn make_event(&self, object: &Reference, note: &str) {
        if let (true, Some((meta, _))) = (*self.leads.borrow(), self.objects.status(object)) {
            events::make(&self.client, &self.settings.translation.controller, object, meta, note);
        }
    }

    /// Compares all statuses again.
    fn check_all(&mut self) {
        let all: Vec<Reference> = self.writer.references().cloned().collect();
        all.into_iter().for_each(|reference| self.writer.check(reference));
    }

    fn summary(&self) -> String {
        let count = |kind: Kind| format!("{} {}", self.objects.names(kind).len(), kind.name());
        let kinds = [Kind::Gateway, Kind::HttpRoute, Kind::GrpcRoute, Kind::Service];
        kinds.map(count).join(", ")
    }

    /// Waits for an observation, and takes it in with all others that have arrived.
    async fn observe(&mut self) {
        let Some(observation) = self.observations.recv().await else { return };
        self.take(observation).await;
        while let Ok(observation) = self.observations.try_recv() {
            self.take(observation).await;
        }
    }

    async fn take(&mut self, observation: Observation) {
        match observation {
            Observation::Listed(kind, scope, listed) => {
                self.recovered(kind).await;
                let kept: BTreeSet<_> = listed.iter().map(|object| object.metadata.object_name()).collect();
                for name in self.objects.names(kind) {
                    if scope.contains(&name) && !kept.contains(&name) {
                        self.is_changed |= self.objects.remove(kind, &name);
                    }
                }
                for object in listed {
                    self.put(kind, object);
                }
                self.unlisted.remove(&(kind, scope));
            }
            Observation::Changed(kind, object) => {
                self.recovered(kind).await;
                self.put(kind, object);
            }
            Observation::Deleted(kind, name) => self.is_changed |= self.objects.remove(kind, &name),
            Observation::Failed(kind, why) => {
                if self.failures.insert(kind, why.clone()).as_ref() != Some(&why) {
                    warn!(target: component::KUBERNETES, "{}: {why}", kind.name());
                }
                if self.failures.len() == 1 {
                    let _ = self.events.send(KubernetesEvent::Connected(Err(why))).await;
                }
            }
            Observation::Written(reference, object) => {
                let is_good = object.is_some();
                // A watch may have reported meanwhile that the object is gone.
                if let Some(object) = object.filter(|_| self.objects.status(&reference).is_some()) {
                    self.put(reference.kind, object);
                }
                self.writer.written(reference, is_good);
            }
        }
    }

    async fn recovered(&mut self, kind: Kind) {
        if self.failures.remove(&kind).is_some() && self.failures.is_empty() {
            let _ = self.events.send(KubernetesEvent::Connected(Ok(()))).await;
        }
    }

    fn put(&mut self, kind: Kind, object: crate::object::RawObject) {
        let reference = Reference { kind, name: object.metadata.object_name() };
        // A watch may report an older version than the answer to a write did.
        if let Some((known, _)) = self.objects.status(&reference)
            && is_older(&object.metadata.resource_version, &known.resource_version)
        {
            return;
        }
        match self.objects.put(kind, object) {
            Change::Contents => self.is_changed = true,
            Change::Status => {}
        }
        self.writer.check(reference);
    }

    /// Translates, hands the changes to the gateway, and waits until they are in force.
    ///
    /// # Errors
    /// The gateway has ended.
    async fn translate(&mut self) -> Result<(), ()> {
        let deadline = tokio::time::Instant::now() + REFERENCES_TIMEOUT;
        let mut translation = loop {
            self.is_changed = false;
            let translation = translate(&self.objects, &self.settings.translation);
            self.watch_references(&translation);
            if self.unlisted.is_empty() || tokio::time::Instant::now() >= deadline {
                break translation;
            }
            while !self.unlisted.is_empty() {
                if tokio::time::timeout_at(deadline, self.observe()).await.is_err() {
                    break;
                }
            }
        };
        let changes = self.changes(&translation);
        let (answer, refused) = oneshot::channel();
        let event = KubernetesEvent::Documents(DocumentChanges { changes, answer });
        self.events.send(event).await.map_err(drop)?;
        let refused = refused.await.map_err(drop)?;
        translation.refuse(&refused);
        self.has_refused = !refused.is_empty();
        for (object, notes) in &translation.notes {
            for note in notes {
                if self.notes.get(object).is_none_or(|known| !known.contains(note)) {
                    warn!(target: component::KUBERNETES, "{object}: {note}");
                    self.make_event(object, note);
                }
            }
        }
        self.notes = std::mem::take(&mut translation.notes);
        self.writer.set(translation.statuses);
        Ok(())
    }

    /// Watches exactly the Secrets and ConfigMaps that the translation refers to.
    fn watch_references(&mut self, translation: &Translation) {
        let gone: Vec<Reference> =
            self.named.keys().filter(|known| !translation.references.contains(known)).cloned().collect();
        for reference in gone {
            if let Some(watch) = self.named.remove(&reference) {
                watch.abort();
            }
            self.objects.remove(reference.kind, &reference.name);
            self.unlisted.remove(&(reference.kind, Scope::Named(reference.name)));
        }
        for reference in &translation.references {
            if !self.named.contains_key(reference) {
                let scope = Scope::Named(reference.name.clone());
                self.unlisted.insert((reference.kind, scope.clone()));
                let watch =
                    watch::start(&self.client, reference.kind, scope, self.observation_sender.clone());
                self.named.insert(reference.clone(), watch);
            }
        }
    }

    /// Returns the documents that changed since the last translation.
    fn changes(&mut self, translation: &Translation) -> Vec<(DocumentKey, Option<Arc<Value>>)> {
        let mut changes = Vec::new();
        for key in self.documents.keys() {
            if !translation.documents.contains_key(key) {
                changes.push((key.clone(), None));
            }
        }
        for (key, document) in &translation.documents {
            if self.documents.get(key).map(|value| &**value) != Some(&document.value) {
                changes.push((key.clone(), Some(Arc::new(document.value.clone()))));
            }
        }
        for (key, value) in &changes {
            match value {
                Some(value) => self.documents.insert(key.clone(), value.clone()),
                None => self.documents.remove(key),
            };
        }
        changes
    }
}

/// Returns whether a resource version is older than another one. They are numbers of etcd's revisions, which
/// a client may compare since Kubernetes 1.35; other texts are never older.
fn is_older(one: &str, two: &str) -> bool {
    match (one.parse::<u64>(), two.parse::<u64>()) {
        (Ok(one), Ok(two)) => one < two,
        _ => false,
    }
}
