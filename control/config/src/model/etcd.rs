//! `etcd`: shares resources between several gateways.

use std::path::PathBuf;

use super::{EndpointAddress, Secret, Spanned, UpstreamTls};

/// The etcd that shares resources between several gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSettings {
    /// The cluster's members; at least one, over TCP.
    pub endpoints: Vec<Spanned<EndpointAddress>>,
    /// Prefix of its keys, without a trailing slash. Default `/tollgate`.
    pub prefix: String,
    /// The file that keeps the last valid state, so that the gateway starts without etcd. Default none.
    pub cache: Option<PathBuf>,
    /// Name of this gateway in etcd. Default the host name and the process id.
    pub name: Option<String>,
    /// User name and password.
    pub user: Option<(String, Secret)>,
    /// TLS settings for members written with `https://`.
    pub tls: Option<UpstreamTls>,
}
