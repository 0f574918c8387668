//! The components of the gateway in its diagnostic log: the `target` of each event.
//!
//! An operator sets a level for each component (`log: {components: ...}`). Only events with one of these
//! targets are written; events of libraries are not. An event must not stand on the path of a plain request.
//! No event may contain a secret.

/// The admin listener: credentials, changes.
pub const ADMIN: &str = "admin";
/// The stream between a controller and its gateways.
pub const CONTROLLER: &str = "controller";
/// Discovery of endpoints.
pub const DISCOVERY: &str = "discovery";
/// etcd as a source.
pub const ETCD: &str = "etcd";
/// Start, stop, the access log, the levels themselves.
pub const GATEWAY: &str = "gateway";
/// Probes and ejections of endpoints.
pub const HEALTH: &str = "health";
/// Kubernetes as a source.
pub const KUBERNETES: &str = "kubernetes";
/// Connections of clients.
pub const LISTENER: &str = "listener";
/// Load that is refused for lack of memory or descriptors.
pub const OVERLOAD: &str = "overload";
/// Policies and the systems that they call.
pub const POLICY: &str = "policy";
/// Reloads and changes of the plan.
pub const RELOAD: &str = "reload";
/// TLS with clients and endpoints.
pub const TLS: &str = "tls";
/// Binary upgrades.
pub const UPGRADE: &str = "upgrade";
/// Connections to endpoints, retries, limits.
pub const UPSTREAM: &str = "upstream";

/// All components, sorted.
pub const ALL: [&str; 14] = [
    ADMIN, CONTROLLER, DISCOVERY, ETCD, GATEWAY, HEALTH, KUBERNETES, LISTENER, OVERLOAD, POLICY, RELOAD, TLS,
    UPGRADE, UPSTREAM,
];
