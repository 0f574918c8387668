//! The start and the answers of sources of documents: Kubernetes and a controller.

use tokio::sync::mpsc;
use tollgate_config::LogLevel;
use tollgate_net::component;
use tollgate_sources::{DocumentChanges, DocumentSourceKind, Refused, SourceEvent};
use tracing::{error, info, warn};

/// A source whose documents are compiled and not in force yet.
#[derive(Debug)]
pub struct JoinedSource {
    pub events: mpsc::Receiver<SourceEvent>,
    /// The first changes.
    pub first: DocumentChanges,
    /// Those of them that were refused.
    pub refused: Refused,
}

impl JoinedSource {
    /// Reports that the workers serve the documents. Returns the receiver of further changes.
    pub fn start(self) -> mpsc::Receiver<SourceEvent> {
        answer(self.first, self.refused);
        self.events
    }
}

/// Reports that changes are in force, except for refused documents.
pub fn answer(changes: DocumentChanges, refused: Refused) {
    // If the thread of the source ended, the gateway is about to end.
    let _ = changes.answer.send(refused);
}

/// Writes a message of a source to the log.
pub fn log_message(source: DocumentSourceKind, (level, text): &(LogLevel, String)) {
    match (source, level) {
        (DocumentSourceKind::Kubernetes, LogLevel::Error) => error!(target: component::KUBERNETES, "{text}"),
        (DocumentSourceKind::Kubernetes, LogLevel::Warn) => warn!(target: component::KUBERNETES, "{text}"),
        (DocumentSourceKind::Kubernetes, _) => info!(target: component::KUBERNETES, "{text}"),
        (DocumentSourceKind::Controller, LogLevel::Error) => error!(target: component::CONTROLLER, "{text}"),
        (DocumentSourceKind::Controller, LogLevel::Warn) => warn!(target: component::CONTROLLER, "{text}"),
        (DocumentSourceKind::Controller, _) => info!(target: component::CONTROLLER, "{text}"),
    }
}
