//! Static files: finds, describes and reads the files of a directory for requests.
//!
//! The plan compiles each `files` of a route to a [`Site`]. For a request, the worker asks its [`FileCache`] for
//! each path that [`Site::candidates`] lists, and otherwise has [`find`] look it up on a [thread](threads), because a
//! file system may not answer. The result is a [`ServedFile`], which holds the field lines of its response and, if it
//! is small, its content. [`tollgate_http::evaluate`] decides between 200, 206, 304, 412 and 416 by what
//! [`ServedFile::selected`] says.
//!
//! This crate knows neither connections nor the configuration language. Invariant: no path leads out of the root of
//! its site, whatever symbolic links the directory holds.

mod cache;
mod coding;
mod find;
mod listing;
mod media_type;
mod open;
mod path;
mod served_file;
mod site;
pub mod threads;

pub use cache::{Cached, FileCache};
pub use coding::{choose, coding_of_suffix};
pub use find::{Found, Unfound, find};
pub use path::{BadPath, Hidden, decode, is_hidden};
pub use served_file::{ReadNow, ServedFile};
pub use site::{CacheRule, Site, SiteSettings, TryPath};
