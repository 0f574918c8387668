//! Single requests to one member.

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

use crate::wire::{Failure, LeaseResponse, RangeRequest, RangeResponse, TokenResponse, TxnResponse, encoded};
use crate::{Entry, Error, Settings};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_millis(500);
/// How long a request may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// Keys that are asked for at once.
const PAGE: usize = 1000;
/// Bytes of an answer.
const LARGEST: usize = 256 << 20;
/// After what silence a connection is asked whether it still is one.
const ALIVE: Duration = Duration::from_secs(2);

/// gRPC's code for who is not, or no longer, known.
const UNAUTHENTICATED: u32 = 16;

/// A client of all members. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The member that answered last.
    current: AtomicUsize,
    token: Mutex<Option<HeaderValue>>,
}

/// Where a cluster is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Which cluster.
    pub cluster: u64,
    /// Its last revision.
    pub revision: u64,
}

/// What a transaction demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// Of which key.
    pub key: String,
    /// The revision that changed it last; 0: it is not there.
    pub revision: u64,
}

/// What a transaction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a key.
    Put(String, Vec<u8>),
    /// Takes keys away: this one, or if the second is not empty all from this one to before that one.
    Delete(String, String),
}

/// All of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What must hold.
    pub compare: Vec<Compare>,
    /// What is done then.
    pub operations: Vec<Operation>,
}

/// Keys and values, as of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The revision.
    pub revision: u64,
    /// What there is, by whole keys.
    pub entries: Vec<Entry>,
}

impl Client {
    /// A client; nothing is asked yet.
    ///
    /// # Errors
    /// When no TLS can be spoken at all, or the name for certificates is none.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_keepalive(Some(ALIVE));
        tcp.set_keepalive_interval(Some(ALIVE));
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
        Ok(Self(Arc::new(Inner { settings, http, current: AtomicUsize::new(0), token: Mutex::new(None) })))
    }

    /// Where etcd is.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The member that answered last.
    pub(crate) fn current(&self) -> usize {
        self.0.current.load(Ordering::Relaxed)
    }

    pub(crate) fn prefer(&self, member: usize) {
        self.0.current.store(member, Ordering::Relaxed);
    }

    pub(crate) fn members(&self) -> usize {
        self.0.settings.endpoints.len()
    }

    /// The address of a member.
    pub(crate) fn endpoint(&self, member: usize) -> &str {
        let endpoints = &self.0.settings.endpoints;
        endpoints.get(member % endpoints.len().max(1)).map(String::as_str).unwrap_or_default()
    }

    /// A range, page by page, all of them as of one revision.
    ///
    /// # Errors
    /// When the member does not answer, or says no.
    pub async fn list(&self, request: &RangeRequest) -> Result<Listed, Error> {
        let mut request = request.clone();
        let wanted = request.limit;
        let whole = wanted == 0;
        if whole {
            request.limit = PAGE;
        }
        let mut entries = Vec::new();
        loop {
            let response: RangeResponse = self.ask("/v3/kv/range", &request.body()).await?;
            // Of the first page; the others are told as of it.
            request.revision =
                if request.revision == 0 { response.header.revision } else { request.revision };
            let last = response.kvs.last().map(|kv| kv.key.0.clone());
            entries.extend(response.kvs.into_iter().map(|kv| Entry {
                key: String::from_utf8_lossy(&kv.key.0).into_owned(),
                value: Some(kv.value.0),
                revision: kv.mod_revision,
            }));
            match last {
                Some(mut last) if whole && response.more => {
                    last.push(0);
                    request.key = last;
                }
                _ => return Ok(Listed { revision: request.revision, entries }),
            }
        }
    }

    /// The keys of a range, in order.
    ///
    /// # Errors
    /// When the member does not answer, or says no.
    pub async fn list_keys(&self, request: &RangeRequest) -> Result<Vec<String>, Error> {
        let mut body = request.body();
        body["keys_only"] = true.into();
        let answer: RangeResponse = self.ask("/v3/kv/range", &body).await?;
        Ok(answer.kvs.into_iter().map(|kv| String::from_utf8_lossy(&kv.key.0).into_owned()).collect())
    }

    /// Asks whether most members agree on what there is: what a member says that is cut off from the others would be old.
    pub(crate) async fn probe(&self, member: usize, patience: Duration) -> Result<Standing, Error> {
        let key = self.0.settings.watched();
        let body = json!({ "key": encoded(key.as_bytes()), "count_only": true });
        let answer: RangeResponse = self.ask_of(member, "/v3/kv/range", &body, patience).await?;
        Ok(Standing { cluster: answer.header.cluster_id, revision: answer.header.revision })
    }

    /// Makes a transaction; the revision that it made, or none if what it demands does not hold.
    ///
    /// # Errors
    /// When the member does not answer, or says no.
    pub async fn transact(&self, transaction: &Transaction) -> Result<Option<u64>, Error> {
        let compare: Vec<Value> = transaction
            .compare
            .iter()
            .map(|compare| {
                json!({
                    "key": encoded(compare.key.as_bytes()), "target": "MOD", "result": "EQUAL",
                    "mod_revision": compare.revision.to_string(),
                })
            })
            .collect();
        let operations: Vec<Value> = transaction.operations.iter().map(|operation| match operation {
            Operation::Put(key, value) => {
                json!({ "request_put": { "key": encoded(key.as_bytes()), "value": encoded(value) } })
            }
            Operation::Delete(key, end) => json!({
                "request_delete_range": { "key": encoded(key.as_bytes()), "range_end": encoded(end.as_bytes()) }
            }),
        }).collect();
        let body = json!({ "compare": compare, "success": operations });
        let answer: TxnResponse = self.ask("/v3/kv/txn", &body).await?;
        Ok(answer.succeeded.then_some(answer.header.revision))
    }

    /// A lease that ends after so many seconds, unless it is kept.
    pub(crate) async fn grant(&self, seconds: u64) -> Result<u64, Error> {
        let answer: LeaseResponse =
            self.ask("/v3/lease/grant", &json!({ "TTL": seconds.to_string() })).await?;
        Ok(answer.id)
    }

    /// Keeps a lease; whether it still is one.
    pub(crate) async fn keep(&self, lease: u64) -> Result<bool, Error> {
        let body = json!({ "ID": lease.to_string() });
        let answer: crate::wire::Streamed<LeaseResponse> = self.ask("/v3/lease/keepalive", &body).await?;
        Ok(answer.result.is_some_and(|lease| lease.ttl > 0))
    }

    /// Ends a lease, and its keys with it.
    pub(crate) async fn revoke(&self, lease: u64) -> Result<(), Error> {
        self.ask::<Value>("/v3/lease/revoke", &json!({ "ID": lease.to_string() })).await.map(drop)
    }

    /// Writes a key that goes with a lease.
    pub(crate) async fn put(&self, key: &str, value: &[u8], lease: u64) -> Result<(), Error> {
        let body =
            json!({ "key": encoded(key.as_bytes()), "value": encoded(value), "lease": lease.to_string() });
        self.ask::<Value>("/v3/kv/put", &body).await.map(drop)
    }

    /// The stream of a watch.
    pub(crate) async fn stream(&self, member: usize, body: &Value) -> Result<Incoming, Error> {
        let sent = tokio::time::timeout(PATIENCE, self.send(member, "/v3/watch", body));
        let response = sent.await.unwrap_or_else(|_| Err(late(PATIENCE)))?;
        if response.status() == StatusCode::OK {
            return Ok(response.into_body());
        }
        let status = response.status();
        let text = read(response, PATIENCE).await?;
        Err(self.failure(status, &text))
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Error> {
        self.ask_of(self.current(), path, body, PATIENCE).await
    }

    async fn ask_of<T: DeserializeOwned>(
        &self,
        member: usize,
        path: &str,
        body: &Value,
        patience: Duration,
    ) -> Result<T, Error> {
        let first = self.exchange(member, path, body, patience).await;
        match first {
            // The token has ended, or etcd was started anew: another one is asked for, once.
            Err(Error::Refused(UNAUTHENTICATED, _)) if self.0.settings.user.is_some() => {
                self.exchange(member, path, body, patience).await
            }
            other => other,
        }
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        member: usize,
        path: &str,
        body: &Value,
        patience: Duration,
    ) -> Result<T, Error> {
        let exchange = async {
            let response = self.send(member, path, body).await?;
            let status = response.status();
            let text = read(response, patience).await?;
            if status != StatusCode::OK {
                return Err(self.failure(status, &text));
            }
            serde_json::from_slice(&text).map_err(|error| Error::Garbled(error.to_string()))
        };
        tokio::time::timeout(patience, exchange).await.unwrap_or_else(|_| Err(late(patience)))
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
            .map_err(|error| Error::Unreachable(format!("{endpoint}: {}", causes(&error))))
    }

    /// The token for name and password, where there are such; it is asked for once, and again when it was refused.
    async fn token(&self, member: usize) -> Result<Option<HeaderValue>, Error> {
        let Some((name, password)) = &self.0.settings.user else { return Ok(None) };
        let known = self.0.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return Ok(known);
        }
        let body = json!({ "name": name, "password": password.0 });
        let response = self.post(member, "/v3/auth/authenticate", &body, None).await?;
        let status = response.status();
        let text = read(response, PATIENCE).await?;
        if status != StatusCode::OK {
            return match self.failure(status, &text) {
                // Where etcd wants nobody's name, it is not to be given.
                Error::Refused(_, why) if why.contains("authentication is not enabled") => Ok(None),
                error => Err(error),
            };
        }
        let answer: TokenResponse =
            serde_json::from_slice(&text).map_err(|error| Error::Garbled(error.to_string()))?;
        let mut token =
            HeaderValue::from_str(&answer.token).map_err(|error| Error::Garbled(error.to_string()))?;
        token.set_sensitive(true);
        *self.0.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(Some(token))
    }

    fn failure(&self, status: StatusCode, text: &[u8]) -> Error {
        let Ok(Failure { code, message }) = serde_json::from_slice(text) else {
            let start: String = String::from_utf8_lossy(text).chars().take(200).collect();
            return Error::Garbled(format!("status {status}: {}", start.trim()));
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

/// The body of an answer, within bounds of size and time.
async fn read(response: Response<Incoming>, patience: Duration) -> Result<Bytes, Error> {
    let body = Limited::new(response.into_body(), LARGEST).collect();
    let body = tokio::time::timeout(patience, body).await.map_err(|_| late(patience))?;
    body.map(|body| body.to_bytes())
        .map_err(|error| Error::Unreachable(format!("the answer broke off: {error}")))
}

fn late(patience: Duration) -> Error {
    Error::Unreachable(format!("nothing came within {patience:?}"))
}

/// An error with what is behind it: the outermost says little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = error.to_string();
        next = error.source();
    }
    text
}
