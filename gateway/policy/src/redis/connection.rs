//! Connections to a single Redis, to the master that Sentinel names, and to a cluster.
//!
//! A [`StoreConnector`] opens a [`StoreConnection`], which multiplexes questions and knows which errors make
//! it unusable.

use redis::aio::MultiplexedConnection;
use redis::cluster::{ClusterClient, ClusterConfig};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult, ServerErrorKind, TlsMode,
};

use super::{CONNECT_TIMEOUT, RedisRule, RedisServers, StoreCall};

/// A factory of connections. It keeps none itself.
pub(super) enum StoreConnector {
    /// Connects to a single server.
    One(Box<Client>),
    /// Connects to the current master.
    Sentinel(Box<SentinelClient>),
    /// Connects to every node of a cluster.
    Cluster(Box<ClusterClient>),
}

impl StoreConnector {
    /// Creates the connector of a rule.
    ///
    /// # Errors
    /// When the rule's addresses are invalid.
    pub fn new(rule: &RedisRule) -> RedisResult<Self> {
        // Otherwise the library uses the compiled-in provider, and panics if there is not exactly one.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        match &rule.servers {
            RedisServers::One { url } => {
                let info = url.as_str().into_connection_info()?;
                let settings = match &rule.password {
                    Some(password) => info.redis_settings().clone().set_password(password),
                    None => info.redis_settings().clone(),
                };
                let info = info.set_redis_settings(settings.set_skip_set_lib_name());
                Ok(Self::One(Box::new(Client::open(info)?)))
            }
            RedisServers::Sentinel { master, sentinels, login, sentinel_tls, user, database, tls } => {
                let sentinels = sentinels.iter().map(|at| address(at, *sentinel_tls));
                let mut client =
                    SentinelClientBuilder::new(sentinels, master.as_str(), SentinelServerType::Master)?
                        .set_client_to_redis_db(i64::from(*database));
                if *sentinel_tls {
                    client = client.set_client_to_sentinel_tls_mode(TlsMode::Secure);
                }
                if *tls {
                    client = client.set_client_to_redis_tls_mode(TlsMode::Secure);
                }
                if let Some(user) = &login.0 {
                    client = client.set_client_to_sentinel_username(user);
                }
                if let Some(password) = &login.1 {
                    client = client.set_client_to_sentinel_password(password);
                }
                if let Some(user) = user {
                    client = client.set_client_to_redis_username(user);
                }
                if let Some(password) = &rule.password {
                    client = client.set_client_to_redis_password(password);
                }
                Ok(Self::Sentinel(Box::new(client.build()?)))
            }
            RedisServers::Cluster { nodes, user, tls } => {
                let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
                if let Some(user) = user {
                    settings = settings.set_username(user);
                }
                if let Some(password) = &rule.password {
                    settings = settings.set_password(password);
                }
                let nodes = nodes.iter().map(|at| {
                    let info: ConnectionInfo = address(at, *tls).into_connection_info()?;
                    Ok(info.set_redis_settings(settings.clone()))
                });
                let nodes = nodes.collect::<RedisResult<Vec<_>>>()?;
                // A request waits for a response that may take one or two redirects to other nodes.
                Ok(Self::Cluster(Box::new(ClusterClient::builder(nodes).retries(2).build()?)))
            }
        }
    }

    /// Connects and verifies the connection with a ping. The caller sets the time limit.
    pub async fn connect(self) -> Option<StoreConnection> {
        // The callers set their own time limits.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connection = match self {
            Self::One(client) => {
                client.get_multiplexed_async_connection_with_config(&config).await.map(StoreConnection::One)
            }
            Self::Sentinel(mut client) => {
                client.get_async_connection_with_config(&config).await.map(StoreConnection::One)
            }
            Self::Cluster(client) => {
                let config = ClusterConfig::new()
                    .set_connection_timeout(CONNECT_TIMEOUT)
                    .set_response_timeout(CONNECT_TIMEOUT);
                client.get_async_connection_with_config(config).await.map(StoreConnection::Cluster)
            }
        };
        let mut connection = connection.ok()?;
        connection.ping().await.ok()?;
        Some(connection)
    }
}

/// Returns the address, in plain text or with TLS that verifies the host.
fn address((host, port): &(String, u16), tls: bool) -> ConnectionAddr {
    let (host, port) = (host.clone(), *port);
    match tls {
        true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        false => ConnectionAddr::Tcp(host, port),
    }
}

/// A connection that multiplexes questions. Clones share it.
#[derive(Clone)]
pub(super) enum StoreConnection {
    One(MultiplexedConnection),
    /// Routes each key to its node and follows changes of the cluster.
    Cluster(ClusterConnection),
}

impl StoreConnection {
    /// Asks the store a question.
    ///
    /// # Errors
    /// When the store does not respond, or responds with an error.
    pub async fn ask(&mut self, question: &StoreCall) -> RedisResult<(i64, i64)> {
        match self {
            Self::One(connection) => question.ask(connection).await,
            Self::Cluster(connection) => question.ask(connection).await,
        }
    }

    async fn ping(&mut self) -> RedisResult<String> {
        let ping = redis::cmd("PING");
        match self {
            Self::One(connection) => ping.query_async(connection).await,
            Self::Cluster(connection) => ping.query_async(connection).await,
        }
    }

    /// Whether an error makes this connection unusable. The library reconnects to a cluster on its own. Any
    /// other connection is lost when its server ends or becomes a replica, which rejects writes.
    pub fn is_lost_by(&self, error: &RedisError) -> bool {
        match self {
            Self::One(_) => {
                error.is_unrecoverable_error() || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
            }
            Self::Cluster(_) => false,
        }
    }
}

impl std::fmt::Debug for StoreConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}
