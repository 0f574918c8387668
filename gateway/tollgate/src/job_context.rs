//! The parts of the gateway that a job of the sources uses, and the result that it prepares.
//!
//! The control thread takes a [`JobContext`] from the gateway for each job of [`SourceReader`](crate::source_reader). A
//! job compiles on another thread, so it shares nothing with the control thread but this.

use std::sync::Arc;

use tollgate_config::{CombinedResources, Problem};
use tollgate_observe::Registry;
use tollgate_plan::{CompileCache, Plan};
use tollgate_proxy::Rollout;

use crate::listeners::{ListenersChange, SocketOpener, wanted_listeners};
use crate::load;

/// The parts of the gateway that a job uses.
#[derive(Debug)]
pub struct JobContext {
    /// The plan in force.
    pub current: Arc<Rollout>,
    pub registry: Arc<Registry>,
    /// Opens the sockets of the plan that the job makes.
    pub opener: SocketOpener,
}

/// A plan to roll out, with the sockets that it needs.
#[derive(Debug)]
pub struct PreparedRollout {
    pub rollout: Arc<Rollout>,
    pub listeners: ListenersChange,
}

impl JobContext {
    /// Compiles changed documents, and opens the sockets that they add.
    pub fn compile(
        &mut self,
        parts: &CombinedResources<'_>,
        cache: &mut CompileCache,
    ) -> Result<Plan, Vec<Problem>> {
        let plan = load::compile_documents(parts, cache)?.plan;
        self.opener.open_documents(&wanted_listeners(&plan))?;
        Ok(plan)
    }

    /// Makes the roll-out of a compiled plan.
    pub fn prepare(self, plan: Plan) -> PreparedRollout {
        let listeners = self.opener.finish(&wanted_listeners(&plan));
        PreparedRollout { rollout: self.current.next(plan, &self.registry), listeners }
    }
}
