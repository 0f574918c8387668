//! `redis` of policies that count for several gateways.

use std::time::Duration;

use crate::model::{At, Secret};

/// The Redis or Valkey that counts for several gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// Where it is.
    pub place: RedisPlace,
    /// Where that is written.
    pub at: At,
    /// The password, if it is not in the URL.
    pub password: Option<Secret>,
    /// How long a request waits for an answer. Default 50 ms.
    pub timeout: Duration,
    /// What becomes of requests without one.
    pub on_failure: OnFailure,
    /// What its keys begin with. Default `tollgate`.
    pub prefix: String,
}

/// Where a Redis is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisPlace {
    /// One server (`url`); with a password perhaps, so it is shown nowhere.
    Url(Secret),
    /// The master that Sentinels name (`sentinel`).
    Sentinel(RedisSentinel),
    /// A cluster (`cluster`), by some of its nodes.
    Cluster {
        /// Some of its nodes, as host and port.
        nodes: Vec<(String, u16)>,
        /// The user.
        user: Option<String>,
        /// Whether all of them speak TLS.
        tls: bool,
    },
}

/// The master that Sentinels name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSentinel {
    /// What it is called.
    pub master: String,
    /// The Sentinels, as host and port.
    pub addresses: Vec<(String, u16)>,
    /// The user at the Sentinels.
    pub sentinel_user: Option<String>,
    /// The password at the Sentinels.
    pub sentinel_password: Option<Secret>,
    /// Whether the Sentinels speak TLS.
    pub sentinel_tls: bool,
    /// The user at the master.
    pub user: Option<String>,
    /// The database at the master.
    pub database: u16,
    /// Whether the master speaks TLS.
    pub tls: bool,
}

/// What becomes of requests that a shared count cannot be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Each gateway counts by itself (`local`).
    #[default]
    Local,
    /// They pass (`open`).
    Open,
    /// They are refused (`closed`).
    Closed,
}
