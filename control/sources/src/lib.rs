//! Where configurations come from: the file, and the documents of the embedded store or of etcd, merged into one.
//!
//! | Module | What it has |
//! |---|---|
//! | `sources` | both sources, and what they are together |
//! | `etcd` | what etcd tells is taken in as far as it is good, and changes are made there |
//! | `request` | what is asked for over the API, and what comes of it |
//! | `stage` | a request becomes changes of documents, which can be taken back |
//! | `batch` | several requests become one plan and one wait for the disk |
//! | `view` | what is in force, for whoever only reads |
//!
//! A source never sees a plan: whoever calls brings along what compiles the [`Parts`](tollgate_config::Parts).

#![deny(clippy::print_stderr)]

mod batch;
mod etcd;
mod request;
mod sources;
mod stage;
mod view;

pub use batch::{Batch, Landed};
pub use etcd::{Brought, EtcdState, Joined, RefusedEntry, gateways, heard, versions};
pub use request::{Answer, Change, Condition, Difference, Done, Intent, Pending, Refusal, Request, To};
pub use sources::{Reload, Sources};
pub use tollgate_etcd::{Handle, News};
pub use view::{Item, Listed, State, View};
