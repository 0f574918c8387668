//! Spans on their way to a collector: gathered, and sent in batches beside the workers. A request never waits for it.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request as Post;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::TraceRules;
use super::span::{Told, document};
use crate::client::{HttpClient, client};
use crate::{Shared, Trust};

/// Spans that wait at most; further ones are dropped, and counted.
const WAITING: usize = 8192;
/// Spans that go at once.
const BATCH: usize = 512;
/// How long spans wait for others.
const GATHER: Duration = Duration::from_secs(1);
/// How long a collector has for a batch.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is said that spans are lost, at most.
const SAY: Duration = Duration::from_secs(60);

/// What sends spans to one collector.
pub(super) struct Exporter {
    url: String,
    service: String,
    headers: Vec<(String, String)>,
    trust: Trust,
    spans: Sender<Told>,
    dropped: Arc<AtomicU64>,
}

impl Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the headers, which may have a secret.
        f.debug_struct("Exporter").field("url", &self.url).field("service", &self.service).finish()
    }
}

impl Exporter {
    pub fn new(rules: &TraceRules, shared: Arc<Shared>) -> Self {
        let (spans, waiting) = channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let sending = Sending {
            url: rules.url.clone(),
            service: rules.service.clone(),
            headers: rules.headers.clone(),
            client: client(&rules.trust, false),
            dropped: dropped.clone(),
        };
        shared.side().spawn(sending.run(waiting));
        let TraceRules { url, service, headers, trust, .. } = rules.clone();
        Self { url, service, headers, trust, spans, dropped }
    }

    /// Whether it does what these rules say.
    pub fn is_for(&self, rules: &TraceRules) -> bool {
        (&self.url, &self.service, &self.headers) == (&rules.url, &rules.service, &rules.headers)
            && self.trust == rules.trust
    }

    /// Takes a span, if there is room for it.
    pub fn take(&self, span: Told) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }
}

struct Sending {
    url: String,
    service: String,
    headers: Vec<(String, String)>,
    client: Option<HttpClient<Full<Bytes>>>,
    dropped: Arc<AtomicU64>,
}

impl Sending {
    /// Sends what comes, until nobody can send any more.
    async fn run(self, mut waiting: Receiver<Told>) {
        let mut said: Option<tokio::time::Instant> = None;
        while let Some(first) = waiting.recv().await {
            let mut batch = vec![first];
            let until = tokio::time::Instant::now() + GATHER;
            while batch.len() < BATCH {
                match tokio::time::timeout_at(until, waiting.recv()).await {
                    Ok(Some(span)) => batch.push(span),
                    Ok(None) | Err(_) => break,
                }
            }
            let count = batch.len() as u64;
            if let Err(why) = self.send(batch).await {
                self.dropped.fetch_add(count, Relaxed);
                if said.is_none_or(|said| said.elapsed() >= SAY) {
                    said = Some(tokio::time::Instant::now());
                    let dropped = self.dropped.load(Relaxed);
                    eprintln!("warning: trace: {}: {why}; {dropped} spans are lost so far", self.url);
                }
            }
        }
    }

    async fn send(&self, batch: Vec<Told>) -> Result<(), String> {
        let client = self.client.as_ref().ok_or("no TLS can be spoken")?;
        let body = Bytes::from(document(&self.service, batch).to_string());
        let mut post = Post::post(&self.url).header("content-type", "application/json");
        for (name, value) in &self.headers {
            post = post.header(name, value);
        }
        let post = post.body(Full::new(body)).map_err(|error| error.to_string())?;
        match tokio::time::timeout(TIMEOUT, client.request(post)).await {
            Ok(Ok(response)) if response.status().is_success() => Ok(()),
            Ok(Ok(response)) => Err(format!("it answers {}", response.status().as_u16())),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }
}
