//! Kubernetes as a source: joins the cluster at the start.

use tollgate_net::component;
use tollgate_sources::Sources;
use tracing::{info, warn};

use crate::documents::{self, JoinedSource};
use crate::load::{LoadedPlan, compile_at_start};

/// Joins the cluster that the configuration names, if any. The plan made with its objects replaces the plan of
/// the file.
///
/// # Errors
/// A message: the API server does not answer.
pub fn join(sources: &mut Sources, loaded: &mut LoadedPlan) -> Result<Option<JoinedSource>, String> {
    let Some(settings) = &loaded.config.kubernetes else { return Ok(None) };
    let (applied, first, events) = sources.join_cluster(settings, compile_at_start)?;
    applied.messages.iter().for_each(|message| documents::log_message(applied.source, message));
    if let Some(plan) = applied.compiled {
        loaded.plan = plan;
    }
    Ok(Some(JoinedSource { events, first, refused: applied.refused }))
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
