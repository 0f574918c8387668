//! The configuration as data, as every source (file, API, store) produces it.
//!
//! The reader rejects every value that is invalid alone, and every name in `to` that is missing under
//! `upstreams`; neither reaches these types. The plan's compiler finds routes with the same match, because it
//! knows how requests are matched. It reports positions through [`Spanned`].

use std::path::PathBuf;

mod percent;
mod policies;
mod upstream;

pub use crate::position::{At, SourceFile, Spanned};
pub use crate::scalar::address::{Address, EndpointAddress, Scheme};
pub use crate::scalar::cidr::Cidr;
pub use crate::scalar::time::Timestamp;
pub use crate::sections::*;
pub use percent::Percent;
pub use policies::{Attached, Policies, PolicySet, UsedSet};
pub use upstream::{GRPC_CODES, Secret};

/// The whole configuration, with defaults filled in.
#[derive(Clone, Debug)]
pub struct Config {
    /// The files read: the first is the one named on the command line.
    pub files: Vec<SourceFile>,
    /// Every file of certificates or keys that the configuration names.
    pub pem_files: Vec<PathBuf>,
    /// The listeners; at least one.
    pub listen: Vec<Listener>,
    /// Worker threads.
    pub workers: WorkerCount,
    /// The admin listener (`None`: off). Default 127.0.0.1:9911.
    pub admin: Option<AdminSettings>,
    /// Directories for files that documents of the API, the store and etcd may name. Default none.
    pub document_files: Vec<PathBuf>,
    /// The access logs of routes without their own. Default none.
    pub access_log: Vec<AccessLog>,
    /// The log of the gateway's own messages.
    pub log: DiagnosticLog,
    /// Request ids: off by default.
    pub request_id: RequestId,
    /// Statistics of routes and upstreams: on by default.
    pub metrics: Metrics,
    /// Fields that tell the upstream about the client and the proxies between.
    pub forwarded: Forwarded,
    /// Sizes and counts that a peer may not exceed.
    pub limits: Limits,
    /// Timeouts of the gateway.
    pub timeouts: Timeouts,
    /// Whether bodies are buffered before they are passed on, unless a route says otherwise. Default neither.
    pub buffer: Buffer,
    /// How ambiguous bytes of the path are treated.
    pub paths: Paths,
    /// Replacement bodies of the gateway's own error responses.
    pub errors: ErrorBodies,
    /// The routes, in the order written.
    pub routes: Vec<Route>,
    /// The streams, in the order written. A listener has a stream of its own in [`Listener::to`].
    pub streams: Vec<Stream>,
    /// Named upstreams, in the order written.
    pub upstreams: Vec<Upstream>,
    /// The zone of this gateway; endpoints of the same zone are preferred. Default none.
    pub zone: Option<String>,
    /// Whether the gateway watches the files and reloads when one changes. Default false.
    pub watch: bool,
    /// Bounds on the process's own memory and file descriptors.
    pub overload: Overload,
    /// The store of responses that all policies `cache` share.
    pub cache: CacheStore,
    /// Policies of every route.
    pub policies: Policies,
    /// The store that keeps changes made through the admin API. Default none: without etcd, the API is then
    /// read-only.
    pub store: Option<StoreSettings>,
    /// The etcd that shares resources between several gateways, instead of a store. Default none.
    pub etcd: Option<EtcdSettings>,
    /// The Kubernetes cluster whose objects are resources of this gateway. Default none.
    pub kubernetes: Option<KubernetesSettings>,
    /// The controller that this gateway takes its resources from. Default none.
    pub controller: Option<ControllerSettings>,
    /// The fleet that takes its resources from this process, which is a controller then. Default none.
    pub fleet: Option<FleetSettings>,
    /// Known consumers and their credentials.
    pub consumers: Vec<ConsumerSpec>,
    /// Certificates that several listeners may use.
    pub certificates: Vec<NamedCertificate>,
    /// Named sets of policies that other places use.
    pub policy_sets: Vec<PolicySet>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            pem_files: Vec::new(),
            listen: Vec::new(),
            workers: WorkerCount::default(),
            admin: Some(AdminSettings::default()),
            document_files: Vec::new(),
            access_log: Vec::new(),
            log: DiagnosticLog::default(),
            request_id: RequestId { enabled: false, ..RequestId::default() },
            metrics: Metrics::default(),
            forwarded: Forwarded::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            buffer: Buffer::default(),
            paths: Paths::default(),
            errors: ErrorBodies::default(),
            routes: Vec::new(),
            streams: Vec::new(),
            upstreams: Vec::new(),
            zone: None,
            watch: false,
            overload: Overload::default(),
            cache: CacheStore::default(),
            policies: Policies::default(),
            store: None,
            etcd: None,
            kubernetes: None,
            controller: None,
            fleet: None,
            consumers: Vec::new(),
            certificates: Vec::new(),
            policy_sets: Vec::new(),
        }
    }
}
