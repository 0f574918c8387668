//! The setting of one run of a system, from which its templates are rendered.

use crate::feature::Feature;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// A numeric address (such as 127.0.0.1) and a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Address {
    /// The address in digits.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Address {
    /// Returns a port of 127.0.0.1.
    pub fn local(port: u16) -> Self {
        Self::loopback(1, port)
    }

    /// Returns a port of 127.0.0.`nth`. On Linux the whole network 127.0.0.0/8 belongs to the loopback
    /// interface.
    pub fn loopback(nth: u8, port: u16) -> Self {
        Self { host: format!("127.0.0.{nth}"), port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A named group of origins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Upstream {
    /// Letters, digits, `-` and `_`. The first upstream of a setting is called `origin`.
    pub name: String,
    /// The addresses of the origins.
    pub origins: Vec<Address>,
}

/// A route: requests whose path begins with a prefix go to an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Letters, digits, `-` and `_`, unique in a setting.
    pub name: String,
    /// The path prefix, which begins and ends with `/`.
    pub prefix: String,
    /// The name of an upstream.
    pub upstream: String,
}

/// A virtual host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VirtualHost {
    /// The host name, in lower case, without a port.
    pub host: String,
    /// The routes of the host; other requests go to the upstream `origin`.
    pub routes: Vec<Route>,
}

/// A certificate and its key as PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsFiles {
    /// The certificate, self-signed or with its chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Ports on 127.0.0.1 of the services that features call; 0 means none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Partners {
    /// The authorizer of `Feature::ExtAuthz`, which allows every request.
    pub authorizer: u16,
    /// The Redis of `Feature::SharedRateLimit`.
    pub redis: u16,
}

/// Timeouts in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// To connect to an origin.
    pub connect: u32,
    /// To receive an origin's response.
    pub response: u32,
    /// For a connection without a request, on both the client's and the origin's side.
    pub idle: u32,
}

/// The set-up of one run of a system.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The address to listen on.
    pub listen: Address,
    /// A second free port, for the admin listener.
    pub admin_port: u16,
    /// Worker processes, threads or processors: exactly this number.
    pub workers: u32,
    /// The upstreams; the first gets the requests that no route matches.
    pub upstreams: Vec<Upstream>,
    /// Routes for hosts that are not in `hosts`.
    pub routes: Vec<Route>,
    /// Virtual hosts.
    pub hosts: Vec<VirtualHost>,
    /// The enabled features. `Routes`, `Hosts` and `Balancing` follow from the fields above.
    pub features: BTreeSet<Feature>,
    /// Values of the system's own options; the others have their defaults.
    pub options: BTreeMap<String, String>,
    /// A folder that only this run uses.
    pub folder: PathBuf,
    /// The certificate for `Feature::Tls`.
    pub tls: Option<TlsFiles>,
    /// The services that features call.
    pub partners: Partners,
    /// The timeouts to configure.
    pub timeouts: Timeouts,
    /// Idle connections to the origin that the system may keep.
    pub keepalive: u32,
    /// Client connections that the system must accept at once.
    pub clients: u32,
    /// The limit of open files of a process.
    pub file_limit: u64,
    /// The number of CPUs that it may run on.
    pub cores: u32,
    /// The CPU quota in cores, if there is one.
    pub quota: Option<f64>,
    /// The memory limit in MiB, if there is one.
    pub memory_mib: Option<u64>,
    /// Whether the system is started as root.
    pub root: bool,
}

impl Setting {
    /// Returns a setting with one worker between a port and one origin on 127.0.0.1. Only the forwarding
    /// headers are enabled.
    pub fn new(port: u16, admin_port: u16, origin: u16, folder: PathBuf) -> Self {
        Self {
            listen: Address::local(port),
            admin_port,
            workers: 1,
            upstreams: vec![Upstream { name: "origin".to_owned(), origins: vec![Address::local(origin)] }],
            routes: Vec::new(),
            hosts: Vec::new(),
            features: BTreeSet::from([Feature::ForwardedHeaders]),
            options: BTreeMap::new(),
            folder,
            tls: None,
            partners: Partners::default(),
            timeouts: Timeouts { connect: 5, response: 60, idle: 600 },
            keepalive: 512,
            clients: 1_000,
            file_limit: rustix::process::getrlimit(rustix::process::Resource::Nofile)
                .current
                .unwrap_or(1_024),
            cores: 1,
            quota: None,
            memory_mib: None,
            root: rustix::process::geteuid().is_root(),
        }
    }

    /// Returns the enabled features, including features that follow from the routes, hosts and origins.
    pub fn wanted(&self) -> BTreeSet<Feature> {
        let mut wanted = self.features.clone();
        let several = self.upstreams.iter().any(|upstream| upstream.origins.len() > 1);
        for (feature, any) in [
            (Feature::Routes, !self.routes.is_empty()),
            (Feature::Hosts, !self.hosts.is_empty()),
            (Feature::Balancing, several),
        ] {
            if any {
                wanted.insert(feature);
            } else {
                wanted.remove(&feature);
            }
        }
        wanted
    }

    /// Returns the path to which `Feature::AccessLog` writes.
    pub fn access_log(&self) -> PathBuf {
        self.folder.join("access.log")
    }

    /// Adds `count` routes `/r00000/`, `/r00001/`... to the first upstream.
    pub fn with_routes(mut self, count: u32) -> Self {
        self.routes = (0..count)
            .map(|index| Route {
                name: format!("r{index:05}"),
                prefix: format!("/r{index:05}/"),
                upstream: "origin".to_owned(),
            })
            .collect();
        self
    }
}
