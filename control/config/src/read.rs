//! The readers, one module per section of the configuration.

mod draft;
pub(crate) mod policies;
mod references;
mod root;
mod route;
pub(crate) mod upstreams;

pub(crate) use draft::{Draft, Include, check_per_try, per_try_timeout};
pub(crate) use policies::{document as policy_set_document, policy_sets};
pub use policies::{files_in, service_url};
pub(crate) use references::unknown;
pub(crate) use root::root;
pub(crate) use route::route;

#[cfg(test)]
mod tests;
