//! The control thread's part of a binary upgrade: starts the new process, lets it serve, and continues if it fails.
//!
//! The new process starts in two stages, each on a thread for blocking work. While one runs, the control thread keeps
//! changes and reloads queued: the new process may have read the file before them.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal as UnixSignal, kill_process};
use tokio::runtime::LocalRuntime;
use tokio::task::{JoinHandle, spawn_blocking};
use tollgate_net::component;
use tollgate_observe::OperationResult;
use tracing::{debug, error};

use super::ControlThread;
use crate::upgrade::{CancelFlag, Handover, Program, Successor};

/// How long a stop waits for an upgrade to be cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether another process can replace this one.
#[derive(Clone, Debug)]
pub enum Upgradable {
    /// Yes, by starting this program.
    By(Program),
    /// No, for this reason.
    No(&'static str),
}

/// An upgrade in progress.
pub(super) struct Upgrade {
    requested_at: Instant,
    cancel: CancelFlag,
    stage: UpgradeStage,
    task: JoinHandle<Result<Successor, String>>,
}

#[derive(PartialEq, Eq)]
enum UpgradeStage {
    /// The new process is starting its workers.
    Starting,
    /// The new process has permission to serve.
    Beginning,
}

impl ControlThread {
    /// Starts a new process, if an upgrade is possible.
    pub(super) fn start_upgrade(&mut self) {
        let requested_at = Instant::now();
        if self.upgrade.is_some() {
            return error!(target: component::UPGRADE, "no second upgrade: one is under way");
        }
        let program = match &self.upgradable {
            Upgradable::No(why) => return self.upgrade_failed(requested_at, (*why).to_owned()),
            // If process 1 ends, its container or PID namespace ends with it.
            Upgradable::By(_) if std::process::id() == 1 => {
                return self.upgrade_failed(
                    requested_at,
                    "the end of process 1 is the end of its container".to_owned(),
                );
            }
            Upgradable::By(program) => program,
        };
        if self.reader.is_busy() {
            debug!(target: component::UPGRADE, "the upgrade waits for the present change of the plan");
            self.upgrade_pending = true;
            return;
        }
        let cancel = CancelFlag::default();
        match Handover::new(program, &self.gateway, cancel.clone()) {
            Ok(handover) => {
                debug!(target: component::UPGRADE, "starts the new process");
                let store = self.reader.store();
                let task = spawn_blocking(move || {
                    // Closes the store for the new process, which opens it. Waits for a running backup.
                    store.close();
                    handover.start().inspect_err(|_| store.reopen())
                });
                self.upgrade = Some(Upgrade { requested_at, cancel, stage: UpgradeStage::Starting, task });
            }
            Err(error) => self.upgrade_failed(requested_at, error.to_string()),
        }
    }

    /// Handles the end of an upgrade's stage. Returns the new process once it serves.
    pub(super) fn continue_upgrade(
        &mut self,
        result: Result<Successor, String>,
    ) -> io::Result<Option<Successor>> {
        let Some(Upgrade { requested_at, cancel, stage, .. }) = self.upgrade.take() else { return Ok(None) };
        match result {
            Ok(successor) if stage == UpgradeStage::Starting => {
                debug!(
                    target: component::UPGRADE,
                    process = successor.id(),
                    "the workers of the new process run: it may serve"
                );
                // If both processes answered in turn, a scraper would see two sets of counters.
                self.gateway.admin.stop();
                let store = self.reader.store();
                let task = spawn_blocking(move || successor.allow_serving().inspect_err(|_| store.reopen()));
                self.upgrade = Some(Upgrade { requested_at, cancel, stage: UpgradeStage::Beginning, task });
                Ok(None)
            }
            Ok(successor) => {
                if self.reload_deferred {
                    send_signal(&successor, UnixSignal::HUP);
                }
                Ok(Some(successor))
            }
            Err(problem) => {
                self.upgrade_failed(requested_at, problem);
                if let Err(error) = self.gateway.serve_admin() {
                    error!(target: component::ADMIN, "the admin listener is not served for now: {error}");
                }
                self.start_pending_work();
                Ok(None)
            }
        }
    }

    fn upgrade_failed(&self, requested_at: Instant, problem: String) {
        error!(target: component::UPGRADE, "no upgrade: {problem}; the gateway goes on as it is");
        let attempt =
            OperationResult { at: SystemTime::now(), took: requested_at.elapsed(), problem: Some(problem) };
        self.gateway.registry.update_status(|status| status.last_upgrade = Some(attempt));
    }

    /// Cancels an upgrade in progress.
    pub(super) fn cancel_upgrade(&mut self, runtime: &LocalRuntime) {
        if let Some(Upgrade { cancel, task, .. }) = self.upgrade.take() {
            cancel.set();
            // Dropping the successor kills it, unless it already serves. Then it is stopped by a signal, as
            // this process is.
            let ended = runtime.block_on(async { tokio::time::timeout(CANCEL_TIMEOUT, task).await });
            if let Ok(Ok(Ok(successor))) = ended {
                send_signal(&successor, UnixSignal::TERM);
            }
        }
    }
}

/// Sends a signal to the new process.
fn send_signal(successor: &Successor, signal: UnixSignal) {
    if let Some(id) = i32::try_from(successor.id()).ok().and_then(Pid::from_raw) {
        // It does not matter if the process has already ended.
        let _ = kill_process(id, signal);
    }
}

/// Returns the result of the upgrade's current stage; never, if there is no upgrade.
pub(super) async fn upgrade_result(upgrade: &mut Option<Upgrade>) -> Result<Successor, String> {
    match upgrade {
        Some(upgrade) => (&mut upgrade.task).await.unwrap_or_else(|error| Err(error.to_string())),
        None => std::future::pending().await,
    }
}
