//! The stream of documents from a controller to the gateways of a fleet.
//!
//! | Module | Contents |
//! |---|---|
//! | `log` | the controller's documents by version: what has changed since a position |
//! | `edit` | the difference of two values, for large documents that change in one place |
//! | `message` | the messages of both sides: one line of JSON each |
//! | `lines` | reads and writes lines within bounds of size and time |
//! | `replica` | the gateway's copy of the documents |
//! | `delivery` | hands changes to the gateway, one batch at a time |
//! | `purge_list` | the controller's purges of caches, by number |
//! | `purge_file` | the file that keeps this list over a restart |
//! | `purge_delivery` | hands purges to the gateway, and tracks which are carried out |
//! | `state` | the state of a fleet: documents, purges, what each gateway serves |
//! | `server` | the controller's side: accepts gateways, sends changes, reads reports |
//! | `client` | the gateway's side: connects, resumes, reports, and saves the last good state |
//!
//! One connection carries both directions, over TLS 1.3 with certificates of both sides. The controller keeps no queue
//! for a gateway: whenever a connection can take more, it gets the difference between its position and the present
//! documents. So changes in quick succession are sent as one, and a slow gateway costs no memory.
//!
//! Invariant: after a commit, a gateway's replica equals the controller's documents at that position, whatever
//! connections broke before. The tests in `model` check it over random changes, disconnects and restarts.

mod client;
mod delivery;
mod edit;
mod lines;
mod log;
mod message;
#[cfg(test)]
mod model;
mod purge_delivery;
mod purge_file;
mod purge_list;
mod replica;
mod server;
mod state;

pub use client::{ControllerAddress, ControllerStatus, FleetClientSettings, FleetThread};
pub use delivery::SavedState;
pub use edit::{Edit, apply_edits, edits};
pub use log::{Delta, DocumentLog};
pub use message::{Position, PurgePosition, ToController, ToGateway};
pub use purge_delivery::PurgeBatch;
pub use purge_file::PurgeFile;
pub use purge_list::{PURGE_KEPT_TIME, PurgeDelta, PurgeList, SavedPurges};
pub use replica::{Commit, KindNames, Replica};
pub use server::FleetServer;
pub use state::{FleetHandle, GatewayStatus, PurgeReceipt};

/// The protocol that both sides name in the TLS handshake (ALPN). Another version of the messages gets another name.
pub const PROTOCOL: &[u8] = b"tollgate-fleet/1";
