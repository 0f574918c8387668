//! The embedded store: documents by kind and name, in versions, with the history of their changes.
//!
//! The store does not interpret documents: each is a text. A [commit](Store::commit) returns after its writes
//! are on the disk, so a confirmed change survives an immediate end of the process or of the machine. The
//! store is one file, which one process at a time can open.

mod backup;
mod store;
mod tables;
mod version;

use std::fmt;
use std::io;

pub use store::{Contents, Store, StoredDocument};
pub use version::{DocumentChange, NewVersion, VersionRecord};

/// Why an operation of the store failed.
#[derive(Debug)]
pub enum Error {
    /// Another process has the file open.
    InUse,
    /// The store is closed, because another process is about to take it over.
    Closed,
    /// The history does not reach that far back; the value is the oldest version that a rollback can reach.
    VersionExpired(u64),
    /// There is no such version.
    UnknownVersion(u64),
    /// The file does not belong to this program, or to a later version of it.
    NotAStore(String),
    /// An error of the operating system, such as a full disk.
    Io(io::Error),
    /// An error of the database library.
    Database(redb::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("another process has it open"),
            Self::Closed => f.write_str("it is closed while another process takes over"),
            Self::VersionExpired(oldest) => write!(f, "the history goes back to version {oldest} only"),
            Self::UnknownVersion(version) => write!(f, "there is no version {version}"),
            Self::NotAStore(what) => write!(f, "it is not a store of this program: {what}"),
            Self::Io(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

macro_rules! from_redb {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Error {
            fn from(error: $kind) -> Self {
                match redb::Error::from(error) {
                    redb::Error::DatabaseAlreadyOpen => Self::InUse,
                    redb::Error::Io(error) => Self::Io(error),
                    error => Self::Database(error),
                }
            }
        }
    )*};
}

from_redb!(
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    redb::CompactionError
);
