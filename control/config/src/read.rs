//! The readers that put the values of sections into the configuration under construction.
//!
//! A file's top level, its routes and its upstreams are read for each file, and into one [`Draft`]. The loader and the
//! documents call these readers; the sections know nothing of the draft.

mod draft;
pub(crate) mod policies;
mod references;
mod root;
mod route;
mod streams;
pub(crate) mod upstreams;

pub(crate) use draft::{Draft, Include, check_per_try, per_try_timeout};
pub(crate) use policies::{document as policy_set_document, policy_sets};
pub use policies::{files_in, service_url};
pub(crate) use references::unknown;
pub(crate) use root::root;
pub(crate) use route::route;
pub(crate) use streams::stream;

#[cfg(test)]
mod tests;
