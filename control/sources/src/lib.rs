//! The sources of a configuration: the file, and the documents of the embedded store, of etcd, of Kubernetes or of a
//! controller, merged into one.
//!
//! | Module | Contents |
//! |---|---|
//! | `sources` | the sources, and their combination |
//! | `etcd` | applies valid entries from etcd, and writes changes to it |
//! | `document_source` | applies the documents that Kubernetes or a controller sends |
//! | `kubernetes` | starts to watch a cluster |
//! | `controller` | connects to a controller |
//! | `stand_in` | what serves in the place of a refused document |
//! | `request` | a request over the API, and its result |
//! | `stage` | turns a request into changes of documents, which can be undone |
//! | `batch` | combines several requests into one plan and one sync of the disk |
//! | `view` | the state in force, for readers |
//!
//! A source never sees a plan: the caller passes a function that compiles the
//! [`CombinedResources`](tollgate_config::CombinedResources).

#![deny(clippy::print_stderr)]

mod batch;
mod controller;
mod document_source;
mod etcd;
mod kubernetes;
mod request;
mod sources;
mod stage;
mod stand_in;
mod view;

pub use batch::{BatchResult, CompletedRequest};
pub use document_source::{AppliedDocuments, DocumentSourceKind};
pub use etcd::{
    Applied, EtcdView, GatewayIdentity, RefusedEntry, list_gateways, list_versions, record_connection,
    write_purge,
};
pub use request::{
    ChangeAction, ChangeError, ChangeOutcome, ChangeRequest, ChangeResult, Intent, PendingRequest,
    Precondition, ResourceChange, ResourceDiff,
};
pub use sources::{ReloadResult, Sources};
pub use stage::apply_merge_patch;
pub use tollgate_documents::{DocumentChanges, DocumentKey, Refused, SourceEvent};
pub use tollgate_etcd::{EtcdEntry, EtcdEvent, EtcdHandle};
pub use view::{ListedResource, ResourceItem, SharedControllerStatus, View, ViewState};
