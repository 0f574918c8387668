//! A client for Redis or Valkey, with which several gateways count together: one atomic round trip per
//! question. The place is a single server, the master that Sentinel names, or a cluster.
//!
//! Questions are sent from the background I/O thread over one multiplexed connection. If the connection
//! breaks, or three consecutive questions get no response in time, the store counts as **lost**. Policies
//! then do not ask it, so requests lose no time. A background task reconnects.

mod connection;
mod keys;
mod outage_reports;
mod scripts;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use redis::IntoConnectionInfo;
use tokio::sync::Notify;
use tokio::time::timeout;
use tollgate_config::section::Word;
use tollgate_net::component;
use tracing::{info, warn};
use zeroize::Zeroize;

use self::connection::{StoreConnection, StoreConnector};
use self::outage_reports::OutageReports;
pub(crate) use self::scripts::StoreCall;
use crate::{BackgroundIo, PolicyStates};

pub(crate) use keys::RedisSettings;

/// The number of consecutive failures after which the store counts as lost.
const FAILURES_MAX: u32 = 3;
/// The shortest and the longest pause between two connection attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The maximum length in bytes of a client's value that is part of a key. Longer values are replaced by a
/// hash, which is longer than this.
const VALUE_MAX_BYTES: usize = 64;
/// The time limit to connect, authenticate and ping.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The address of a Redis, and the behavior while it is unavailable.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisRule {
    /// The servers.
    pub servers: RedisServers,
    /// The password, if it is not in the URL.
    pub password: Option<String>,
    /// How long a request waits for a response.
    pub timeout: Duration,
    /// The treatment of requests without a response.
    pub on_failure: OnFailure,
    /// The prefix of its keys.
    pub prefix: String,
}

/// The servers of a Redis. The value may contain a password, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub enum RedisServers {
    /// A single server.
    One {
        /// A URL with `redis://`, `rediss://` (TLS) or `unix://`, with user, password and database.
        url: String,
    },
    /// The current master of this name, as Sentinels announce it.
    Sentinel {
        /// The name of the master at the Sentinels.
        master: String,
        /// The Sentinels, as host and port.
        sentinels: Vec<(String, u16)>,
        /// The user and password for the Sentinels.
        login: (Option<String>, Option<String>),
        /// Whether the Sentinels use TLS.
        sentinel_tls: bool,
        /// The user at the master.
        user: Option<String>,
        /// The database at the master.
        database: u16,
        /// Whether the master uses TLS.
        tls: bool,
    },
    /// A cluster, given by some of its nodes.
    Cluster {
        /// The nodes to discover the cluster from, as host and port.
        nodes: Vec<(String, u16)>,
        /// The user at all nodes.
        user: Option<String>,
        /// Whether all nodes use TLS.
        tls: bool,
    },
}

/// The treatment of requests while the store of a shared limit is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Word)]
pub enum OnFailure {
    /// Each gateway enforces the limit on its own.
    #[default]
    Local,
    /// Requests pass.
    Open,
    /// Requests are refused.
    Closed,
}

impl fmt::Debug for RedisRule {
    /// Omits everything that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisRule")
            .field("timeout", &self.timeout)
            .field("on_failure", &self.on_failure)
            .finish()
    }
}

/// Wipes the passwords from memory.
impl Drop for RedisRule {
    fn drop(&mut self) {
        self.password.zeroize();
        match &mut self.servers {
            RedisServers::One { url } => url.zeroize(),
            RedisServers::Sentinel { login, .. } => login.1.zeroize(),
            RedisServers::Cluster { .. } => {}
        }
    }
}

impl RedisRule {
    /// Checks whether a URL is usable. The error never contains a part of the URL.
    ///
    /// # Errors
    /// The defect of the URL.
    pub fn check(url: &str) -> Result<(), &'static str> {
        match url.into_connection_info() {
            Ok(_) => Ok(()),
            Err(_) => Err("this is not a Redis URL"),
        }
    }

    /// Returns a text that identifies the server and the login, without separate passwords.
    fn identity(&self) -> String {
        match &self.servers {
            RedisServers::One { url } => url.clone(),
            RedisServers::Sentinel { master, sentinels, login, sentinel_tls, user, database, tls } => {
                format!(
                    "sentinel/{master}/{sentinels:?}/{:?}/{sentinel_tls}/{user:?}/{database}/{tls}",
                    login.0
                )
            }
            RedisServers::Cluster { nodes, user, tls } => format!("cluster/{nodes:?}/{user:?}/{tls}"),
        }
    }

    /// Returns the address for messages, without anything that may be secret.
    fn address(&self) -> String {
        match &self.servers {
            RedisServers::One { url } => {
                let info = url.as_str().into_connection_info();
                info.map_or_else(|_| "Redis".to_owned(), |info| info.addr().to_string())
            }
            RedisServers::Sentinel { master, .. } => format!("master {master}"),
            RedisServers::Cluster { nodes, .. } => {
                let first = nodes.first().map(|(host, port)| format!("{host}:{port}")).unwrap_or_default();
                format!("cluster of {first}")
            }
        }
    }
}

/// The store did not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unavailable;

/// A Redis, and the connection to it.
#[derive(Debug)]
pub(crate) struct RedisStore {
    rule: RedisRule,
    started: AtomicBool,
    state: AtomicU8,
    failures: AtomicU32,
    connection: Mutex<Option<StoreConnection>>,
    /// Notified when the first connection attempt has succeeded or failed.
    known: Notify,
    lost: Notify,
    /// Limits the messages on standard error.
    outage_reports: Mutex<OutageReports>,
}

/// No connection attempt has finished yet.
const UNKNOWN: u8 = 0;
const REACHED: u8 = 1;
const LOST: u8 = 2;

impl RedisStore {
    /// Returns the store of this rule. All policies with an equal rule share it.
    pub fn for_rule(rule: &RedisRule, shared: &PolicyStates) -> Arc<Self> {
        // The identity may contain a password, and the key outlives the rule.
        let identity = digest(&SHA256, rule.identity().as_bytes());
        let key = format!("redis/{:?}/{:?}/{}", identity.as_ref(), rule.timeout, rule.prefix);
        let fits =
            |store: &RedisStore| store.rule.password == rule.password && store.rule.servers == rule.servers;
        shared.state(&key, fits, || RedisStore {
            rule: rule.clone(),
            started: AtomicBool::new(false),
            state: AtomicU8::new(UNKNOWN),
            failures: AtomicU32::new(0),
            connection: Mutex::new(None),
            known: Notify::new(),
            lost: Notify::new(),
            outage_reports: Mutex::default(),
        })
    }

    /// Whether the store is lost and must not be asked.
    pub fn is_lost(&self) -> bool {
        self.state.load(Ordering::Acquire) == LOST
    }

    /// Returns how long a request waits for a response.
    pub fn timeout(&self) -> Duration {
        self.rule.timeout
    }

    /// Builds a key in the store: the prefix, the parts and the client's value. A long value is replaced by
    /// its hash, so that clients cannot fill the store; no short value can equal a hash. A value with braces
    /// is hashed too, because braces would let a client choose the cluster node of the key.
    pub fn key(&self, parts: &[&[u8]], value: Option<&[u8]>) -> Vec<u8> {
        let mut key = self.rule.prefix.clone().into_bytes();
        for part in parts {
            key.push(b':');
            key.extend_from_slice(part);
        }
        key.push(b':');
        match value.unwrap_or_default() {
            long if long.len() > VALUE_MAX_BYTES || long.iter().any(|byte| matches!(byte, b'{' | b'}')) => {
                key.extend_from_slice(b"sha256=");
                for byte in digest(&SHA256, long).as_ref() {
                    key.extend_from_slice(format!("{byte:02x}").as_bytes());
                }
            }
            value => key.extend_from_slice(value),
        }
        key
    }

    /// Asks the store, within the rule's timeout. Must run on the background I/O thread.
    pub async fn ask(
        self: &Arc<Self>,
        side: &BackgroundIo,
        question: StoreCall,
    ) -> Result<(i64, i64), Unavailable> {
        if !self.started.swap(true, Ordering::AcqRel) {
            side.spawn(keep_connected(Arc::downgrade(self)));
        }
        let asked = timeout(self.rule.timeout, async {
            let mut connection = self.connected().await.ok_or(Unavailable)?;
            let answer = connection.ask(&question).await;
            if answer.as_ref().is_err_and(|error| connection.is_lost_by(error)) {
                self.mark_lost();
            }
            answer.map_err(|_| Unavailable)
        });
        match asked.await {
            Ok(Ok(answer)) => {
                self.failures.store(0, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(_)) | Err(_) => {
                if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES_MAX {
                    self.mark_lost();
                }
                Err(Unavailable)
            }
        }
    }

    async fn connected(&self) -> Option<StoreConnection> {
        loop {
            let known = self.known.notified();
            match self.state.load(Ordering::Acquire) {
                REACHED => return self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                LOST => return None,
                _ => known.await,
            }
        }
    }

    fn mark_lost(&self) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let before = self.state.swap(LOST, Ordering::AcqRel);
        if before == REACHED {
            self.lost.notify_one();
        }
        self.known.notify_waiters();
        if before != LOST {
            self.report(false);
        }
    }

    /// Reports on standard error that the store is lost or back.
    fn report(&self, reached: bool) {
        let mut outage_reports = self.outage_reports.lock().unwrap_or_else(PoisonError::into_inner);
        if outage_reports.must_report(reached, Instant::now()) {
            let place = self.rule.address();
            match reached {
                true => info!(target: component::POLICY, "redis: {place}: it is back"),
                false => warn!(
                    target: component::POLICY,
                    "redis: {place}: no answer; limits do as their `on_failure` says until it is back"
                ),
            }
        }
    }

    fn mark_reached(&self, connection: StoreConnection) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        self.failures.store(0, Ordering::Relaxed);
        self.state.store(REACHED, Ordering::Release);
        self.known.notify_waiters();
        self.report(true);
    }
}

/// Connects to the store, and reconnects after a loss, until the store is dropped.
async fn keep_connected(store: Weak<RedisStore>) {
    let mut pause = BACKOFF.0;
    loop {
        let Some(connector) = store.upgrade().map(|store| StoreConnector::new(&store.rule)) else { return };
        let reached = match connector {
            Ok(connector) => timeout(CONNECT_TIMEOUT, connector.connect()).await.ok().flatten(),
            Err(_) => None,
        };
        let Some(kept) = store.upgrade() else { return };
        match reached {
            Some(connection) => {
                pause = BACKOFF.0;
                kept.mark_reached(connection);
                drop(kept);
                // Polls every second, so that this task ends when the store is dropped.
                while let Some(kept) = store.upgrade() {
                    let _ = timeout(Duration::from_secs(1), kept.lost.notified()).await;
                    if kept.is_lost() {
                        break;
                    }
                }
            }
            None => {
                kept.mark_lost();
                drop(kept);
                pause = (2 * pause).min(BACKOFF.1);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_does_not_stand_in_a_key() {
        let rule = RedisRule {
            servers: RedisServers::One { url: "redis://127.0.0.1:1".to_owned() },
            password: None,
            timeout: Duration::from_secs(1),
            on_failure: OnFailure::Local,
            prefix: "p".to_owned(),
        };
        let store = RedisStore::for_rule(&rule, &PolicyStates::without_background_io());
        let key = |value: &[u8]| String::from_utf8(store.key(&[b"a", b"b"], Some(value))).expect("text");
        assert_eq!(store.key(&[b"a"], None), b"p:a:");
        assert_eq!(key(b"me"), "p:a:b:me");
        let (one, other) = (key(&[b'x'; 8000]), key(&[b'x'; 8001]));
        assert_eq!(one.len(), "p:a:b:sha256=".len() + 64);
        assert_eq!(key(b"{a}").len(), one.len(), "no client says where in a cluster it is");
        assert_ne!(one, other);
        let taken = one.strip_prefix("p:a:b:").expect("it begins so");
        assert_ne!(key(taken.as_bytes()), one, "nobody can say the hash in its place");
    }
}
