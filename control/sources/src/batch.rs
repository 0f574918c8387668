//! Combines several requests into one plan and one sync of the disk.
//!
//! The program calls [`Sources::apply_requests`] with all waiting requests. They are staged one after another, compiled
//! once, and written to the store or etcd together. If they are not valid together, each is tried alone. A request that
//! depends on another one of the batch is deferred to the next batch, so that it sees the result.

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_config::{CombinedResources, DocumentProblem, Problem};

use crate::etcd::WriteOutcome;
use crate::request::{ChangeError, ChangeResult, Intent, PendingRequest};
use crate::sources::Sources;
use crate::stage::{PROBLEMS_MAX, StagedChanges};

/// The result of a batch: the compiled configuration to roll out, and the requests that wait for it.
#[derive(Debug)]
pub struct BatchResult<T> {
    /// The compiled configuration; `None`: nothing changed.
    pub compiled: Option<T>,
    /// Requests that depend on changes of this batch, for the next one.
    pub deferred: Vec<PendingRequest>,
    /// Completed requests. The caller answers them when all workers run the compiled configuration.
    pub completed: Vec<CompletedRequest>,
}

/// A request that was completed and is durable.
#[derive(Debug)]
pub struct CompletedRequest {
    /// The request.
    pub pending: PendingRequest,
    /// The result of the request.
    pub result: ChangeResult,
    /// Summary of the request, in a few words.
    pub summary: String,
}

impl<T> Default for BatchResult<T> {
    fn default() -> Self {
        Self { compiled: None, deferred: Vec::new(), completed: Vec::new() }
    }
}

pub(crate) type CompileParts<'c, T> = &'c mut dyn FnMut(&CombinedResources<'_>) -> Result<T, Vec<Problem>>;

/// How long other writers may overtake a change before it is refused.
const CONFLICT_TIMEOUT: Duration = Duration::from_secs(3);
/// Minimum wait of a change that was overtaken.
const CONFLICT_PAUSE: Duration = Duration::from_millis(5);

/// Returns milliseconds since 1970.
fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl Sources {
    /// Performs the valid requests, each one whole or not at all. Refused requests and dry runs are answered
    /// here. The completed ones are on the disk when this returns.
    pub fn apply_requests<T>(
        &mut self,
        requests: Vec<PendingRequest>,
        mut compile: impl FnMut(&CombinedResources<'_>) -> Result<T, Vec<Problem>>,
    ) -> BatchResult<T> {
        let compile: CompileParts<'_, T> = &mut compile;
        let mut staged: Vec<(PendingRequest, StagedChanges)> = Vec::new();
        let (mut later, mut deferred) = (Vec::new(), Vec::new());
        let mut changed_documents: HashSet<(&str, String)> = HashSet::new();
        for pending in requests {
            if !self.is_writable() {
                pending.send_answer(Err(ChangeError::NoStore));
            } else if pending.request.dry_run {
                later.push(pending);
            } else if pending.request.depends_on(&changed_documents) {
                deferred.push(pending);
            } else {
                match self.stage(&pending.request) {
                    Ok(changes) => {
                        let of = changes.differences.iter();
                        changed_documents
                            .extend(of.map(|difference| (difference.kind.name, difference.name.clone())));
                        staged.push((pending, changes));
                    }
                    Err(error) => pending.send_answer(Err(error)),
                }
            }
        }
        let mut batch = self.compile_and_commit(staged, compile);
        batch.deferred.extend(deferred);
        for pending in later {
            let answer = self.dry_run_request(&pending, compile);
            pending.send_answer(answer);
        }
        batch
    }

    /// Compiles all staged requests together, or one by one if together they are not valid.
    fn compile_and_commit<T>(
        &mut self,
        staged: Vec<(PendingRequest, StagedChanges)>,
        compile: CompileParts<'_, T>,
    ) -> BatchResult<T> {
        if staged.iter().all(|(_, changes)| changes.is_empty()) {
            return self.commit(None, staged, compile);
        }
        match self.compile_sources(compile) {
            Ok(compiled) => self.commit(Some(compiled), staged, compile),
            Err(problems) if staged.len() == 1 => {
                for (pending, changes) in staged {
                    let problems = self.describe_problems(&problems);
                    self.undo_staged(changes);
                    pending.send_answer(Err(ChangeError::Invalid(problems)));
                }
                BatchResult::default()
            }
            Err(_) => self.commit_one_by_one(staged, compile),
        }
    }

    fn commit_one_by_one<T>(
        &mut self,
        staged: Vec<(PendingRequest, StagedChanges)>,
        compile: CompileParts<'_, T>,
    ) -> BatchResult<T> {
        let mut requests = Vec::new();
        for (pending, changes) in staged.into_iter().rev() {
            self.undo_staged(changes);
            requests.push(pending);
        }
        let (mut last, mut valid) = (None, Vec::new());
        for pending in requests.into_iter().rev() {
            let changes = match self.stage(&pending.request) {
                Ok(changes) => changes,
                Err(error) => {
                    pending.send_answer(Err(error));
                    continue;
                }
            };
            match self.compile_sources(compile) {
                Ok(compiled) => {
                    last = Some(compiled);
                    valid.push((pending, changes));
                }
                Err(problems) => {
                    let problems = self.describe_problems(&problems);
                    self.undo_staged(changes);
                    pending.send_answer(Err(ChangeError::Invalid(problems)));
                }
            }
        }
        self.commit(last, valid, compile)
    }

    /// Writes valid changes and waits for the disk. If that fails, nothing has changed.
    fn commit<T>(
        &mut self,
        compiled: Option<T>,
        staged: Vec<(PendingRequest, StagedChanges)>,
        compile: CompileParts<'_, T>,
    ) -> BatchResult<T> {
        if self.etcd_source.is_some() {
            return self.commit_in_etcd(compiled, staged, compile);
        }
        let at = unix_millis();
        let written = staged.iter().filter(|(_, changes)| !changes.is_empty());
        let entries: Vec<_> =
            written.map(|(pending, changes)| changes.entry(at, &pending.request.who)).collect();
        let Some(store) = &self.store else { return BatchResult::default() };
        let first = match entries.is_empty() {
            true => Ok(self.version + 1),
            false => store.commit(&entries),
        };
        let mut version = match first {
            Ok(first) => first - 1,
            Err(error) => {
                for (pending, changes) in staged.into_iter().rev() {
                    self.undo_staged(changes);
                    pending.send_answer(Err(match &error {
                        tollgate_store::Error::Closed => {
                            ChangeError::NotNow("another process is taking over: try again")
                        }
                        error => ChangeError::StoreFailed(error.to_string()),
                    }));
                }
                return BatchResult::default();
            }
        };
        let mut completed = Vec::new();
        for (pending, changes) in staged {
            if !changes.is_empty() {
                version += 1;
            }
            completed.push(self.complete(pending, changes, version));
        }
        self.version = version;
        BatchResult { compiled, completed, deferred: Vec::new() }
    }

    fn complete(
        &mut self,
        mut pending: PendingRequest,
        changes: StagedChanges,
        version: u64,
    ) -> CompletedRequest {
        // The documents hold its values now. Dropping a large request here avoids keeping it, and dropping it
        // later on the control thread.
        pending.request.intent = Intent::Changes(Vec::new());
        let differences = changes.sorted();
        for difference in &differences {
            let key = (difference.kind.name, difference.name.clone());
            match difference.after {
                Some(_) => drop(self.versions.insert(key, version)),
                None => drop(self.versions.remove(&key)),
            }
        }
        let result =
            ChangeResult { version, changes: differences, warnings: changes.warnings, generation: 0 };
        CompletedRequest { pending, result, summary: changes.summary }
    }

    /// Writes the changes to etcd, one transaction per request. Requests that another writer overtook go to a
    /// later batch, after that writer's changes are known.
    fn commit_in_etcd<T>(
        &mut self,
        mut compiled: Option<T>,
        staged: Vec<(PendingRequest, StagedChanges)>,
        compile: CompileParts<'_, T>,
    ) -> BatchResult<T> {
        let (mut completed, mut undone, mut overtaken) = (Vec::new(), Vec::new(), false);
        for (pending, changes) in staged {
            if changes.is_empty() {
                let version = self.version;
                completed.push(self.complete(pending, changes, version));
                continue;
            }
            let Some(etcd_source) = self.etcd_source.as_mut().filter(|_| !overtaken) else {
                undone.push((pending, changes, None));
                continue;
            };
            match etcd_source.write(&changes.entry(unix_millis(), &pending.request.who)) {
                Ok(WriteOutcome::Committed(version)) => {
                    self.version = version;
                    completed.push(self.complete(pending, changes, version));
                }
                Ok(WriteOutcome::Conflict) => {
                    overtaken = true;
                    undone.push((pending, changes, None));
                }
                Err(error) => {
                    // The other requests were compiled together with it.
                    overtaken = true;
                    undone.push((pending, changes, Some(error)));
                }
            }
        }
        let mut deferred = Vec::new();
        if !undone.is_empty() {
            for (pending, changes, error) in undone.into_iter().rev() {
                self.undo_staged(changes);
                match error {
                    Some(error) => pending.send_answer(Err(error)),
                    None if pending.received_at.elapsed() > CONFLICT_TIMEOUT => {
                        pending.send_answer(Err(ChangeError::EtcdUnavailable(
                            "others change etcd all the time, or what they changed is not told: try again"
                                .to_owned(),
                        )));
                    }
                    None => deferred.push(pending),
                }
            }
            deferred.reverse();
            let changed =
                completed.iter().any(|completed: &CompletedRequest| !completed.result.changes.is_empty());
            compiled = if changed { self.compile_sources(compile).ok() } else { None };
            if !deferred.is_empty() {
                // The watch will soon deliver the other writer's changes.
                std::thread::sleep(CONFLICT_PAUSE);
            }
        }
        self.save_cache();
        BatchResult { compiled, completed, deferred }
    }

    /// Performs a dry run.
    fn dry_run_request<T>(
        &mut self,
        pending: &PendingRequest,
        compile: CompileParts<'_, T>,
    ) -> crate::ChangeOutcome {
        let staged = self.stage(&pending.request)?;
        let compiled =
            self.compile_sources(compile).map(drop).map_err(|problems| self.describe_problems(&problems));
        let (changes, warnings) = (staged.sorted(), staged.warnings.clone());
        self.undo_staged(staged);
        compiled.map_err(ChangeError::Invalid)?;
        Ok(ChangeResult { version: self.version, changes, warnings, generation: 0 })
    }

    fn compile_sources<T>(&self, compile: CompileParts<'_, T>) -> Result<T, Vec<Problem>> {
        let Some(base) = &self.file_config else { return Err(Vec::new()) };
        compile(&CombinedResources::of(&base.config).with(&self.documents))
    }

    fn describe_problems(&self, problems: &[Problem]) -> Vec<DocumentProblem> {
        let Some(base) = &self.file_config else { return Vec::new() };
        // The iterator is lazy: descriptions past the bound are not built.
        let described = problems
            .iter()
            .take(PROBLEMS_MAX + 1)
            .map(|problem| self.documents.to_document_problem(problem, &base.positions));
        let more = problems.len().saturating_sub(PROBLEMS_MAX);
        match more {
            0 | 1 => described.collect(),
            more => {
                let rest = DocumentProblem::plain("", "", &format!("and {more} more problems"));
                described.take(PROBLEMS_MAX).chain([rest]).collect()
            }
        }
    }

    /// Publishes completed changes in the view, after they are in force.
    pub fn publish(&self, completed: &[CompletedRequest]) {
        self.view.update(|state| {
            for completed in completed {
                for difference in &completed.result.changes {
                    let (kind, name) = (difference.kind, difference.name.as_str());
                    let document = self.documents.get(kind, name).cloned();
                    let version =
                        self.versions.get(&(kind.name, name.to_owned())).copied().unwrap_or_default();
                    state.set(kind, name, document.map(|document| (document, version)));
                }
            }
            self.publish_etcd_status(state);
        });
    }
}
