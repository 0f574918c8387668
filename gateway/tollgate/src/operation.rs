//! Operations on the whole process that clients of the admin API request: a reload and a stop.
//!
//! The API sends an [`Operation`] to the control thread, which does the same as for the corresponding signal.
//! A reload is answered when every worker runs the new plan, or when the file was refused. If a read of the
//! file is already running, the reload waits for another read, so that its answer covers everything that was
//! in the file when the client asked.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tollgate_config::{Problems, Severity};

/// The operation that a client requests.
#[derive(Debug)]
pub enum Operation {
    /// Read the file again.
    Reload(oneshot::Sender<ReloadOutcome>),
    /// Drain and stop. The duration replaces `timeouts.drain`.
    Stop(Option<Duration>),
}

/// The end of a requested reload.
#[derive(Clone, Debug)]
pub enum ReloadOutcome {
    /// Every worker runs the new plan.
    InForce(ReloadReport),
    /// The file was refused, and nothing changed.
    Refused {
        /// The reason.
        message: String,
        /// The errors of the file, as JSON; empty if the reason lies elsewhere.
        problems: Vec<Value>,
    },
    /// The file was not read, for this reason.
    NotNow(&'static str),
}

/// A reload that took effect.
#[derive(Clone, Debug)]
pub struct ReloadReport {
    /// The path of the file.
    pub file: String,
    /// The number of the new plan.
    pub generation: u64,
    /// The number of its routes.
    pub routes: usize,
    /// How many of them were parsed for it.
    pub routes_read: usize,
    /// The time from the request until every worker ran the plan.
    pub took: Duration,
    /// Settings that the file changes, but a reload cannot.
    pub needs_restart: Vec<&'static str>,
    /// Missing resources of a plan in force: a listener, for example.
    pub problem: Option<String>,
    /// The warnings about the file, as JSON.
    pub warnings: Vec<Value>,
}

/// Clients that wait for the end of a reload.
#[derive(Debug, Default)]
pub struct ReloadWaiters(Vec<oneshot::Sender<ReloadOutcome>>);

impl ReloadWaiters {
    /// Adds a client.
    pub fn add(&mut self, waiter: oneshot::Sender<ReloadOutcome>) {
        self.0.push(waiter);
    }

    /// Takes over the clients of another list.
    pub fn append(&mut self, others: &mut Self) {
        self.0.append(&mut others.0);
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Answers all of them.
    pub fn answer(self, outcome: &ReloadOutcome) {
        for waiter in self.0 {
            // A client that has left needs no answer.
            let _ = waiter.send(outcome.clone());
        }
    }
}

/// Returns problems of a file as JSON, each with its position and the text that `check` prints.
pub fn problems_to_json(problems: &Problems) -> Vec<Value> {
    let one = |problem: &tollgate_config::Problem| {
        let text = problems.render_one(problem);
        // Without the count at the end, which would be 1 under every problem.
        let text = text.rsplit_once("\n\n").map_or(text.as_str(), |(text, _)| text).to_owned();
        let mut problem = problem.clone();
        problems.conceal(&mut problem);
        let file = problems.files().get(problem.at.file as usize).map(|file| file.name.as_str());
        let severity = if problem.severity == Severity::Error { "error" } else { "warning" };
        let has_position = problem.at.line > 0;
        json!({
            "severity": severity,
            "file": file,
            "line": has_position.then_some(problem.at.line),
            "column": has_position.then_some(problem.at.column),
            "message": problem.message,
            "expected": problem.expected,
            "help": problem.help,
            "text": text,
        })
    };
    problems.iter().map(one).collect()
}
