//! A request to change the configuration, and its result.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;
use tollgate_config::{DocumentProblem, Kind};

/// Changes that are made together or not at all.
#[derive(Clone, Debug)]
pub struct Request {
    /// Author: the name of a token, or the source of the request.
    pub who: String,
    /// The requested changes.
    pub intent: Intent,
    /// Whether this is a dry run, which only reports the result.
    pub dry_run: bool,
}

impl Request {
    /// Returns whether its conditions can be judged only after the changes to `touched` are complete.
    pub(crate) fn depends_on(&self, touched: &HashSet<(&str, String)>) -> bool {
        match &self.intent {
            _ if touched.is_empty() => false,
            Intent::Rollback(_) => true,
            Intent::Changes(changes) => changes.iter().any(|change| {
                let key = (change.kind.name, change.name.clone());
                change.condition != Condition::None && touched.contains(&key)
            }),
        }
    }
}

/// The purpose of a request.
#[derive(Clone, Debug)]
pub enum Intent {
    /// Make these changes.
    Changes(Vec<Change>),
    /// Restore all documents to this version.
    Rollback(u64),
}

/// A change of one document.
#[derive(Clone, Debug)]
pub struct Change {
    /// Kind of the document.
    pub kind: &'static Kind,
    /// Name of the document.
    pub name: String,
    /// The new state.
    pub to: To,
    /// The condition on its present state.
    pub condition: Condition,
}

/// The new state of a document.
#[derive(Clone, Debug)]
pub enum To {
    /// Replace it with this value.
    Value(Value),
    /// Merge this patch into its present value (RFC 7396).
    Patch(Value),
    /// Delete it.
    Gone,
}

/// A condition on a document before it is changed (RFC 9110, section 13.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    #[default]
    None,
    /// It exists (`If-Match: *`).
    There,
    /// It does not exist (`If-None-Match: *`).
    NotThere,
    /// One of these versions last changed it (`If-Match: "3"`).
    Version(Vec<u64>),
}

/// The result of a request, or of a dry run.
#[derive(Clone, Debug)]
pub struct Done {
    /// The store's present version.
    pub version: u64,
    /// The changed documents, in order of kind and name.
    pub changes: Vec<Difference>,
    /// Warnings about them.
    pub warnings: Vec<DocumentProblem>,
    /// Number of the plan that all workers run. For a dry run, the caller that knows the plan sets it.
    pub generation: u64,
}

/// A document before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Kind of the document.
    pub kind: &'static Kind,
    /// Name of the document.
    pub name: String,
    /// Value before; `None`: it is new.
    pub before: Option<Arc<Value>>,
    /// Value after; `None`: it was deleted.
    pub after: Option<Arc<Value>>,
}

/// Why a request was refused.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The configuration names no store.
    NoStore,
    /// Not possible at this moment, for this reason.
    NotNow(&'static str),
    /// The resource is defined in the file, at this place: its name, and the place.
    OfTheFile(String, String),
    /// No such document exists.
    NotFound(String),
    /// The condition does not hold; with the version that last changed the document, if it exists.
    Condition(String, Option<u64>),
    /// The request is malformed.
    Senseless(String),
    /// The resulting configuration is not valid.
    Invalid(Vec<DocumentProblem>),
    /// The history does not have the version.
    NoVersion(String),
    /// The store cannot be written.
    Broken(String),
    /// etcd does not accept it at present.
    Away(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStore => f.write_str(
                "the configuration file names no store, so nothing can be changed here: add `store: PATH` to it (or `etcd`) and \
                 restart",
            ),
            Self::NotNow(why) => f.write_str(why),
            Self::OfTheFile(what, at) => {
                write!(f, "{what} is a resource of the file ({at}): change it there")
            }
            Self::NotFound(what) => write!(f, "there is no {what}"),
            Self::Condition(what, Some(version)) => write!(f, "{what} is there, as of version {version}"),
            Self::Condition(what, None) => write!(f, "{what} is not there"),
            Self::Senseless(why) | Self::NoVersion(why) | Self::Away(why) => f.write_str(why),
            Self::Invalid(problems) => {
                let errors = problems.iter().filter(|problem| problem.severity == tollgate_config::Severity::Error);
                let first = errors.clone().next().map(|problem| problem.message.as_str()).unwrap_or_default();
                match errors.count() {
                    0 | 1 => f.write_str(first),
                    count => write!(f, "{first}, and {} more", count - 1),
                }
            }
            Self::Broken(error) => write!(f, "the store cannot be written: {error}"),
        }
    }
}

/// The result of a request.
pub type Answer = Result<Done, Refusal>;

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Pending {
    /// The requested changes, and their author.
    pub request: Request,
    /// Time at which it arrived.
    pub since: std::time::Instant,
    /// Receiver of the answer.
    pub answer: oneshot::Sender<Answer>,
}

impl Pending {
    /// Sends the answer. The client may have disconnected.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}
