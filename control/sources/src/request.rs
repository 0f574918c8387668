//! A request to change the configuration, and its result.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;
use tollgate_config::{DocumentProblem, ResourceKind};

/// Changes that are made together or not at all.
#[derive(Clone, Debug)]
pub struct ChangeRequest {
    /// Author: the name of a token, or the source of the request.
    pub who: String,
    /// The requested changes.
    pub intent: Intent,
    /// Whether this is a dry run, which only reports the result.
    pub dry_run: bool,
}

impl ChangeRequest {
    /// Returns whether its conditions can be judged only after the changes to `changed_documents` are complete.
    pub(crate) fn depends_on(&self, changed_documents: &HashSet<(&str, String)>) -> bool {
        match &self.intent {
            _ if changed_documents.is_empty() => false,
            Intent::Rollback(_) => true,
            Intent::Changes(changes) => changes.iter().any(|change| {
                let key = (change.kind.name, change.name.clone());
                change.precondition != Precondition::None && changed_documents.contains(&key)
            }),
        }
    }
}

/// The purpose of a request.
#[derive(Clone, Debug)]
pub enum Intent {
    /// Make these changes.
    Changes(Vec<ResourceChange>),
    /// Restore all documents to this version.
    Rollback(u64),
}

/// A change of one document.
#[derive(Clone, Debug)]
pub struct ResourceChange {
    /// Kind of the document.
    pub kind: &'static ResourceKind,
    /// Name of the document.
    pub name: String,
    /// The new state.
    pub action: ChangeAction,
    /// The condition on its present state.
    pub precondition: Precondition,
}

/// The new state of a document.
#[derive(Clone, Debug)]
pub enum ChangeAction {
    /// Replace it with this value.
    Put(Value),
    /// Merge this patch into its present value (RFC 7396).
    Patch(Value),
    /// Delete it.
    Delete,
}

/// A condition on a document before it is changed (RFC 9110, section 13.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// No condition.
    #[default]
    None,
    /// It exists (`If-Match: *`).
    Exists,
    /// It does not exist (`If-None-Match: *`).
    Absent,
    /// One of these versions last changed it (`If-Match: "3"`).
    Version(Vec<u64>),
}

/// The result of a request, or of a dry run.
#[derive(Clone, Debug)]
pub struct ChangeResult {
    /// The store's present version.
    pub version: u64,
    /// The changed documents, in order of kind and name.
    pub changes: Vec<ResourceDiff>,
    /// Warnings about them.
    pub warnings: Vec<DocumentProblem>,
    /// Number of the plan that all workers run. For a dry run, the caller that knows the plan sets it.
    pub generation: u64,
}

/// A document before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceDiff {
    /// Kind of the document.
    pub kind: &'static ResourceKind,
    /// Name of the document.
    pub name: String,
    /// Value before; `None`: it is new.
    pub before: Option<Arc<Value>>,
    /// Value after; `None`: it was deleted.
    pub after: Option<Arc<Value>>,
}

/// Why a request was refused.
#[derive(Clone, Debug)]
pub enum ChangeError {
    /// The configuration names no store.
    NoStore,
    /// Not possible at this moment, for this reason.
    NotNow(&'static str),
    /// The resource is defined in the file, at this place: its name, and the place.
    DefinedInFile(String, String),
    /// No such document exists.
    NotFound(String),
    /// The condition does not hold; with the version that last changed the document, if it exists.
    PreconditionFailed(String, Option<u64>),
    /// The request is malformed.
    Malformed(String),
    /// The resulting configuration is not valid.
    Invalid(Vec<DocumentProblem>),
    /// The history does not have the version.
    UnknownVersion(String),
    /// The store cannot be written.
    StoreFailed(String),
    /// etcd does not accept it at present.
    EtcdUnavailable(String),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStore => f.write_str(
                "the configuration file names no store, so nothing can be changed here: add `store: PATH` to it (or `etcd`) and \
                 restart; a gateway with `controller` is changed at its controller",
            ),
            Self::NotNow(why) => f.write_str(why),
            Self::DefinedInFile(what, position) => {
                write!(f, "{what} is a resource of the file ({position}): change it there")
            }
            Self::NotFound(what) => write!(f, "there is no {what}"),
            Self::PreconditionFailed(what, Some(version)) => write!(f, "{what} is there, as of version {version}"),
            Self::PreconditionFailed(what, None) => write!(f, "{what} is not there"),
            Self::Malformed(why) | Self::UnknownVersion(why) | Self::EtcdUnavailable(why) => f.write_str(why),
            Self::Invalid(problems) => {
                let errors = problems.iter().filter(|problem| problem.severity == tollgate_config::Severity::Error);
                let first = errors.clone().next().map(|problem| problem.message.as_str()).unwrap_or_default();
                match errors.count() {
                    0 | 1 => f.write_str(first),
                    count => write!(f, "{first}, and {} more", count - 1),
                }
            }
            Self::StoreFailed(error) => write!(f, "the store cannot be written: {error}"),
        }
    }
}

/// The result of a request.
pub type ChangeOutcome = Result<ChangeResult, ChangeError>;

/// A request that waits for its answer.
#[derive(Debug)]
pub struct PendingRequest {
    /// The requested changes, and their author.
    pub request: ChangeRequest,
    /// Time at which it arrived.
    pub received_at: std::time::Instant,
    /// Receiver of the answer.
    pub answer: oneshot::Sender<ChangeOutcome>,
}

impl PendingRequest {
    /// Sends the answer. The client may have disconnected.
    pub fn send_answer(self, answer: ChangeOutcome) {
        let _ = self.answer.send(answer);
    }
}
