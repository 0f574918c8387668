//! `etcd`: where several gateways share their resources.

use std::path::PathBuf;

use super::{EndpointAddress, Secret, Spanned, UpstreamTls};

/// The etcd that several gateways share their resources in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSettings {
    /// Its members; at least one, over TCP.
    pub endpoints: Vec<Spanned<EndpointAddress>>,
    /// What its keys begin with, without a slash at the end. Default `/tollgate`.
    pub prefix: String,
    /// The file in which the last good state is kept, so that the gateway starts without etcd. Default none.
    pub cache: Option<PathBuf>,
    /// What this gateway calls itself there. Default the host's name and the process's number.
    pub name: Option<String>,
    /// The user, and the password.
    pub user: Option<(String, Secret)>,
    /// TLS towards members that are written with `https://`.
    pub tls: Option<UpstreamTls>,
}
