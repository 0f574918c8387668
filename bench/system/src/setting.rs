//! What one run asks of a system: the variables of its templates.

use crate::feature::Feature;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// A host and a port, with the address in digits (127.0.0.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Address {
    /// The address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Address {
    /// A port of 127.0.0.1.
    pub fn local(port: u16) -> Self {
        Self::loopback(1, port)
    }

    /// A port of 127.0.0.`nth`: on Linux the whole network 127.0.0.0/8 is the machine's own.
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
    /// Letters, digits, `-` and `_`; the first of a setting is called `origin`.
    pub name: String,
    /// Where they listen.
    pub origins: Vec<Address>,
}

/// Requests whose path begins with a prefix go to an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Letters, digits, `-` and `_`, unique in a setting.
    pub name: String,
    /// Begins and ends with `/`.
    pub prefix: String,
    /// The name of an upstream.
    pub upstream: String,
}

/// Requests for a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VirtualHost {
    /// The name, in lower case, without a port.
    pub host: String,
    /// Its routes; what they do not match goes to the upstream `origin`.
    pub routes: Vec<Route>,
}

/// A certificate and its key as PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsFiles {
    /// The certificate, self-signed or with its chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Services beside the origin that features ask, by their ports on 127.0.0.1; 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Partners {
    /// For `Feature::ExtAuthz`: lets every request through.
    pub authorizer: u16,
    /// For `Feature::SharedRateLimit`.
    pub redis: u16,
}

/// Whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// Connecting to an origin.
    pub connect: u32,
    /// Waiting for an origin's answer.
    pub response: u32,
    /// A connection without a request, on either side.
    pub idle: u32,
}

/// What one run asks of a system.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Where it listens.
    pub listen: Address,
    /// A second free port.
    pub admin_port: u16,
    /// Worker processes, threads or processors: exactly so many.
    pub workers: u32,
    /// Where requests go; the first takes what no route matches.
    pub upstreams: Vec<Upstream>,
    /// Routes for any host that is not in `hosts`.
    pub routes: Vec<Route>,
    /// Virtual hosts.
    pub hosts: Vec<VirtualHost>,
    /// What is switched on. `Routes`, `Hosts` and `Balancing` follow from the fields above.
    pub features: BTreeSet<Feature>,
    /// Choices of this system alone; what is not named takes its default.
    pub options: BTreeMap<String, String>,
    /// A folder of this run alone.
    pub folder: PathBuf,
    /// For `Feature::Tls`.
    pub tls: Option<TlsFiles>,
    /// Who else is asked.
    pub partners: Partners,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// Idle connections to the origin that may be kept.
    pub keepalive: u32,
    /// Client connections that there must be room for.
    pub clients: u32,
    /// Open files allowed to a process.
    pub file_limit: u64,
    /// CPUs that it may run on.
    pub cores: u32,
    /// CPU quota in cores, when there is one.
    pub quota: Option<f64>,
    /// Memory limit in MiB, when there is one.
    pub memory_mib: Option<u64>,
    /// Whether it is started with the rights of root.
    pub root: bool,
}

impl Setting {
    /// One worker between a port and one origin on 127.0.0.1, with forwarding headers and nothing else switched on.
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

    /// Everything that is switched on, with what follows from the routes, hosts and origins.
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

    /// Where `Feature::AccessLog` writes.
    pub fn access_log(&self) -> PathBuf {
        self.folder.join("access.log")
    }

    /// Adds so many routes `/r00000/`, `/r00001/`... to the first upstream.
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
