//! Kubernetes as a source of documents: watches the API server, translates objects into documents of the
//! gateway, and writes the objects' statuses.
//!
//! | Module | Contents |
//! |---|---|
//! | `object`, `objects` | the objects in memory, each parsed independently |
//! | `resources` | the fields of each kind that are read |
//! | [`translate`](translate()) | the pure function from objects to documents and statuses |
//! | [`import`](import()) | manifests of ingress-nginx as a configuration file |
//! | `definition` | the definition of TollgatePolicy |
//! | `addresses` | the addresses that Gateways get |
//! | `connection`, `watch` | the client of the API server, and its watches |
//! | `rights` | explains requests that the API server refused |
//! | `election` | elects the gateway that writes statuses |
//! | `applier` | keeps the Services of Gateways in the cluster |
//! | `status`, `writer` | compares and writes statuses |
//! | `events` | events of objects whose statuses have no conditions |
//! | `thread` | runs all of it on a thread of its own |
//!
//! This crate does not read documents: it only makes them. The source in `sources` puts them in force, and
//! reports back which ones the gateway refused.

mod addresses;
mod applier;
mod connection;
mod definition;
mod election;
mod events;
mod import;
mod object;
mod objects;
pub mod resources;
mod rights;
mod status;
mod thread;
mod translate;
mod watch;
mod writer;

pub use addresses::{AddressBlock, AddressPool};
pub use connection::ClusterAccess;
pub use definition::{SectionRequest, policy_definition};
pub use election::LeaseSettings;
pub use import::{Imported, ImportedObject, import};
pub use object::{Kind, Meta, Object, ObjectName, RawObject, Reference};
pub use objects::{Change, Changes, Objects};
pub use thread::{KubernetesSettings, KubernetesThread};
pub use tollgate_documents::Compact;
pub use translate::{
    AnnotationReport, Applied, Behaviour, Document, DocumentKey, Finding, SUPPORTED_FEATURES, ServiceKind,
    ServiceSettings, Translation, TranslationSettings, Translator, Update, annotations, translate,
};
