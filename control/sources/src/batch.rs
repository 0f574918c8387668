//! Combines several requests into one plan and one sync of the disk.

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_config::{DocumentProblem, Parts, Problem};

use crate::etcd::Written;
use crate::request::{Done, Intent, Pending, Refusal};
use crate::sources::Sources;
use crate::stage::{MOST_TOLD, Staged};

/// The result of a batch: the compiled configuration to roll out, and the requests that wait for it.
#[derive(Debug)]
pub struct Batch<T> {
    /// The compiled configuration; `None`: nothing changed.
    pub good: Option<T>,
    /// Requests that depend on changes of this batch, for the next one.
    pub again: Vec<Pending>,
    /// Completed requests. The caller answers them when all workers run the compiled configuration.
    pub landed: Vec<Landed>,
}

/// A request that was completed and is durable.
#[derive(Debug)]
pub struct Landed {
    /// The request.
    pub pending: Pending,
    /// The result of the request.
    pub done: Done,
    /// Summary of the request, in a few words.
    pub what: String,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { good: None, again: Vec::new(), landed: Vec::new() }
    }
}

type Compile<'c, T> = &'c mut dyn FnMut(&Parts<'_>) -> Result<T, Vec<Problem>>;

/// How long other writers may overtake a change before it is refused.
const PATIENCE: Duration = Duration::from_secs(3);
/// Minimum wait of a change that was overtaken.
const MOMENT: Duration = Duration::from_millis(5);

/// Returns milliseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl Sources {
    /// Performs the valid requests, each one whole or not at all. Refused requests and dry runs are answered
    /// here. The completed ones are on the disk when this returns.
    pub fn change<T>(
        &mut self,
        requests: Vec<Pending>,
        mut compile: impl FnMut(&Parts<'_>) -> Result<T, Vec<Problem>>,
    ) -> Batch<T> {
        let compile: Compile<'_, T> = &mut compile;
        let mut staged: Vec<(Pending, Staged)> = Vec::new();
        let (mut later, mut again) = (Vec::new(), Vec::new());
        let mut touched: HashSet<(&str, String)> = HashSet::new();
        for pending in requests {
            if !self.is_writable() {
                pending.answer(Err(Refusal::NoStore));
            } else if pending.request.dry_run {
                later.push(pending);
            } else if pending.request.depends_on(&touched) {
                again.push(pending);
            } else {
                match self.stage(&pending.request) {
                    Ok(changes) => {
                        let of = changes.differences.iter();
                        touched.extend(of.map(|difference| (difference.kind.name, difference.name.clone())));
                        staged.push((pending, changes));
                    }
                    Err(refusal) => pending.answer(Err(refusal)),
                }
            }
        }
        let mut batch = self.land(staged, compile);
        batch.again.extend(again);
        for pending in later {
            let answer = self.rehearse(&pending, compile);
            pending.answer(answer);
        }
        batch
    }

    /// Compiles all staged requests together, or one by one if together they are not valid.
    fn land<T>(&mut self, staged: Vec<(Pending, Staged)>, compile: Compile<'_, T>) -> Batch<T> {
        if staged.iter().all(|(_, changes)| changes.is_empty()) {
            return self.commit(None, staged, compile);
        }
        match self.compiled(compile) {
            Ok(good) => self.commit(Some(good), staged, compile),
            Err(problems) if staged.len() == 1 => {
                for (pending, changes) in staged {
                    let problems = self.told(&problems);
                    self.take_back(changes);
                    pending.answer(Err(Refusal::Invalid(problems)));
                }
                Batch::default()
            }
            Err(_) => self.one_by_one(staged, compile),
        }
    }

    fn one_by_one<T>(&mut self, staged: Vec<(Pending, Staged)>, compile: Compile<'_, T>) -> Batch<T> {
        let mut requests = Vec::new();
        for (pending, changes) in staged.into_iter().rev() {
            self.take_back(changes);
            requests.push(pending);
        }
        let (mut last, mut good) = (None, Vec::new());
        for pending in requests.into_iter().rev() {
            let changes = match self.stage(&pending.request) {
                Ok(changes) => changes,
                Err(refusal) => {
                    pending.answer(Err(refusal));
                    continue;
                }
            };
            match self.compiled(compile) {
                Ok(compiled) => {
                    last = Some(compiled);
                    good.push((pending, changes));
                }
                Err(problems) => {
                    let problems = self.told(&problems);
                    self.take_back(changes);
                    pending.answer(Err(Refusal::Invalid(problems)));
                }
            }
        }
        self.commit(last, good, compile)
    }

    /// Writes valid changes and waits for the disk. If that fails, nothing has changed.
    fn commit<T>(
        &mut self,
        good: Option<T>,
        staged: Vec<(Pending, Staged)>,
        compile: Compile<'_, T>,
    ) -> Batch<T> {
        if self.shared.is_some() {
            return self.commit_in_etcd(good, staged, compile);
        }
        let at = now();
        let written = staged.iter().filter(|(_, changes)| !changes.is_empty());
        let entries: Vec<_> =
            written.map(|(pending, changes)| changes.entry(at, &pending.request.who)).collect();
        let Some(store) = &self.store else { return Batch::default() };
        let first = match entries.is_empty() {
            true => Ok(self.version + 1),
            false => store.commit(&entries),
        };
        let mut version = match first {
            Ok(first) => first - 1,
            Err(error) => {
                for (pending, changes) in staged.into_iter().rev() {
                    self.take_back(changes);
                    pending.answer(Err(match &error {
                        tollgate_store::Error::Closed => {
                            Refusal::NotNow("another process is taking over: try again")
                        }
                        error => Refusal::Broken(error.to_string()),
                    }));
                }
                return Batch::default();
            }
        };
        let mut landed = Vec::new();
        for (pending, changes) in staged {
            if !changes.is_empty() {
                version += 1;
            }
            landed.push(self.landed(pending, changes, version));
        }
        self.version = version;
        Batch { good, landed, again: Vec::new() }
    }

    fn landed(&mut self, mut pending: Pending, changes: Staged, version: u64) -> Landed {
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
        let done = Done { version, changes: differences, warnings: changes.warnings, generation: 0 };
        Landed { pending, done, what: changes.what }
    }

    /// Writes the changes to etcd, one transaction per request. Requests that another writer overtook go to a
    /// later batch, after that writer's changes are known.
    fn commit_in_etcd<T>(
        &mut self,
        mut good: Option<T>,
        staged: Vec<(Pending, Staged)>,
        compile: Compile<'_, T>,
    ) -> Batch<T> {
        let (mut landed, mut out, mut overtaken) = (Vec::new(), Vec::new(), false);
        for (pending, changes) in staged {
            if changes.is_empty() {
                let version = self.version;
                landed.push(self.landed(pending, changes, version));
                continue;
            }
            let Some(shared) = self.shared.as_mut().filter(|_| !overtaken) else {
                out.push((pending, changes, None));
                continue;
            };
            match shared.write(&changes.entry(now(), &pending.request.who)) {
                Ok(Written::As(version)) => {
                    self.version = version;
                    landed.push(self.landed(pending, changes, version));
                }
                Ok(Written::Overtaken) => {
                    overtaken = true;
                    out.push((pending, changes, None));
                }
                Err(refusal) => {
                    // The other requests were compiled together with it.
                    overtaken = true;
                    out.push((pending, changes, Some(refusal)));
                }
            }
        }
        let mut again = Vec::new();
        if !out.is_empty() {
            for (pending, changes, refusal) in out.into_iter().rev() {
                self.take_back(changes);
                match refusal {
                    Some(refusal) => pending.answer(Err(refusal)),
                    None if pending.since.elapsed() > PATIENCE => pending.answer(Err(Refusal::Away(
                        "others change etcd all the time, or what they changed is not told: try again"
                            .to_owned(),
                    ))),
                    None => again.push(pending),
                }
            }
            again.reverse();
            let changed = landed.iter().any(|landed: &Landed| !landed.done.changes.is_empty());
            good = if changed { self.compiled(compile).ok() } else { None };
            if !again.is_empty() {
                // The watch will soon deliver the other writer's changes.
                std::thread::sleep(MOMENT);
            }
        }
        self.remember();
        Batch { good, landed, again }
    }

    /// Performs a dry run.
    fn rehearse<T>(&mut self, pending: &Pending, compile: Compile<'_, T>) -> crate::Answer {
        let staged = self.stage(&pending.request)?;
        let compiled = self.compiled(compile).map(drop).map_err(|problems| self.told(&problems));
        let (changes, warnings) = (staged.sorted(), staged.warnings.clone());
        self.take_back(staged);
        compiled.map_err(Refusal::Invalid)?;
        Ok(Done { version: self.version, changes, warnings, generation: 0 })
    }

    fn compiled<T>(&self, compile: Compile<'_, T>) -> Result<T, Vec<Problem>> {
        let Some(base) = &self.base else { return Err(Vec::new()) };
        compile(&Parts::of(&base.config).with(&self.documents))
    }

    fn told(&self, problems: &[Problem]) -> Vec<DocumentProblem> {
        let Some(base) = &self.base else { return Vec::new() };
        // The iterator is lazy: descriptions past the bound are not built.
        let told =
            problems.iter().take(MOST_TOLD + 1).map(|problem| self.documents.tell(problem, &base.places));
        let more = problems.len().saturating_sub(MOST_TOLD);
        match more {
            0 | 1 => told.collect(),
            more => {
                let rest = DocumentProblem::plain("", "", &format!("and {more} more problems"));
                told.take(MOST_TOLD).chain([rest]).collect()
            }
        }
    }

    /// Publishes completed changes in the view, after they are in force.
    pub fn show(&self, landed: &[Landed]) {
        self.view.update(|state| {
            for landed in landed {
                for difference in &landed.done.changes {
                    let (kind, name) = (difference.kind, difference.name.as_str());
                    let document = self.documents.get(kind, name).cloned();
                    let version =
                        self.versions.get(&(kind.name, name.to_owned())).copied().unwrap_or_default();
                    state.set(kind, name, document.map(|document| (document, version)));
                }
            }
            self.show_etcd(state);
        });
    }
}
