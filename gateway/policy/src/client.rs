//! Clients of other HTTP services, on the thread on which others are asked.

use std::error::Error;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use crate::Shared;

/// Connections that are kept to one service while nobody needs them.
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

/// A client that keeps its connections.
pub(crate) type HttpClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// A client of services. `http2`: spoken to in HTTP/2, in plain text by prior knowledge. Nothing if no TLS can be spoken at
/// all, which no configuration leads to.
pub(crate) fn client<B>(trust: &Trust, http2: bool) -> Option<HttpClient<B>>
where
    B: hyper::body::Body + Send,
    B::Data: Send,
{
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new().with_tls_config(trust.config()?).https_or_http();
    let connector = match http2 {
        true => connector.enable_http2().wrap_connector(tcp),
        false => connector.enable_http1().wrap_connector(tcp),
    };
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).timer(TokioTimer::new());
    builder.pool_max_idle_per_host(IDLE).pool_idle_timeout(IDLE_TIME).http2_only(http2);
    Some(builder.build(connector))
}

/// A service that policies ask, with its connections.
pub(crate) struct Service<B> {
    trust: Trust,
    client: Option<HttpClient<B>>,
}

impl<B> Service<B>
where
    B: hyper::body::Body + Clone + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// The one that is known by this name and spoken to in this way, over all places that ask it.
    pub fn of(name: &str, trust: &Trust, http2: bool, shared: &Shared) -> Arc<Self> {
        let make = || Self { client: client(trust, http2), trust: trust.clone() };
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

/// Fetches documents.
pub(crate) struct Fetch(Option<HttpClient<Empty<Bytes>>>);

impl Fetch {
    pub fn new(trust: &Trust) -> Self {
        Self(client(trust, false))
    }

    /// What is at an URL, if it is answered 200 within this time and with so many bytes at most.
    ///
    /// # Errors
    /// Why there is nothing.
    pub async fn get(&self, url: &str, largest: usize, timeout: Duration) -> Result<Bytes, &'static str> {
        let client = self.0.as_ref().ok_or("no TLS can be spoken")?;
        let url = url.parse().map_err(|_| "the URL is none")?;
        let fetch = async {
            let response = client.get(url).await.map_err(|_| "no answer came")?;
            if response.status() != hyper::StatusCode::OK {
                return Err("the answer is not 200");
            }
            let body = Limited::new(response.into_body(), largest).collect().await;
            body.map(|body| body.to_bytes()).map_err(|_| "the answer broke off, or is too large")
        };
        tokio::time::timeout(timeout, fetch).await.unwrap_or(Err("no answer came in time"))
    }
}

impl Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fetch")
    }
}
