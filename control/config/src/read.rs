//! The readers, one module per section of the configuration.

mod access_log;
mod admin;
mod buffer;
mod certificates;
mod condition;
mod consumers;
mod draft;
mod etcd;
mod fallback;
mod grpc;
mod listen;
mod log;
mod matching;
mod named;
mod policies;
mod redirect;
mod references;
mod respond;
mod rewrite;
mod root;
mod route;
mod settings;
mod target;
mod template;
mod timeouts;
mod tls;
mod upstream;

pub(crate) use certificates::document as certificate_document;
pub(crate) use consumers::document as consumer_document;
pub use consumers::shared_credentials;
pub(crate) use draft::{Draft, Include};
pub(crate) use policies::document as policy_set_document;
pub(crate) use references::{UpstreamReference, unknown};
#[cfg(test)]
pub(crate) use respond::json as json_of;
pub(crate) use root::root;
pub(crate) use route::route;
pub(crate) use tls::files as pem_files;
pub(crate) use upstream::{check_per_try, check_zones, document as upstream_document, endpoints};

#[cfg(test)]
mod tests;
