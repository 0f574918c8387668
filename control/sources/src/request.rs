//! What is asked for, and what comes of it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;
use tollgate_config::{DocumentProblem, Kind};

/// Changes that are made together or not at all.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks: the name of a token, or where the request came from.
    pub who: String,
    /// What is to be done.
    pub intent: Intent,
    /// Whether only to say what would be.
    pub dry_run: bool,
}

impl Request {
    /// Whether what it demands can only be judged once others have landed.
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

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Intent {
    /// These changes.
    Changes(Vec<Change>),
    /// All becomes as it was at this version.
    Rollback(u64),
}

/// A change of one document.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub to: To,
    /// What must hold before.
    pub condition: Condition,
}

/// What becomes of a document.
#[derive(Clone, Debug)]
pub enum To {
    /// This.
    Value(Value),
    /// What it is, with this merged into it (RFC 7396).
    Patch(Value),
    /// It goes.
    Gone,
}

/// What must hold of a document before it is changed (RFC 9110, section 13.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// It is there (`If-Match: *`).
    There,
    /// It is not there (`If-None-Match: *`).
    NotThere,
    /// One of these versions changed it last (`If-Match: "3"`).
    Version(Vec<u64>),
}

/// What was done, or would be.
#[derive(Clone, Debug)]
pub struct Done {
    /// The store's version now.
    pub version: u64,
    /// What has changed, in order of kind and name.
    pub changes: Vec<Difference>,
    /// What is doubtful about it.
    pub warnings: Vec<DocumentProblem>,
    /// The plan's number, once all workers run it. Of a dry run whoever knows the plan says it.
    pub generation: u64,
}

/// A document before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its name.
    pub name: String,
    /// What it said; none: it is new.
    pub before: Option<Arc<Value>>,
    /// What it says; none: it is gone.
    pub after: Option<Arc<Value>>,
}

/// Why it was not done.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The file names no store.
    NoStore,
    /// It cannot be at this moment, for this reason.
    NotNow(&'static str),
    /// A resource of the file, written at this place.
    OfTheFile(String, String),
    /// There is no such document.
    NotFound(String),
    /// What was to hold before does not; the version that changed it last, if it is there.
    Condition(String, Option<u64>),
    /// The request makes no sense.
    Senseless(String),
    /// The configuration that would come of it is not good.
    Invalid(Vec<DocumentProblem>),
    /// The history does not have the version.
    NoVersion(String),
    /// The store cannot be written.
    Broken(String),
    /// etcd does not take it now.
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

/// What comes of a request.
pub type Answer = Result<Done, Refusal>;

/// A request whose answer is waited for.
#[derive(Debug)]
pub struct Pending {
    /// The request.
    pub request: Request,
    /// Since when it waits.
    pub since: std::time::Instant,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Answer>,
}

impl Pending {
    /// Answers it. Who asked may have gone.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}
