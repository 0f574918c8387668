//! Redis or Valkey, where something is counted over several gateways: one atomic round trip a question. It is one server, the
//! master that Sentinel names, or a cluster.
//!
//! Questions are asked on the policies' thread over one connection, which carries them all at once. When it breaks, or three
//! questions in a row get no answer in time, the store counts as **lost**: nobody asks it any more, so that it costs nobody
//! time, until somebody beside the requests has reached it again.

mod connection;
mod scripts;
mod told;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use redis::IntoConnectionInfo;
use tokio::sync::Notify;
use tokio::time::timeout;
use tollgate_net::notice;
use zeroize::Zeroize;

use self::connection::{Connection, Connector};
pub(crate) use self::scripts::Question;
use self::told::Told;
use crate::{Shared, Side};

/// Questions in a row without an answer in time, from which on the store counts as lost.
const MOST_FAILURES: u32 = 3;
/// Between two attempts to reach it: from, and up to.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The longest value of a client's that stands in a key as it is, in bytes: shorter than what stands for longer ones.
const LONGEST: usize = 64;
/// To connect, to log in, and to be asked whether it is there.
const CONNECT: Duration = Duration::from_secs(2);

/// Where a Redis is, and what happens when it is not.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisRule {
    /// Where it is.
    pub place: RedisPlace,
    /// The password, if it is not in the URL.
    pub password: Option<String>,
    /// How long a request waits for an answer.
    pub timeout: Duration,
    /// What becomes of requests without one.
    pub on_failure: OnFailure,
    /// What its keys begin with.
    pub prefix: String,
}

/// Where a Redis is. It may have a password in it, so nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub enum RedisPlace {
    /// One server.
    One {
        /// `redis://`, `rediss://` (TLS) or `unix://`, with user, password and database.
        url: String,
    },
    /// The master of this name, which moves from server to server.
    Sentinel {
        /// The name that the Sentinels have for it.
        master: String,
        /// The Sentinels, as host and port.
        sentinels: Vec<(String, u16)>,
        /// The user and password of the Sentinels.
        login: (Option<String>, Option<String>),
        /// Whether the Sentinels speak TLS.
        sentinel_tls: bool,
        /// The user at the master.
        user: Option<String>,
        /// The database at the master.
        database: u16,
        /// Whether the master speaks TLS.
        tls: bool,
    },
    /// A cluster, by some of its nodes.
    Cluster {
        /// Nodes that are asked for the others, as host and port.
        nodes: Vec<(String, u16)>,
        /// The user.
        user: Option<String>,
        /// Whether all of its nodes speak TLS.
        tls: bool,
    },
}

/// What becomes of requests that a shared limit cannot be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Each gateway holds the limit by itself.
    #[default]
    Local,
    /// They pass.
    Open,
    /// They are refused.
    Closed,
}

impl fmt::Debug for RedisRule {
    /// Without what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisRule")
            .field("timeout", &self.timeout)
            .field("on_failure", &self.on_failure)
            .finish()
    }
}

/// Its passwords are wiped from memory.
impl Drop for RedisRule {
    fn drop(&mut self) {
        self.password.zeroize();
        match &mut self.place {
            RedisPlace::One { url } => url.zeroize(),
            RedisPlace::Sentinel { login, .. } => login.1.zeroize(),
            RedisPlace::Cluster { .. } => {}
        }
    }
}

impl RedisRule {
    /// Why such a URL cannot be used; never a part of it.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check(url: &str) -> Result<(), &'static str> {
        match url.into_connection_info() {
            Ok(_) => Ok(()),
            Err(_) => Err("this is no URL of a Redis"),
        }
    }

    /// What tells it from others, its passwords aside.
    fn identity(&self) -> String {
        match &self.place {
            RedisPlace::One { url } => url.clone(),
            RedisPlace::Sentinel { master, sentinels, login, sentinel_tls, user, database, tls } => {
                format!(
                    "sentinel/{master}/{sentinels:?}/{:?}/{sentinel_tls}/{user:?}/{database}/{tls}",
                    login.0
                )
            }
            RedisPlace::Cluster { nodes, user, tls } => format!("cluster/{nodes:?}/{user:?}/{tls}"),
        }
    }

    /// Where it is, without what may be secret.
    fn place(&self) -> String {
        match &self.place {
            RedisPlace::One { url } => {
                let info = url.as_str().into_connection_info();
                info.map_or_else(|_| "Redis".to_owned(), |info| info.addr().to_string())
            }
            RedisPlace::Sentinel { master, .. } => format!("master {master}"),
            RedisPlace::Cluster { nodes, .. } => {
                let first = nodes.first().map(|(host, port)| format!("{host}:{port}")).unwrap_or_default();
                format!("cluster of {first}")
            }
        }
    }
}

/// It did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unavailable;

/// A Redis, and the connection to it.
#[derive(Debug)]
pub(crate) struct Store {
    rule: RedisRule,
    started: AtomicBool,
    state: AtomicU8,
    failures: AtomicU32,
    connection: Mutex<Option<Connection>>,
    /// It was reached, or it is known that it was not.
    known: Notify,
    lost: Notify,
    /// What the standard error was told.
    told: Mutex<Told>,
}

/// Nobody has tried yet.
const UNKNOWN: u8 = 0;
const REACHED: u8 = 1;
const LOST: u8 = 2;

impl Store {
    /// The store of this rule, which all policies share that have the same.
    pub fn of(rule: &RedisRule, shared: &Shared) -> Arc<Self> {
        // It may hold a password, and the key outlives the rule.
        let identity = digest(&SHA256, rule.identity().as_bytes());
        let key = format!("redis/{:?}/{:?}/{}", identity.as_ref(), rule.timeout, rule.prefix);
        let fits = |store: &Store| store.rule.password == rule.password && store.rule.place == rule.place;
        shared.state(&key, fits, || Store {
            rule: rule.clone(),
            started: AtomicBool::new(false),
            state: AtomicU8::new(UNKNOWN),
            failures: AtomicU32::new(0),
            connection: Mutex::new(None),
            known: Notify::new(),
            lost: Notify::new(),
            told: Mutex::default(),
        })
    }

    /// Whether there is no use in asking.
    pub fn is_lost(&self) -> bool {
        self.state.load(Ordering::Acquire) == LOST
    }

    /// How long somebody waits for an answer.
    pub fn timeout(&self) -> Duration {
        self.rule.timeout
    }

    /// The whole name of a key, with what a client says of itself last: if that is long, its hash stands there, which no
    /// short value can be, so that no client makes the store keep much. So it does of a value with a brace: by those a client
    /// could say which node of a cluster has the key.
    pub fn key(&self, parts: &[&[u8]], value: Option<&[u8]>) -> Vec<u8> {
        let mut key = self.rule.prefix.clone().into_bytes();
        for part in parts {
            key.push(b':');
            key.extend_from_slice(part);
        }
        key.push(b':');
        match value.unwrap_or_default() {
            long if long.len() > LONGEST || long.iter().any(|byte| matches!(byte, b'{' | b'}')) => {
                key.extend_from_slice(b"sha256=");
                for byte in digest(&SHA256, long).as_ref() {
                    key.extend_from_slice(format!("{byte:02x}").as_bytes());
                }
            }
            value => key.extend_from_slice(value),
        }
        key
    }

    /// Asks; on the policies' thread. Ends within the rule's time.
    pub async fn ask(self: &Arc<Self>, side: &Side, question: Question) -> Result<(i64, i64), Unavailable> {
        if !self.started.swap(true, Ordering::AcqRel) {
            side.spawn(keep(Arc::downgrade(self)));
        }
        let asked = timeout(self.rule.timeout, async {
            let mut connection = self.connected().await.ok_or(Unavailable)?;
            let answer = connection.ask(&question).await;
            if answer.as_ref().is_err_and(|error| connection.is_lost_by(error)) {
                self.lose();
            }
            answer.map_err(|_| Unavailable)
        });
        match asked.await {
            Ok(Ok(answer)) => {
                self.failures.store(0, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(_)) | Err(_) => {
                if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_FAILURES {
                    self.lose();
                }
                Err(Unavailable)
            }
        }
    }

    async fn connected(&self) -> Option<Connection> {
        loop {
            let known = self.known.notified();
            match self.state.load(Ordering::Acquire) {
                REACHED => return self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                LOST => return None,
                _ => known.await,
            }
        }
    }

    fn lose(&self) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let before = self.state.swap(LOST, Ordering::AcqRel);
        if before == REACHED {
            self.lost.notify_one();
        }
        self.known.notify_waiters();
        if before != LOST {
            self.tell(false);
        }
    }

    /// Says that it is lost, or back.
    fn tell(&self, reached: bool) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_news(reached, Instant::now()) {
            let place = self.rule.place();
            match reached {
                true => notice!("redis: {place}: it is back"),
                false => notice!(
                    "warning: redis: {place}: no answer; limits do as their `on_failure` says until it is back"
                ),
            }
        }
    }

    fn reach(&self, connection: Connection) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        self.failures.store(0, Ordering::Relaxed);
        self.state.store(REACHED, Ordering::Release);
        self.known.notify_waiters();
        self.tell(true);
    }
}

/// Reaches the store, again and again, for as long as somebody has it.
async fn keep(store: Weak<Store>) {
    let mut pause = BACKOFF.0;
    loop {
        let Some(connector) = store.upgrade().map(|store| Connector::new(&store.rule)) else { return };
        let reached = match connector {
            Ok(connector) => timeout(CONNECT, connector.connect()).await.ok().flatten(),
            Err(_) => None,
        };
        let Some(kept) = store.upgrade() else { return };
        match reached {
            Some(connection) => {
                pause = BACKOFF.0;
                kept.reach(connection);
                drop(kept);
                // Looked at now and then, so that this ends when nobody has the store any longer.
                while let Some(kept) = store.upgrade() {
                    let _ = timeout(Duration::from_secs(1), kept.lost.notified()).await;
                    if kept.is_lost() {
                        break;
                    }
                }
            }
            None => {
                kept.lose();
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
            place: RedisPlace::One { url: "redis://127.0.0.1:1".to_owned() },
            password: None,
            timeout: Duration::from_secs(1),
            on_failure: OnFailure::Local,
            prefix: "p".to_owned(),
        };
        let store = Store::of(&rule, &Shared::silent());
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
