//! A client of [etcd](https://etcd.io): what stands under a prefix is listed once and watched from there on.
//!
//! | Module | What it has |
//! |---|---|
//! | `client` | single requests: ranges, transactions, leases, a stream of a watch |
//! | `wire` | the messages of etcd's JSON gateway |
//! | `reach` | finds a member that answers: one attempt after the other, with growing pauses |
//! | `follow` | list, watch, and again where that breaks off |
//! | `presence` | a key that is there as long as this process is |
//! | `thread` | all of it on a thread of its own |
//!
//! etcd is spoken to over the JSON gateway that it serves beside gRPC on the same port (`/v3/kv/range` and the like, a
//! watch is a line of JSON each message). What the values say is not known here.

mod client;
mod follow;
mod presence;
mod reach;
mod thread;
mod wire;

use std::fmt;
use std::sync::Arc;

use zeroize::{Zeroize, ZeroizeOnDrop};

pub use client::{Client, Compare, Listed, Operation, Transaction};
pub use thread::{Etcd, Handle};
pub use wire::{Order, RangeRequest};

/// Where etcd is, and who asks.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `http://host:port` or `https://host:port` of each member.
    pub endpoints: Vec<String>,
    /// What all keys begin with, without a slash at its end.
    pub prefix: String,
    /// Name and password, where etcd wants them.
    pub user: Option<(String, Password)>,
    /// TLS towards `https` endpoints.
    pub tls: Option<Arc<tollgate_tls::Client>>,
    /// The name that certificates must hold, if it is not the endpoint's own host.
    pub server_name: Option<String>,
    /// What this gateway calls itself in etcd.
    pub name: String,
}

/// A text that is shown nowhere, and that is wiped from memory when it is dropped.
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

impl Settings {
    /// What is watched: everything under `PREFIX/config/`.
    #[must_use]
    pub fn watched(&self) -> String {
        format!("{}/config/", self.prefix)
    }

    /// Where the versions are told of: `PREFIX/history/`.
    #[must_use]
    pub fn history(&self) -> String {
        format!("{}/history/", self.prefix)
    }

    /// Where each gateway has a key: `PREFIX/gateways/`.
    #[must_use]
    pub fn gateways(&self) -> String {
        format!("{}/gateways/", self.prefix)
    }
}

/// A key under the prefix that is watched, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without the prefix.
    pub key: String,
    /// What it says; none: it is gone.
    pub value: Option<Vec<u8>>,
    /// The revision that changed it last.
    pub revision: u64,
}

/// What is new.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// All there is, as of a revision: what is not in it is gone.
    All {
        /// The revision.
        revision: u64,
        /// The entries, by key.
        entries: Vec<Entry>,
    },
    /// What has changed; whole revisions, in their order.
    Changes {
        /// The last revision.
        revision: u64,
        /// The changes, in their order.
        entries: Vec<Entry>,
    },
    /// A member answers, and all it has is told, or about to be.
    Connected {
        /// Which.
        endpoint: String,
    },
    /// Nobody answers, or not as etcd does.
    Lost {
        /// In words.
        why: String,
    },
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// No member answered. Whether it was done is not known.
    Unreachable(String),
    /// etcd says no: the gRPC code, and why.
    Refused(u32, String),
    /// The revision is compacted; this one is the oldest that is there, if etcd tells.
    Compacted(Option<u64>),
    /// The answer makes no sense.
    Garbled(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "etcd does not answer: {why}"),
            Self::Refused(_, why) => f.write_str(why),
            Self::Compacted(_) => f.write_str("etcd has compacted the revision"),
            Self::Garbled(why) => write!(f, "an answer of etcd makes no sense: {why}"),
        }
    }
}

impl std::error::Error for Error {}
