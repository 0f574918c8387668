//! The readers, one module per section of the configuration.

mod draft;
mod fallback;
pub(crate) mod policies;
mod redirect;
mod references;
mod respond;
mod rewrite;
mod root;
mod route;
mod target;
pub(crate) mod upstreams;

pub(crate) use draft::{Draft, Include, check_per_try, per_try_timeout};
pub(crate) use policies::{document as policy_set_document, policy_sets};
pub use policies::{files_in, service_url};
pub(crate) use references::{UpstreamReference, unknown};
pub use respond::json;
pub(crate) use root::root;
pub(crate) use route::route;

#[cfg(test)]
mod tests;
