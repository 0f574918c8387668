//! A client of [etcd](https://etcd.io). It lists the entries under a prefix once, and watches them from then
//! on.
//!
//! | Module | Contents |
//! |---|---|
//! | `client` | single requests: ranges, transactions, leases, the stream of a watch |
//! | `wire` | the messages of etcd's JSON gateway |
//! | `members` | finds a member that answers, with growing pauses between attempts |
//! | `watch` | list, watch, and start again when the connection breaks |
//! | `presence` | a key that exists as long as this process runs |
//! | `thread` | runs all of it on a thread of its own |
//!
//! The client speaks to the JSON gateway, which etcd serves on the same port as gRPC (`/v3/kv/range` and the
//! like). A watch sends one line of JSON per message. This crate does not interpret values.

mod client;
mod members;
mod presence;
mod thread;
mod watch;
mod wire;

use std::fmt;
use std::sync::Arc;

use zeroize::{Zeroize, ZeroizeOnDrop};

pub use client::{Compare, EtcdClient, Listing, Operation, Transaction};
pub use thread::{EtcdHandle, EtcdThread};
pub use wire::{RangeRequest, SortOrder};

/// The address of etcd, and the credentials and name of this gateway.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// `http://host:port` or `https://host:port` of each member.
    pub endpoints: Vec<String>,
    /// The prefix of all keys, without a slash at its end.
    pub prefix: String,
    /// Name and password; `None`: no authentication.
    pub user: Option<(String, Password)>,
    /// TLS for `https` endpoints.
    pub tls: Option<Arc<tollgate_tls::TlsClientConfig>>,
    /// The name that certificates must hold; `None`: the endpoint's own host.
    pub server_name: Option<String>,
    /// The name of this gateway in etcd.
    pub name: String,
}

/// A secret text: never shown, and wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl Drop for Password {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl ClientSettings {
    /// Returns the watched prefix: `PREFIX/config/`.
    #[must_use]
    pub fn config_prefix(&self) -> String {
        format!("{}/config/", self.prefix)
    }

    /// Returns the prefix of the versions: `PREFIX/history/`.
    #[must_use]
    pub fn history_prefix(&self) -> String {
        format!("{}/history/", self.prefix)
    }

    /// Returns the prefix of the purges of caches: `PREFIX/purges/`.
    #[must_use]
    pub fn purges_prefix(&self) -> String {
        format!("{}/purges/", self.prefix)
    }

    /// Returns the prefix under which each gateway has a key: `PREFIX/gateways/`.
    #[must_use]
    pub fn gateways_prefix(&self) -> String {
        format!("{}/gateways/", self.prefix)
    }
}

/// A key under the watched prefix, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdEntry {
    /// The key, without the prefix.
    pub key: String,
    /// The value; `None`: the key was deleted.
    pub value: Option<Vec<u8>>,
    /// The revision that last changed it.
    pub revision: u64,
}

/// An event from etcd.
#[derive(Debug, PartialEq, Eq)]
pub enum EtcdEvent {
    /// All entries as of a revision: a key that is missing here does not exist.
    Snapshot {
        /// The revision.
        revision: u64,
        /// The entries, by key.
        entries: Vec<EtcdEntry>,
    },
    /// Changes, in whole revisions and in order.
    Changes {
        /// The last revision of these changes.
        revision: u64,
        /// The changes, in order.
        entries: Vec<EtcdEntry>,
    },
    /// A member answers. The events that follow come from it.
    Connected {
        /// Its address.
        endpoint: String,
    },
    /// No member answers, or the answers are not etcd's.
    Disconnected {
        /// A description of the problem.
        why: String,
    },
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// No member answered. Whether etcd performed the request is unknown.
    Unreachable(String),
    /// etcd refused it: the gRPC code and the message.
    Refused(u32, String),
    /// The revision is compacted; the value is the oldest available revision, if etcd reports it.
    Compacted(Option<u64>),
    /// The answer could not be parsed.
    InvalidResponse(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "etcd does not answer: {why}"),
            Self::Refused(_, why) => f.write_str(why),
            Self::Compacted(_) => f.write_str("etcd has compacted the revision"),
            Self::InvalidResponse(why) => write!(f, "an answer of etcd makes no sense: {why}"),
        }
    }
}

impl std::error::Error for Error {}
