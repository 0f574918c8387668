//! Single requests to one member: ranges, transactions, leases, and the stream of a watch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::wire::{
    ErrorResponse, LeaseResponse, PutResponse, RangeRequest, RangeResponse, TokenResponse, TxnResponse,
    encode_base64,
};
use crate::{ClientSettings, Error, EtcdEntry};

/// Time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit for a request.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of keys per page of a range.
const PAGE_KEYS: usize = 1000;
/// Bound of an answer, in bytes.
const RESPONSE_MAX_BYTES: usize = 256 << 20;
/// Idle time before the kernel probes a connection (TCP keepalive).
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// The gRPC code of a missing or expired token.
const UNAUTHENTICATED: u32 = 16;

/// A client of all members. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct EtcdClient(Arc<ClientState>);

#[derive(Debug)]
struct ClientState {
    settings: ClientSettings,
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The member that answered last.
    current: AtomicUsize,
    token: Mutex<Option<HeaderValue>>,
}

/// The state of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterState {
    /// Id of the cluster.
    pub cluster: u64,
    /// Its current revision.
    pub revision: u64,
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The key.
    pub key: String,
    /// The revision that last changed the key; 0: the key must not exist.
    pub revision: u64,
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a key.
    Put(String, Vec<u8>),
    /// Deletes keys: only the first one if the second is empty, else all keys from the first up to but
    /// excluding the second.
    Delete(String, String),
}

/// Operations that etcd performs together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Conditions that must all hold.
    pub compare: Vec<Compare>,
    /// Operations to perform if they hold.
    pub operations: Vec<Operation>,
}

/// Keys and values, as of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The revision.
    pub revision: u64,
    /// The entries, with whole keys.
    pub entries: Vec<EtcdEntry>,
}

impl EtcdClient {
    /// Creates a client. It sends nothing yet.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up, or the server name for certificates is not valid.
    pub fn new(settings: ClientSettings) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(KEEPALIVE_INTERVAL));
        tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(3));
        let config = match &settings.tls {
            Some(tls) => (*tls.config()).clone(),
            None => {
                let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
                let builder =
                    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
                let builder = builder.map_err(|error| error.to_string())?;
                builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
            }
        };
        let mut connector = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
        if let Some(name) = &settings.server_name {
            let name = ServerName::try_from(name.clone()).map_err(|error| error.to_string())?;
            connector = connector.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let mut builder = HttpClient::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).timer(TokioTimer::new());
        let http = builder.build(connector.enable_http1().wrap_connector(tcp));
        Ok(Self(Arc::new(ClientState {
            settings,
            http,
            current: AtomicUsize::new(0),
            token: Mutex::new(None),
        })))
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &ClientSettings {
        &self.0.settings
    }

    /// Returns the member that answered last.
    pub(crate) fn current(&self) -> usize {
        self.0.current.load(Ordering::Relaxed)
    }

    pub(crate) fn set_current_member(&self, member: usize) {
        self.0.current.store(member, Ordering::Relaxed);
    }

    pub(crate) fn member_count(&self) -> usize {
        self.0.settings.endpoints.len()
    }

    /// Returns the address of a member.
    pub(crate) fn endpoint(&self, member: usize) -> &str {
        let endpoints = &self.0.settings.endpoints;
        endpoints.get(member % endpoints.len().max(1)).map(String::as_str).unwrap_or_default()
    }

    /// Lists a range, page by page, all pages as of one revision.
    ///
    /// # Errors
    /// Returns an error if the member does not answer, or refuses.
    pub async fn list(&self, request: &RangeRequest) -> Result<Listing, Error> {
        let mut request = request.clone();
        let wanted = request.limit;
        let whole = wanted == 0;
        if whole {
            request.limit = PAGE_KEYS;
        }
        let mut entries = Vec::new();
        loop {
            let response: RangeResponse = self.request("/v3/kv/range", &request.body()).await?;
            // The revision of the first page; the other pages are read as of it.
            request.revision =
                if request.revision == 0 { response.header.revision } else { request.revision };
            let last = response.kvs.last().map(|kv| kv.key.0.clone());
            entries.extend(response.kvs.into_iter().map(|kv| EtcdEntry {
                key: String::from_utf8_lossy(&kv.key.0).into_owned(),
                value: Some(kv.value.0),
                revision: kv.mod_revision,
            }));
            match last {
                Some(mut last) if whole && response.more => {
                    last.push(0);
                    request.key = last;
                }
                _ => return Ok(Listing { revision: request.revision, entries }),
            }
        }
    }

    /// Lists the keys of a range, in order.
    ///
    /// # Errors
    /// Returns an error if the member does not answer, or refuses.
    pub async fn list_keys(&self, request: &RangeRequest) -> Result<Vec<String>, Error> {
        let mut body = request.body();
        body["keys_only"] = true.into();
        let response: RangeResponse = self.request("/v3/kv/range", &body).await?;
        Ok(response.kvs.into_iter().map(|kv| String::from_utf8_lossy(&kv.key.0).into_owned()).collect())
    }

    /// Asks a member for its state with a linearizable read, which needs a quorum. A member without contact
    /// to most others cannot answer it, and would otherwise return old data.
    pub(crate) async fn probe(&self, member: usize, timeout: Duration) -> Result<ClusterState, Error> {
        let key = self.0.settings.config_prefix();
        let body = json!({ "key": encode_base64(key.as_bytes()), "count_only": true });
        let response: RangeResponse = self.request_member(member, "/v3/kv/range", &body, timeout).await?;
        Ok(ClusterState { cluster: response.header.cluster_id, revision: response.header.revision })
    }

    /// Performs a transaction. Returns its revision, or `None` if a condition does not hold.
    ///
    /// # Errors
    /// Returns an error if the member does not answer, or refuses.
    pub async fn transact(&self, transaction: &Transaction) -> Result<Option<u64>, Error> {
        let compare: Vec<Value> = transaction
            .compare
            .iter()
            .map(|compare| {
                json!({
                    "key": encode_base64(compare.key.as_bytes()), "target": "MOD", "result": "EQUAL",
                    "mod_revision": compare.revision.to_string(),
                })
            })
            .collect();
        let operations: Vec<Value> = transaction.operations.iter().map(|operation| match operation {
            Operation::Put(key, value) => {
                json!({ "request_put": { "key": encode_base64(key.as_bytes()), "value": encode_base64(value) } })
            }
            Operation::Delete(key, end) => json!({
                "request_delete_range": { "key": encode_base64(key.as_bytes()), "range_end": encode_base64(end.as_bytes()) }
            }),
        }).collect();
        let body = json!({ "compare": compare, "success": operations });
        let response: TxnResponse = self.request("/v3/kv/txn", &body).await?;
        Ok(response.succeeded.then_some(response.header.revision))
    }

    /// Grants a lease, which expires after `seconds` unless it is kept alive.
    pub(crate) async fn grant_lease(&self, seconds: u64) -> Result<u64, Error> {
        let response: LeaseResponse =
            self.request("/v3/lease/grant", &json!({ "TTL": seconds.to_string() })).await?;
        Ok(response.id)
    }

    /// Keeps a lease alive. Returns false if it has expired.
    pub(crate) async fn keep_alive(&self, lease: u64) -> Result<bool, Error> {
        let body = json!({ "ID": lease.to_string() });
        let response: crate::wire::StreamMessage<LeaseResponse> =
            self.request("/v3/lease/keepalive", &body).await?;
        Ok(response.result.is_some_and(|lease| lease.ttl > 0))
    }

    /// Revokes a lease, which deletes its keys.
    pub(crate) async fn revoke_lease(&self, lease: u64) -> Result<(), Error> {
        self.request::<Value>("/v3/lease/revoke", &json!({ "ID": lease.to_string() })).await.map(drop)
    }

    /// Writes a key that is attached to a lease. Returns the revision.
    pub(crate) async fn put(&self, key: &str, value: &[u8], lease: u64) -> Result<u64, Error> {
        let body = json!({ "key": encode_base64(key.as_bytes()), "value": encode_base64(value), "lease": lease.to_string() });
        let response: PutResponse = self.request("/v3/kv/put", &body).await?;
        Ok(response.header.revision)
    }

    /// Writes a key that exists for some seconds. Returns the revision.
    ///
    /// # Errors
    /// Returns an error if the member does not answer, or refuses.
    pub async fn put_for(&self, key: &str, value: &[u8], seconds: u64) -> Result<u64, Error> {
        let lease = self.grant_lease(seconds).await?;
        self.put(key, value, lease).await
    }

    /// Opens the stream of a watch.
    pub(crate) async fn open_watch(&self, member: usize, body: &Value) -> Result<Incoming, Error> {
        let sent = tokio::time::timeout(REQUEST_TIMEOUT, self.send(member, "/v3/watch", body));
        let response = sent.await.unwrap_or_else(|_| Err(timeout_error(REQUEST_TIMEOUT)))?;
        if response.status() == StatusCode::OK {
            return Ok(response.into_body());
        }
        let status = response.status();
        let text = read_body(response, REQUEST_TIMEOUT).await?;
        Err(self.parse_error(status, &text))
    }

    async fn request<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Error> {
        self.request_member(self.current(), path, body, REQUEST_TIMEOUT).await
    }

    async fn request_member<T: DeserializeOwned>(
        &self,
        member: usize,
        path: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<T, Error> {
        let first = self.exchange(member, path, body, timeout).await;
        match first {
            // The token has expired, or etcd was restarted: try once more with a new token.
            Err(Error::Refused(UNAUTHENTICATED, _)) if self.0.settings.user.is_some() => {
                self.exchange(member, path, body, timeout).await
            }
            other => other,
        }
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        member: usize,
        path: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<T, Error> {
        let exchange = async {
            let response = self.send(member, path, body).await?;
            let status = response.status();
            let text = read_body(response, timeout).await?;
            if status != StatusCode::OK {
                return Err(self.parse_error(status, &text));
            }
            serde_json::from_slice(&text).map_err(|error| Error::InvalidResponse(error.to_string()))
        };
        tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| Err(timeout_error(timeout)))
    }

    async fn send(&self, member: usize, path: &str, body: &Value) -> Result<Response<Incoming>, Error> {
        let token = self.token(member).await?;
        self.post(member, path, body, token).await
    }

    async fn post(
        &self,
        member: usize,
        path: &str,
        body: &Value,
        token: Option<HeaderValue>,
    ) -> Result<Response<Incoming>, Error> {
        let endpoint = self.endpoint(member);
        let mut request = Request::post(format!("{endpoint}{path}")).header(CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(Full::new(Bytes::from(body.to_string())));
        let request = request.map_err(|error| Error::Unreachable(format!("{endpoint}: {error}")))?;
        self.0
            .http
            .request(request)
            .await
            .map_err(|error| Error::Unreachable(format!("{endpoint}: {}", root_cause(&error))))
    }

    /// Returns the token for user and password; `None` if no user is configured. The token is requested once,
    /// and again after a refusal.
    async fn token(&self, member: usize) -> Result<Option<HeaderValue>, Error> {
        let Some((name, password)) = &self.0.settings.user else { return Ok(None) };
        let known = self.0.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return Ok(known);
        }
        let body = json!({ "name": name, "password": password.0 });
        let response = self.post(member, "/v3/auth/authenticate", &body, None).await?;
        let status = response.status();
        let text = read_body(response, REQUEST_TIMEOUT).await?;
        if status != StatusCode::OK {
            return match self.parse_error(status, &text) {
                // Authentication is off in etcd, so no token is needed.
                Error::Refused(_, why) if why.contains("authentication is not enabled") => Ok(None),
                error => Err(error),
            };
        }
        let response: TokenResponse =
            serde_json::from_slice(&text).map_err(|error| Error::InvalidResponse(error.to_string()))?;
        let mut token = HeaderValue::from_str(&response.token)
            .map_err(|error| Error::InvalidResponse(error.to_string()))?;
        token.set_sensitive(true);
        *self.0.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(Some(token))
    }

    fn parse_error(&self, status: StatusCode, text: &[u8]) -> Error {
        let Ok(ErrorResponse { code, message }) = serde_json::from_slice(text) else {
            let start: String = String::from_utf8_lossy(text).chars().take(200).collect();
            return Error::InvalidResponse(format!("status {status}: {}", start.trim()));
        };
        if code == UNAUTHENTICATED {
            *self.0.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if message.contains("has been compacted") {
            return Error::Compacted(None);
        }
        Error::Refused(code, if message.is_empty() { format!("status {status}") } else { message })
    }
}

/// Reads the body of an answer, within bounds of size and time.
async fn read_body(response: Response<Incoming>, timeout: Duration) -> Result<Bytes, Error> {
    let body = Limited::new(response.into_body(), RESPONSE_MAX_BYTES).collect();
    let body = tokio::time::timeout(timeout, body).await.map_err(|_| timeout_error(timeout))?;
    body.map(|body| body.to_bytes())
        .map_err(|error| Error::Unreachable(format!("the answer broke off: {error}")))
}

fn timeout_error(timeout: Duration) -> Error {
    Error::Unreachable(format!("nothing came within {timeout:?}"))
}

/// Returns the innermost cause of an error, because the outermost says little.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = error.to_string();
        next = error.source();
    }
    text
}
