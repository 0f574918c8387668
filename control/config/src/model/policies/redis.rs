//! `redis` of policies that count for several gateways.

use std::time::Duration;

use crate::model::{At, Secret};

/// The Redis or Valkey that counts for several gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// Address of the server, the Sentinels or the cluster.
    pub place: RedisAddress,
    /// Source position of the address.
    pub at: At,
    /// The password, if it is not in the URL.
    pub password: Option<Secret>,
    /// How long a request waits for Redis. Default 50 ms.
    pub timeout: Duration,
    /// Treatment of requests while Redis does not answer.
    pub on_failure: OnFailure,
    /// Prefix of its keys. Default `tollgate`.
    pub prefix: String,
}

/// Address of a Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisAddress {
    /// One server (`url`). The URL may contain a password, so it is never shown.
    Url(Secret),
    /// The master that Sentinels report (`sentinel`).
    Sentinel(RedisSentinel),
    /// A cluster (`cluster`).
    Cluster {
        /// Some of its nodes, as host and port.
        nodes: Vec<(String, u16)>,
        /// User name.
        user: Option<String>,
        /// Whether all nodes use TLS.
        tls: bool,
    },
}

/// The master that Sentinels report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSentinel {
    /// Name of the master.
    pub master: String,
    /// The Sentinels, as host and port.
    pub addresses: Vec<(String, u16)>,
    /// User name at the Sentinels.
    pub sentinel_user: Option<String>,
    /// Password at the Sentinels.
    pub sentinel_password: Option<Secret>,
    /// Whether the Sentinels use TLS.
    pub sentinel_tls: bool,
    /// User name at the master.
    pub user: Option<String>,
    /// Number of the database at the master.
    pub database: u16,
    /// Whether the master uses TLS.
    pub tls: bool,
}

/// Treatment of requests while the shared counter is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Each gateway counts on its own (`local`).
    #[default]
    Local,
    /// They are admitted (`open`).
    Open,
    /// They are rejected (`closed`).
    Closed,
}
