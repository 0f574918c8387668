//! Kubernetes as a source: joins the cluster at the start, and answers its changes when they are in force.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tollgate_config::LogLevel;
use tollgate_net::component;
use tollgate_plan::compile_parts;
use tollgate_sources::{DocumentChanges, DocumentKey, KubernetesEvent, Sources};
use tracing::{error, info, warn};

use crate::load::LoadedPlan;

/// A cluster whose objects are compiled and not in force yet.
#[derive(Debug)]
pub struct JoinedCluster {
    events: mpsc::Receiver<KubernetesEvent>,
    first: DocumentChanges,
    refused: BTreeMap<DocumentKey, String>,
}

/// Joins the cluster that the configuration names, if any. The plan made with its objects replaces the plan of
/// the file.
///
/// # Errors
/// A message: the API server does not answer.
pub fn join(sources: &mut Sources, loaded: &mut LoadedPlan) -> Result<Option<JoinedCluster>, String> {
    let Some(settings) = &loaded.config.kubernetes else { return Ok(None) };
    let (applied, first, events) = sources.join_cluster(settings, |parts| Ok(compile_parts(parts)?.plan))?;
    applied.messages.iter().for_each(log_message);
    if let Some(plan) = applied.compiled {
        loaded.plan = plan;
    }
    Ok(Some(JoinedCluster { events, first, refused: applied.refused }))
}

impl JoinedCluster {
    /// Reports that the workers serve the objects. Returns the receiver of further changes.
    pub fn start(self) -> mpsc::Receiver<KubernetesEvent> {
        answer(self.first, self.refused);
        self.events
    }
}

/// Reports that changes are in force, except for refused documents.
pub fn answer(changes: DocumentChanges, refused: BTreeMap<DocumentKey, String>) {
    // If the thread of the source has ended, the gateway is about to end.
    let _ = changes.answer.send(refused);
}

/// Writes a message of the source to the log.
pub fn log_message((level, text): &(LogLevel, String)) {
    match level {
        LogLevel::Error => error!(target: component::KUBERNETES, "{text}"),
        LogLevel::Warn => warn!(target: component::KUBERNETES, "{text}"),
        _ => info!(target: component::KUBERNETES, "{text}"),
    }
}

/// Logs whether the API server answers.
pub fn log_connection(connected: &Result<(), String>) {
    match connected {
        Ok(()) => info!(target: component::KUBERNETES, "the API server answers again"),
        Err(why) => {
            warn!(target: component::KUBERNETES, "the API server does not answer: {why}; what is in force stays so");
        }
    }
}
