//! The thread of the source. It watches the API server, translates, hands the documents to the gateway, waits until
//! they are in force or refused, and then writes the statuses. Invariant: a status never claims more than the gateway
//! serves.
//!
//! One translation is in progress at a time. Changes that arrive until it is in force are translated together
//! afterwards, at the earliest after [`BATCH_INTERVAL`]. So an idle source translates a change at once, and a flood of
//! changes leaves CPU time to the API server and to requests. While a translation is in progress, the thread continues
//! to read events and to write the statuses of documents in force.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, oneshot, watch as latest};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_documents::{DocumentChanges, Refused, SourceEvent};
use tollgate_net::component;
use tracing::{debug, info, warn};

use crate::applier::Applier;
use crate::connection::{ClusterAccess, connect};
use crate::election::{self, LeaseSettings};
use crate::events;
use crate::object::{Kind, Reference, is_older};
use crate::objects::Objects;
use crate::translate::{TranslationSettings, Translator, Update};
use crate::watch::{self, Observation, Scope};
use crate::writer::StatusWriter;

/// Capacity of the queue of observations. When it is full, watches wait.
const OBSERVATIONS_MAX: usize = 1024;
/// Capacity of the queue of translations.
const EVENTS_MAX: usize = 4;
/// How long a translation waits for the first listing of a Secret or ConfigMap that it refers to.
const REFERENCES_TIMEOUT: Duration = Duration::from_secs(2);
/// The shortest time between the starts of two translations. A single change never waits for it; of 300 at once, each
/// waits at most this long.
const BATCH_INTERVAL: Duration = Duration::from_millis(10);
/// How often writes that failed are repeated, and refused documents are tried again.
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
    pub fn start(settings: KubernetesSettings) -> io::Result<(Self, mpsc::Receiver<SourceEvent>)> {
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
                let (sender, leads) = latest::channel(false);
                let election =
                    lease.clone().map(|lease| tokio::spawn(election::run(client.clone(), lease, sender)));
                let source = Source::new(settings, client.clone(), event_sender, leads.clone());
                tokio::select! {
                    () = source.run() => {}
                    _ = stopped => {}
                }
                // Stop the election first: a candidate would take the released Lease at once.
                if let Some(election) = election {
                    election.abort();
                    let _ = election.await;
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
    events: mpsc::Sender<SourceEvent>,
    observations: mpsc::Receiver<Observation>,
    observation_sender: mpsc::Sender<Observation>,
    objects: Objects,
    /// The scopes that are watched and not listed yet.
    unlisted: BTreeSet<(Kind, Scope)>,
    /// The watches of single Secrets and ConfigMaps.
    named: BTreeMap<Reference, JoinHandle<()>>,
    translator: Translator,
    writer: StatusWriter,
    /// The Services of Gateways, if they have any.
    applier: Option<Applier>,
    /// Whether this gateway writes statuses.
    leads: latest::Receiver<bool>,
    /// The changes that the gateway has not received.
    update: Update,
    /// Whether a translation is due even if nothing changed.
    is_due: bool,
    /// The earliest start of the next translation.
    next_at: Instant,
    /// The notes of the last translation, so that each is logged once.
    notes: BTreeMap<Reference, BTreeSet<String>>,
    /// The documents that the gateway refused.
    refused: Refused,
    /// Why the last request of a kind failed.
    failures: BTreeMap<Kind, String>,
}

impl Source {
    fn new(
        settings: KubernetesSettings,
        client: Client,
        events: mpsc::Sender<SourceEvent>,
        leads: latest::Receiver<bool>,
    ) -> Self {
        let (observation_sender, observations) = mpsc::channel(OBSERVATIONS_MAX);
        let controller = settings.translation.controller.clone();
        let applier = settings.translation.services.as_ref();
        let applier =
            applier.map(|_| Applier::new(client.clone(), controller.clone(), observation_sender.clone()));
        let writer = StatusWriter::new(client.clone(), controller, observation_sender.clone());
        let translator = Translator::new(settings.translation.clone());
        Self {
            settings,
            client,
            events,
            observations,
            observation_sender,
            objects: Objects::default(),
            unlisted: BTreeSet::new(),
            named: BTreeMap::new(),
            translator,
            writer,
            applier,
            leads,
            update: Update::default(),
            is_due: false,
            next_at: Instant::now(),
            notes: BTreeMap::new(),
            refused: Refused::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Runs until the gateway stops.
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
        // The gateway waits for the first translation, even if it has no documents.
        self.is_due = true;
        let mut answer = None;
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        let (mut leads, mut is_leader) = (self.leads.clone(), false);
        loop {
            let is_idle = answer.is_none() && (self.is_due || self.objects.has_changes());
            if is_idle && Instant::now() >= self.next_at {
                match self.translate().await {
                    Ok(receiver) => answer = receiver,
                    Err(()) => return,
                }
                continue;
            }
            let was_leader = std::mem::replace(&mut is_leader, *leads.borrow_and_update());
            if is_leader {
                if !was_leader {
                    // A new leader does not know what the last one has written.
                    self.writer.check_all();
                    self.applier.iter_mut().for_each(Applier::check);
                    self.notes.iter().for_each(|(object, notes)| {
                        notes.iter().for_each(|note| self.make_event(object, note));
                    });
                }
                self.writer.start(&self.objects);
                if let Some(applier) = &mut self.applier {
                    applier.start(&self.objects);
                }
            }
            tokio::select! {
                observation = self.observations.recv() => {
                    let Some(observation) = observation else { return };
                    self.take_all(observation).await;
                }
                refused = answered(&mut answer) => {
                    // Without an answer, the gateway has stopped.
                    let Ok(refused) = refused else { return };
                    answer = None;
                    self.in_force(refused);
                }
                () = sleep_until(self.next_at), if is_idle => {}
                Ok(()) = leads.changed() => {}
                _ = check.tick() => {
                    // An address that was in use may be free now.
                    self.is_due |= !self.refused.is_empty();
                    self.writer.retry();
                    self.applier.iter_mut().for_each(Applier::check);
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

    fn summary(&self) -> String {
        let count = |kind: Kind| format!("{} {}", self.objects.names(kind).len(), kind.name());
        let kinds = [Kind::Gateway, Kind::HttpRoute, Kind::GrpcRoute, Kind::Service];
        kinds.map(count).join(", ")
    }

    /// Waits for an observation.
    async fn observe(&mut self) {
        if let Some(observation) = self.observations.recv().await {
            self.take_all(observation).await;
        }
    }

    /// Applies an observation, and all others that have arrived.
    async fn take_all(&mut self, observation: Observation) {
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
                        self.objects.remove(kind, &name);
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
            Observation::Deleted(kind, name) => {
                self.objects.remove(kind, &name);
            }
            Observation::Failed(kind, why) => {
                if self.failures.insert(kind, why.clone()).as_ref() != Some(&why) {
                    warn!(target: component::KUBERNETES, "{}: {why}", kind.name());
                }
                if self.failures.len() == 1 {
                    let _ = self.events.send(SourceEvent::Connected(Err(why))).await;
                }
            }
            Observation::Written(reference, object) => {
                let is_good = object.is_some();
                // A watch may have reported the object's deletion since then.
                if let Some(object) = object.filter(|_| self.objects.status(&reference).is_some()) {
                    self.put(reference.kind, object);
                }
                self.writer.written(reference, is_good);
            }
            Observation::Applied(reference, object) => {
                let is_applied = object.is_some();
                if let Some(object) = object {
                    self.put(reference.kind, object);
                }
                if let Some(applier) = &mut self.applier {
                    applier.written(&reference, is_applied);
                }
            }
        }
    }

    async fn recovered(&mut self, kind: Kind) {
        if self.failures.remove(&kind).is_some() && self.failures.is_empty() {
            let _ = self.events.send(SourceEvent::Connected(Ok(()))).await;
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
        self.objects.put(kind, object);
        self.writer.check(reference);
    }

    /// Translates the changes, and hands the changed documents to the gateway. Returns the receiver of its answer;
    /// `None`: no document changed.
    ///
    /// # Errors
    /// The gateway has ended.
    async fn translate(&mut self) -> Result<Option<oneshot::Receiver<Refused>>, ()> {
        let begin = Instant::now();
        let deadline = begin + REFERENCES_TIMEOUT;
        loop {
            let changes = self.objects.take_changes();
            self.update.extend(self.translator.update(&self.objects, &changes));
            self.watch_references();
            if self.unlisted.is_empty() || Instant::now() >= deadline {
                break;
            }
            while !self.unlisted.is_empty() {
                if timeout_at(deadline, self.observe()).await.is_err() {
                    break;
                }
            }
        }
        self.next_at = begin + BATCH_INTERVAL;
        let is_due = std::mem::take(&mut self.is_due);
        if self.update.documents.is_empty() && !is_due {
            let refused = std::mem::take(&mut self.refused);
            self.in_force(refused);
            return Ok(None);
        }
        let changes: Vec<_> = self
            .update
            .documents
            .iter()
            .map(|key| (key.clone(), self.translator.document(key).cloned()))
            .collect();
        debug!(
            target: component::KUBERNETES,
            documents = changes.len(),
            took_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX),
            "translated"
        );
        let (answer, refused) = oneshot::channel();
        let event = SourceEvent::Documents(DocumentChanges { changes, answer });
        self.events.send(event).await.map_err(drop)?;
        Ok(Some(refused))
    }

    /// Queues the statuses after the last translation came into force, except for refused documents.
    fn in_force(&mut self, refused: Refused) {
        let update = std::mem::take(&mut self.update);
        self.writer.set(self.translator.in_force(update, &refused));
        if let Some(applier) = &mut self.applier {
            applier.set(self.translator.applied());
        }
        self.refused = refused;
        let mut notes = Cow::Borrowed(self.translator.notes());
        for (object, refusals) in self.translator.refusal_notes(&self.refused) {
            notes.to_mut().entry(object).or_default().extend(refusals);
        }
        for (object, notes) in notes.iter() {
            for note in notes {
                if self.notes.get(object).is_none_or(|known| !known.contains(note)) {
                    warn!(target: component::KUBERNETES, "{object}: {note}");
                    self.make_event(object, note);
                }
            }
        }
        if self.notes != *notes {
            self.notes = notes.into_owned();
        }
    }

    /// Watches exactly the Secrets and ConfigMaps that the translation refers to.
    fn watch_references(&mut self) {
        let wanted = self.translator.references();
        let gone: Vec<Reference> =
            self.named.keys().filter(|known| !wanted.contains(known)).cloned().collect();
        for reference in gone {
            if let Some(watch) = self.named.remove(&reference) {
                watch.abort();
            }
            self.objects.remove(reference.kind, &reference.name);
            self.unlisted.remove(&(reference.kind, Scope::Named(reference.name)));
        }
        for reference in wanted {
            if !self.named.contains_key(reference) {
                let scope = Scope::Named(reference.name.clone());
                self.unlisted.insert((reference.kind, scope.clone()));
                let watch =
                    watch::start(&self.client, reference.kind, scope, self.observation_sender.clone());
                self.named.insert(reference.clone(), watch);
            }
        }
    }
}

/// Returns the answer of the gateway; never, if none is awaited.
async fn answered(
    answer: &mut Option<oneshot::Receiver<Refused>>,
) -> Result<Refused, oneshot::error::RecvError> {
    match answer {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}
