//! Clients for other services, which run on the background I/O thread.
//!
//! HTTP/1.1 responses go through the same parser as responses of endpoints. A service decides which requests
//! are admitted, so the gateway must not interpret its responses in two ways. HTTP/2, for gRPC services,
//! comes from a library.

mod connect;
mod fault;
mod http1;
mod target;

use std::error::Error;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use tollgate_config::{PemFile, Problem};
use tollgate_http::Method;
use tollgate_tls::{ClientOptions, FileProblem, Pem, TlsClientConfig};

pub(crate) use self::fault::ServiceError;
pub(crate) use self::http1::{Http1, ServiceRequest, ServiceResponse};
use self::target::ServiceUrl;
use crate::PolicyStates;

/// The maximum number of idle HTTP/2 connections per service.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// The lifetime of an idle connection, shorter than the usual keep-alive time of services.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// The CAs and the client certificate for services that use `https`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Trust(Option<Arc<TlsClientConfig>>);

impl Trust {
    /// Uses this TLS client; `None`: no CA is trusted, so only plain text works.
    #[must_use]
    pub fn new(client: Option<TlsClientConfig>) -> Self {
        Self(client.map(Arc::new))
    }

    fn config(&self) -> Option<ClientConfig> {
        match &self.0 {
            Some(client) => Some((*client.config()).clone()),
            None => {
                let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
                let builder = ClientConfig::builder_with_provider(provider);
                let builder = builder.with_safe_default_protocol_versions().ok()?;
                Some(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
            }
        }
    }
}

/// Returns how to verify the service at a URL.
pub fn trust(url: &str, ca: Option<&PemFile>, problems: &mut Vec<Problem>) -> Trust {
    if !url.starts_with("https:") && ca.is_none() {
        return Trust::default();
    }
    let authorities = ca.map(|file| Pem::from(file.bytes.0.as_slice()));
    match TlsClientConfig::new(&ClientOptions { authorities, ..ClientOptions::default() }) {
        Ok(client) => Trust::new(Some(client)),
        Err(found) => {
            let at = ca.map(|file| file.at).unwrap_or_default();
            let shown = ca.map_or(String::new(), |file| format!("cannot use {}: ", file.shown));
            let message = |problem: &FileProblem| format!("{shown}{}", problem.message);
            problems.extend(found.iter().map(|problem| Problem::error(at, message(problem))));
            Trust::default()
        }
    }
}

impl Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trust").field(&self.0.is_some()).finish()
    }
}

/// An HTTP/2 client with a connection pool.
type Http2Client<B> = Client<HttpsConnector<HttpConnector>, B>;

/// Creates an HTTP/2 client, with prior knowledge on plain-text connections. Returns `None` if TLS cannot be
/// set up, which no configuration causes.
fn http2<B>(trust: &Trust) -> Option<Http2Client<B>>
where
    B: hyper::body::Body + Send,
    B::Data: Send,
{
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new().with_tls_config(trust.config()?).https_or_http();
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).timer(TokioTimer::new());
    builder.pool_max_idle_per_host(IDLE_CONNECTIONS_MAX).pool_idle_timeout(IDLE_TIME).http2_only(true);
    Some(builder.build(connector.enable_http2().wrap_connector(tcp)))
}

/// Returns the HTTP/1.1 client of a service. All places that use the service share it and its connections.
pub(crate) fn http1_service(url: &str, trust: &Trust, shared: &PolicyStates) -> Arc<Http1Service> {
    let make = || Http1Service { trust: trust.clone(), client: Http1::new(url, trust) };
    shared.state(&format!("client of {url}"), |service: &Http1Service| service.trust == *trust, make)
}

/// An HTTP/1.1 client of a service, with its connection pool.
#[derive(Debug)]
pub(crate) struct Http1Service {
    trust: Trust,
    client: Option<Http1>,
}

impl Http1Service {
    /// Sends a request and returns the response within this time, with a body of at most `most` bytes.
    ///
    /// # Errors
    /// The cause if there is no usable response.
    pub async fn ask(
        &self,
        question: &ServiceRequest,
        most: usize,
        timeout: Duration,
    ) -> Result<ServiceResponse, ServiceError> {
        let client = self.client.as_ref().ok_or(ServiceError::Malformed("the service cannot be asked"))?;
        tokio::time::timeout(timeout, client.ask(question, most)).await.unwrap_or(Err(ServiceError::Late))
    }
}

/// An HTTP/2 client of a service, with its connection pool.
pub(crate) struct Http2Service<B> {
    trust: Trust,
    client: Option<Http2Client<B>>,
}

impl<B> Http2Service<B>
where
    B: hyper::body::Body + Clone + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Returns the client of this name. All places that use the service share it.
    pub fn of(name: &str, trust: &Trust, shared: &PolicyStates) -> Arc<Self> {
        let make = || Self { client: http2(trust), trust: trust.clone() };
        shared.state(name, |service: &Self| service.trust == *trust, make)
    }

    /// Sends a request and returns the response head with a streaming body.
    ///
    /// # Errors
    /// The cause if there is no response.
    pub async fn ask(&self, question: Request<B>) -> Result<Response<Incoming>, &'static str> {
        let client = self.client.as_ref().ok_or("no TLS can be spoken")?;
        let mut answer = client.request(question.clone()).await;
        // The service may have closed an idle connection. Repeating the request is safe.
        if answer.as_ref().is_err_and(|error| !error.is_connect()) {
            answer = client.request(question).await;
        }
        answer.map_err(|_| "the authorisation service gave no answer")
    }
}

impl<B> Debug for Http2Service<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

/// Fetches a document over HTTP/1.1.
#[derive(Debug)]
pub(crate) struct DocumentFetcher(Option<Http1>);

impl DocumentFetcher {
    /// Creates a client for this URL.
    pub fn new(url: &str, trust: &Trust) -> Self {
        Self(Http1::new(url, trust))
    }

    /// Returns the body of a 200 response that arrives within the timeout and has at most `largest` bytes.
    ///
    /// # Errors
    /// The cause if there is no such body.
    pub async fn get(&self, largest: usize, timeout: Duration) -> Result<Vec<u8>, String> {
        let client = self.0.as_ref().ok_or("the URL is none")?;
        let question = ServiceRequest::new(Method::Get);
        let answer = tokio::time::timeout(timeout, client.ask(&question, largest)).await;
        let answer = answer.unwrap_or(Err(ServiceError::Late)).map_err(|fault| fault.to_string())?;
        match answer.head.status {
            200 => Ok(answer.body),
            status => Err(format!("it answers {status}")),
        }
    }
}
