//! Clients of other services, on the thread on which others are asked.
//!
//! HTTP/1.1 is read by the parser that the data path reads endpoints with: what a service answers decides who gets in, so it
//! must not be understood in two ways. HTTP/2, for services that speak gRPC, comes from a library.

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
use tollgate_http::Method;

pub(crate) use self::fault::Fault;
pub(crate) use self::http1::{Answer, Http1, Question};
use self::target::Target;
use crate::Shared;

/// Connections of HTTP/2 that are kept to one service while nobody needs them.
const IDLE: usize = 64;
/// How long they are: shorter than services keep them.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// Whom services that are spoken to by `https` have to show themselves to be.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Trust(Option<Arc<tollgate_tls::Client>>);

impl Trust {
    /// What this trusts; `None`: nobody, and only plain text can be spoken.
    #[must_use]
    pub fn new(client: Option<tollgate_tls::Client>) -> Self {
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

impl Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trust").field(&self.0.is_some()).finish()
    }
}

/// A client of HTTP/2 that keeps its connections.
type Http2Client<B> = Client<HttpsConnector<HttpConnector>, B>;

/// A client of services that are spoken to in HTTP/2, in plain text by prior knowledge. Nothing if no TLS can be spoken at all,
/// which no configuration leads to.
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
    builder.pool_max_idle_per_host(IDLE).pool_idle_timeout(IDLE_TIME).http2_only(true);
    Some(builder.build(connector.enable_http2().wrap_connector(tcp)))
}

/// A service that is asked in HTTP/1.1, with its connections: one over all places that ask it.
pub(crate) fn http1_service(url: &str, trust: &Trust, shared: &Shared) -> Arc<Http1Service> {
    let make = || Http1Service { trust: trust.clone(), client: Http1::new(url, trust) };
    shared.state(&format!("client of {url}"), |service: &Http1Service| service.trust == *trust, make)
}

/// A service that is asked in HTTP/1.1, with its connections.
#[derive(Debug)]
pub(crate) struct Http1Service {
    trust: Trust,
    client: Option<Http1>,
}

impl Http1Service {
    /// Its answer within this time, with a body of up to so many bytes.
    ///
    /// # Errors
    /// Why there is none that can be used.
    pub async fn ask(&self, question: &Question, most: usize, timeout: Duration) -> Result<Answer, Fault> {
        let client = self.client.as_ref().ok_or(Fault::Malformed("the service cannot be asked"))?;
        tokio::time::timeout(timeout, client.ask(question, most)).await.unwrap_or(Err(Fault::Late))
    }
}

/// A service that policies ask in HTTP/2, with its connections.
pub(crate) struct Service<B> {
    trust: Trust,
    client: Option<Http2Client<B>>,
}

impl<B> Service<B>
where
    B: hyper::body::Body + Clone + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// The one that is known by this name, over all places that ask it.
    pub fn of(name: &str, trust: &Trust, shared: &Shared) -> Arc<Self> {
        let make = || Self { client: http2(trust), trust: trust.clone() };
        shared.state(name, |service: &Self| service.trust == *trust, make)
    }

    /// The head of its answer, and the body that is to come.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn ask(&self, question: Request<B>) -> Result<Response<Incoming>, &'static str> {
        let client = self.client.as_ref().ok_or("no TLS can be spoken")?;
        let mut answer = client.request(question.clone()).await;
        // A kept connection may have been closed meanwhile; asking twice changes nothing.
        if answer.as_ref().is_err_and(|error| !error.is_connect()) {
            answer = client.request(question).await;
        }
        answer.map_err(|_| "the authorisation service gave no answer")
    }
}

impl<B> Debug for Service<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

/// Fetches a document.
#[derive(Debug)]
pub(crate) struct Fetch(Option<Http1>);

impl Fetch {
    /// From this URL.
    pub fn new(url: &str, trust: &Trust) -> Self {
        Self(Http1::new(url, trust))
    }

    /// The body of a 200 that comes within the timeout and has at most `largest` bytes.
    ///
    /// # Errors
    /// Why there is no such body.
    pub async fn get(&self, largest: usize, timeout: Duration) -> Result<Vec<u8>, String> {
        let client = self.0.as_ref().ok_or("the URL is none")?;
        let question = Question::new(Method::Get);
        let answer = tokio::time::timeout(timeout, client.ask(&question, largest)).await;
        let answer = answer.unwrap_or(Err(Fault::Late)).map_err(|fault| fault.to_string())?;
        match answer.head.status {
            200 => Ok(answer.body),
            status => Err(format!("it answers {status}")),
        }
    }
}
