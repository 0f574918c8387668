//! The top level of the main file.
//!
//! `read::root` reads these keys once, from the main file, and puts them into the configuration. An included file
//! may only have `include`, `routes`, `streams` and `upstreams`: these are declared here, and `read::root` reads them for
//! each file.

use crate::model::{At, Config, Policies, PolicySet};
use crate::read::policy_sets;
use crate::section::{Field, Fields, Problem, Reader, Section, Shape, Text, Value};
use crate::spec::POLICY_SET_VALUE;

use super::admin::Admin;
use super::certificates::{NAMED_CERTIFICATE_VALUE, NamedCertificate, certificates};
use super::consumers::{CONSUMER_VALUE, ConsumerSpec, consumers};
use super::listen::{Listener, listeners};
use super::listener_conflicts::listener_conflicts;
use super::route::RouteKeys;
use super::stream::Stream;
use super::texts::ZONE;
use super::upstream::{UPSTREAM_VALUE, zone};
use super::{
    AccessLog, Buffer, CacheStore, ControllerSettings, DiagnosticLog, ErrorBodies, EtcdSettings,
    FleetSettings, Forwarded, KubernetesSettings, Limits, Metrics, Overload, Paths, RequestId, RouteBuffer,
    StoreSettings, Timeouts, WorkerCount,
};

static PATTERN_SHAPE: Shape = Shape::Text(&Text {
    expected: "the path of a file, or a pattern such as `routes/*.yaml`",
    pattern: Some("."),
    loose: false,
});
static ROUTE_SHAPE: Shape = Shape::Section(RouteKeys::SPEC);
static STREAM_SHAPE: Shape = Shape::Section(Stream::SPEC);

/// The configuration of a gateway. Keys that start with `x-` are ignored, so they can hold YAML anchors.
#[derive(Clone, Debug, Section)]
#[section(name = "configuration", noun = "the configuration", check = check)]
pub(crate) struct RootKeys {
    /// The listeners: one address or a list. A port without an address (`8080`, `:8080`) means all addresses
    /// of the machine, IPv4 and IPv6; `127.0.0.1:8080` accepts connections from this machine only. Required, unless
    /// `store`, `etcd` or `controller` may add some.
    #[key(
        list, read = listeners,
        also = ["listener", "port", "bind", "address", "server", "servers", "entrypoints"]
    )]
    listen: Vec<Listener>,
    /// Number of worker threads. `auto`: the number of processors that this process may use (affinity and
    /// cgroup quota).
    #[key(default = auto, also = ["worker_processes", "threads", "concurrency"])]
    workers: WorkerCount,
    /// The admin listener, which serves the dashboard, metrics, health and the admin API. A port without an
    /// address means the loopback address 127.0.0.1, unlike for `listen`.
    #[key(default = "127.0.0.1:9911")]
    admin: Admin,
    /// One or several logs with a line per request.
    #[key(default = off, also = ["logs", "accesslog", "access_logs"])]
    access_log: Vec<AccessLog>,
    /// The log of the gateway's own messages: a level, or a mapping.
    #[key(default = info, also = ["error_log", "logging", "logger", "log_level", "loglevel", "diagnostics"])]
    log: DiagnosticLog,
    /// An id for each request, sent upstream and logged.
    #[key(default = off)]
    request_id: RequestId,
    /// Whether statistics are kept, and for how many routes and upstreams each.
    #[key(default = on, also = ["statistics", "stats", "prometheus"])]
    metrics: Metrics,
    /// Fields that tell the upstream about the client and the proxies in between.
    forwarded: Forwarded,
    /// Sizes and counts that a peer may not exceed.
    limits: Limits,
    /// Timeouts.
    #[key(also = ["timeout"])]
    timeouts: Timeouts,
    /// Whether bodies are buffered before they are passed on, unless a route overrides it: `on` buffers both
    /// directions, `request` or `response` one of them.
    #[key(
        shape = <RouteBuffer as Value>::SHAPE, read = buffer, default = off,
        also = ["buffering", "proxy_request_buffering", "request_buffering"]
    )]
    buffer: Buffer,
    /// How ambiguous bytes of a path are treated.
    #[key(read = paths)]
    paths: Option<Paths>,
    /// Bodies of the gateway's own error responses.
    errors: ErrorBodies,
    /// Bounds on the process's memory and file descriptors. Beyond a bound the gateway sheds new work before
    /// old work fails.
    #[key(also = ["overload_manager", "shedding", "guards"])]
    overload: Overload,
    /// The store of responses that all policies `cache` share: its size, or a mapping.
    #[key(also = ["proxy_cache_path", "response_cache", "caches"])]
    cache: CacheStore,
    /// Known consumers and their credentials, by name.
    #[key(
        shape = Shape::MapOf(&CONSUMER_VALUE), read = consumers, also = ["consumer", "users", "clients"]
    )]
    consumers: Vec<ConsumerSpec>,
    /// Certificates by name, for every listener with `tls` or for some of them.
    #[key(
        shape = Shape::MapOf(&NAMED_CERTIFICATE_VALUE), read = certificates,
        also = ["certificate", "certs", "ssls"]
    )]
    certificates: Vec<NamedCertificate>,
    /// Policies that apply to requests. The innermost policy of each kind applies; `off` disables an
    /// inherited one.
    #[key(also = ["policy", "plugins", "middlewares", "filters", "http_filters"])]
    policies: Policies,
    /// Named sets of policies, which other places refer to with `use`.
    #[key(
        shape = Shape::MapOf(&POLICY_SET_VALUE), read = policy_sets,
        also = ["policy_set", "policies_sets", "plugin_configs", "shared_policies"]
    )]
    policy_sets: Vec<PolicySet>,
    /// The file that stores the resources written through the admin API.
    #[key(also = ["database", "db", "storage"])]
    store: Option<StoreSettings>,
    /// The etcd that shares the resources written through the admin API between several gateways; replaces
    /// `store`.
    etcd: Option<EtcdSettings>,
    /// The Kubernetes cluster whose Gateways and routes this gateway serves.
    #[key(also = ["k8s", "kube", "kubernetesGateway", "kubernetesIngress"])]
    kubernetes: Option<KubernetesSettings>,
    /// The controller that this gateway takes its resources from.
    #[key(also = ["control_plane", "controlPlane", "xds", "ads"])]
    controller: Option<ControllerSettings>,
    /// Hands the resources of this file and its source to gateways. The file then belongs to `tollgate controller`, which
    /// serves no requests itself.
    #[key(also = ["gateways", "followers"])]
    fleet: Option<FleetSettings>,
    /// The zone of this gateway; endpoints of the same zone are preferred.
    #[key(text = ZONE, parse = zone, also = ["locality", "region", "az", "availability_zone"])]
    zone: Option<String>,
    /// Whether the gateway watches its files and reloads when one changes.
    #[key(default = off, also = ["reload", "auto_reload", "hot_reload"])]
    watch: bool,
    /// Other files whose routes and upstreams are added.
    #[key(shape = Shape::OneOrMany(&PATTERN_SHAPE), read = of_every_file, also = ["includes", "import"])]
    include: (),
    /// The routes. Required, unless `include`, `store`, `etcd`, `kubernetes` or `controller` may add some.
    #[key(
        shape = Shape::ListOf(&ROUTE_SHAPE), read = of_every_file,
        also = ["route", "locations", "location", "rules"]
    )]
    routes: (),
    /// The streams: what listeners with `protocol: tcp` or `udp` relay, and the TLS connections that pass through
    /// undecrypted.
    #[key(
        shape = Shape::ListOf(&STREAM_SHAPE), read = of_every_file,
        also = ["stream", "tcp", "udp", "tcp_routes", "stream_routes", "tcpRoutes", "layer4"]
    )]
    streams: (),
    /// Named groups of endpoints.
    #[key(
        shape = Shape::MapOf(&UPSTREAM_VALUE), read = of_every_file,
        also = ["upstream", "backends", "backend", "clusters", "services"]
    )]
    upstreams: (),
}

impl RootKeys {
    /// Puts the values into the configuration. Returns whether `paths` was given and has an error.
    pub(crate) fn fill(self, config: &mut Config, fields: &Fields<'_>) -> bool {
        // The routes, the streams, the upstreams and the files to include are read for each file.
        let Self { include: (), routes: (), streams: (), upstreams: (), .. } = self;
        let paths_have_error = self.paths.is_none() && fields.get("paths").is_some();
        config.listen = self.listen;
        config.workers = self.workers;
        config.admin = self.admin.listener;
        config.document_files = self.admin.files;
        config.access_log = self.access_log;
        config.log = self.log;
        config.request_id = self.request_id;
        config.metrics = self.metrics;
        config.forwarded = self.forwarded;
        config.limits = self.limits;
        config.timeouts = self.timeouts;
        config.buffer = self.buffer;
        config.paths = self.paths.unwrap_or_default();
        config.errors = self.errors;
        config.overload = self.overload;
        config.cache = self.cache;
        config.consumers = self.consumers;
        config.certificates = self.certificates;
        config.policies = self.policies;
        config.policy_sets = self.policy_sets;
        config.store = self.store;
        config.etcd = self.etcd;
        config.kubernetes = self.kubernetes;
        config.controller = self.controller;
        config.fleet = self.fleet;
        if config.fleet.is_some() {
            // A controller serves no requests.
            config.workers = WorkerCount::Count(0);
        }
        config.zone = self.zone;
        config.watch = self.watch;
        paths_have_error
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, keys: &mut RootKeys) {
    let may_be_stored =
        ["store", "etcd", "kubernetes", "controller", "fleet"].into_iter().any(|key| fields.is_meant(key));
    if let Some(key) = fields.key("listen").filter(|_| !fields.is_meant("listen") && !may_be_stored) {
        let at = At { line: 0, ..fields.at };
        reader.missing(at, "no `listen`: the gateway would accept no connections".to_owned(), &key.shape);
    }
    reader
        .problems
        .extend(listener_conflicts(&keys.listen.iter().collect::<Vec<_>>(), keys.admin.listener.as_ref()));
    if let (Some(field), Some(_)) = (fields.get("etcd"), fields.get("store")) {
        let problem = Problem::error(field.at, "`etcd` and `store` exclude each other");
        let help = "changes made through the admin API are kept in one place: remove one of them";
        reader.problems.push(problem.help(help));
    }
    if let (Some(field), Some(other)) =
        (fields.get("kubernetes"), fields.get("etcd").or_else(|| fields.get("store")))
    {
        let message = format!("`kubernetes` and `{}` exclude each other", other.key.name);
        reader.problems.push(Problem::error(field.at, message).related(other.at, "the other source"));
    }
    let others = ["store", "etcd", "kubernetes", "fleet"];
    if let (Some(field), Some(other)) =
        (fields.get("controller"), others.into_iter().find_map(|key| fields.get(key)))
    {
        let message = format!("`controller` and `{}` exclude each other", other.key.name);
        let help = "a gateway takes its resources from the controller, and the controller from that source";
        reader.problems.push(Problem::error(field.at, message).related(other.at, "the other one").help(help));
    }
    let keeps_purges = keys.fleet.as_ref().is_some_and(|fleet| fleet.purges.is_some());
    if let (Some(field), Some(_), true) = (fields.get("fleet"), fields.get("etcd"), keeps_purges) {
        let problem = Problem::error(field.at, "`purges` of `fleet` has no effect with `etcd`");
        reader.problems.push(problem.help("etcd keeps the purges for all controllers: remove `purges`"));
    }
    if let (Some(workers), Some(_)) = (fields.get("workers"), fields.get("fleet")) {
        let message = "`workers` has no effect with `fleet`: a controller serves no requests";
        reader.problems.push(Problem::error(workers.at, message));
    }
}

fn buffer(reader: &mut Reader, field: Field<'_>) -> Option<Buffer> {
    RouteBuffer::read(reader, field).map(|buffer| buffer.over(&Buffer::default()))
}

/// Returns `None` after an error: routes cannot be compared then, because `paths` may change what a match means.
fn paths(reader: &mut Reader, field: Field<'_>) -> Option<Paths> {
    let start = reader.problems.len();
    reader.section(field).filter(|_| !reader.has_errors_since(start))
}

/// Skips a key that is read for each file, because included files have it too.
fn of_every_file(_: &mut Reader, _: Field<'_>) -> Option<()> {
    Some(())
}
