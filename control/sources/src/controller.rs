//! A controller as a source: the documents that it streams, and a file that keeps the last valid ones.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tollgate_config::file_access::{self, NamedFile, ReadError};
use tollgate_config::{CombinedResources, ControllerSettings, LogLevel, PemFile, Problem, kind};
use tollgate_documents::{DocumentChanges, SourceEvent};
use tollgate_fleet::{ControllerAddress, FleetClientSettings, FleetThread, PROTOCOL, PurgeBatch, SavedState};
use tollgate_tls::{ClientOptions, Pem, TlsClientConfig, TlsIdentity};

use crate::GatewayIdentity;
use crate::document_source::{AppliedDocuments, DocumentSource, SourceThread};
use crate::sources::Sources;
use crate::view::SharedControllerStatus;

/// How long a start waits for the documents if there is no last valid state.
const FIRST_DOCUMENTS_TIMEOUT: Duration = Duration::from_secs(15);
/// How long it waits if there is one.
const FIRST_DOCUMENTS_TIMEOUT_CACHED: Duration = Duration::from_secs(2);
/// Bound of the file, in bytes.
const FILE_MAX_BYTES: usize = 1 << 30;

/// The start of a gateway: the compiled documents, the changes to answer when they are in force, and the receiver of
/// further events.
pub type Joined<T> = (AppliedDocuments<T>, DocumentChanges, mpsc::Receiver<SourceEvent>);

impl Sources {
    /// Connects to the controller, and compiles its documents together with the file, which must be read before. If no
    /// controller answers, the last valid state is compiled. Returns what the gateway starts with.
    ///
    /// # Errors
    /// Returns a message if no controller answers and there is no last valid state.
    pub fn join_controller<T>(
        &mut self,
        from: &ControllerSettings,
        identity: GatewayIdentity,
        mut compile: impl FnMut(&CombinedResources<'_>) -> Result<T, Vec<Problem>>,
    ) -> Result<Joined<T>, String> {
        let mut messages = Vec::new();
        let saved = read_state(from).unwrap_or_else(|why| {
            messages.push((LogLevel::Warn, format!("the last good state cannot be used: {why}")));
            None
        });
        let has_state = saved.is_some();
        let settings = FleetClientSettings {
            controllers: from
                .addresses()
                .map(|(host, port)| ControllerAddress { host: host.to_owned(), port })
                .collect(),
            server_name: from.server_name.clone(),
            tls: client(from)?.config(),
            name: from.name.clone().unwrap_or(identity.name),
            program: identity.program,
            kinds: |name| kind(name).map(|kind| kind.name),
            bind: from.bind,
            cache: from.cache.clone(),
            saved,
        };
        let (thread, mut events) =
            FleetThread::start(settings).map_err(|error| format!("cannot follow a controller: {error}"))?;
        let status = thread.status();
        self.view.update(|state| state.controller = Some(status.clone()));
        self.source = Some(DocumentSource::new(SourceThread::Controller(thread)));
        let timeout = if has_state { FIRST_DOCUMENTS_TIMEOUT_CACHED } else { FIRST_DOCUMENTS_TIMEOUT };
        let end = Instant::now() + timeout;
        let Some(first) = next_documents(&mut events, end) else {
            self.source = None;
            let why = status.lock().unwrap_or_else(PoisonError::into_inner).problem.clone();
            let why = why.unwrap_or_else(|| format!("no documents arrived within {timeout:?}"));
            let help = "set `controller.cache` to a file, and a gateway that has run once starts without a controller";
            return Err(format!("controller: {why}; {help}"));
        };
        let mut joined = self.apply_first(first, &mut compile);
        if has_state {
            // The first documents are from the file. Nothing serves them yet, so the controller's may follow at once.
            let DocumentChanges { answer, .. } = std::mem::replace(&mut joined.1, unanswered());
            let _ = answer.send(joined.0.refused.clone());
            match next_documents(&mut events, end) {
                Some(second) => {
                    let (mut applied, changes) = self.apply_first(second, &mut compile);
                    applied.compiled = applied.compiled.or(joined.0.compiled.take());
                    applied.messages.splice(..0, std::mem::take(&mut joined.0.messages));
                    joined = (applied, changes);
                }
                None => {
                    let message = "no controller answers: the gateway starts with its last good state";
                    joined.0.messages.push((LogLevel::Warn, message.to_owned()));
                }
            }
        }
        let (mut applied, changes) = joined;
        applied.messages.splice(..0, messages);
        Ok((applied, changes, events))
    }

    /// Applies the first documents.
    fn apply_first<T>(
        &mut self,
        mut first: DocumentChanges,
        compile: &mut impl FnMut(&CombinedResources<'_>) -> Result<T, Vec<Problem>>,
    ) -> (AppliedDocuments<T>, DocumentChanges) {
        let changes = std::mem::take(&mut first.changes);
        let applied = self.apply_documents(changes, compile);
        self.publish_documents(&applied);
        (applied, first)
    }

    /// Returns the purges of the controller, and the state of its connection. `None`: no controller is a source, or an
    /// earlier call took them.
    pub fn take_controller_purges(&self) -> Option<(mpsc::Receiver<PurgeBatch>, SharedControllerStatus)> {
        match &self.source.as_ref()?.thread {
            SourceThread::Controller(thread) => Some((thread.take_purges()?, thread.status())),
            SourceThread::Kubernetes { .. } => None,
        }
    }

    /// Uses the certificates of another version of the file for the next connection to a controller.
    ///
    /// # Errors
    /// Returns a message if they cannot be used.
    pub fn set_controller_tls(&self, from: &ControllerSettings) -> Result<(), String> {
        if let Some(SourceThread::Controller(thread)) = self.source.as_ref().map(|source| &source.thread) {
            thread.set_tls(client(from)?.config());
        }
        Ok(())
    }
}

/// Returns changes that no task waits for.
fn unanswered() -> DocumentChanges {
    DocumentChanges { changes: Vec::new(), answer: tokio::sync::oneshot::channel().0 }
}

/// Waits for the next documents.
fn next_documents(events: &mut mpsc::Receiver<SourceEvent>, end: Instant) -> Option<DocumentChanges> {
    // Polling costs nothing noticeable at a start.
    while Instant::now() < end {
        match events.try_recv() {
            Ok(SourceEvent::Documents(changes)) => return Some(changes),
            Ok(SourceEvent::Connected(_)) => {}
            Err(mpsc::error::TryRecvError::Empty) => std::thread::sleep(Duration::from_millis(2)),
            Err(mpsc::error::TryRecvError::Disconnected) => return None,
        }
    }
    None
}

/// Reads the file of the last valid state, if there is one.
fn read_state(from: &ControllerSettings) -> Result<Option<SavedState>, String> {
    let Some(path) = &from.cache else { return Ok(None) };
    match file_access::read(&NamedFile::from(path.as_path()), FILE_MAX_BYTES) {
        Ok(bytes) => match SavedState::parse(&bytes) {
            Ok(state) => Ok(Some(state)),
            Err(why) => Err(format!("{}: {why}", path.display())),
        },
        Err(ReadError::Missing) => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn client(from: &ControllerSettings) -> Result<TlsClientConfig, String> {
    let pem = |file: &PemFile| Pem::from(file.bytes.0.as_slice());
    let options = ClientOptions {
        authorities: Some(pem(&from.ca)),
        identity: Some(TlsIdentity { chain: pem(&from.certificate.chain), key: pem(&from.certificate.key) }),
        alpn: vec![PROTOCOL.to_vec()],
        ..ClientOptions::default()
    };
    TlsClientConfig::new(&options).map_err(|problems| {
        let messages = problems.into_iter().map(|problem| problem.message);
        format!("controller: {}", messages.collect::<Vec<_>>().join("; "))
    })
}
