//! The readers, one module per section of the configuration.

mod access_log;
mod admin;
mod certificates;
mod condition;
mod consumers;
mod draft;
mod etcd;
mod fallback;
mod grpc;
mod listen;
mod log;
pub(crate) mod matching;
mod named;
mod policies;
mod redirect;
mod references;
mod respond;
pub(crate) mod rewrite;
mod root;
mod route;
mod target;
mod template;
mod tls;

pub(crate) use certificates::document as certificate_document;
pub(crate) use consumers::document as consumer_document;
pub use consumers::shared_credentials;
pub(crate) use draft::{Draft, Include, PerTryTimeout, check_per_try, per_try_timeout};
pub(crate) use policies::document as policy_set_document;
pub(crate) use references::{UpstreamReference, unknown};
#[cfg(test)]
pub(crate) use respond::json as json_of;
pub(crate) use root::root;
pub(crate) use route::route;
pub(crate) use tls::{check_schemes, files as pem_files};

#[cfg(test)]
mod tests;
